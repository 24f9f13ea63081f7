"""Dots: one score of several models below each other, such as the exact match of all parsers on one treebank."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import UserError
from .style import COLOURS, GREY, STYLE, Estimate, explain_marks, in_percent, lowest, plain_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_OURS, _RIVAL = COLOURS[0], COLOURS[1]
_TITLE = 54  # letters in a line of the title
_LINE = 0.46  # inches for each model
_AROUND = 1.35  # inches for what stands above and below


class Dot(NamedTuple):
    """A model and its score."""

    name: str
    detail: str  # in small letters below the name, such as the preset
    score: Estimate
    paper: Estimate | None = None
    is_rival: bool = False


def draw_dots(dots: Sequence[Dot], *, title: str = "", score: str = "score", paper_data: str = "") -> Figure:
    """Draw a line for each model, best first, with a bar of one standard error and the paper's value hollow below it.

    Args:
        score: what the scores are, written along the axis.
        paper_data: what other data the paper's values are of, where they are.
    """
    import matplotlib
    from matplotlib.figure import Figure

    if not dots:
        raise UserError("a figure needs at least one score")
    dots = sorted(dots, key=lambda dot: dot.score[0])
    ours, paper = [dot.score for dot in dots], [dot.paper for dot in dots if dot.paper]
    with matplotlib.rc_context(STYLE):
        height = _AROUND + _LINE * len(dots)
        figure = Figure(figsize=(7.2, height))
        axes = figure.subplots()
        low = lowest([*ours, *paper])
        axes.set_xlim(low, 100 + 0.02 * (100 - low))  # room for a dot at 100 %
        axes.set_ylim(-0.6, len(dots) - 0.4)
        in_percent(axes.xaxis, low)
        axes.set_xlabel(score, color=GREY)
        plain_axes(axes, values="x")
        axes.set_yticks(range(len(dots)), [""] * len(dots))
        axes.tick_params(axis="y", length=0)
        for place, dot in enumerate(dots):
            _draw(axes, place, dot)
        explain_marks(axes, ours, paper, paper_data=paper_data, below=0.6 / (height - 0.6), line="none")
        title = textwrap.fill(title, _TITLE, break_on_hyphens=False)
        axes.set_title(title, loc="left", fontsize=11.5, fontweight="bold", pad=12)
    return figure


def _draw(axes: Axes, place: int, dot: Dot) -> None:
    colour = _RIVAL if dot.is_rival else _OURS
    bar: dict[str, Any] = {"color": colour, "linestyle": "none", "elinewidth": 1.4, "capsize": 2.5, "clip_on": False}
    mean, error = dot.score
    marker = "s" if dot.is_rival else "o"
    axes.errorbar([100 * mean], [place], xerr=[100 * (error or 0.0)], marker=marker, markersize=6.5, zorder=4, **bar)
    if dot.paper:
        mean, error = dot.paper
        hollow: dict[str, Any] = {
            "marker": marker,
            "markersize": 5.5,
            "markerfacecolor": "white",
            "markeredgewidth": 1.2,
        }
        bar |= {"elinewidth": 1.0, "capsize": 2}
        axes.errorbar([100 * mean], [place - 0.24], xerr=[100 * (error or 0.0)], zorder=3, **hollow, **bar)
    beside = axes.get_yaxis_transform()  # x in parts of the axis, y in lines
    axes.text(-0.015, place + 0.13, dot.name, color=colour, fontsize=9.5, va="center", ha="right", transform=beside)
    axes.text(-0.015, place - 0.2, dot.detail, color=GREY, fontsize=7.5, va="center", ha="right", transform=beside)
