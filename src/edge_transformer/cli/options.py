"""Shared by commands: options, exit codes, tables of scores."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.measure import Measurement
from rich.table import Column, Table

from ..io.process import MAX_THREADS
from ..io.records import is_fraction

RunArgument = Annotated[
    Path,
    typer.Argument(
        metavar="RUN",
        help="Folder of a trained model, or the name of a bundled one, such as clutrr-small.",
        show_default=False,
    ),
]
TrustOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MODULE:CLASS",
        help="An encoder of your own that may be imported if the model names it; may be repeated.",
        show_default=False,
    ),
]
ThreadsOption = Annotated[
    int | None, typer.Option(min=1, max=MAX_THREADS, help="CPU threads.", show_default="all cores")
]

EXIT_INTERRUPTED = 130
MAX_SEED = 2**32 - 1  # PyTorch's generator on the CPU uses no more bits
MAX_WIDTH = 10_000  # of a table that is measured
out = Console(highlight=False)


def print_scores(title: str, scores: dict[str, float]) -> None:
    """Print a table of scores, shares in percent: one row, or, if the terminal is too narrow, one column."""
    print(title)  # on one line; rich would fold it to the width of the table
    shown = {
        name: f"{100 * value:.1f}" if is_fraction(name) else f"{value:.4f}" if abs(value) < 10 else f"{value:,.2f}"
        for name, value in scores.items()
    }
    abreast = Table(*(Column(name, justify="right", no_wrap=True) for name in shown))
    abreast.add_row(*shown.values())
    if Measurement.get(out, out.options.update(max_width=MAX_WIDTH), abreast).maximum <= out.width:
        out.print(abreast)
        return
    below = Table(Column(), Column(justify="right"), show_header=False)
    for name, value in shown.items():
        below.add_row(name, value)
    out.print(below)
