"""Measurements as plain values in a file."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import DataError, UserError
from ..io.files import write_text
from ..io.settings import from_dict
from .sizes import Size

FORMAT = "edge-transformer bench 1"


@dataclass(frozen=True)
class Measurement:
    """One number, or the reason why there is none."""

    part: str
    case: str
    size: Size
    what: str  # "forward", "forward+backward", ...
    name: str  # of the engine or action
    value: float | None = None  # the median, in seconds or bytes
    unit: str = "s"  # "s" | "bytes"
    low: float | None = None  # quartiles
    high: float | None = None
    rounds: int = 0
    reference: str | None = None  # name of the measurement that `ratio` divides by
    ratio: float | None = None
    aim: float | None = None  # the largest acceptable ratio
    skipped: str | None = None  # why there is no value


@dataclass(frozen=True)
class Bench:
    """All measurements of one run, with its command, machine and settings."""

    command: str
    machine: dict
    settings: dict
    measurements: tuple[Measurement, ...]
    format: str = FORMAT

    def write(self, path: Path) -> None:
        write_text(path, json.dumps(dataclasses.asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> Bench:
        expected = "what `edge-transformer bench --json` writes"
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise DataError(path, None, str(error), expected) from error
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            raise DataError(path, None, "another format", expected)
        try:
            return from_dict(cls, values)
        except UserError as error:
            raise DataError(path, None, str(error), expected) from error

    def of_part(self, part: str) -> Iterator[Measurement]:
        return (measurement for measurement in self.measurements if measurement.part == part)
