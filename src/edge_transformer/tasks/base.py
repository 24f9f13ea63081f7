"""Interfaces of a task's data and model, the registry of tasks, and saved models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
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
from ..data.tensors import shuffled_batches
from ..errors import UserError, no_folder, suggestion
from ..io.files import fingerprint, replacing, write_json
from ..io.settings import from_dict, to_dict
from ..io.streams import answered, never, read_json, read_json_lines
from ..nn.encoder import Encoder, find_encoder
from ..nn.trust import is_place, trusting
from .recorded import RECORD_FILE, RecordedModel

Progress = Callable[[int], None]
STREAM_ROWS = 256  # rows of a stream that are answered together
Options = TypeVar("Options")
Row = TypeVar("Row")
DEFAULT_KIND = "edge"


@dataclass(frozen=True)
class NoOptions:
    """No options besides the settings of the encoder."""


class TaskModel(RecordedModel, ABC):
    """A model that predicts, and describes itself in plain JSON.

    A task implements `description`, `from_description` and `predict`; only its own data call `forward`.
    """

    Options: ClassVar[type] = NoOptions  # a frozen dataclass: settings of `model:` besides those of the encoder
    reads: ClassVar[str] = "graphs"  # of `nn.encoder`: which encoders `model.kind` may name

    @abstractmethod
    def description(self) -> dict[str, Any]:
        """Everything but the weights, as plain JSON: model settings and vocabularies."""

    @classmethod
    @abstractmethod
    def from_description(cls, description: Mapping[str, Any]) -> Self:
        """Build the model with fresh weights."""

    @abstractmethod
    def predict(self, inputs: Sequence[Any]) -> list[dict[str, Any]]:
        """Answer rows, in their order."""

    def predict_lines(
        self, lines: Iterable[str], source: str, pausing: Callable[[], bool] = never
    ) -> Iterator[dict[str, Any]]:
        """Answer lines, by default of JSON, as they arrive; errors name the line of `source`."""

        def answer(waiting: list[tuple[int, Any]]) -> list[dict[str, Any]]:
            return self.predict([value for _, value in waiting])

        return answered(read_json_lines(lines, source), answer, lambda _: 1, STREAM_ROWS, pausing)

    def save(self, path: str | Path) -> None:
        """Save the model to a folder: config.json, model.safetensors and its record."""
        folder = Path(path)
        if not self.task:  # it could not be loaded
            raise UserError(f"{folder}: found a {type(self).__name__} of no task; expected its `task` to be set")
        with replacing(folder / WEIGHTS_FILE) as aside:
            save_file({name: tensor.detach().cpu().contiguous() for name, tensor in self.state_dict().items()}, aside)
        if self.has_record:
            write_json(folder / RECORD_FILE, to_dict(self.record))
        # The description comes last: a folder with a config.json is a whole model.
        write_json(folder / CONFIG_FILE, {"format": MODEL_FORMAT, "task": self.task, **self.description()})

    @classmethod
    def load(cls, path: str | Path, trust: str | Iterable[str] = ()) -> Self:
        """Load a model of this class, in eval mode, from a folder or by the name of a bundled one; see `load`.

        >>> from edge_transformer import RelationModel
        >>> model = RelationModel.load("clutrr-small")
        >>> question = {"edges": [["Ann", "son", "Bob"], ["Bob", "sister", "Eve"]], "query": ["Ann", "Eve"]}
        >>> model.predict([question])[0]["answer"]
        'daughter'
        """
        model = load(path, trust)
        if not isinstance(model, cls):
            raise UserError(f"{path}: found a {type(model).__name__}; expected a {cls.__name__}")
        return model


@contextmanager
def answering(model: nn.Module) -> Iterator[None]:
    """Put the model in eval mode for a block, then restore its mode."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


def in_full(logits: Tensor) -> Tensor:
    """Upcast 16-bit logits to float32, for sums over many of them."""
    return logits if logits.dtype == torch.float64 else logits.float()


def share_of_process(rows: Sequence[Row]) -> Sequence[Row]:
    """The rows that this process scores: in distributed training its share, else all of them."""
    if not _is_distributed():
        return rows
    return rows[torch.distributed.get_rank() :: torch.distributed.get_world_size()]


def sum_over_processes(counts: Sequence[int], device: torch.device) -> list[int]:
    """Sum counts over all processes."""
    total = torch.tensor(counts, device=device)
    if _is_distributed():
        torch.distributed.all_reduce(total)
    return [int(count) for count in total]


def _is_distributed() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()


@dataclass(frozen=True)
class DataFacts:
    """What settings are fitted to, where nobody chose any."""

    rows: int  # training rows
    valid_rows: int
    mean_size: float  # nodes of a training row
    longest: int  # edges between the nodes of a question, at the most
    labels: int  # of edges and nodes
    classes: int  # labels to choose from
    most_edges: int = 0  # of a training row
    composes: bool = False  # whether rows are chains whose answers label edges too, so that longer rows can be made
    genders: bool = False  # whether the rows of families say who is male and female
    numbers: bool = False  # whether the answers are numbers


class TaskData(ABC):
    """The rows of a task, as the training loop needs them.

    A task implements `from_rows`, `train_rows`, `new_model`, `batches`, `loss` and `evaluate`. The other methods have
    defaults.
    """

    Settings: ClassVar[type] = NoOptions  # a frozen dataclass, the `data:` section of a preset
    reading_settings: ClassVar[tuple[str, ...]] = ()  # those that also apply when a trained model is scored elsewhere
    scores_need_training: ClassVar[bool] = False  # whether training rows are needed to score others: a graph's facts
    folder: Path | None = None  # absolute path of the files; None for rows in memory
    given: str = ""  # the folder as the user gave it
    about: Mapping[str, Any] = MappingProxyType({})  # name and fingerprint of the rows

    # --- rows ---------------------------------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def from_rows(
        cls, splits: Mapping[str, Sequence[Any]], settings: Any, seed: int, model: TaskModel | None = None
    ) -> Self:
        """Make data from rows in memory by split ("train", "dev", "test"): inputs of `predict`, plus their answers.

        The vocabularies come from the training rows, or from a trained `model` that is to be scored.
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
        """Read the files of a folder, by default JSON lines with one file per split, such as train.jsonl.

        Scoring a trained `model` needs no training files. `seed` chooses held-out rows, if the settings ask for them.
        """
        files = jsonl_files(folder, training=model is None)
        rows = {split: read_jsonl(path, progress) for split, path in files.items() if model is None or split != "train"}
        data = cls.from_rows(rows, settings, seed, model)
        data.about = {"name": Path(folder).resolve().name, "fingerprint": cls.fingerprint(folder, model is None)}
        return data

    @classmethod
    def fingerprint(cls, folder: Path, training: bool = True, testing: bool = True, split: str | None = None) -> str:
        """Hash a folder's data files without reading their rows: a run is resumed only on the same data.

        `training` and `testing` say which files must exist; `split` names one of several splits of a corpus.
        """
        return fingerprint(jsonl_files(folder, training).values())

    @classmethod
    def valid_fingerprint(cls, settings: Any) -> str:
        """Hash the validation files of another folder, if the settings name one; else ""."""
        return ""

    def identity(self) -> dict[str, Any]:
        """What a record says about the data: name, fingerprint, number of training rows."""
        return {**self.about, "train_rows": self.train_rows}

    def notes(self) -> list[str]:
        """Remarks on these data that a user should read before training or scoring."""
        return []

    def facts(self) -> DataFacts | None:
        """What settings are fitted to where no preset is named; None if the task has no such settings."""
        return None

    def with_settings(self, settings: Any, seed: int) -> Self:
        """The same rows under other settings of data, where these were fitted to the rows."""
        return self

    # --- training -----------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def train_rows(self) -> int:
        """The number of training rows."""

    @abstractmethod
    def new_model(self, settings: Mapping[str, Any]) -> TaskModel:
        """Make a fresh model from the `model:` section of a preset."""

    def require_memory(self, settings: Mapping[str, Any]) -> None:  # noqa: B027 - most rows are small
        """Refuse rows on which no such model can be trained or scored, before any time is spent."""

    def shuffled(self, batch_size: int, seed: int, epoch: int) -> list[Tensor]:
        """The row numbers of an epoch in random batches, by seed and epoch alone: a resumed run sees the same ones."""
        return shuffled_batches(self.train_rows, batch_size, seed, epoch)

    @abstractmethod
    def batches(self, rows: Tensor) -> Iterator[Any]:
        """Batches of the training rows with these numbers, preferably without padding; a step adds up their losses."""

    def train_sizes(self) -> Tensor:
        """The size of every training row, for `train.batches: words`."""
        raise UserError("train.batches: found 'length' or 'words'; expected 'random': this task has no other batches")

    def train_shapes(self) -> Tensor:
        """A number for every training row, for `train.batches: length`; equal numbers need no padding."""
        return self.train_sizes()

    def weight(self, rows: Tensor) -> float:
        """The divisor of the summed loss of these rows, by default their number."""
        return float(len(rows))

    @abstractmethod
    def loss(self, model: nn.Module, batch: Any, device: torch.device) -> Tensor:
        """The summed loss of a batch."""

    # --- scores -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def evaluate(self, model: nn.Module, device: torch.device, progress: Progress | None = None) -> dict[str, float]:
        """The scores, by name, on all rows outside the training split."""

    def evaluation_rows(self) -> int:
        """How many rows `evaluate` reports progress on; 0 if it reports none."""
        return 0

    def evaluate_midway(
        self, model: nn.Module, device: torch.device, progress: Progress | None = None
    ) -> dict[str, float]:
        """The scores during training: all, or those worth the time."""
        return self.evaluate(model, device, progress)

    def midway_rows(self) -> int:
        """How many rows `evaluate_midway` reports progress on."""
        return self.evaluation_rows()

    def choice(self, scores: Mapping[str, float]) -> tuple[float, float] | None:
        """The score among those of `evaluate_midway` by which training keeps its best weights, and its error.

        The greater the better. None if there are no validation rows.
        """
        return None

    def calibrate(self, model: TaskModel, device: torch.device) -> None:  # noqa: B027 - optional
        """Fit what is fitted after training, such as the temperature of probabilities, on validation rows."""


def encoder_config(settings: Mapping[str, Any], options: type = NoOptions, reads: str = "graphs") -> Any:
    """The checked configuration of the encoder that a preset's `model:` section describes."""
    config = find_encoder(settings.get("kind", DEFAULT_KIND), reads).config
    others = {"kind"} | (_names(options) - _names(config))  # a shared name goes to both
    return from_dict(config, {name: value for name, value in settings.items() if name not in others}, "model")


def model_options(settings: Mapping[str, Any], options: type[Options]) -> Options:
    """The checked options of the model in a preset's `model:` section."""
    return from_dict(options, {name: value for name, value in settings.items() if name in _names(options)}, "model")


def model_settings(settings: Mapping[str, Any], options: type = NoOptions, reads: str = "graphs") -> dict[str, Any]:
    """The `model:` section of a user's preset with all defaults filled in; a class that it names is imported."""
    given, kind = to_dict(model_options(settings, options)), settings.get("kind", DEFAULT_KIND)
    with _named_by_user(kind):
        return {"kind": kind, **to_dict(encoder_config(settings, options, reads)), **given}


def encoder_fields(model: type[TaskModel], kind: str | None = None) -> set[str]:
    """The names of all settings in the `model:` section of a user's preset; a class as `kind` is imported."""
    with _named_by_user(kind):
        config = find_encoder(kind or DEFAULT_KIND, model.reads).config
    return _names(config) | _names(model.Options) | {"kind"}


def build_encoder(settings: Mapping[str, Any], options: type = NoOptions, reads: str = "graphs") -> Encoder:
    """The encoder that a preset's `model:` section describes."""
    kind = find_encoder(settings.get("kind", DEFAULT_KIND), reads)
    return kind.encoder(encoder_config(settings, options, reads))


def _named_by_user(kind: Any) -> AbstractContextManager[None]:
    """Trust a kind that a user, and not the file of a model, has named."""
    return trusting(kind) if is_place(kind) else nullcontext()


def _names(options: type) -> set[str]:
    return {field.name for field in fields(options)}


class Task(NamedTuple):
    """The data class and the model class of a task."""

    data: type[TaskData]
    model: type[TaskModel]


# The data and model classes as "module:class", imported at first use.
_PLACES = {
    "relations": (".relations.data:RelationData", ".relations.model:RelationModel"),
    "node-labels": (".relations.data:NodeLabelData", ".relations.model:NodeLabelModel"),
    "graph-labels": (".relations.data:GraphLabelData", ".relations.model:GraphLabelModel"),
    "graphs": (".graphs.data:GraphData", ".graphs.model:GraphParser"),
    "trees": (".trees.data:TreeData", ".trees.model:TreeParser"),
    "seq2seq": (".seq2seq.data:Seq2SeqData", ".seq2seq.model:Translator"),
    "links": (".links.data:LinkData", ".links.model:LinkModel"),
}
_TASKS: dict[str, Task] = {}


def register_task(name: str, data: type[TaskData], model: type[TaskModel]) -> None:
    """Register a task by a name, so that it can be trained, saved and loaded like the built-in ones.

    Args:
        name: what `train` and saved models call it.
        data: its subclass of `tasks.base.TaskData`: rows, batches, loss and scores.
        model: its subclass of `tasks.base.TaskModel`, which predicts and describes itself.
    """
    for given, expected in ((data, TaskData), (model, TaskModel)):
        if not isinstance(given, type) or not issubclass(given, expected):
            raise UserError(f"task {name!r}: found {given!r}; expected a subclass of {expected.__name__}")
    if name in _PLACES or _TASKS.get(name, Task(data, model)) != Task(data, model):
        raise UserError(f"there is a task {name!r} already; choose another name")
    _TASKS[name] = Task(data, model)


def require_list(inputs: Any, of: str) -> None:
    """Refuse a single text or object where a list of them is expected: a text would be taken letter by letter."""
    if isinstance(inputs, str | Mapping):
        raise UserError(f"found a single {of}; expected a list of them")


def get_task(name: str) -> Task:
    """The task with this name."""
    if name not in _TASKS:
        if name not in _PLACES:
            known = dict.fromkeys([*_PLACES, *_TASKS])
            raise UserError(f"unknown task {name!r}; known are {', '.join(known)}{suggestion(name, known)}")
        data, model = (getattr(import_module(file, __package__), cls) for file, cls in map(_split_place, _PLACES[name]))
        _TASKS[name] = Task(data, model)
    return _TASKS[name]


def _split_place(place: str) -> tuple[str, str]:
    file, _, name = place.partition(":")
    return file, name


# --- models on disk -------------------------------------------------------------------------------------------------

MODEL_FORMAT = "edge-transformer model 1"
CONFIG_FILE, WEIGHTS_FILE = "config.json", "model.safetensors"
RUN_FILE = "run.json"  # what to run, written when a run starts
BUNDLED = Path(__file__).parent / "bundled"  # bundled models, one folder each
CARD_FILE = "MODEL_CARD.md"  # what a bundled model is for, its data and licence, its scores and limits


def load(path: str | Path, trust: str | Iterable[str] = ()) -> TaskModel:
    """Load a model, in eval mode, from a folder or by the name of a bundled one.

    Args:
        path: the folder of a run, or one that `save` wrote; or the name of a bundled model, such as "clutrr-small".
            A folder goes before a bundled model of the same name.
        trust: encoders outside of the library that may be imported if the model names them, each as
            "package.module:Class". Without it, loading a model runs no code but the library's.
    """
    folder = Path(path)
    if not folder.is_dir():
        if str(path) not in bundled_models():
            raise UserError(
                f"{folder}: {no_folder(folder)}; expected a folder with {CONFIG_FILE} and {WEIGHTS_FILE}, "
                f"or one of {', '.join(bundled_models())}{suggestion(path, bundled_models())}"
            )
        folder = BUNDLED / str(path)
    if not (folder / CONFIG_FILE).exists():
        found = f"{folder}: found no {CONFIG_FILE}"
        if (folder / RUN_FILE).exists():
            raise UserError(f"{found}: its training has not finished; the command that started it resumes it")
        raise UserError(f"{found}; expected the folder of a trained model")
    config = read_json(folder / CONFIG_FILE)
    if config.get("format") != MODEL_FORMAT:
        raise UserError(f"{folder / CONFIG_FILE}: found format {config.get('format')!r}; expected {MODEL_FORMAT!r}")
    name = str(config.get("task"))
    task = get_task(name)
    with trusting(trust):
        try:
            model = task.model.from_description(config)
        except UserError as error:
            raise UserError(f"{folder / CONFIG_FILE}: {error}") from error
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
    """The names of the bundled models. `load` prefers a folder of the same name."""
    return sorted(config.parent.name for config in BUNDLED.glob(f"*/{CONFIG_FILE}"))


def model_card(name: str) -> str:
    """The model card of a bundled model, in Markdown."""
    if name not in bundled_models():
        raise UserError(f"{name}: no bundled model; expected one of {', '.join(bundled_models())}")
    return (BUNDLED / name / CARD_FILE).read_text(encoding="utf-8")
