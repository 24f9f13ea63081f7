"""Configuration of training, of a whole run, and of its hardware."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..io.process import MAX_THREADS, require_device
from ..io.progress import bar
from ..io.records import canonical_json
from ..io.settings import from_dict, require_choice, require_fraction, require_positive, to_dict
from ..nn.encoder import RECOMPUTE
from ..tasks.base import TaskData, get_task, model_settings
from .presets import SECTIONS, load_preset, override, yaml_value

DEFAULT_PRECISION = "32-true"
MAX_SEED = 2**32 - 1  # PyTorch's generator on the CPU uses no more bits
NO_PRESET = "none"  # the name of a run without a preset
FITTED = "fitted"  # the name of a run whose settings are fitted to its data


@dataclass(frozen=True)
class TrainConfig:
    """The `train:` section of a preset."""

    epochs: int
    batch_size: int
    lr: float
    warmup_steps: int = 0  # the learning rate rises linearly over these steps, then falls linearly to 0
    optimizer: str = "adam"  # "adam" | "adamw"
    weight_decay: float = 0.0
    clip: float = 1.0  # largest norm of the gradient; 0 for no clipping
    average: float = 0.0  # decay of the moving average of the weights that is scored and saved; 0 for no average
    evaluate_every: int = 5  # epochs between scores
    # "random" | "length": rows of similar size, for speed | "words": the same, with batch_size in words
    batches: str = "random"
    steps: int | None = None  # the most training steps, if the epochs have more
    minutes: float | None = None  # the most training time; where it is short, the run has fewer steps
    patience: int | None = None  # scores of the validation rows without a better one before training stops
    keep: str = "last"  # which weights to keep: "last" | "best" on the validation rows

    def __post_init__(self) -> None:
        require_positive(self, "epochs", "batch_size", "evaluate_every")
        require_choice(self, "optimizer", ("adam", "adamw"))
        require_choice(self, "batches", ("random", "length", "words"))
        require_choice(self, "keep", ("last", "best"))
        require_fraction(self, "average")
        for name in ("steps", "patience"):
            if getattr(self, name) is not None:
                require_positive(self, name)
        if self.minutes is not None and self.minutes <= 0:
            raise ValueError(f"minutes must be above 0, but is {self.minutes}")
        for name in ("lr", "warmup_steps", "weight_decay", "clip"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, but is {getattr(self, name)}")


@dataclass(frozen=True)
class RunConfig:
    """One run: a task, its settings and a seed."""

    task: str
    preset: str
    settings: dict[str, Any]  # sections "model", "train" and "data", with overrides and all defaults filled in
    overrides: dict[str, Any]
    seed: int

    @classmethod
    def from_preset(cls, task: str, preset: str, overrides: Mapping[str, Any], seed: int) -> RunConfig:
        """The run of a preset with overrides."""
        values = {"task": task} if preset == NO_PRESET else load_preset(preset)
        return cls.of(task, preset, values, overrides, seed)

    @classmethod
    def of(
        cls, task: str, preset: str, values: Mapping[str, Any], overrides: Mapping[str, Any], seed: int
    ) -> RunConfig:
        """The run of settings in sections, with overrides; `preset` is the name of these settings."""
        if type(seed) is not int or not 0 <= seed <= MAX_SEED:
            raise UserError(f"seed: found {seed!r}; expected a whole number from 0 to {MAX_SEED}")
        settings = override(values, overrides)
        model = settings.get("model") or {}
        if "model.layers" in overrides and "model.min_layers" not in overrides and model.get("min_layers"):
            model["min_layers"] = min(model["min_layers"], model["layers"])  # of a preset with more layers
        if settings.get("task") != task:
            raise UserError(f"preset {preset} is for the task {settings.get('task')!r}, not for {task!r}")
        sections = {name: settings.get(name) or {} for name in SECTIONS}
        # With all defaults written out, a record or an unfinished run shows when a default changes.
        complete = {
            "model": model_settings(sections["model"], get_task(task).model.Options, get_task(task).model.reads),
            "train": to_dict(from_dict(TrainConfig, sections["train"], "train")),
            "data": to_dict(from_dict(get_task(task).data.Settings, sections["data"], "data")),
        }
        return cls(task, preset, complete, dict(overrides), seed)

    @property
    def train(self) -> TrainConfig:
        return from_dict(TrainConfig, self.settings["train"], "train")

    @property
    def data_settings(self) -> Any:
        return from_dict(get_task(self.task).data.Settings, self.settings["data"], "data")

    def recorded_settings(self, precision: str = DEFAULT_PRECISION) -> dict[str, Any]:
        """The settings in the record of this run, which distinguish it from other runs on the same data."""
        return {**self.settings, "precision": precision}

    def load_data(self, folder: str | Path) -> TaskData:
        """Read the data of this run, with a progress bar."""
        folder = Path(folder)
        with bar(f"reading {folder.name}") as reading:
            data = get_task(self.task).data.load(folder, self.data_settings, self.seed, progress=reading.advance)
        data.folder, data.given = folder.absolute(), str(folder)
        return data

    def arguments(self, data: str | Path) -> list[str]:
        """The arguments of `edge-transformer` for this run."""
        changes = [f"{name}={yaml_value(value)}" for name, value in self.overrides.items()]
        sets = [argument for change in changes for argument in ("--set", change)]
        preset = [] if self.preset == FITTED else ["--preset", self.preset]
        return ["train", self.task, "--data", str(data), *preset, *sets, "--seed", str(self.seed)]

    def folder_name(self, data: str | Path) -> str:
        """A name for the run's folder, from its preset, data folder, overrides and seed."""
        parts = [Path(self.preset).with_suffix("").as_posix().strip("./").replace("/", "-"), Path(data).resolve().name]
        if self.overrides:
            parts.append(f"{zlib.crc32(canonical_json(self.overrides).encode()):08x}")
        return "-".join([*parts, f"seed{self.seed}"])


@dataclass(frozen=True)
class Hardware:
    """Device, precision, threads and recomputation of a run."""

    device: str = "auto"  # an accelerator of Lightning Fabric: "cpu", "cuda", "mps", "auto"
    precision: str = DEFAULT_PRECISION  # "32-true" | "64-true" | "bf16-mixed"
    threads: int | None = None
    recompute: str = "nothing"  # what the backward pass recomputes: "nothing" | "hidden" | "layers"

    @classmethod
    def of(cls, **values: Any) -> Hardware:
        """Check the values of a user; errors name the value."""
        return from_dict(cls, values, "hardware")

    def __post_init__(self) -> None:
        require_device(self.device)
        if self.threads is not None:
            require_positive(self, "threads")
            if self.threads > MAX_THREADS:
                raise ValueError(f"threads must be at most {MAX_THREADS}, but is {self.threads}")
        require_choice(self, "recompute", RECOMPUTE)
        require_choice(self, "precision", ("32-true", "64-true", "bf16-mixed"))
