"""The command `predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import UserError
from ..io.process import prepare_process
from ..io.streams import STANDARD_INPUT, json_line, name_of, open_lines
from .options import RunArgument, ThreadsOption, TrustOption


def predict(
    run: RunArgument,
    source: Annotated[
        Path, typer.Option("--input", help="Questions, one JSON object per line.", show_default="standard input")
    ] = STANDARD_INPUT,
    threads: ThreadsOption = None,
    trust: TrustOption = None,
) -> None:
    """Answer questions, one JSON object per line, as they arrive.

    Example: `echo '{"edges": [["Ann", "son", "Bob"], ["Bob", "sister", "Eve"]], "query": ["Ann", "Eve"]}' |
    edge-transformer predict runs/relations-cpu-families-seed1`
    """
    import edge_transformer as et

    prepare_process(threads)
    name, answers = name_of(source), 0
    with open_lines(source, "questions") as lines:
        for answer in et.load(run, trust or ()).predict_lines(lines, name, lines.pausing):
            print(json_line(answer), flush=True)
            answers += 1
    if not answers:
        raise UserError(f"{name}: found no question; expected one per line")
