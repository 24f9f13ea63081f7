"""Splits in CFQ's official form: one JSON object with the row numbers, from 0, of each part.

    {"trainIdxs": [3, 0, 7], "devIdxs": [1], "testIdxs": [2, 5]}

A row is in one part at most. Files may be gzipped (`mcd1.json.gz`).
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..errors import DataError, UserError

SPLITS = ("train", "dev", "test")
MAX_BYTES = 1 << 30  # unpacked
_FORM = "an object with trainIdxs, devIdxs and testIdxs, each a list of row numbers from 0"


def read_split_file(path: str | Path) -> dict[str, list[int]]:
    """The row numbers of `train`, `dev` and `test`, in the order of the file."""
    path = Path(path)
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(path, None, f"a broken archive ({error})", "a gzipped JSON file") from error
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    if len(content) > MAX_BYTES:
        raise DataError(path, None, f"more than {MAX_BYTES} bytes", "a smaller split file")
    try:
        value = json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise DataError(path, None, f"bytes that are no text ({error.reason})", "UTF-8") from error
    except (ValueError, RecursionError) as error:
        line = error.lineno if isinstance(error, json.JSONDecodeError) else None
        raise DataError(path, line, f"no JSON ({error})", _FORM) from error
    return _checked(value, path)


def split_file_text(rows: Mapping[str, Sequence[int]]) -> str:
    """The text of a split file, from row numbers by split."""
    return json.dumps({f"{split}Idxs": [int(row) for row in rows[split]] for split in SPLITS}) + "\n"


def _checked(value: object, path: Path) -> dict[str, list[int]]:
    keys = [f"{split}Idxs" for split in SPLITS]
    if not isinstance(value, dict) or not all(isinstance(value.get(key), list) for key in keys):
        found = f"the keys {', '.join(map(str, value)) or 'none'}" if isinstance(value, dict) else type(value).__name__
        raise DataError(path, None, found, _FORM)
    seen: dict[int, str] = {}
    for key in keys:
        for place, row in enumerate(value[key]):
            if type(row) is not int or row < 0:
                raise DataError(path, None, f"{key}[{place}] = {json.dumps(row)}", "a row number from 0")
            if row in seen:
                raise DataError(path, None, f"row {row} in {seen[row]} and in {key}", "each row once")
            seen[row] = key
    return {split: value[key] for split, key in zip(SPLITS, keys, strict=True)}
