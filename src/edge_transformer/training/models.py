"""Saving and loading: finished models (config.json + model.safetensors) and checkpoints of running ones."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from ..errors import UserError
from ..io.files import replacing, write_text
from ..tasks.base import Task, TaskModel, get_task

MODEL_FORMAT = "edge-transformer model 1"
CHECKPOINT_FORMAT = "edge-transformer checkpoint 1"
CONFIG_FILE, WEIGHTS_FILE = "config.json", "model.safetensors"
RUN_FILE = "run.json"  # in a run's folder from its first moment on: what is to be done
BUNDLED = Path(__file__).parent / "bundled"  # trained models that come with the package, one folder each


def save_model(model: TaskModel, task: str, folder: str | Path) -> None:
    """Save a model so that `load` gives it back: config.json and model.safetensors."""
    folder = Path(folder)
    with replacing(folder / WEIGHTS_FILE) as aside:
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}, aside)
    # The description comes last: a folder with a config.json is a whole model.
    write_json(folder / CONFIG_FILE, {"format": MODEL_FORMAT, "task": task, **model.description()})


def load(path: str | Path) -> TaskModel:
    """Load a saved model, or one that comes with the package, ready to predict.

    >>> model = load("clutrr-small")
    >>> question = {"edges": [["Ann", "son", "Bob"], ["Bob", "sister", "Eve"]], "query": ["Ann", "Eve"]}
    >>> model.predict([question])[0]["answer"]
    'daughter'
    """
    return load_with_task(path)[0]


def load_with_task(path: str | Path) -> tuple[TaskModel, Task]:
    """Load a saved model together with the task that it was trained for."""
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
    task = get_task(str(config.get("task")))
    try:
        model = task.model.from_description(config)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{folder / CONFIG_FILE}: does not describe a model: {error!r}") from error
    try:
        model.load_state_dict(load_file(folder / WEIGHTS_FILE))
    except (OSError, SafetensorError, RuntimeError) as error:
        message = " ".join(str(error).split())
        raise UserError(f"{folder / WEIGHTS_FILE}: not the weights that {CONFIG_FILE} describes: {message}") from error
    return model.eval(), task


def bundled_models() -> list[str]:
    """The names of the models that come with the package. A folder of the same name goes before them."""
    return sorted(config.parent.name for config in BUNDLED.glob(f"*/{CONFIG_FILE}"))


def write_json(path: str | Path, value: Any) -> None:
    """Write a JSON file, atomically."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def read_json(path: str | Path) -> dict[str, Any]:
    """Read a JSON file that holds an object."""
    try:
        value = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: damaged, not JSON: {error}") from error
    if not isinstance(value, dict):
        raise UserError(f"{path}: found {type(value).__name__}; expected an object")
    return value


def save_checkpoint(path: str | Path, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
    """Write all of a run's tensors and plain values into one file, atomically, with a checksum."""
    kept = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(state)
    metadata = {"format": CHECKPOINT_FORMAT, "state": text, "checksum": _checksum(kept, text)}
    with replacing(path) as aside:
        save_file(kept, aside, metadata)


def load_checkpoint(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read a checkpoint back; a damaged or foreign file is refused."""
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
