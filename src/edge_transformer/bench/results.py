"""What was measured, as plain values in a file, and the page of Markdown that shows it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..draw.style import write_figure
from ..errors import DataError, UserError
from ..io.files import write_text
from ..io.markdown import code_block, escape
from ..io.settings import from_dict
from .sizes import Size
from .tables import FIGURES, Table, draw, tables

FORMAT = "edge-transformer bench 1"


@dataclass(frozen=True)
class Measurement:
    """One number, or why there is none."""

    part: str
    case: str
    size: Size
    what: str  # "forward", "forward+backward", ...
    name: str  # of the engine, or of what else was measured
    value: float | None = None  # the median, in seconds or bytes
    unit: str = "s"  # "s" | "bytes"
    low: float | None = None  # quartiles
    high: float | None = None
    rounds: int = 0
    reference: str | None = None  # the name whose value `ratio` is in multiples of
    ratio: float | None = None
    aim: float | None = None  # what the ratio should be at most
    skipped: str | None = None  # why there is no value


@dataclass(frozen=True)
class Bench:
    """All measurements of one run, with what one needs to know about them."""

    command: str
    machine: dict
    settings: dict
    measurements: tuple[Measurement, ...]
    format: str = FORMAT

    def write(self, path: Path) -> None:
        write_text(path, json.dumps(dataclasses.asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> Bench:
        expected = "what `edge-transformer bench --json` writes"
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise DataError(path, None, str(error), expected) from error
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            raise DataError(path, None, "another format", expected)
        try:
            return from_dict(cls, values)
        except UserError as error:
            raise DataError(path, None, str(error), expected) from error

    def of_part(self, part: str) -> Iterator[Measurement]:
        return (measurement for measurement in self.measurements if measurement.part == part)


ABOUT = {
    "core": "`triangular_attention` alone, with gradients for all four inputs, at the sizes of the paper. A process "
    "that keeps freed memory (`--keep-memory`) makes engines with large intermediates faster, and these ratios "
    "smaller: see the lab notes.",
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
