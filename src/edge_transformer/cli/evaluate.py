"""The command `evaluate`: like cli.py, which registers it, a thin skin; which rows are scored is decided here."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import UserError
from ..io.process import prepare_process
from .options import RunArgument, ThreadsOption
from .scores import print_scores

if TYPE_CHECKING:
    from ..tasks.base import TaskData
    from ..training.config import SavedRun


def evaluate(
    run: RunArgument,
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Folder with test files, or a CoNLL-U file.", show_default="the data of training"),
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Which one, where a corpus is split in several ways.", show_default="of training")
    ] = None,
    tree: Annotated[bool, typer.Option("--tree", help="Graph parsers: parents never go in a circle.")] = False,
    predictions: Annotated[
        Path | None, typer.Option(help="Translators: write each row and what the model says, as JSON lines.")
    ] = None,
    results: Annotated[
        Path | None, typer.Option(help="Append a record of the scores on other data to this file, for `report`.")
    ] = None,
    threads: ThreadsOption = None,
) -> None:
    """Score a trained model on its own test files, or on those of another folder, which needs no others.

    Examples:

    - `edge-transformer evaluate runs/clutrr-cpu-families-seed1`

    - `edge-transformer evaluate runs/clutrr-cpu-families-seed1 --data other-families`

    - `edge-transformer evaluate runs/clutrr-cpu-families-seed1 --data other-families --results results/clutrr.jsonl`

    - `edge-transformer evaluate runs/scan-cpu-scan-seed1 --predictions said.jsonl`

    - `edge-transformer evaluate runs/cfq-dep-paper-cfq-seed1 --split mcd2`
    """
    import torch

    from ..io.files import check_writable
    from ..io.progress import bar
    from ..tasks.graphs.model import GraphParser
    from ..tasks.seq2seq.data import Seq2SeqData
    from ..training.config import RECORD_FILE, SavedRun
    from ..training.models import RUN_FILE, load_with_task
    from ..training.records import append_record, read_record, scored_elsewhere

    prepare_process(threads)
    model, task = load_with_task(run)
    name = f"a {type(model).__name__} in {run}"
    trained = read_record(run / RECORD_FILE) if results is not None else None
    if predictions is not None and task.data is not Seq2SeqData:
        raise UserError(f"--predictions: found {name}; expected a model that translates")
    for option, path in (("--predictions", predictions), ("--results", results)):
        check_writable(option, path)
    if tree:
        if not isinstance(model, GraphParser):
            raise UserError(f"--tree: found {name}; expected a graph parser")
        model.tree = True
    if split is not None and not hasattr(task.data.Settings(), "split"):
        raise UserError(f"--split: found {name}, whose data have no splits with names")
    saved = SavedRun.read(run) if (run / RUN_FILE).exists() else None
    rows = _choose_rows(task.data, saved, run, data, split)
    if rows.trained and results is not None and not tree:
        raise UserError(f"--results: {rows.folder} is what {run} was trained on; its record has these scores already")
    for note in rows.notes:
        print(f"note: {note}")
    with bar(f"reading {rows.folder.name}") as reading:
        loaded = task.data.load(rows.folder, rows.settings, rows.seed, model=model, progress=reading.advance)
    for note in loaded.notes():
        print(f"note: {note}")
    with bar("scoring", loaded.evaluation_rows()) as scoring:
        scores = loaded.evaluate(model, torch.device("cpu"), scoring.advance)
    print_scores(f"{run} on {rows.folder}", scores)
    if predictions is not None and isinstance(loaded, Seq2SeqData):
        loaded.write_predictions(predictions)
        print(f"written: {predictions}")
    if results is not None and trained is not None:
        options = ["--data", str(rows.folder), *(["--split", split] if split else []), *(["--tree"] if tree else [])]
        command = shlex.join(["edge-transformer", "evaluate", str(run), *options, "--results", str(results)])
        title = f"{rows.folder.resolve().name}{f' {split}' if split else ''}{', parents as trees' if tree else ''}"
        hashed = f"{rows.fingerprint}{'-tree' if tree else ''}"
        scored = loaded.identity().get("scored")
        append_record(results, scored_elsewhere(trained, title, hashed, scores, command, scored))


@dataclass(frozen=True)
class _Rows:
    """What is read to be scored, and how."""

    folder: Path
    settings: Any  # of the task's data
    seed: int  # decides which rows were held out
    fingerprint: str
    trained: bool  # these files are those of training
    notes: list[str]


def _choose_rows(
    data: type[TaskData], saved: SavedRun | None, run: Path, asked_folder: Path | None, asked_split: str | None
) -> _Rows:
    """The rows that a user asks for, or else those that the run was scored on after training."""
    from ..training.models import RUN_FILE

    folder = asked_folder or (saved.data_folder if saved else None)
    if folder is None:
        raise UserError(f"{run}: no {RUN_FILE} says on which data it was trained; give a folder with --data")
    if asked_folder is None and not folder.is_dir():
        raise UserError(f"{folder}: no such folder, but {run} was trained on it; say with --data where the data are")
    settings, seed, split = data.Settings(), 0, asked_split
    if saved:
        settings = replace(
            settings, **{name: getattr(saved.config.data_settings, name) for name in data.reading_settings}
        )
        if split is None and saved.data_folder is not None and folder.resolve() == saved.data_folder.resolve():
            split = saved.data_identity.get("split") or None
    notes = []
    fingerprint = data.fingerprint(folder, training=False, split=split)
    trained = saved is not None and fingerprint == saved.data_identity.get("fingerprint")
    if saved is not None and trained:
        trained_split = saved.data_identity.get("split")
        if asked_split is not None and asked_split != trained_split:
            raise UserError(
                f"--split {asked_split}: found the rows of {trained_split} alone in {folder}; expected others"
            )
        settings, seed = saved.config.data_settings, saved.config.seed  # the rows held out are those of training
    elif asked_folder is None and asked_split is None:
        notes.append(f"the files in {folder} have changed since training")
    if split is not None:
        settings = replace(settings, split=split)
    for unread in ("test", "gen"):
        if getattr(settings, unread, True) is False:
            notes.append(f"data.{unread}=false left these rows unread in training; they are read now")
    return _Rows(folder, settings, seed, fingerprint, trained, notes)
