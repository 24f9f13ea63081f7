"""The command `export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..io.process import prepare_process
from ..io.progress import bar
from .options import RunArgument, ThreadsOption, TrustOption


def export(
    run: RunArgument,
    onnx: Annotated[Path, typer.Option(metavar="FILE", help="Where to write it; an encoder-decoder gives two files.")],
    threads: ThreadsOption = None,
    trust: TrustOption = None,
) -> None:
    """Write a model to an ONNX file, which answers without PyTorch.

    Example: `edge-transformer export clutrr-small --onnx clutrr-small.onnx`
    """
    import edge_transformer as et

    prepare_process(threads)
    with bar("exporting, and comparing with PyTorch"):
        paths = et.export(et.load(run, trust or ()), onnx)
    for path in paths:
        print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")
