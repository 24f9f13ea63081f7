"""The command `data download`: like cli.py, which registers it, a thin skin."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .errors import UserError


def download(
    names: Annotated[
        list[str] | None, typer.Argument(help="Which: clutrr, cogs, scan, cfq.", show_default="tell what there is")
    ] = None,
    root: Annotated[Path, typer.Option("--out", help="Folder of all data.")] = Path("data"),
) -> None:
    """Fetch the benchmarks' own files from where they are published, and check that they have the right rows.

    What is there already is not fetched again, and files of another content are never replaced. Each benchmark has a
    licence of its own, which is printed.

    Examples:

    - `edge-transformer data download`

    - `edge-transformer data download scan cogs`
    """
    from .data.downloads import benchmarks
    from .data.downloads import download as fetch
    from .progress import bar

    known = benchmarks()
    for name in names or []:
        if name not in known:
            raise UserError(f"found {name!r}; expected {', '.join(known)}")
    for name in names or known:
        benchmark = known[name]
        print(f"{name}: {benchmark.homepage}, licence {benchmark.licence}")
        if not names:
            continue
        with bar(f"fetching {name}") as fetching:
            files = fetch(benchmark, root, fetching.advance)
        for path in files:
            print(f"  written: {path}")
        if not files:
            print(f"  all files are in {root / benchmark.folder} already")
