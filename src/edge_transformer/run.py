"""What is to be run: the settings of training, a whole run, and the hardware it is computed on."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .config import from_dict, require_choice, require_fraction, require_positive
from .errors import UserError
from .presets import SECTIONS, load_preset, override, yaml_value
from .progress import bar
from .records import canonical_json
from .tasks import get_task
from .tasks.base import TaskData, encoder_config

DEFAULT_PRECISION = "32-true"


@dataclass(frozen=True)
class TrainConfig:
    """How a model is trained: the `train:` section of a preset."""

    epochs: int
    batch_size: int
    lr: float
    warmup_steps: int = 0  # the learning rate rises linearly this long, then falls linearly to 0
    optimizer: str = "adam"  # "adam" | "adamw"
    weight_decay: float = 0.0
    clip: float = 1.0  # largest norm of the gradient; 0 for none
    average: float = 0.0  # decay of a moving average of the weights, which is then what is scored and saved; 0 for none
    evaluate_every: int = 5  # epochs

    def __post_init__(self) -> None:
        require_positive(self, "epochs", "batch_size", "evaluate_every")
        require_choice(self, "optimizer", ("adam", "adamw"))
        require_fraction(self, "average")
        for name in ("lr", "warmup_steps", "weight_decay", "clip"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, but is {getattr(self, name)}")


@dataclass(frozen=True)
class RunConfig:
    """One run: a task, its settings and a seed."""

    task: str
    preset: str
    settings: dict[str, Any]  # the preset's sections "model", "train" and "data", overrides applied
    overrides: dict[str, Any]
    seed: int

    @classmethod
    def from_preset(cls, task: str, preset: str, overrides: Mapping[str, Any], seed: int) -> RunConfig:
        """The run that a preset with some settings overridden describes."""
        settings = override(load_preset(preset), overrides)
        if settings.get("task") != task:
            raise UserError(f"preset {preset} is for the task {settings.get('task')!r}, not for {task!r}")
        sections = {name: settings.get(name) or {} for name in SECTIONS}
        run = cls(task, preset, sections, dict(overrides), seed)
        _ = run.train, run.data_settings, encoder_config(sections["model"])  # refuse nonsense before data are read
        return run

    @property
    def train(self) -> TrainConfig:
        return from_dict(TrainConfig, self.settings["train"], "train")

    @property
    def data_settings(self) -> Any:
        return from_dict(get_task(self.task).data.Settings, self.settings["data"], "data")

    def load_data(self, folder: str | Path) -> TaskData:
        """Read the data of this run, with a progress bar."""
        with bar(f"reading {Path(folder).name}") as reading:
            return get_task(self.task).data.load(Path(folder), self.data_settings, self.seed, progress=reading.advance)

    def arguments(self, data: str | Path) -> list[str]:
        """The arguments of `edge-transformer` that do this run."""
        changes = [f"{name}={yaml_value(value)}" for name, value in self.overrides.items()]
        sets = [argument for change in changes for argument in ("--set", change)]
        return ["train", self.task, "--data", str(data), "--preset", self.preset, *sets, "--seed", str(self.seed)]

    def folder_name(self, data: str | Path) -> str:
        """A name for the run's folder, different for other settings, seeds and names of data folders."""
        parts = [Path(self.preset).with_suffix("").as_posix().strip("./").replace("/", "-"), Path(data).resolve().name]
        if self.overrides:
            parts.append(f"{zlib.crc32(canonical_json(self.overrides).encode()):08x}")
        return "-".join([*parts, f"seed{self.seed}"])


@dataclass(frozen=True)
class Hardware:
    """Where and how exactly a run is computed."""

    device: str = "auto"  # anything Lightning Fabric knows as an accelerator: "cpu", "cuda", "mps", "auto"
    precision: str = DEFAULT_PRECISION  # "32-true" | "64-true" | "bf16-mixed"
    threads: int | None = None

    def __post_init__(self) -> None:
        require_choice(self, "precision", ("32-true", "64-true", "bf16-mixed"))
