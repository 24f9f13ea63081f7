"""A model with the record of the run that trained it, and the card that a notebook shows of it."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from ..errors import UserError
from ..io import html
from ..io.records import Record, read_record, shown_scores

RECORD_FILE = "record.json"  # the results of a finished run
_SHAPE = {"layers": "layers", "dim": "wide", "heads": "heads"}


class RecordedModel(nn.Module):
    """A module of a task, with the folder and the record of its run."""

    task: str = ""  # its registered name; training and loading set it if the class does not
    folder: Path | None = None  # where it was trained, or loaded from
    _record: Record | None = None

    @property
    def record(self) -> Record:
        """The record of the run that trained the model: scores, settings, minutes."""
        if not self.has_record:
            raise UserError("this model has no record: its training was stopped, or it was made by hand")
        if self._record is None and self.folder is not None:
            self._record = read_record(self.folder / RECORD_FILE)
        assert self._record is not None
        return self._record

    @record.setter
    def record(self, record: Record | None) -> None:
        self._record = record

    @property
    def has_record(self) -> bool:
        """Whether a run trained the model to its end."""
        return self._record is not None or (self.folder is not None and (self.folder / RECORD_FILE).exists())

    def _repr_html_(self) -> str:
        """The card of the model, for notebooks."""
        name = f" {self.folder.name}" if self.folder else ""
        return html.table(card_rows(self), f"{type(self).__name__}{name}", numbers=False)


def card_rows(model: RecordedModel) -> list[tuple[str, str]]:
    """What a card says of a model: task, kind, size, data and main score."""
    weights = list(model.parameters())
    count, size = sum(map(nn.Parameter.numel, weights)), sum(weight.nbytes for weight in weights)
    rows = [("task", model.task or "none"), ("kind", _kind(model)), ("size", f"{count:,} weights, {_bytes(size)}")]
    try:
        record = model.record if model.has_record else None
    except UserError as error:  # a broken file is no reason to show nothing
        return [*rows, ("record", str(error))]
    if record is None:
        return [*rows, ("data", "no record: its training was stopped, or it was made by hand")]
    trained = record.data.get("train_rows")
    data = f"{record.data_name}, {trained:,} training rows" if isinstance(trained, int) else record.data_name
    scores = record.main_scores() or record.validation_scores()
    listed = ", ".join(f"{name} {shown}" for name, shown in shown_scores(scores))
    return [
        *rows,
        ("data", data),
        ("score", listed or "none"),
        ("trained", f"{record.minutes:.1f} minutes, seed {record.seed}"),
    ]


def _kind(model: RecordedModel) -> str:
    """The kind of the encoder and its shape, as far as the settings of the model tell them."""
    settings = getattr(model, "settings", None)
    settings = settings if isinstance(settings, dict) else {}
    shape = [f"{settings[name]} {word}" for name, word in _SHAPE.items() if name in settings]
    return ", ".join([str(settings.get("kind", "own")), *shape])


def _bytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 1e5 else f"{size / 1e3:,.1f} kB"
