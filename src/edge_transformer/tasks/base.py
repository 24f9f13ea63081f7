"""What a task gives to the training loop: its data, its model, its loss and its score; and the registry of tasks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import torch
from torch import Tensor, nn

from ..errors import UserError
from ..io.settings import from_dict, to_dict
from ..nn.baselines import KINDS, Kind
from ..nn.encoder import Encoder

Progress = Callable[[int], None]
Options = TypeVar("Options")
Row = TypeVar("Row")
DEFAULT_KIND = "edge"


@dataclass(frozen=True)
class NoOptions:
    """The options of a model that has none besides the settings of its encoder."""


class TaskModel(nn.Module, ABC):
    """A model that predicts, and can say in plain JSON how it is rebuilt."""

    # A frozen dataclass: settings in the `model:` section of a preset that are not those of the encoder.
    Options: ClassVar[type] = NoOptions
    kinds: ClassVar[Mapping[str, Kind]] = KINDS  # what `model.kind` may be

    @abstractmethod
    def description(self) -> dict[str, Any]:
        """Everything but the weights: model settings and vocabularies."""

    @classmethod
    @abstractmethod
    def from_description(cls, description: Mapping[str, Any]) -> Self:
        """The model with fresh weights."""

    @abstractmethod
    def predict(self, inputs: Sequence[Any]) -> list[dict[str, Any]]:
        """Answers for plain inputs, in their order."""

    @abstractmethod
    def predict_lines(
        self, lines: Iterable[str], source: str, pausing: Callable[[], bool] = lambda: False
    ) -> Iterator[dict[str, Any]]:
        """Answers for lines of text, many at a time, and at once where `pausing` says that the next line is not there
        yet; errors name the line of `source`.
        """


@contextmanager
def answering(model: nn.Module) -> Iterator[None]:
    """Without dropout and the like; afterwards the model is in the mode that it was in."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


def in_full(logits: Tensor) -> Tensor:
    """Logits in 32 bits at least: sums over many of them are never in 16."""
    return logits if logits.dtype == torch.float64 else logits.float()


def share_of_process(rows: Sequence[Row]) -> Sequence[Row]:
    """The rows that are this process's to score, where several train together; all of them where it is alone."""
    if not _has_company():
        return rows
    return rows[torch.distributed.get_rank() :: torch.distributed.get_world_size()]


def sum_over_processes(counts: Sequence[int], device: torch.device) -> list[int]:
    """What the processes have counted together."""
    total = torch.tensor(counts, device=device)
    if _has_company():
        torch.distributed.all_reduce(total)
    return [int(count) for count in total]


def _has_company() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()


class TaskData(ABC):
    """The rows of a task, as the training loop needs them."""

    Settings: ClassVar[type]  # a frozen dataclass, the `data:` section of a preset
    reading_settings: ClassVar[tuple[str, ...]] = ()  # those that say what a row is, wherever a trained model is scored
    folder: Path | None = None  # where they were read from, as an absolute path

    @classmethod
    @abstractmethod
    def load(
        cls,
        folder: Path,
        settings: Any,
        seed: int,
        model: TaskModel | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Read a folder; `seed` decides which rows are held out where the settings ask for that.

        The vocabularies come from the training rows, or from `model` where a trained one is to be scored. There, the
        folder needs no training files, and they are read only where the settings hold some of their rows out.
        """

    @classmethod
    @abstractmethod
    def fingerprint(cls, folder: Path, training: bool = True, testing: bool = True, split: str | None = None) -> str:
        """The hash of a folder's data files, without reading their rows; `training` and `testing` say which files must
        be there. `split` names the one that is meant, where other files split one corpus in several ways.
        """

    @classmethod
    def valid_fingerprint(cls, settings: Any) -> str:
        """The hash of validation files from another folder, where the settings name one; else ""."""
        return ""

    @property
    @abstractmethod
    def train_rows(self) -> int:
        """How many rows there are to train on."""

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Name, fingerprint and settings of the data: what a record says about them."""

    @abstractmethod
    def notes(self) -> list[str]:
        """What a user should know about these data before reading the scores."""

    @abstractmethod
    def new_model(self, settings: Mapping[str, Any]) -> TaskModel:
        """A fresh model for these data from the `model:` section of a preset."""

    @abstractmethod
    def batches(self, rows: Tensor) -> Iterator[Any]:
        """Training rows as batches without padding."""

    def train_sizes(self) -> Tensor:
        """The size of every training row, for `train.batches: words`."""
        raise UserError("train.batches: found 'length' or 'words'; expected 'random': this task has no other batches")

    def train_shapes(self) -> Tensor:
        """A number for every training row, for `train.batches: length`: the same where nothing need be padded."""
        return self.train_sizes()

    @abstractmethod
    def weight(self, rows: Tensor) -> float:
        """What the summed loss of these rows is divided by."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Any, device: torch.device) -> Tensor:
        """The summed loss of a batch."""

    @abstractmethod
    def evaluate(self, model: nn.Module, device: torch.device, progress: Progress | None = None) -> dict[str, float]:
        """The scores, by name."""

    @abstractmethod
    def evaluation_rows(self) -> int:
        """How many rows `evaluate` reports progress on."""

    def evaluate_midway(
        self, model: nn.Module, device: torch.device, progress: Progress | None = None
    ) -> dict[str, float]:
        """The scores to look at while training goes on: all of them, or those that are worth the time."""
        return self.evaluate(model, device, progress)

    def midway_rows(self) -> int:
        """How many rows `evaluate_midway` reports progress on."""
        return self.evaluation_rows()


def encoder_config(settings: Mapping[str, Any], options: type = NoOptions, kinds: Mapping[str, Kind] = KINDS) -> Any:
    """The checked configuration of the encoder that a preset's `model:` section describes."""
    config = _kind(settings.get("kind", DEFAULT_KIND), kinds).config
    others = {"kind"} | (_names(options) - _names(config))  # what both name goes to both
    return from_dict(config, {name: value for name, value in settings.items() if name not in others}, "model")


def model_options(settings: Mapping[str, Any], options: type[Options]) -> Options:
    """The checked options of the model in a preset's `model:` section."""
    return from_dict(options, {name: value for name, value in settings.items() if name in _names(options)}, "model")


def model_settings(
    settings: Mapping[str, Any], options: type = NoOptions, kinds: Mapping[str, Kind] = KINDS
) -> dict[str, Any]:
    """A preset's `model:` section with every default filled in."""
    given = to_dict(model_options(settings, options))
    return {"kind": settings.get("kind", DEFAULT_KIND), **to_dict(encoder_config(settings, options, kinds)), **given}


def build_encoder(settings: Mapping[str, Any], options: type = NoOptions, kinds: Mapping[str, Kind] = KINDS) -> Encoder:
    """The encoder that a preset's `model:` section describes."""
    return _kind(settings.get("kind", DEFAULT_KIND), kinds).encoder(encoder_config(settings, options, kinds))


def _names(options: type) -> set[str]:
    return {field.name for field in fields(options)}


def _kind(name: Any, kinds: Mapping[str, Kind]) -> Kind:
    if not isinstance(name, str) or name not in kinds:
        raise UserError(f"model.kind: found {name!r}; expected one of {', '.join(kinds)}")
    return kinds[name]


class Task(NamedTuple):
    """The two halves of a task."""

    data: type[TaskData]
    model: type[TaskModel]


# File and class of the two halves. Each task is imported when it is first asked for: nobody waits for the others.
TASKS = {
    "clutrr": ("relations.model.RelationData", "relations.model.RelationModel"),
    "cogs": ("graphs.cogs.CogsData", "graphs.cogs.CogsParser"),
    "graphs": ("graphs.data.ParsingData", "graphs.model.GraphParser"),
    "dependency": ("trees.data.TreebankTask", "trees.model.TreeParser"),
    "seq2seq": ("seq2seq.data.Seq2SeqData", "seq2seq.model.Translator"),
}


@cache
def get_task(name: str) -> Task:
    """The task with this name."""
    if name not in TASKS:
        raise UserError(f"unknown task {name!r}; known are {', '.join(TASKS)}")
    data, model = map(_import, TASKS[name])
    return Task(data, model)


def _import(place: str) -> Any:
    file, name = place.rsplit(".", 1)
    return getattr(import_module(f".{file}", __package__), name)


DEV = "dev"


class SplitTaskData(TaskData):
    """`_splits` has the rows to be scored, by the name of their file. Test rows are looked at once."""

    _splits: Mapping[str, Sequence[Any]]

    @abstractmethod
    def _score(self, split: str, model: nn.Module, device: torch.device, progress: Progress | None) -> dict[str, float]:
        """The scores of one file, by name."""

    def evaluation_rows(self) -> int:
        return sum(map(len, self._splits.values()))

    def evaluate(self, model: nn.Module, device: torch.device, progress: Progress | None = None) -> dict[str, float]:
        scores: dict[str, float] = {}
        for split in self._splits:
            scores |= self._score(split, model, device, progress)
        return scores

    def midway_rows(self) -> int:
        return len(self._splits.get(DEV, ()))

    def evaluate_midway(
        self, model: nn.Module, device: torch.device, progress: Progress | None = None
    ) -> dict[str, float]:
        """The scores of dev, where there is one; none where not, as nobody should choose by the scores of test."""
        return self._score(DEV, model, device, progress) if DEV in self._splits else {}
