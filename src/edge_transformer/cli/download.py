"""The command `data download`: like cli.py, which registers it, a thin skin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from ..errors import UserError


def download(
    names: Annotated[
        list[str] | None, typer.Argument(help="Which: clutrr, cogs, scan, cfq.", show_default="tell what there is")
    ] = None,
    root: Annotated[Path, typer.Option("--out", help="Folder of all data.")] = Path("data"),
) -> None:
    """Fetch the benchmarks' own files from where they are published, and check that they have the right rows.

    What is there already is not fetched again, and files of another content are never replaced. Each benchmark has a
    licence of its own, which is printed. CFQ comes as an archive of 268 MB, and needs several GB of disk while its
    three splits MCD1 to MCD3 are cut out of it.

    Examples:

    - `edge-transformer data download`

    - `edge-transformer data download scan cogs`
    """
    from ..data.download import benchmarks
    from ..data.download import download as fetch

    known = benchmarks()
    for name in names or []:
        if name not in known:
            raise UserError(f"found the benchmark {name!r}; expected {', '.join(known)}")
    for name in names or known:
        benchmark = known[name]
        print(f"{name} ({benchmark.homepage}, licence {benchmark.licence}), from {benchmark.source}")
        if not names:
            continue
        files = fetch(benchmark, root, _step)
        for path in files:
            print(f"  written: {path}")
        if not files:
            print(f"  all files are in {root / benchmark.folder} already")


@contextmanager
def _step(description: str) -> Iterator[Callable[[int], None]]:
    from ..io.progress import bar

    with bar(description) as shown:
        yield shown.advance
