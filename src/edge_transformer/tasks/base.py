"""What a task gives to the training loop: its data and its model. The registry of tasks, and models on disk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from ..data.jsonl import jsonl_files, read_jsonl
from ..errors import UserError
from ..io.files import fingerprint, replacing, write_json
from ..io.records import Record, read_record
from ..io.settings import from_dict, to_dict
from ..io.streams import answered, never, read_json, read_json_lines
from ..nn.encoder import Encoder
from ..nn.registry import find_encoder

Progress = Callable[[int], None]
STREAM_ROWS = 256  # rows collected from a stream before they are answered
Options = TypeVar("Options")
Row = TypeVar("Row")
DEFAULT_KIND = "edge"


@dataclass(frozen=True)
class NoOptions:
    """The options of a model that has none besides the settings of its encoder."""


class TaskModel(nn.Module, ABC):
    """A model that predicts, and can say in plain JSON how it is rebuilt.

    A task must write `description`, `from_description` and `predict`; `forward` is between it and its data.
    """

    # A frozen dataclass: settings in the `model:` section of a preset that are not those of the encoder.
    Options: ClassVar[type] = NoOptions
    reads: ClassVar[str] = "graphs"  # of `nn.registry`: which encoders `model.kind` may name
    task: str = ""  # the name it is registered by; training and loading set it where the class does not
    folder: Path | None = None  # where it was loaded from, or trained
    _record: Record | None = None

    @property
    def record(self) -> Record | None:
        """The record of the run that trained the model: scores, settings, minutes. None where there is none."""
        if self._record is None and self.folder is not None and (self.folder / RECORD_FILE).exists():
            self._record = read_record(self.folder / RECORD_FILE)
        return self._record

    @record.setter
    def record(self, record: Record | None) -> None:
        self._record = record

    @abstractmethod
    def description(self) -> dict[str, Any]:
        """Everything but the weights, as plain JSON: model settings and vocabularies. Saving writes it down."""

    @classmethod
    @abstractmethod
    def from_description(cls, description: Mapping[str, Any]) -> Self:
        """The model with fresh weights. Loading builds it so, and then reads the weights."""

    @abstractmethod
    def predict(self, inputs: Sequence[Any]) -> list[dict[str, Any]]:
        """Answers for rows without their answers, in their order."""

    def predict_lines(
        self, lines: Iterable[str], source: str, pausing: Callable[[], bool] = never
    ) -> Iterator[dict[str, Any]]:
        """Answers for lines of text as they arrive; errors name the line of `source`. Here, lines of JSON."""

        def answer(waiting: list[tuple[int, Any]]) -> list[dict[str, Any]]:
            return self.predict([value for _, value in waiting])

        return answered(read_json_lines(lines, source), answer, lambda _: 1, STREAM_ROWS, pausing)

    def save(self, path: str | Path) -> None:
        """Save the model to a folder, so that `load` gives it back: config.json, model.safetensors and its record."""
        folder = Path(path)
        if not self.task:  # nobody could load it
            raise UserError(f"{folder}: found a {type(self).__name__} of no task; expected its `task` to be set")
        with replacing(folder / WEIGHTS_FILE) as aside:
            save_file({name: tensor.detach().cpu().contiguous() for name, tensor in self.state_dict().items()}, aside)
        if self.record is not None:
            write_json(folder / RECORD_FILE, to_dict(self.record))
        # The description comes last: a folder with a config.json is a whole model.
        write_json(folder / CONFIG_FILE, {"format": MODEL_FORMAT, "task": self.task, **self.description()})

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Load a model of this class from a folder, or one that comes with the package by its name, ready to predict.

        >>> from edge_transformer import RelationModel
        >>> model = RelationModel.load("clutrr-small")
        >>> question = {"edges": [["Ann", "son", "Bob"], ["Bob", "sister", "Eve"]], "query": ["Ann", "Eve"]}
        >>> model.predict([question])[0]["answer"]
        'daughter'
        """
        model = load(path)
        if not isinstance(model, cls):
            raise UserError(f"{path}: found a {type(model).__name__}; expected a {cls.__name__}")
        return model


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
    """The rows of a task, as the training loop needs them.

    A task must write `from_rows`, `train_rows`, `new_model`, `batches`, `loss` and `evaluate`. The rest has an answer
    here, which tasks with files of their own formats, or more to tell, replace.
    """

    Settings: ClassVar[type] = NoOptions  # a frozen dataclass, the `data:` section of a preset
    reading_settings: ClassVar[tuple[str, ...]] = ()  # those that say what a row is, wherever a trained model is scored
    folder: Path | None = None  # where the rows were read from, as an absolute path; None for rows in memory
    given: str = ""  # the same as it was given
    about: Mapping[str, Any] = MappingProxyType({})  # name and fingerprint of the rows, set by who reads them

    # --- rows ---------------------------------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def from_rows(
        cls, splits: Mapping[str, Sequence[Any]], settings: Any, seed: int, model: TaskModel | None = None
    ) -> Self:
        """Data from rows in memory, as `predict` takes them plus their answers, by split: "train", "dev", "test".

        The vocabularies come from the training rows, or from `model` where a trained one is to be scored.
        """

    @classmethod
    def load(
        cls,
        folder: Path,
        settings: Any,
        seed: int,
        model: TaskModel | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Data from the files of a folder: here, from JSON lines, one file a split, such as train.jsonl.

        Where a trained model is to be scored, the folder needs no training files. `seed` decides which rows are held
        out, where the settings ask for that.
        """
        files = jsonl_files(folder, training=model is None)
        rows = {split: read_jsonl(path, progress) for split, path in files.items() if model is None or split != "train"}
        data = cls.from_rows(rows, settings, seed, model)
        data.about = {"name": Path(folder).resolve().name, "fingerprint": cls.fingerprint(folder, model is None)}
        return data

    @classmethod
    def fingerprint(cls, folder: Path, training: bool = True, testing: bool = True, split: str | None = None) -> str:
        """The hash of a folder's data files, without reading their rows: a run is resumed only on the same data.

        `training` and `testing` say which files must be there; `split` names the one that is meant, where other files
        split one corpus in several ways.
        """
        return fingerprint(jsonl_files(folder, training).values())

    @classmethod
    def valid_fingerprint(cls, settings: Any) -> str:
        """The hash of validation files from another folder, where the settings name one; else ""."""
        return ""

    def identity(self) -> dict[str, Any]:
        """What a record says about the data: their name, their fingerprint, and how many rows are trained on."""
        return {**self.about, "train_rows": self.train_rows}

    def notes(self) -> list[str]:
        """What a user should know about these data before training, or before reading the scores."""
        return []

    # --- training -----------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def train_rows(self) -> int:
        """How many rows there are to train on: the loop counts its steps by it."""

    @abstractmethod
    def new_model(self, settings: Mapping[str, Any]) -> TaskModel:
        """A fresh model for these data from the `model:` section of a preset."""

    @abstractmethod
    def batches(self, rows: Tensor) -> Iterator[Any]:
        """The training rows with these numbers as batches, if possible without padding: a step adds up their losses."""

    def train_sizes(self) -> Tensor:
        """The size of every training row, for `train.batches: words`."""
        raise UserError("train.batches: found 'length' or 'words'; expected 'random': this task has no other batches")

    def train_shapes(self) -> Tensor:
        """A number for every training row, for `train.batches: length`: the same where nothing need be padded."""
        return self.train_sizes()

    def weight(self, rows: Tensor) -> float:
        """What the summed loss of these rows is divided by: here, how many they are."""
        return float(len(rows))

    @abstractmethod
    def loss(self, model: nn.Module, batch: Any, device: torch.device) -> Tensor:
        """The summed loss of a batch."""

    # --- scores -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def evaluate(self, model: nn.Module, device: torch.device, progress: Progress | None = None) -> dict[str, float]:
        """The scores, by name, on all rows that are not trained on."""

    def evaluation_rows(self) -> int:
        """How many rows `evaluate` reports progress on; 0 where it reports none."""
        return 0

    def evaluate_midway(
        self, model: nn.Module, device: torch.device, progress: Progress | None = None
    ) -> dict[str, float]:
        """The scores to look at while training goes on: all of them, or those that are worth the time."""
        return self.evaluate(model, device, progress)

    def midway_rows(self) -> int:
        """How many rows `evaluate_midway` reports progress on."""
        return self.evaluation_rows()


def encoder_config(settings: Mapping[str, Any], options: type = NoOptions, reads: str = "graphs") -> Any:
    """The checked configuration of the encoder that a preset's `model:` section describes."""
    config = find_encoder(settings.get("kind", DEFAULT_KIND), reads).config
    others = {"kind"} | (_names(options) - _names(config))  # what both name goes to both
    return from_dict(config, {name: value for name, value in settings.items() if name not in others}, "model")


def model_options(settings: Mapping[str, Any], options: type[Options]) -> Options:
    """The checked options of the model in a preset's `model:` section."""
    return from_dict(options, {name: value for name, value in settings.items() if name in _names(options)}, "model")


def model_settings(settings: Mapping[str, Any], options: type = NoOptions, reads: str = "graphs") -> dict[str, Any]:
    """A preset's `model:` section with every default filled in."""
    given = to_dict(model_options(settings, options))
    return {"kind": settings.get("kind", DEFAULT_KIND), **to_dict(encoder_config(settings, options, reads)), **given}


def encoder_fields(model: type[TaskModel], kind: str | None = None) -> set[str]:
    """The names of all settings that the `model:` section of a preset may have."""
    config = find_encoder(kind or DEFAULT_KIND, model.reads).config
    return _names(config) | _names(model.Options) | {"kind"}


def build_encoder(settings: Mapping[str, Any], options: type = NoOptions, reads: str = "graphs") -> Encoder:
    """The encoder that a preset's `model:` section describes."""
    kind = find_encoder(settings.get("kind", DEFAULT_KIND), reads)
    return kind.encoder(encoder_config(settings, options, reads))


def _names(options: type) -> set[str]:
    return {field.name for field in fields(options)}


class Task(NamedTuple):
    """The two halves of a task."""

    data: type[TaskData]
    model: type[TaskModel]


# Where the two halves of a task are, as "module:class": a task is imported when it is first asked for.
_PLACES = {
    "relations": (".relations.data:RelationData", ".relations.model:RelationModel"),
    "graphs": (".graphs.data:GraphData", ".graphs.model:GraphParser"),
    "trees": (".trees.data:TreeData", ".trees.model:TreeParser"),
    "seq2seq": (".seq2seq.data:Seq2SeqData", ".seq2seq.model:Translator"),
}
_TASKS: dict[str, Task] = {}


def register_task(name: str, data: type[TaskData], model: type[TaskModel]) -> None:
    """Make a task known by a name, so that it can be trained, saved and loaded like those of the package."""
    if name in _PLACES or _TASKS.get(name, Task(data, model)) != Task(data, model):
        raise ValueError(f"there is a task {name!r} already; choose another name")
    _TASKS[name] = Task(data, model)


def get_task(name: str) -> Task:
    """The task with this name."""
    if name not in _TASKS:
        if name not in _PLACES:
            raise UserError(f"unknown task {name!r}; known are {', '.join([*_PLACES, *_TASKS])}")
        data, model = (getattr(import_module(file, __package__), cls) for file, cls in map(_split_place, _PLACES[name]))
        _TASKS[name] = Task(data, model)
    return _TASKS[name]


def _split_place(place: str) -> tuple[str, str]:
    file, _, name = place.partition(":")
    return file, name


# --- models on disk -------------------------------------------------------------------------------------------------

MODEL_FORMAT = "edge-transformer model 1"
CONFIG_FILE, WEIGHTS_FILE = "config.json", "model.safetensors"
RUN_FILE = "run.json"  # in a run's folder from its first moment on: what is to be done
RECORD_FILE = "record.json"  # what came out of the run that trained the model
BUNDLED = Path(__file__).parent / "bundled"  # trained models that come with the package, one folder each


def load(path: str | Path) -> TaskModel:
    """Load a saved model, or one that comes with the package by its name, ready to predict."""
    folder = Path(path)
    if not folder.is_dir():
        if str(path) not in bundled_models():
            raise UserError(
                f"{folder}: no such folder; expected a saved model with {CONFIG_FILE} and {WEIGHTS_FILE}, "
                f"or one of {', '.join(bundled_models())}"
            )
        folder = BUNDLED / str(path)
    if not (folder / CONFIG_FILE).exists():
        found = f"{folder}: found no {CONFIG_FILE}"
        if (folder / RUN_FILE).exists():
            raise UserError(f"{found}: its training has not finished; the command that started it goes on with it")
        raise UserError(f"{found}; expected the folder of a trained model")
    config = read_json(folder / CONFIG_FILE)
    if config.get("format") != MODEL_FORMAT:
        raise UserError(f"{folder / CONFIG_FILE}: found format {config.get('format')!r}; expected {MODEL_FORMAT!r}")
    name = str(config.get("task"))
    task = get_task(name)
    try:
        model = task.model.from_description(config)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{folder / CONFIG_FILE}: does not describe a model: {error!r}") from error
    try:
        model.load_state_dict(load_file(folder / WEIGHTS_FILE))
    except (OSError, SafetensorError, RuntimeError) as error:
        message = " ".join(str(error).split())
        raise UserError(f"{folder / WEIGHTS_FILE}: not the weights that {CONFIG_FILE} describes: {message}") from error
    model.task, model.folder = name, folder
    return model.eval()


def bundled_models() -> list[str]:
    """The names of the models that come with the package. A folder of the same name goes before them."""
    return sorted(config.parent.name for config in BUNDLED.glob(f"*/{CONFIG_FILE}"))


# --- tasks with splits ----------------------------------------------------------------------------------------------

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
