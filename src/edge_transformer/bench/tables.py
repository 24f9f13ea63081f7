"""Measurements as tables, for a terminal and in Markdown, and as a figure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import linear_regression
from typing import TYPE_CHECKING, Any, Literal

from rich import box
from rich.table import Table as RichTable
from rich.text import Text

from ..draw.style import COLOURS, GREY, MARKERS, STYLE
from ..errors import UserError
from ..ops.attention import ENGINES
from .cases import PARTS, PATIENCE, PEAK
from .results import Bench, Measurement
from .sizes import Configuration
from .translation import DECODING, TOKEN, targets_of
from .work import BOTH, FORWARD

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FIGURES = ("scaling", "memory")  # the parts that a figure shows
_BREAK = re.compile(r" (?=×)| (?=\(aim)|(?<=^needs) |(?<=^takes) ")
_LOOKS = {name: number for number, name in enumerate(ENGINES)}  # the same colour and marker in every figure


@dataclass(frozen=True)
class Table:
    """One part as text."""

    part: str
    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]

    def rich(self) -> RichTable:
        caption = Text("\n".join(self.notes))
        result = RichTable(
            title=Text(self.title), title_justify="left", box=box.SIMPLE, caption=caption, caption_justify="left"
        )
        # Two lines per row, to fit 80 columns: the size below the case, a ratio below its number.
        case, size, *others = self.header
        result.add_column(Text(f"{case}\n{size}"), min_width=10)
        for number, name in enumerate(others):
            justify: Literal["left", "right"] = "right" if number else "left"
            result.add_column(Text("\n".join(name.rsplit(" ", 1))), justify=justify, no_wrap=number > 0)
        for first, second, *cells in self.rows:
            result.add_row(Text(f"{first}\n{second}"), *(Text(_BREAK.sub("\n", cell)) for cell in cells))
        return result

    def markdown(self) -> str:
        lines = [self.header, (":--", ":--", ":--", *["--:"] * (len(self.header) - 3)), *self.rows]
        return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def tables(bench: Bench) -> list[Table]:
    """A table for every measured part."""
    measured = {part: list(bench.of_part(part)) for part in PARTS}
    return [_table(part, found, bench) for part, found in measured.items() if found]


def _table(part: str, found: Sequence[Measurement], bench: Bench) -> Table:
    names = list(dict.fromkeys(measurement.name for measurement in found))
    rows: dict[tuple[str, str, str], dict[str, Measurement]] = {}
    for measurement in found:
        rows.setdefault((measurement.case, str(measurement.size), measurement.what), {})[measurement.name] = measurement
    timed = found[0].unit == "s"
    cells = [
        (case, size, what, *(show(row.get(name)) for name in names), *((_spread(row),) if timed else ()))
        for (case, size, what), row in rows.items()
    ]
    header = ("case", "B,n,d,h", "", *names, *(("spread",) if timed else ()))
    return Table(part, f"{part}: {PARTS[part].about}", header, tuple(cells), tuple(_notes(found, bench)))


def show(found: Measurement | None) -> str:
    """A number with its ratio, or the reason why there is none."""
    if found is None:
        return ""
    if found.value is None:
        return str(found.skipped).partition(";")[0]
    text = show_seconds(found.value) if found.unit == "s" else show_bytes(found.value)
    if found.ratio is not None and found.name != found.reference:
        text += f" ×{found.ratio:.2g}" if found.ratio < 0.1 else f" ×{found.ratio:.2f}"
        text += f" (aim {found.aim:.2g})" if found.aim is not None else ""
    return text


def show_seconds(seconds: float) -> str:
    factor, unit = (1, "s") if seconds >= 1 else (1e3, "ms") if seconds >= 1e-3 else (1e6, "µs")
    return f"{_three_digits(seconds * factor)} {unit}"


def show_bytes(count: float) -> str:
    factor, unit = (1e9, "GB") if count >= 1e9 else (1e6, "MB")
    return f"{_three_digits(count / factor)} {unit}"


def _three_digits(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _spread(row: dict[str, Measurement]) -> str:
    """The largest distance of a quartile from its median in a row, in percent."""
    widths = [
        max(found.high - found.value, found.value - found.low) / found.value
        for found in row.values()
        if found.value and found.low is not None and found.high is not None
    ]
    return f"±{100 * max(widths):.0f} %" if widths else ""


def _notes(found: Sequence[Measurement], bench: Bench) -> list[str]:
    reference = next((measurement.reference for measurement in found if measurement.reference), None)
    notes = [f"× is the ratio to {reference}."] if reference else []
    notes += [*_tokens_a_second(found), *_growth(found)]
    reasons = sorted({measurement.skipped for measurement in found if measurement.skipped})
    notes += [f"Skipped: {reason}." for reason in reasons if ";" in reason]
    if any(reason.startswith("needs ") for reason in reasons):
        notes.append(f"Skipped where more than {show_bytes(bench.settings['budget'])} would be needed (--memory).")
    if any(reason.startswith("takes ") for reason in reasons):
        limit = bench.settings["limit"] * PATIENCE.get(found[0].part, 1)
        notes.append(f"Skipped where one run would take more than {limit:g} s (--limit).")
    return notes


def _tokens_a_second(found: Sequence[Measurement]) -> Iterator[str]:
    """The tokens per second of a decoded batch."""
    for each in found:
        if each.what == DECODING and each.value:
            tokens = each.size.batch * targets_of(Configuration.of(each.size))
            times = f", {1 / each.ratio:.1f} times as many" if each.ratio and each.name != each.reference else ""
            yield f"{each.case}, {each.name}: {_three_digits(tokens / each.value)} tokens a second{times}."


def _growth(found: Sequence[Measurement]) -> Iterator[str]:
    """The power of n in the time of a token: the slope of a line through the logarithms."""
    times: dict[str, list[tuple[int, float]]] = {}
    for each in found:
        if each.what == TOKEN and each.value:
            times.setdefault(each.name, []).append((each.size.n, each.value))
    for name, points in times.items():
        if len({n for n, _ in points}) > 1:
            fit = linear_regression([math.log(n) for n, _ in points], [math.log(value) for _, value in points])
            yield f"{name}: the time grows as n^{fit.slope:.2f}."


def draw(bench: Bench) -> Figure:
    """Draw time and memory against n, with logarithmic axes and a line for every engine."""
    import matplotlib
    from matplotlib.figure import Figure

    panels = []
    for part, what, label in (
        ("scaling", FORWARD, "forward, seconds"),
        ("scaling", BOTH, "forward and backward, seconds"),
        ("memory", PEAK, "forward and backward, extra MB"),
    ):
        lines: dict[str, dict[int, float]] = {}
        for found in bench.of_part(part):
            if found.what == what and found.value:
                lines.setdefault(found.name, {})[found.size.n] = found.value / (1e6 if found.unit == "bytes" else 1)
        if lines:
            panels.append((label, lines))
    if not panels:
        raise UserError(f"there is nothing to draw: a figure shows the parts {' and '.join(FIGURES)}")
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(4.3 * len(panels), 3.8), layout="constrained")
        for axes, (label, lines) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            _draw_panel(axes, label, lines)
    return figure


def _draw_panel(axes: Axes, label: str, lines: dict[str, dict[int, float]]) -> None:
    sizes = sorted({n for points in lines.values() for n in points})
    for name, points in lines.items():
        look: dict[str, Any] = {"color": COLOURS[_LOOKS[name]], "marker": MARKERS[_LOOKS[name]]}
        axes.plot(
            sorted(points), [points[n] for n in sorted(points)], label=name, linewidth=1.9, markersize=5.5, **look
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(sizes, [str(n) for n in sizes])
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.minorticks_off()
    axes.set_xlabel("n", color=GREY)
    axes.set_title(label, loc="left", fontsize=10)
    axes.grid(color="#E3E3E3", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(color="#AAAAAA", labelcolor=GREY, length=3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(frameon=False, fontsize=9, labelcolor="linecolor")
