"""Charts of scores, ours and the paper's: curves where they depend on a size, or one dot for each model."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import UserError
from .style import (
    COLOURS,
    GREY,
    MARKERS,
    QUOTED,
    STYLE,
    Estimate,
    Look,
    explain_marks,
    in_percent,
    lowest,
    model_look,
    plain_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Points = Mapping[int, Estimate]  # size -> mean and standard error
_DASHES = (0, (4, 2))
_AGAIN = (0, (1, 1.4))  # the line of a second series of one model
_TITLE = 54  # letters in a line of the title
_LINE = 0.46  # inches for each model
_AROUND = 1.35  # inches above and below


def draw_curves(
    series: Mapping[str, Points],
    paper: Mapping[str, Points] | None = None,
    *,
    title: str = "",
    axis: str = "k",
    score: str = "accuracy",
    trained: Iterable[int] = (),
    dashed: Collection[str] = (),
    looks: Mapping[str, Look] | None = None,
    paper_data: str = "",
) -> Figure:
    """Draw a line with a band of one standard error for each series, and the paper's points as hollow markers.

    Args:
        series: name -> {size: (mean, standard error)}, as fractions of 1. The error may be None.
        paper: the same from the paper. Equal names get equal colours.
        axis, score: labels of the axes.
        trained: the sizes seen in training, shaded.
        dashed: series with thin, dashed lines, such as baselines.
        looks: colour and marker of every name; by default in their order. The second series of one look is dotted.
        paper_data: the paper's data, where it is not ours.
    """
    import matplotlib
    from matplotlib.figure import Figure

    paper = {name: points for name, points in (paper or {}).items() if points}
    series = {name: points for name, points in series.items() if points}
    if not series and not paper:
        raise UserError("a figure needs at least one series with at least one point")
    names = [*series, *(name for name in paper if name not in series)]
    looks = _in_order(names) if looks is None else {name: looks[name] for name in names}
    sizes = sorted({size for points in (*series.values(), *paper.values()) for size in points})
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 4.4))
        axes = figure.subplots()
        _set_up_axes(axes, sizes, lowest(_estimates(series, paper)), axis, score)
        _shade(axes, sizes, trained)
        shifts = _side_by_side(len(paper), _step(sizes))
        for (name, points), shift in zip(paper.items(), shifts, strict=True):
            _draw_paper(axes, points, *looks[name], shift=shift)
        for name, points in reversed(list(series.items())):  # the first one, the main result, on top
            again = next(other for other in series if looks[other] == looks[name]) != name
            _draw_ours(axes, points, looks[name], _AGAIN if again else _DASHES if name in dashed else "-")
        _label_ends(axes, {**paper, **series}, looks, hollow=paper.keys() - series.keys())
        explain_marks(axes, _estimates(series), _estimates(paper), paper_data=paper_data)
        axes.set_title(title, loc="left", fontsize=11.5, fontweight="bold", pad=12)
    return figure


def _in_order(names: Sequence[str]) -> dict[str, Look]:
    return {
        # seven colours and seven markers, shifted by one each round, give 49 looks
        name: Look(COLOURS[i % len(COLOURS)], MARKERS[(i + i // len(COLOURS)) % len(MARKERS)])
        for i, name in enumerate(names)
    }


def _columns(points: Points) -> tuple[list[int], list[float], list[float]]:
    """Sizes, and means and errors in percent, in order of size; an unknown error is 0."""
    sizes = sorted(points)
    means = [100 * points[size][0] for size in sizes]
    return sizes, means, [100 * (points[size][1] or 0.0) for size in sizes]


def _estimates(*groups: Mapping[str, Points]) -> list[Estimate]:
    return [estimate for group in groups for points in group.values() for estimate in points.values()]


def _step(sizes: Sequence[int]) -> int:
    """The smallest distance between sizes, the unit of lengths along the axis."""
    return min((right - left for left, right in pairwise(sizes)), default=1)


def _side_by_side(count: int, step: int) -> list[float]:
    """Shift of each of the paper's series to the right of our points: 0.13 to 0.37 of a step."""
    between = min(0.09, 0.24 / max(1, count - 1))
    return [step * (0.13 + between * i) for i in range(count)]


def _set_up_axes(axes: Axes, sizes: Sequence[int], low: float, axis: str, score: str) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_xlim(sizes[0] - 0.5 * _step(sizes), sizes[-1] + 0.5 * _step(sizes))
    axes.set_ylim(low, 100 + 0.03 * (100 - low))  # room for a marker at 100 %
    if len(sizes) <= 20:
        axes.set_xticks(sizes)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    in_percent(axes.yaxis, low)
    axes.set_xlabel(axis, color=GREY)
    axes.set_ylabel(score, color=GREY)
    plain_axes(axes, values="y")


def _shade(axes: Axes, sizes: Sequence[int], trained: Iterable[int]) -> None:
    """Shade the sizes seen in training, one patch for each run of adjacent sizes."""
    shown = sorted(set(trained) & set(sizes))
    if not shown:
        return
    half = 0.5 * _step(sizes)
    breaks = [i + 1 for i, (left, right) in enumerate(pairwise(shown)) if right - left > 2 * half]
    for start, end in pairwise([0, *breaks, len(shown)]):
        axes.axvspan(shown[start] - half, shown[end - 1] + half, color="#F1F1F1", linewidth=0, zorder=0)
    axes.annotate(
        "seen in training",
        (shown[0] - half, 0.0),
        xycoords=axes.get_xaxis_transform(),
        xytext=(5, 5),
        textcoords="offset points",
        fontsize=8.5,
        color=GREY,
    )


def _draw_ours(axes: Axes, points: Points, look: Look, style: Any) -> None:
    colour, marker = look
    sizes, means, errors = _columns(points)
    lower = [max(0.0, mean - error) for mean, error in zip(means, errors, strict=True)]
    upper = [min(100.0, mean + error) for mean, error in zip(means, errors, strict=True)]
    axes.fill_between(sizes, lower, upper, color=colour, alpha=0.16, linewidth=0, zorder=2)
    line: dict[str, Any] = {"linestyle": style, "linewidth": 1.1 if style == _DASHES else 1.9}
    axes.plot(sizes, means, color=colour, marker=marker, markersize=5.5, zorder=4, clip_on=False, **line)


def _draw_paper(axes: Axes, points: Points, colour: str, marker: str, shift: float) -> None:
    """Draw hollow markers with error bars, a little to the right of ours, so that neither hides the other.

    No line joins them: a falling curve moved to the right would look higher.
    """
    sizes, means, errors = _columns(points)
    axes.errorbar(
        [size + shift for size in sizes],
        means,
        yerr=errors,
        color=colour,
        marker=marker,
        markersize=5.5,
        markerfacecolor="white",
        markeredgewidth=1.2,
        linestyle="none",
        elinewidth=1.0,
        capsize=2,
        zorder=3,
        clip_on=False,
    )


def _label_ends(axes: Axes, lines: Mapping[str, Points], looks: Mapping[str, Look], hollow: Collection[str]) -> None:
    """Write each name at the right end of its line, moved apart where lines meet."""
    low, high = axes.get_ylim()
    right = axes.get_xlim()[1]
    ends = {name: 100 * points[max(points)][0] for name, points in lines.items()}
    order = sorted(ends, key=lambda name: ends[name])
    heights = _spread([ends[name] for name in order], gap=(high - low) * 0.056, low=low, high=high)
    beside = axes.get_yaxis_transform()  # x in parts of the axis, y in percent
    for name, height in zip(order, heights, strict=True):
        colour, marker = looks[name]
        last = max(lines[name])
        axes.plot([last, right], [ends[name], height], color=colour, linewidth=0.6, alpha=0.55, clip_on=False)
        mark: dict[str, Any] = {"marker": marker, "color": colour, "markersize": 5}
        if name in hollow:
            mark["markerfacecolor"] = "white"
        axes.plot([1.012], [height], clip_on=False, transform=beside, **mark)
        axes.text(1.03, height, name, color=colour, fontsize=9.5, va="center", ha="left", transform=beside)
    axes.set_xlim(axes.get_xlim()[0], right)  # the marks beside the axis must not stretch it
    axes.set_ylim(low, high)


def _spread(values: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move sorted heights as little as needed to be `gap` apart, and not above `high` while there is room."""
    heights: list[float] = []
    for value in values:
        heights.append(max(value, low, heights[-1] + gap) if heights else max(value, low))
    ceiling = high
    for i in range(len(heights) - 1, -1, -1):
        heights[i] = min(heights[i], ceiling)
        ceiling = heights[i] - gap
    return heights


class Dot(NamedTuple):
    """A model and its score."""

    name: str
    detail: str  # in small letters below the name, such as the preset
    score: Estimate
    paper: Estimate | None = None
    look: Look = model_look("edge")
    is_quoted: bool = False  # the paper took its value over from others


def draw_dots(dots: Sequence[Dot], *, title: str = "", score: str = "score", paper_data: str = "") -> Figure:
    """Draw each model's score, best first, with a bar of one standard error and the paper's value hollow below it.

    A value that the paper quotes from others is grey inside. `score` labels the axis; `paper_data` names the paper's
    data, where they are not ours.
    """
    import matplotlib
    from matplotlib.figure import Figure

    if not dots:
        raise UserError("a figure needs at least one score")
    dots = sorted(dots, key=lambda dot: dot.score[0])
    ours = [dot.score for dot in dots]
    paper, quoted = ([dot.paper for dot in dots if dot.paper and dot.is_quoted is kind] for kind in (False, True))
    with matplotlib.rc_context(STYLE):
        height = _AROUND + _LINE * len(dots)
        figure = Figure(figsize=(7.2, height))
        axes = figure.subplots()
        low = lowest([*ours, *paper, *quoted])
        axes.set_xlim(low, 100 + 0.02 * (100 - low))  # room for a dot at 100 %
        axes.set_ylim(-0.6, len(dots) - 0.4)
        in_percent(axes.xaxis, low)
        axes.set_xlabel(score, color=GREY)
        plain_axes(axes, values="x")
        axes.set_yticks(range(len(dots)), [""] * len(dots))
        axes.tick_params(axis="y", length=0)
        for place, dot in enumerate(dots):
            _draw_dot(axes, place, dot)
        below = 0.6 / (height - 0.6)
        explain_marks(axes, ours, paper, quoted=quoted, paper_data=paper_data, below=below, line="none")
        title = textwrap.fill(title, _TITLE, break_on_hyphens=False)
        axes.set_title(title, loc="left", fontsize=11.5, fontweight="bold", pad=12)
    return figure


def _draw_dot(axes: Axes, place: int, dot: Dot) -> None:
    colour, marker = dot.look
    bar: dict[str, Any] = {"color": colour, "linestyle": "none", "elinewidth": 1.4, "capsize": 2.5, "clip_on": False}
    mean, error = dot.score
    axes.errorbar([100 * mean], [place], xerr=[100 * (error or 0.0)], marker=marker, markersize=6.5, zorder=4, **bar)
    if dot.paper:
        mean, error = dot.paper
        hollow: dict[str, Any] = {
            "marker": marker,
            "markersize": 5.5,
            "markerfacecolor": QUOTED if dot.is_quoted else "white",
            "markeredgewidth": 1.2,
        }
        bar |= {"elinewidth": 1.0, "capsize": 2}
        axes.errorbar([100 * mean], [place - 0.24], xerr=[100 * (error or 0.0)], zorder=3, **hollow, **bar)
    beside = axes.get_yaxis_transform()  # x in parts of the axis, y in lines
    axes.text(-0.015, place + 0.13, dot.name, color=colour, fontsize=9.5, va="center", ha="right", transform=beside)
    axes.text(-0.015, place - 0.2, dot.detail, color=GREY, fontsize=7.5, va="center", ha="right", transform=beside)
