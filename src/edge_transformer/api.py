"""The Python API: train, evaluate, load, explain. The command line calls it.

>>> import edge_transformer as et
>>> model = et.load("clutrr-small")
>>> question = {"edges": [["Ann", "son", "Bob"], ["Bob", "sister", "Eve"]], "query": ["Ann", "Eve"]}
>>> model.predict([question])[0]["answer"]
'daughter'
"""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Protocol, cast, overload

import torch

from .data.jsonl import IN_MEMORY, rows_fingerprint
from .data.relations.sources import rows_of
from .errors import UserError
from .explain import explain
from .io.files import check_folder
from .io.progress import bar, say, silent
from .io.settings import unknown_setting
from .tasks.base import RUN_FILE, TaskData, TaskModel, answering, encoder_fields, get_task, load, register_task
from .training.config import FITTED, NO_PRESET, Hardware, RunConfig, TrainConfig
from .training.fit import LABELLED_GRAPHS, beside_baseline, first_run, fitted_run, what_limited
from .training.fit import TASKS as FITTED_TASKS
from .training.folder import SavedRun
from .training.presets import SECTIONS, load_preset, preset_names
from .training.track import TENSORBOARD_FOLDER, Callback, TensorBoard, check_tracker
from .training.trainer import Trainer

if TYPE_CHECKING:
    from .tasks.graphs.model import GraphParser
    from .tasks.links.model import LinkModel
    from .tasks.relations.model import RelationModel
    from .tasks.seq2seq.model import Translator
    from .tasks.trees.model import TreeParser

__all__ = ["Rows", "evaluate", "explain", "load", "register_task", "scored_rows", "train"]

Rows = str | Path | Mapping[str, Iterable[Any]] | Iterable[Any]  # a folder, rows by split, or training rows

Keywords = ParamSpec("Keywords")


class _Train(Protocol[Keywords]):
    """The type of `train`: its own keywords, and the model that belongs to the task."""

    @overload
    def __call__(
        self, task: Literal["relations"], data: Rows, *args: Keywords.args, **keywords: Keywords.kwargs
    ) -> RelationModel: ...
    @overload
    def __call__(
        self, task: Literal["graphs"], data: Rows, *args: Keywords.args, **keywords: Keywords.kwargs
    ) -> GraphParser: ...
    @overload
    def __call__(
        self, task: Literal["trees"], data: Rows, *args: Keywords.args, **keywords: Keywords.kwargs
    ) -> TreeParser: ...
    @overload
    def __call__(
        self, task: Literal["seq2seq"], data: Rows, *args: Keywords.args, **keywords: Keywords.kwargs
    ) -> Translator: ...
    @overload
    def __call__(
        self, task: Literal["links"], data: Rows, *args: Keywords.args, **keywords: Keywords.kwargs
    ) -> LinkModel: ...
    @overload
    def __call__(self, task: str, data: Rows, **keywords: Any) -> TaskModel: ...


def _typed(function: Callable[Concatenate[str, Rows, Keywords], TaskModel]) -> _Train[Keywords]:
    return cast(_Train[Keywords], function)


@_typed
def train(
    task: str,
    data: Rows,
    *,
    preset: str | None = None,
    valid: Iterable[Any] | None = None,
    out: str | Path | None = None,
    seed: int = 1,
    device: str = "auto",
    progress: bool = True,
    precision: str = "32-true",
    threads: int | None = None,
    recompute: str = "nothing",
    checkpoint_seconds: float = 60.0,
    minutes: float | None = None,
    track: str | None = None,
    callback: Callback | None = None,
    **settings: Any,
) -> TaskModel:
    """Train a model and score it.

    Args:
        task: "relations", "links", "node-labels", "graph-labels", "graphs", "trees", "seq2seq", or a registered task.
        data: a folder; or rows by split, {"train": rows, "valid": rows, "test": rows}, with at least "train"; or
            training rows alone. A row is what `predict` takes, plus its answer.
        preset: name of a preset, or a YAML file. By default the settings of relations, node-labels, graph-labels
            and links are fitted to the data; other tasks have TASK/cpu.
        valid: validation rows, scored during training.
        out: folder of the run; the same call resumes a stopped run. Without it, nothing stays on disk.
        seed: sets initial weights, row order and dropout.
        device: "auto", "cpu", "cuda" or "mps".
        progress: whether to show bars and scores.
        precision: "32-true", "64-true" or "bf16-mixed".
        threads: CPU threads; all cores by default.
        recompute: what the backward pass recomputes to save memory: "nothing", "hidden" or "layers".
        checkpoint_seconds: time between checkpoints.
        minutes: the most training time; 10 where settings are fitted to the data, else no limit.
        track: "tensorboard" writes losses, learning rates and scores to OUT/tensorboard; needs the extra `[track]`.
        callback: a function that gets a `TrainingStep` after each step, for other trackers. If it raises, the run
            stops after a checkpoint, and the same call goes on.
        settings: changes to the preset, such as `dim=64` or `**{"train.epochs": 5}`.

    Returns:
        The trained model. Its `record` has the scores, settings and minutes. Ctrl-C stops a run with an `out`: the
        model then `has_record` False, and the same call goes on. Without `out`, Ctrl-C has its usual effect.
    """
    run = planned_run(task, preset, settings | ({} if minutes is None else {"train.minutes": minutes}), seed)
    hardware = Hardware.of(device=device, precision=precision, threads=threads, recompute=recompute)
    if track is not None:
        check_tracker(track, out)
    if out is not None:
        check_folder("--out", out)
    with ExitStack() as stack:
        stack.callback(torch.set_num_threads, torch.get_num_threads())  # the caller's process stays as it was
        stack.callback(torch.set_rng_state, torch.get_rng_state())
        if not progress:
            stack.enter_context(silent())
        rows = _read(run, data, valid)
        for note in rows.notes():
            say(f"note: {note}")
        if run.preset == FITTED:
            run, rows, reasons = fitted_run(run, rows)
            for reason in reasons:
                say(reason)
        folder = Path(out) if out is not None else Path(stack.enter_context(tempfile.TemporaryDirectory()))
        trainer = Trainer(run, rows, folder, hardware, _command(run, rows, precision))
        stack.callback(trainer.release_folder)
        if trainer.step:
            say(f"resuming {folder} at step {trainer.step:,} of {trainer.total_steps:,}")
        else:
            where = f", in {folder}" if out is not None else ""
            say(f"training on {rows.train_rows:,} rows, {trainer.total_steps:,} steps{where}")
        callbacks: list[Callback] = []
        if track is not None and out is not None:
            board = TensorBoard(Path(out) / TENSORBOARD_FOLDER, trainer.next_told())
            stack.callback(board.close)
            callbacks.append(board)
        if callback is not None:
            callbacks.append(callback)
        record = trainer.train(
            checkpoint_seconds if out is not None else float("inf"), resumable=out is not None, callbacks=callbacks
        )
        if run.preset == FITTED and record is not None:
            for line in (beside_baseline(trainer.history[-1]["scores"]), what_limited(trainer)):
                if line is not None:
                    say(line)
        model = trainer.trained_model()
        model.record, model.folder = record, Path(out) if out is not None else None
        if record is None:
            done = f"{trainer.step:,} of {trainer.total_steps:,} steps"
            say(f"stopped after {done}; run the same again to go on from {folder}")
    return model


def planned_run(task: str, preset: str | None, settings: Mapping[str, Any], seed: int) -> RunConfig:
    """The run that `train` would start; without a preset, as far as it is known before its data are read."""
    get_task(task)
    if preset in (None, FITTED) and task in FITTED_TASKS:
        return first_run(task, _overrides(task, NO_PRESET, settings), seed)
    preset = preset or (f"{task}/cpu" if f"{task}/cpu" in preset_names() else NO_PRESET)
    return RunConfig.from_preset(task, preset, _overrides(task, preset, settings), seed)


def evaluate(
    model: TaskModel | str | Path,
    data: Rows | None = None,
    *,
    split: str | None = None,
    negatives: int | None = None,
    progress: bool = True,
) -> dict[str, float]:
    """Score a model on test rows, by default those beside its training data.

    Args:
        model: a model, the folder of one, or the name of a bundled one.
        data: a folder, or {"test": rows}, or rows.
        split: name of a split, if the corpus has several.
        negatives: of links: rank answers among so many sampled wrong ones too; by default as in training.
        progress: whether to show bars and notes.
    """
    model = model if isinstance(model, TaskModel) else load(model)
    with ExitStack() as stack:
        if not progress:
            stack.enter_context(silent())
        return scored_rows(model, data, split, negatives).scores(model)


@dataclass(frozen=True)
class ScoredRows:
    """Rows to score, as a model reads them."""

    data: TaskData
    name: str  # of the folder
    fingerprint: str
    trained: bool  # whether the model was trained on these files

    def scores(self, model: TaskModel) -> dict[str, float]:
        """Score a model on these rows."""
        device = next(model.parameters()).device
        with answering(model), bar("scoring", self.data.evaluation_rows()) as scoring:
            return self.data.evaluate(model, device, scoring.advance)


def scored_rows(
    model: TaskModel, data: Rows | None = None, split: str | None = None, negatives: int | None = None
) -> ScoredRows:
    """Read the rows to score: the given ones, by default those that training scored."""
    task = get_task(model.task).data
    asked = _sampling(model, negatives)
    if data is not None and not isinstance(data, str | Path):
        if split is not None:
            raise UserError(f"split {split}: found rows in memory; expected a folder whose corpus has named splits")
        lists = _lists(data, "test", model.task)
        training = lists.pop("train", None)
        if lists and training and task.scores_need_training:
            lists = {"train": training, **lists}
        if not lists:
            raise UserError('data: found training rows alone; expected rows to score, such as {"test": rows}')
        loaded = task.from_rows(lists, replace(task.Settings(), **asked), 0, model)
        return _noted(ScoredRows(loaded, IN_MEMORY, rows_fingerprint(lists), trained=False))
    saved = SavedRun.read(model.folder) if model.folder and (model.folder / RUN_FILE).exists() else None
    folder = Path(data) if data is not None else saved.data_folder if saved else None
    if folder is None:
        name = model.folder.name if model.folder else "this model"
        found = f"{name}: found no {RUN_FILE} that names a data folder"
        raise UserError(f"{found}; give the rows to score, or a folder of them (--data)")
    if data is None and not folder.is_dir():
        raise UserError(f"{folder}: no such folder, but {model.folder} was trained on it; give the folder of the data")
    settings, seed = task.Settings(), 0
    if split is not None and not hasattr(settings, "split"):
        raise UserError(f"split {split}: found a {type(model).__name__}, whose data have no named splits")
    if saved:
        kept = {name: getattr(saved.config.data_settings, name) for name in task.reading_settings}
        settings = replace(settings, **kept)
    asked_split = split
    if saved and split is None and saved.data_folder and folder.resolve() == saved.data_folder.resolve():
        split = saved.data_identity.get("split") or None
    fingerprint = task.fingerprint(folder, training=False, split=split)
    trained = saved is not None and fingerprint == saved.data_identity.get("fingerprint")
    if saved is not None and trained:
        trained_split = saved.data_identity.get("split")
        if asked_split is not None and asked_split != trained_split:
            raise UserError(
                f"split {asked_split}: found the rows of {trained_split} alone in {folder}; expected others"
            )
        settings, seed = saved.config.data_settings, saved.config.seed  # the same held-out rows as in training
    elif data is None and asked_split is None:
        say(f"note: the files in {folder} have changed since training")
    settings = replace(settings, **asked) if split is None else replace(settings, **asked, split=split)
    for unread in ("test", "gen"):
        if getattr(settings, unread, True) is False:
            say(f"note: training did not read these rows (data.{unread}=false); they are read now")
    with bar(f"reading {folder.name}") as reading:
        loaded = task.load(folder, settings, seed, model=model, progress=reading.advance)
    loaded.folder = folder.absolute()
    return _noted(ScoredRows(loaded, folder.resolve().name, fingerprint, trained))


def _sampling(model: TaskModel, negatives: int | None) -> dict[str, int]:
    """The setting that `negatives` changes."""
    if negatives is None:
        return {}
    if not hasattr(get_task(model.task).data.Settings(), "negatives"):
        raise UserError(f"negatives {negatives}: found a {type(model).__name__}; expected a model of links")
    if negatives < 0:
        raise UserError(f"negatives: found {negatives}; expected 0, for none, or more")
    return {"negatives": negatives}


def _noted(rows: ScoredRows) -> ScoredRows:
    for note in rows.data.notes():
        say(f"note: {note}")
    return rows


def _read(run: RunConfig, data: Rows, valid: Iterable[Any] | None) -> TaskData:
    """Read the data of a run from a folder, or from rows in memory."""
    if isinstance(data, str | Path):
        if valid is not None:
            raise UserError("valid: found rows beside a folder; expected a validation file in the folder")
        return run.load_data(data)
    lists = _lists(data, "train", run.task, valid)
    if "train" not in lists:
        raise UserError(f'data: found the splits {", ".join(lists)}; expected "train" among them')
    loaded = get_task(run.task).data.from_rows(lists, run.data_settings, run.seed)
    loaded.about = {"name": IN_MEMORY, "fingerprint": rows_fingerprint(lists)}
    return loaded


def _lists(data: Any, alone: str, task: str, valid: Iterable[Any] | None = None) -> dict[str, list[Any]]:
    """Rows in memory as lists by split; rows without a split are `alone`. "valid" is another name of "dev".

    Rows of labelled graphs may be frames of pandas, or graphs of networkx or PyTorch Geometric.
    """
    if data is None:
        raise UserError("data: found none; expected a folder, rows by split, or training rows")
    splits = dict(data) if isinstance(data, Mapping) and "edges" not in data else {alone: data}
    for split in splits:
        if splits[split] is None:
            raise UserError(f"data: found None as {split!r}; expected rows, or no such split")
    given = [split for split in ("dev", "valid") if split in splits]
    twice = [*(f"data[{split!r}]" for split in given), *(["the argument valid"] if valid is not None else [])]
    if len(twice) > 1:
        raise UserError(f"data: found validation rows twice, as {' and as '.join(twice)}; expected them once")
    if valid is not None:
        splits["valid"] = valid
    if task in LABELLED_GRAPHS:
        splits = {name: rows_of(rows, task) for name, rows in splits.items()}
    for split, rows in splits.items():
        if isinstance(rows, str | Mapping) or not isinstance(rows, Iterable):
            raise UserError(f"data: found {type(rows).__name__} as {split!r}; expected rows, such as a list of them")
    lists = {split: list(rows) for split, rows in splits.items()}
    for split, rows in lists.items():
        if not rows:
            raise UserError(f"data: found no rows in {split!r}; expected at least one")
        if hasattr(splits[split], "columns") and isinstance(rows[0], str):  # iterating a DataFrame gives its columns
            raise UserError(f'data: found a {type(splits[split]).__name__}; expected rows, as its to_dict("records")')
    return {"dev" if split == "valid" else split: rows for split, rows in lists.items()}


def _overrides(task: str, preset: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Turn keywords into dotted names: dim=64 is model.dim=64."""
    if all("." in name for name in settings):
        return dict(settings)
    base = {} if preset == NO_PRESET else load_preset(preset)
    kind = settings.get("kind", settings.get("model.kind", (base.get("model") or {}).get("kind")))
    known = {
        "model": encoder_fields(get_task(task).model, kind),
        "train": {field.name for field in fields(TrainConfig)},
        "data": {field.name for field in fields(get_task(task).data.Settings)},
    }
    overrides = {}
    for name, value in settings.items():
        homes = [section for section in SECTIONS if name in known[section]]
        if "." in name:
            overrides[name] = value
        elif len(homes) == 1:
            overrides[f"{homes[0]}.{name}"] = value
        elif homes:
            raise UserError(f"{name}: found in {' and '.join(homes)}; expected one of them, such as {homes[0]}.{name}")
        else:
            raise UserError(unknown_setting(name, sorted(set().union(*known.values()))))
    return overrides


def _command(run: RunConfig, rows: TaskData, precision: str) -> str:
    """The equivalent command; "" for rows in memory."""
    if rows.folder is None:
        return ""
    arguments = [*run.arguments(rows.given), *(["--precision", precision] if precision != "32-true" else [])]
    return shlex.join(["edge-transformer", *arguments])
