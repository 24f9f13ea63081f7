"""Explanations of predicted links: the known facts behind them, and the triangles that join these."""
