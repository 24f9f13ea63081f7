"""Measurements as tables and as a figure, for a terminal, and the page of Markdown that shows them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import linear_regression
from typing import TYPE_CHECKING, Any, Literal

from rich import box
from rich.table import Table as RichTable
from rich.text import Text

from ..draw.style import COLOURS, GREY, MARKERS, STYLE, write_figure
from ..errors import UserError
from ..io.files import write_text
from ..io.markdown import code_block, escape
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
_LOOKS = {name: number for number, name in enumerate(ENGINES)}  # an engine looks the same in every figure


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
        # Two lines a row, to fit into 80 columns: the size below the case, a ratio below its number.
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
    """A table for every part that was measured."""
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
    """A number with its ratio, or why there is none."""
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
    """The widest of a row's quartiles, in percent of the median."""
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
    """How many tokens all rows together get in a second, for what was decoded."""
    for each in found:
        if each.what == DECODING and each.value:
            tokens = each.size.batch * targets_of(Configuration.of(each.size))
            times = f", {1 / each.ratio:.1f} times as many" if each.ratio and each.name != each.reference else ""
            yield f"{each.case}, {each.name}: {_three_digits(tokens / each.value)} tokens a second{times}."


def _growth(found: Sequence[Measurement]) -> Iterator[str]:
    """The power of n that the time of a token grows with: the slope of a line through the logarithms."""
    times: dict[str, list[tuple[int, float]]] = {}
    for each in found:
        if each.what == TOKEN and each.value:
            times.setdefault(each.name, []).append((each.size.n, each.value))
    for name, points in times.items():
        if len({n for n, _ in points}) > 1:
            fit = linear_regression([math.log(n) for n, _ in points], [math.log(value) for _, value in points])
            yield f"{name}: the time grows as n^{fit.slope:.2f}."


def draw(bench: Bench) -> Figure:
    """Time and memory against n, both axes logarithmic, a line for every engine."""
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
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")  # powers of ten would need the parsing of formulas
    axes.minorticks_off()
    axes.set_xlabel("n", color=GREY)
    axes.set_title(label, loc="left", fontsize=10)
    axes.grid(color="#E3E3E3", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(color="#AAAAAA", labelcolor=GREY, length=3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(frameon=False, fontsize=9, labelcolor="linecolor")


ABOUT = {
    "core": "`triangular_attention` alone, with gradients for all four inputs, at the sizes of the paper. A process "
    "that keeps freed memory (`--keep-memory`) makes engines with large intermediates faster, and these ratios "
    "smaller: see research/log.md.",
    "layers": "Forward and backward of a whole stack of layers with the paper's settings, without optimiser, against "
    "the *floor*: the matrix products of that step, each into memory set aside before, and nothing else. As in "
    "training, and unlike above, the process keeps freed memory (`edge_transformer.io.process`).",
    "scaling": "The same as the first table, for one graph of growing size.",
    "rivals": "FloydNet's pivotal attention also mixes over a third node, but adds where triangular attention "
    "multiplies, so that it is products of matrices. It gets its tensors whole and in its own order.",
    "threads": "The engine for CPUs with one thread and with two. The last column is half the time of two independent "
    "runs at once, with one thread each: what two cores gave at that moment to work that shares nothing.",
    "decode": "Greedy work on random tokens, the reading of the sources included. Without the cache the decoder "
    "computes the whole graph for every token; that is timed at five prefixes, each of which stands for a fifth of "
    "the tokens.",
    "token": "The last token of a graph of n nodes.",
    "seq2seq": "Forward and backward, from tokens to the gradients of all weights, 13 nodes of the source and the rest "
    "of the target; the *floor* is that of encoder and decoder, whose last layer is read at the self-edges of the "
    "target alone. The process keeps freed memory.",
    "seq2seq-memory": "Measured as the memory of the attention. *Hidden again* and *layers again* "
    "are the fastest engine with `--recompute hidden` and `--recompute layers`, which have the backward pass compute "
    "the hidden layers of feed-forward networks, or whole layers, again, with the same numbers.",
    "memory": "The most memory in use while forward and backward run, above what was in use when the inputs were "
    "ready. Each number is from a process of its own.",
}


def write_page(source: Path, page: Path, command: str) -> list[Path]:
    """Write the page, and the figure beside it, from the file that `edge-transformer bench --json` wrote."""
    bench = Bench.read(source)
    written = [page]
    sections = [_section(table) for table in tables(bench)]
    if any(found.value for part in FIGURES for found in bench.of_part(part)):
        figure = page.with_suffix(".svg")
        write_figure(draw(bench), figure)
        written.append(figure)
        sections.insert(0, f"![Time and memory against the number of nodes]({figure.name})")
    head = f"<!-- Generated by `{command}` from {source.name}. Do not edit: the next one overwrites it. -->"
    commands = [_with_parts(bench), command]
    intro = f"# Speed and memory\n\nMade by:\n\n{code_block(commands)}\n\n{_how(bench)}"
    write_text(page, "\n\n".join([head, intro, *sections]) + "\n")
    return written


def _with_parts(bench: Bench) -> str:
    """The command with the parts that it measured, also where it named none: there may be more of them by now."""
    if "--part" in bench.command:
        return bench.command
    parts = dict.fromkeys(f" --part {found.part}" for found in bench.measurements)
    return bench.command.replace(" bench", f" bench{''.join(parts)}", 1)


def _how(bench: Bench) -> str:
    machine, settings = bench.machine, bench.settings
    threads = f"{settings['threads']} thread{'s' * (settings['threads'] != 1)}"
    engine = machine["auto"]["CPU float32"]
    return (
        f"On {escape(machine['processor'])} ({machine['cores']} cores, {escape(machine['system'])}), {threads} unless "
        f"said otherwise, PyTorch {escape(machine['torch'])}, Python {machine['python']}, edge-transformer "
        f"{machine['package']}; engine `{engine}`: {escape(machine['engines'][engine]['note'])}; float32.\n\n"
        "What stands in one row ran in turn in one process. Times are medians over rounds after a warm-up; *spread* is "
        "the widest distance of a quartile from its median in that row. Sizes are B graphs of n nodes with edge states "
        "of width d in h heads. Compare ratios, not seconds: those depend on the machine."
    )


def _section(table: Table) -> str:
    title, _, about = table.title.partition(": ")
    parts = [f"## {title.capitalize()}: {about}", ABOUT[table.part], table.markdown(), " ".join(table.notes)]
    return "\n\n".join(part for part in parts if part)
