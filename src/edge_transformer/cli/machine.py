"""The commands `info` and `bench`."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..errors import UserError
from ..io.process import MAX_THREADS

out = Console(highlight=False)


def info(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Describe this machine: versions, cores, GPUs, and which engines run.

    Examples:

    - `edge-transformer info`

    - `edge-transformer info --json`
    """
    from ..bench.machine import describe

    machine = describe()
    if as_json:
        print(json.dumps(machine.to_dict(), indent=2))
        return
    print(f"edge-transformer {machine.package}, Python {machine.python}, PyTorch {machine.torch}")
    print(f"{machine.system}, {machine.processor}: {machine.cores} cores to use, {machine.threads} for PyTorch")
    print(f"GPU: {', '.join(machine.gpus) or 'none that PyTorch can use'}")
    table = Table(box=box.SIMPLE)
    for column in ("engine", "runs here", ""):
        table.add_column(column)
    for name, engine in machine.engines.items():
        table.add_row(name, "yes" if engine.available else "no", escape(engine.note))
    out.print(table)
    for kind, taken in machine.auto.items():
        print(f'engine="auto" on {kind}: {taken or "there is no such device"}')


def bench(
    parts: Annotated[
        list[str] | None,
        typer.Option(
            "--part",
            help="core, layers, scaling, baselines, threads, memory, decode, token, seq2seq, seq2seq-memory, links, "
            "links-pass or links-memory; can be repeated.",
            show_default="all",
        ),
    ] = None,
    own_sizes: Annotated[
        list[str] | None, typer.Option("--size", help="A size of your own, B,n,d,h; can be repeated.")
    ] = None,
    engines: Annotated[
        list[str] | None, typer.Option("--engine", help="Measure this engine; can be repeated.", show_default="all")
    ] = None,
    seconds: Annotated[float, typer.Option(min=0, help="Time for the rounds of a case.")] = 5.0,
    limit: Annotated[float, typer.Option(min=0, help="Skip cases that take more seconds in a single run.")] = 20.0,
    memory: Annotated[
        float | None,
        typer.Option(min=0.001, help="Skip cases that need more GB.", show_default="half of the free memory"),
    ] = None,
    threads: Annotated[int, typer.Option(min=1, max=MAX_THREADS, help="CPU threads.")] = 1,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    keep_memory: Annotated[
        bool, typer.Option("--keep-memory", help="Keep freed memory in all parts, as training and prediction do.")
    ] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all numbers to this file.")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw time and memory against n to a .svg or .png file.", show_default=False)
    ] = None,
) -> None:
    """Measure time and memory of the engines side by side. All parts take about ten minutes on an idle machine.

    Examples:

    - `edge-transformer bench --part core`

    - `edge-transformer bench --size 4,30,128,8`

    - `edge-transformer bench --part scaling --part memory --json speed.json --plot speed.svg`
    """
    from ..bench import Settings, make_cases, measure
    from ..bench.tables import FIGURES, draw, tables
    from ..draw.style import FORMATS, write_figure
    from ..io.files import check_writable
    from ..io.progress import bar

    cases = make_cases(parts or (), own_sizes or (), engines or (), device)
    check_writable("--json", json_file)
    check_writable("--plot", plot)
    if plot is not None:  # report mistakes before minutes of measuring
        if plot.suffix not in FORMATS:
            raise UserError(f"--plot {plot}: expected a name that ends in {' or '.join(FORMATS)}")
        if not any(case.part in FIGURES for case in cases):
            raise UserError(f"--plot {plot}: needs --part {' or --part '.join(FIGURES)}")
    settings = Settings(seconds, limit, round((memory or 0) * 1e9), threads, device, keep_memory)
    with bar("measuring", len(cases)) as measuring:
        found = measure(cases, settings, shlex.join(["edge-transformer", *sys.argv[1:]]), measuring.advance)
    if json_file is not None:
        found.write(json_file)
    for table in tables(found):
        out.print(table.rich())
    if plot is not None:
        write_figure(draw(found), plot)
    for path in (json_file, plot):
        if path is not None:
            print(f"written: {path}")
