"""Folders of generated stories that say how they were made, so that they can be made where they are missing.

The description lies beside the stories, in `generated.json`. The same description gives the same bytes everywhere.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from ...errors import UserError
from ...io.files import fingerprint, write_text
from .clutrr import SPLIT_PATTERNS, write_clutrr
from .kinship import generate, generate_valid

DESCRIPTION_FILE = "generated.json"
Progress = Callable[[int], None]


@dataclass(frozen=True)
class GeneratedData:
    """A folder of generated family stories: an entry under `generate:` in experiment and sweep files."""

    out: str  # the folder, seen from where the command runs
    train_k: tuple[int, ...] = (2, 3, 4)
    test_k: tuple[int, ...] = (2, 3, 4, 5, 6, 7, 8, 9, 10)
    valid_k: tuple[int, ...] = ()
    rows: int = 15_000
    test_rows: int = 100  # of each length
    valid_rows: int = 100  # likewise
    seed: int = 1
    kind: Literal["clutrr"] = "clutrr"

    @property
    def test_stories(self) -> int:
        return self.test_rows * len(set(self.test_k))

    @property
    def valid_stories(self) -> int:
        return self.valid_rows * len(set(self.valid_k))

    @property
    def stories(self) -> int:
        """How many stories there are in all."""
        return self.rows + self.test_stories + self.valid_stories

    def write(self, progress: Progress | None = None) -> list[Path]:
        """Generate the stories and write them, with the description last; the files of the stories."""
        return self._write(Path(self.out), progress)

    def ensure(self, progress: Progress | None = None) -> bool:
        """Make the folder where it is missing; True where it was. Refuses one that holds anything else."""
        folder = Path(self.out)
        if folder.is_dir() and any(folder.iterdir()):
            self._check(folder)
            return False
        # Aside, then renamed: a folder that is there is whole.
        aside = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
        try:
            self._write(aside, progress)
            os.replace(aside, folder)
        except OSError:
            if not folder.is_dir() or not any(folder.iterdir()):
                raise
            self._check(folder)  # another process was faster
            return False
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        return True

    def _write(self, folder: Path, progress: Progress | None) -> list[Path]:
        train, tests = generate(
            self.train_k, self.test_k, self.rows, self.seed, test_rows=self.test_rows, progress=progress
        )
        valid = {}
        if self.valid_k:
            known = [*train, *(story for stories in tests.values() for story in stories)]
            valid = generate_valid(self.valid_k, self.valid_rows, self.seed, unlike=known, progress=progress)
        files = write_clutrr(folder, train, tests, valid)
        description = {**self._description(), "fingerprint": fingerprint(_stories(folder))}
        write_text(folder / DESCRIPTION_FILE, json.dumps(description, indent=2) + "\n")
        return files

    def _description(self) -> dict[str, Any]:
        """Everything but the place, as JSON has it."""
        return json.loads(json.dumps({name: value for name, value in asdict(self).items() if name != "out"}))

    def _check(self, folder: Path) -> None:
        try:
            found = json.loads((folder / DESCRIPTION_FILE).read_text(encoding="utf-8"))
            if not isinstance(found, dict):
                raise ValueError
        except (OSError, ValueError):
            raise UserError(
                f"{folder}: holds no readable {DESCRIPTION_FILE}; expected a folder of generated stories, or none. "
                "Choose another `out`, or delete the folder"
            ) from None
        for name, value in self._description().items():
            if found.get(name) != value:
                raise UserError(
                    f"{folder}: holds other stories; their {name} is {found.get(name)!r}, asked for is {value!r}. "
                    "Choose another `out`, or delete the folder"
                )
        if found.get("fingerprint") != fingerprint(_stories(folder)):
            raise UserError(f"{folder}: its files have changed since they were generated; delete the folder")


def _stories(folder: Path) -> list[Path]:
    return sorted({path for pattern in SPLIT_PATTERNS.values() for path in folder.glob(f"*{pattern}.csv")})
