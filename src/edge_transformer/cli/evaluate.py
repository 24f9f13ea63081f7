"""The command `evaluate`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from ..draw.scores import report_text
from ..errors import UserError
from ..io.process import prepare_process
from ..io.progress import say
from ..io.streams import json_line
from .options import RunArgument, ThreadsOption, TrustOption, out, print_scores


class Scored(NamedTuple):
    """What the command prints."""

    model: str
    data: str
    recorded: bool  # whether these are the scores of the model's record, and nothing was scored now
    scores: dict[str, float]  # from 0 to 1


def evaluate(
    run: RunArgument,
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Folder with test files, or a CoNLL-U file.", show_default="the data of training"),
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Name of a split, if the corpus has several.", show_default="of training")
    ] = None,
    negatives: Annotated[
        int | None,
        typer.Option(
            help="Links: rank answers among so many sampled wrong ones too, usually 50.", show_default="of training"
        ),
    ] = None,
    tree: Annotated[
        bool, typer.Option("--tree", help="Graph parsers: predict one parent at most, and no cycles.")
    ] = False,
    predictions: Annotated[
        Path | None, typer.Option(help="Translators: write each row with its prediction, as JSON lines.")
    ] = None,
    results: Annotated[
        Path | None, typer.Option(help="Append a record of the scores on other data to this file, for `report`.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help='Print one JSON object: {"model", "data", "recorded", "scores", "details"}.')
    ] = False,
    threads: ThreadsOption = None,
    trust: TrustOption = None,
) -> None:
    """Score a trained model on the test files of its data, or on those of another folder.

    A bundled model comes without its data: without --data, the scores of its record are shown.

    Examples:

    - `edge-transformer evaluate clutrr-small --json`

    - `edge-transformer evaluate runs/relations-cpu-families-seed1`

    - `edge-transformer evaluate runs/relations-cpu-families-seed1 --data other-families`

    - `edge-transformer evaluate runs/mine --data other-families --results results/records/mine.jsonl`

    - `edge-transformer evaluate runs/scan-cpu-scan-seed1 --predictions said.jsonl`

    - `edge-transformer evaluate runs/cfq-dep-paper-cfq-seed1 --split mcd2`

    - `edge-transformer evaluate runs/graph --data another-graph --negatives 50`
    """
    import edge_transformer as et

    from ..api import scored_rows
    from ..io.files import check_writable
    from ..io.records import append_record, scored_elsewhere
    from ..tasks.base import BUNDLED
    from ..tasks.graphs.model import GraphParser
    from ..tasks.seq2seq.data import Seq2SeqData

    prepare_process(threads)
    model = et.load(run, trust or ())
    if data is None and model.folder and model.folder.parent == BUNDLED:
        if tree or predictions or results or split or negatives is not None:
            raise UserError(f"{run}: comes without its data; give the rows to score by --data")
        _print(Scored(str(run), model.record.data_name, True, model.record.metrics), as_json)
        return
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
    rows = scored_rows(model, data, split, negatives)
    if rows.trained and results is not None and not tree:
        folder = rows.data.folder or rows.name
        raise UserError(f"--results: {folder} is what {run} was trained on; its record has these scores already")
    scores = rows.scores(model)
    _print(Scored(str(run), str(data or rows.data.folder or rows.name), False, scores), as_json)
    if predictions is not None and isinstance(rows.data, Seq2SeqData):
        rows.data.write_predictions(predictions)
        (say if as_json else print)(f"written: {predictions}")
    if results is not None:
        elsewhere = ["--data", str(data)] if data else []
        options = [*elsewhere, *(["--split", split] if split else []), *(["--tree"] if tree else [])]
        options += [] if negatives is None else ["--negatives", str(negatives)]
        command = shlex.join(["edge-transformer", "evaluate", str(run), *options, "--results", str(results)])
        title = f"{rows.name}{f' {split}' if split else ''}{', parents as trees' if tree else ''}"
        hashed = f"{rows.fingerprint}{'-tree' if tree else ''}"
        scored = rows.data.identity().get("scored")
        append_record(results, scored_elsewhere(model.record, title, hashed, scores, command, scored))


def _print(scored: Scored, as_json: bool) -> None:
    if as_json:
        details = getattr(scored.scores, "details", {})
        print(json_line(scored._asdict() | ({"details": details} if details else {})))
        return
    if not scored.recorded:
        print_scores(f"{scored.model} on {scored.data}", scored.scores)
        for split, details in [*getattr(scored.scores, "details", {}).items()][:1]:  # of test rows, if there are any
            out.print(report_text(details, split))
        return
    print_scores(f"{scored.model}: its recorded scores on {scored.data}; nothing was scored now", scored.scores)
    print(f"On rows of your own: edge-transformer evaluate {scored.model} --data FOLDER")
