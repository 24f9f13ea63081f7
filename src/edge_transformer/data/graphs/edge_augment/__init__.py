"""Augmentation of sentence graphs: phrases swap places, and clauses with a gap are made."""

from .swaps import EdgeAugmentation

__all__ = ["EdgeAugmentation"]
