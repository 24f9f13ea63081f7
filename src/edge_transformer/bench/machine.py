"""A description of this machine: versions, cores, GPUs, and which engines run."""

from __future__ import annotations

import dataclasses
import os
import platform
import warnings
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from ..ops.attention import ENGINES, resolve_engine


@dataclass(frozen=True)
class Engine:
    """Whether an engine runs here, and what it is or what is missing."""

    available: bool
    note: str


@dataclass(frozen=True)
class Machine:
    """What the speed of a machine depends on; nothing identifies its owner."""

    package: str
    python: str
    torch: str
    system: str
    processor: str
    cores: int  # usable by this process
    threads: int  # of PyTorch
    gpus: list[str]
    engines: dict[str, Engine]
    auto: dict[str, str | None]  # the engine of engine="auto" by kind of tensor; None if there is no such device

    def to_dict(self) -> dict[str, Any]:
        """The description as plain JSON values."""
        return dataclasses.asdict(self)


def describe() -> Machine:
    """Describe this machine."""
    return Machine(
        package=_version("edge-transformer"),
        python=platform.python_version(),
        torch=torch.__version__,
        system=f"{platform.system()} {platform.machine()}",
        processor=_processor(),
        cores=usable_cores(),
        threads=torch.get_num_threads(),
        gpus=[torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())],
        engines={name: _engine(name) for name in ENGINES},
        auto={
            "CPU float32": _auto(torch.empty(0)),
            "CPU bfloat16": _auto(torch.empty(0, dtype=torch.bfloat16)),
            "CUDA float32": _auto(torch.empty(0, device="cuda")) if torch.cuda.is_available() else None,
        },
    )


def usable_cores() -> int:
    """The number of cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # only on Linux
        return os.cpu_count() or 1


def _engine(name: str) -> Engine:
    reason = ENGINES[name].unavailable()
    return Engine(reason is None, reason or ENGINES[name].describe())


def _auto(like: torch.Tensor) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the note of the engine has the same hint
        return resolve_engine("auto", like).name


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown"


def _processor() -> str:
    """The name of the CPU; only Linux has it in a file."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"
