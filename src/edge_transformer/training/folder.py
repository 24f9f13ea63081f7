"""The folder of a run: its description, lock, checkpoint and status."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from filelock import BaseFileLock
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ..errors import UserError
from ..io.files import lock, replacing, write_json
from ..io.settings import to_dict
from ..io.streams import read_json
from ..tasks.base import RUN_FILE
from .config import RunConfig
from .presets import SECTIONS

CHECKPOINT_FORMAT = "edge-transformer checkpoint 1"
LOCK_FILE, STATUS_FILE, CHECKPOINT_FILE = "lock", "status.json", "checkpoint.safetensors"


class RunFolder:
    """The folder of a run, which one process at a time may hold."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.checkpoint = self.path / CHECKPOINT_FILE
        self._lock: BaseFileLock | None = None

    def claim(self, mine: SavedRun) -> None:
        """Take an empty folder, or one with the same run; refuse any other."""
        self._lock = lock(self.path / LOCK_FILE)
        if self._lock is None:
            raise UserError(f"{self.path}: another process is training in this folder")
        try:
            self._check(mine)
        except UserError:
            self.release()
            raise

    def _check(self, mine: SavedRun) -> None:
        for left_behind in self.path.glob(".*.tmp"):  # by a process killed while writing
            left_behind.unlink()
        if (self.path / RUN_FILE).exists():
            theirs = SavedRun.read(self.path)
            difference = mine.difference(theirs)
            if difference is not None:
                name, here, there = difference
                raise UserError(
                    f"{self.path}: holds another run; its {name} is {there!r}, "
                    f"this one's is {here!r}. Choose another folder, or delete it"
                )
            if mine.data_folder not in (None, theirs.data_folder):  # the data were moved
                mine.write(self.path)
        elif any(path.name != LOCK_FILE for path in self.path.iterdir()):
            raise UserError(f"{self.path}: not empty and not a run; choose another folder")
        else:
            mine.write(self.path)

    def release(self) -> None:
        """Release the lock, as the end of this process does."""
        if self._lock is not None:
            self._lock.release()

    def write_status(self, step: int, steps: int, minutes: float, history: Sequence[Mapping[str, Any]]) -> None:
        """Write the progress and scores so far, for observers."""
        values = {"step": step, "steps": steps, "minutes": minutes, "history": list(history)}
        write_json(self.path / STATUS_FILE, values)


def save_checkpoint(path: str | Path, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
    """Write a run's tensors and plain values to one file, atomically, with a checksum."""
    kept = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(state)
    metadata = {"format": CHECKPOINT_FORMAT, "state": text, "checksum": _checksum(kept, text)}
    with replacing(path) as aside:
        save_file(kept, aside, metadata)


def load_checkpoint(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read a checkpoint; a damaged or foreign file is refused."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != CHECKPOINT_FORMAT:
                raise UserError(
                    f"{path}: found format {metadata.get('format')!r}; expected {CHECKPOINT_FORMAT!r}: "
                    "this is not a checkpoint of this program"
                )
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error}") from error
    except SafetensorError as error:
        raise UserError(f"{path}: damaged, no whole safetensors file ({error}); delete it to start afresh") from error
    if metadata.get("checksum") != _checksum(tensors, metadata.get("state", "")):
        raise UserError(f"{path}: damaged, its checksum does not match; delete it to start afresh")
    return tensors, json.loads(metadata["state"])


def _checksum(tensors: Mapping[str, Tensor], text: str) -> str:
    checksum = zlib.crc32(text.encode())
    for name in sorted(tensors):
        checksum = zlib.crc32(name.encode(), checksum)
        checksum = zlib.crc32(tensors[name].reshape(-1).view(torch.uint8).numpy().data, checksum)
    return f"{checksum:08x}"


@dataclass(frozen=True)
class SavedRun:
    """The content of run.json: the run, its data, processes and precision."""

    config: RunConfig
    data_identity: dict[str, Any]
    data_folder: Path | None  # of the last start of the run; None if unknown
    processes: int
    precision: str

    @classmethod
    def read(cls, folder: str | Path) -> SavedRun:
        """Read the run.json of a folder."""
        path = Path(folder) / RUN_FILE
        values = read_json(path)
        try:
            sections = {name: dict(values["settings"][name]) for name in SECTIONS}
            config = RunConfig(values["task"], values["preset"], sections, values["overrides"], values["seed"])
            data_folder = Path(values["data_folder"]) if "data_folder" in values else None
            return cls(config, dict(values["data_identity"]), data_folder, values["processes"], values["precision"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UserError(f"{path}: does not describe a run: {error!r}") from error

    def write(self, folder: str | Path) -> None:
        """Write run.json to a folder."""
        values = {**to_dict(self.config), "data_identity": self.data_identity}
        values |= {"data_folder": str(self.data_folder)} if self.data_folder else {}
        write_json(Path(folder) / RUN_FILE, {**values, "processes": self.processes, "precision": self.precision})

    def difference(self, other: SavedRun) -> tuple[str, Any, Any] | None:
        """The first difference between two runs, if any: its name, and both values."""
        mine, theirs = self._what_counts(), other._what_counts()
        for name in {**mine, **theirs}:
            if mine.get(name) != theirs.get(name):
                return name, mine.get(name), theirs.get(name)
        return None

    def _what_counts(self) -> dict[str, Any]:
        """Everything that must agree: not the name and folder of the data, as files may move."""
        config = self.config
        sections = config.settings.items()
        return {
            "task": config.task,
            **{f"{section}.{name}": value for section, values in sections for name, value in values.items()},
            "preset": config.preset,
            "overrides": config.overrides,
            "seed": config.seed,
            "data": self.data_identity.get("fingerprint"),
            "validation data": self.data_identity.get("valid_fingerprint"),
            "processes": self.processes,
            "precision": self.precision,
        }
