"""SCAN in its official files: one line `IN: command OUT: actions` a pair.

A split is a set of files such as `tasks_train_mcd1.txt` and `tasks_test_mcd1.txt`; some have a `dev` file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from ...errors import DataError
from .rows import Pair, found_twice, make_pair, rows_of_file

_FILE = re.compile(r"tasks_(train|dev|test)_(\w+)\.txt(?:\.gz)?")
_LINE = "IN: words OUT: words"


def scan_files(folder: str | Path) -> dict[str, dict[str, Path]]:
    """The files of a folder by split, such as mcd1, and by part: train, dev, test."""
    found: dict[str, dict[str, Path]] = {}
    for path in sorted(Path(folder).iterdir()):
        match = _FILE.fullmatch(path.name)
        if match:
            first = found.setdefault(match[2], {}).setdefault(match[1], path)
            if first != path:
                raise found_twice(first, path)
    return found


def read_scan_file(path: str | Path) -> Iterator[Pair]:
    """Read a file lazily; a broken line raises an error."""
    return rows_of_file(path, read_scan_lines, _LINE)


def read_scan_lines(lines: Iterable[str], source: str | Path) -> Iterator[Pair]:
    """Read pairs from lines; blank lines are skipped."""
    name = str(source)
    for number, line in enumerate(lines, start=1):
        words = line.split()
        if not words:
            continue
        if words[0] != "IN:" or words.count("IN:") != 1 or words.count("OUT:") != 1:
            raise DataError(name, number, repr(line.strip()), _LINE)
        middle = words.index("OUT:")
        yield make_pair(words[1:middle], words[middle + 1 :], name, number)
