"""Rows as JSON: a file of lines for each split, or in memory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import DataError, UserError, no_folder
from ..io.streams import counted, open_text, read_json_lines

IN_MEMORY = "rows in memory"  # the name of data without folder


def jsonl_files(folder: str | Path, training: bool = True, testing: bool = True) -> dict[str, Path]:
    """The files of a folder by split: "train", "dev", and the name of each test file, such as "test" or "test-long".

    Training needs train.jsonl; testing needs a test file or, without `training`, dev.jsonl.
    """
    folder = Path(folder)
    names = "train.jsonl, test.jsonl and, if there is one, dev.jsonl"
    if not folder.is_dir():
        raise UserError(f"{folder}: {no_folder(folder)}; expected one with {names}")
    tested = sorted(folder.glob("test*.jsonl"), key=lambda path: path.stem)
    paths = [folder / "train.jsonl", folder / "dev.jsonl", *tested]
    files = {path.stem: path for path in paths if path.is_file()}
    if training and "train" not in files:
        raise UserError(f"{folder}: found no train.jsonl; expected {names}")
    tests = [split for split in files if split.startswith("test")]
    if (training and testing and not tests) or (not training and testing and not {*tests, "dev"} & set(files)):
        raise UserError(f"{folder}: found no test*.jsonl; expected {names}")
    return files


def read_jsonl(path: str | Path, progress: Callable[[int], None] | None = None) -> list[Any]:
    """The values of a file, one a line; `progress` counts them."""
    with open_text(path) as lines:
        values = [value for _, value in counted(read_json_lines(lines, path), progress)]
    if not values:
        raise DataError(path, 1, "no rows", "at least one value a line")
    return values


def numbered(split: str, rows: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Rows in memory, each with its name in errors, such as train[3]."""
    return ((f"{split}[{number}]", row) for number, row in enumerate(rows))


def rows_fingerprint(splits: Mapping[str, Iterable[Any]]) -> str:
    """A short hash of rows in memory, as a run resumes on the same rows only."""
    digest = hashlib.sha256()
    for split, rows in sorted(splits.items()):
        digest.update(f"{split}\n".encode())
        for row in rows:
            try:
                text = json.dumps(row, sort_keys=True, default=_plain)
            except (TypeError, ValueError):  # keys that cannot be sorted, such as the nodes 1 and "Ann", or a loop
                text = ascii(row)
            digest.update(text.encode() + b"\n")
    return digest.hexdigest()[:16]


def _plain(value: Any) -> Any:
    """Arrays as lists, of which the text of an array would leave out the middle."""
    return value.tolist() if hasattr(value, "tolist") else repr(value)
