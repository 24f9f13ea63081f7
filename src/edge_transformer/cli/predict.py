"""The command `predict`."""

from __future__ import annotations

from ..errors import UserError
from ..io.process import prepare_process
from .options import RunArgument, ThreadsOption


def predict(run: RunArgument, threads: ThreadsOption = None) -> None:
    """Answer questions from standard input, one JSON object per line, as they arrive.

    Example: `echo '{"edges": [["Ann", "son", "Bob"], ["Bob", "sister", "Eve"]], "query": ["Ann", "Eve"]}' |
    edge-transformer predict runs/clutrr-cpu-families-seed1`
    """
    import edge_transformer as et

    from ..io.streams import json_line, name_of, open_lines

    prepare_process(threads)
    name, answers = name_of(None), 0
    with open_lines(None, "questions") as lines:
        for answer in et.load(run).predict_lines(lines, name, lines.pausing):
            print(json_line(answer), flush=True)
            answers += 1
    if not answers:
        raise UserError(f"{name}: found no question; expected one per line")
