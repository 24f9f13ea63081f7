"""The command `evaluate`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from ..errors import UserError
from ..io.process import prepare_process
from .options import RunArgument, ThreadsOption, print_scores


def evaluate(
    run: RunArgument,
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Folder with test files, or a CoNLL-U file.", show_default="the data of training"),
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Name of a split, if the corpus has several.", show_default="of training")
    ] = None,
    tree: Annotated[bool, typer.Option("--tree", help="Graph parsers: predict parents without cycles.")] = False,
    predictions: Annotated[
        Path | None, typer.Option(help="Translators: write each row with its prediction, as JSON lines.")
    ] = None,
    results: Annotated[
        Path | None, typer.Option(help="Append a record of the scores on other data to this file, for `report`.")
    ] = None,
    threads: ThreadsOption = None,
) -> None:
    """Score a trained model on the test files of its data, or on those of another folder.

    Examples:

    - `edge-transformer evaluate runs/relations-cpu-families-seed1`

    - `edge-transformer evaluate runs/relations-cpu-families-seed1 --data other-families`

    - `edge-transformer evaluate runs/mine --data other-families --results results/records/mine.jsonl`

    - `edge-transformer evaluate runs/scan-cpu-scan-seed1 --predictions said.jsonl`

    - `edge-transformer evaluate runs/cfq-dep-paper-cfq-seed1 --split mcd2`
    """
    import edge_transformer as et

    from ..api import scored_rows
    from ..io.files import check_writable
    from ..io.records import append_record, scored_elsewhere
    from ..tasks.graphs.model import GraphParser
    from ..tasks.seq2seq.data import Seq2SeqData

    prepare_process(threads)
    model = et.load(run)
    name = f"a {type(model).__name__} in {run}"
    if predictions is not None and model.task != "seq2seq":
        raise UserError(f"--predictions: found {name}; expected a model that translates")
    if results is not None and not model.has_record:
        raise UserError(f"--results: found no record in {run}; expected the folder of a run")
    for option, path in (("--predictions", predictions), ("--results", results)):
        check_writable(option, path)
    if tree:
        if not isinstance(model, GraphParser):
            raise UserError(f"--tree: found {name}; expected a graph parser")
        model.tree = True
    rows = scored_rows(model, data, split)
    if rows.trained and results is not None and not tree:
        folder = rows.data.folder or rows.name
        raise UserError(f"--results: {folder} is what {run} was trained on; its record has these scores already")
    scores = rows.scores(model)
    print_scores(f"{run} on {data or rows.data.folder or rows.name}", scores)
    if predictions is not None and isinstance(rows.data, Seq2SeqData):
        rows.data.write_predictions(predictions)
        print(f"written: {predictions}")
    if results is not None:
        elsewhere = ["--data", str(data)] if data else []
        options = [*elsewhere, *(["--split", split] if split else []), *(["--tree"] if tree else [])]
        command = shlex.join(["edge-transformer", "evaluate", str(run), *options, "--results", str(results)])
        title = f"{rows.name}{f' {split}' if split else ''}{', parents as trees' if tree else ''}"
        hashed = f"{rows.fingerprint}{'-tree' if tree else ''}"
        scored = rows.data.identity().get("scored")
        append_record(results, scored_elsewhere(model.record, title, hashed, scores, command, scored))
