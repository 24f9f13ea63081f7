"""Common style of all figures. Equal numbers give equal bytes, so a figure in git changes only when a result does."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ..io.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

Estimate = tuple[float, float | None]  # mean and standard error, if known, as fractions of 1

# Okabe and Ito's palette for colour-blind readers, without its yellow, which is illegible on white. Markers differ too,
# for print in black and white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
GREY = "#555555"
QUOTED = "#B8B8B8"  # fills the marks of numbers that the paper quotes from others


class Look(NamedTuple):
    """The colour and the marker of a model."""

    colour: str
    marker: str


# A model looks the same in all figures. Blues and violets are the Edge Transformer and its ablations.
MODEL_LOOKS = {
    "edge": Look("#0072B2", "o"),
    "edge-untied": Look("#3FA7DD", "P"),
    "edge-value-ablation": Look("#332288", "<"),
    "edge-attention-ablation": Look("#8A7FD1", ">"),
    "rat": Look("#CC79A7", "D"),
    "rrat": Look("#E69F00", "v"),
    "gat": Look("#009E73", "^"),
    "transformer": Look("#D55E00", "s"),
    "universal": Look("#000000", "h"),
    "bilstm": Look("#882255", "*"),
}
OTHER_COLOURS = ("#999933", "#661100", "#AA4499", "#117733")  # of models that are not in the list


def model_look(model: str) -> Look:
    """How all figures show a model; one that is not in the list gets its look by its name alone."""
    if model in MODEL_LOOKS:
        return MODEL_LOOKS[model]
    number = zlib.crc32(model.encode("utf-8", "surrogatepass"))
    return Look(OTHER_COLOURS[number % len(OTHER_COLOURS)], MARKERS[number // len(OTHER_COLOURS) % len(MARKERS)])


STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib, so it is on every machine
    "font.size": 10,
    "svg.hashsalt": "edge-transformer",  # without it, element ids are random
    "svg.fonttype": "path",
    "text.parse_math": False,  # a name with a dollar sign is a name
}

# Letters as text in place of drawn ones: a tenth of the bytes. A reader's machine without the first font takes one that
# is hardly wider.
TEXT_STYLE: dict[Any, Any] = {
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Geneva", "sans-serif"],
    "svg.fonttype": "none",
}

FORMATS: dict[str, dict[str, Any]] = {
    ".svg": {"metadata": {"Date": None, "Creator": None}},
    ".png": {"metadata": {"Software": None}, "dpi": 160},
}


def write_figure(figure: Figure, path: Path, *, letters: bool = False) -> None:
    """Write a figure atomically as .svg or .png, by its name, without dates inside; with `letters`, text stays text."""
    with replacing(path) as aside:
        _save(figure, aside, path.suffix, letters)


def figure_svg(figure: Figure) -> str:
    """A figure as the text of an SVG file, in which text is text."""
    text = StringIO()
    _save(figure, text, ".svg", True)
    return text.getvalue()


def _save(figure: Figure, place: Path | StringIO, suffix: str, letters: bool) -> None:
    import matplotlib

    with matplotlib.rc_context(STYLE | (TEXT_STYLE if letters and suffix == ".svg" else {})):
        figure.savefig(
            place, format=suffix[1:], bbox_inches="tight", pad_inches=0.12, facecolor="white", **FORMATS[suffix]
        )


def lowest(estimates: Iterable[Estimate]) -> float:
    """Where an axis starts: the ten below the lowest error bar, so that differences at the top stay visible."""
    low = min(100 * (mean - (error or 0)) for mean, error in estimates)
    return max(0.0, 10 * ((low - 2) // 10))


def in_percent(axis: Axis, low: float) -> None:
    """Set percent ticks on an axis from `low` to 100."""
    from matplotlib.ticker import MultipleLocator, PercentFormatter

    axis.set_major_locator(MultipleLocator(5 if low >= 70 else 10 if low >= 20 else 20))
    axis.set_major_formatter(PercentFormatter(decimals=0))


def plain_axes(axes: Axes, values: Literal["x", "y"]) -> None:
    """Draw grid lines across the axis of values, and a line along the bottom."""
    axes.grid(axis=values, color="#E3E3E3", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(color="#AAAAAA", labelcolor=GREY, length=3)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#AAAAAA")


def explain_marks(
    axes: Axes,
    ours: Collection[Estimate],
    paper: Collection[Estimate],
    *,
    quoted: Collection[Estimate] = (),
    paper_data: str = "",
    below: float = 0.13,
    line: Literal["-", "none"] = "-",
) -> None:
    """Add a legend: filled marks are ours, hollow ones the paper's, grey ones `quoted` by it from others.

    `paper_data` names the paper's data where they are not ours. `below` is the distance from the axes in parts of their
    height; `line` is the style that joins our points.
    """
    from matplotlib.lines import Line2D

    common: dict[str, Any] = {"color": GREY, "marker": "o", "markersize": 5}
    handles = []
    if ours:
        label = "this library" + _error_note(ours)
        handles.append(Line2D([], [], linewidth=1.8, linestyle=line, label=label, **common))
    on_other = f", on other data: {paper_data}" if paper_data else ""
    for name, estimates, fill in (("the paper", paper, "white"), ("quoted by the paper", quoted, QUOTED)):
        if estimates:
            hollow: dict[str, Any] = {"linestyle": "none", "markerfacecolor": fill, "markeredgewidth": 1.2}
            handles.append(Line2D([], [], label=name + on_other + _error_note(estimates), **hollow, **common))
    axes.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, -below),
        ncols=1 if on_other and len(handles) > 2 else len(handles),
        frameon=False,
        fontsize=9,
        labelcolor=GREY,
        handlelength=2.6,
    )


def _error_note(estimates: Iterable[Estimate]) -> str:
    return " ± standard error" if any(error is not None for _, error in estimates) else ""
