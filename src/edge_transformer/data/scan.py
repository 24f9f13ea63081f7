"""SCAN in its official files: a line `IN: command OUT: actions` for each pair.

Every split of SCAN is a set of files such as `tasks_train_mcd1.txt` and `tasks_test_mcd1.txt`; some have a `dev` file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ..errors import DataError, UserError
from ..files import fingerprint
from .pairs import Pair, PairData, make_pair, rows_of_file, told

_FILE = re.compile(r"tasks_(train|dev|test)_(\w+)\.txt(?:\.gz)?")
_ORDER = ("train", "dev", "test")
_LINE = "IN: words OUT: words"


def read_scan(folder: str | Path, name: str | None = None, progress: Callable[[int], None] | None = None) -> PairData:
    """Read the split with this name, such as "mcd1"; it may be left out where the folder holds one split only.

    The files for training and testing must be there; one for development may be.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; expected a SCAN folder with tasks_train_NAME.txt")
    found = scan_files(folder)
    if name is None and len(found) != 1:
        raise UserError(f"{folder}: found the splits {', '.join(found) or 'none'}; expected one, or its name")
    name = next(iter(found)) if name is None else name
    files = found.get(name, {})
    for part in ("train", "test"):
        if part not in files:
            others = ", ".join(found) or "none"
            raise UserError(f"{folder}: found the splits {others}; expected tasks_{part}_{name}.txt")
    ordered = {part: files[part] for part in _ORDER if part in files}
    rows = {part: tuple(told(read_scan_file(path), progress)) for part, path in ordered.items()}
    return PairData(f"scan-{name}", fingerprint(ordered.values()), rows)


def scan_files(folder: str | Path) -> dict[str, dict[str, Path]]:
    """The files of a folder by the names of the splits they belong to, and by their parts: train, dev, test."""
    found: dict[str, dict[str, Path]] = {}
    for path in sorted(Path(folder).iterdir()):
        match = _FILE.fullmatch(path.name)
        if match:
            found.setdefault(match[2], {}).setdefault(match[1], path)
    return found


def read_scan_file(path: str | Path) -> Iterator[Pair]:
    """Read one file as its rows are asked for; the first broken line ends the reading with an error."""
    return rows_of_file(path, read_scan_lines, _LINE)


def read_scan_lines(lines: Iterable[str], source: str | Path) -> Iterator[Pair]:
    """Read pairs from lines; blank lines are passed over."""
    name = str(source)
    for number, line in enumerate(lines, start=1):
        words = line.split()
        if not words:
            continue
        if words[0] != "IN:" or words.count("IN:") != 1 or words.count("OUT:") != 1:
            raise DataError(name, number, repr(line.strip()), _LINE)
        middle = words.index("OUT:")
        yield make_pair(words[1:middle], words[middle + 1 :], name, number)
