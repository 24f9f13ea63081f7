"""Figures of results, with the paper's values beside ours: curves over a size, or one dot a model."""

from .curves import Points, draw_curves
from .dots import Dot, draw_dots
from .style import COLOURS, FORMATS, GREY, MARKERS, STYLE, Estimate, save_figure, write_figure

__all__ = [
    "COLOURS",
    "FORMATS",
    "GREY",
    "MARKERS",
    "STYLE",
    "Dot",
    "Estimate",
    "Points",
    "draw_curves",
    "draw_dots",
    "save_figure",
    "write_figure",
]
