"""Pairs of sequences, the data of translators: two tab-separated columns of words, plain or gzipped."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ...errors import DataError, UserError
from ...io.streams import check_fields, lines_of, open_text, shown_field

MAX_TOKENS = 4096  # of one side
_COLUMNS = "two texts with a tab between them"
_HEADERS = {  # first lines that name the columns
    ("source", "target"),
    ("src", "tgt"),
    ("input", "output"),
    ("in", "out"),
    ("question", "query"),
    ("question", "sparql"),
    ("command", "actions"),
}

Row = TypeVar("Row")
Note = Callable[[str], None]  # receives remarks about the rows


@dataclass(frozen=True, slots=True)
class Pair:
    """A source and a target sequence of words."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    path: str = field(default="pair", compare=False)  # for errors
    line: int | None = field(default=None, compare=False)


def plain_or_gzipped(folder: Path, name: str) -> Path | None:
    """The file `name` or `name.gz` of a folder; None where there is neither."""
    found = [path for path in (folder / name, folder / f"{name}.gz") if path.is_file()]
    if len(found) == 2:
        raise found_twice(*found)
    return found[0] if found else None


def found_twice(one: Path, other: Path) -> UserError:
    """The error for two files of the same rows, of which one may be out of date."""
    return UserError(f"{one.parent}: found {one.name} and {os.path.relpath(other, one.parent)}; expected one of them")


def read_pair_file(path: str | Path, note: Note | None = None) -> Iterator[Pair]:
    """Read a file lazily; a broken line raises an error. `note` receives remarks, such as on a header."""
    return rows_of_file(path, lambda lines, source: read_pair_lines(lines, source, note), _COLUMNS)


def rows_of_file(
    path: str | Path, read_lines: Callable[[Iterable[str], str | Path], Iterator[Pair]], expected: str
) -> Iterator[Pair]:
    """Yield the rows that `read_lines` finds in a file, at least one; errors say what was `expected`."""
    count = 0
    with open_text(path) as file:
        for pair in read_lines(lines_of(file, path), path):
            count += 1
            yield pair
    if not count:
        raise DataError(path, 1, "no rows", f"at least one: {expected}")


def read_pair_lines(lines: Iterable[str], source: str | Path, note: Note | None = None) -> Iterator[Pair]:
    """Read pairs from lines; blank lines and a header such as `source<TAB>target` are skipped."""
    name = str(source)
    for number, line in enumerate(lines, start=1):
        if number == 1 and tuple(cell.strip().lower() for cell in line.split("\t")) in _HEADERS:
            if note:
                note(f"{name}: its first line names the columns and is skipped")
        elif line.strip():
            yield _pair(line, name, number)


def _pair(line: str, name: str, number: int) -> Pair:
    cells = line.rstrip("\r\n").split("\t")
    if len(cells) != 2:
        raise DataError(name, number, f"{len(cells)} columns: {line.rstrip()!r}", _COLUMNS)
    return make_pair(cells[0].split(), cells[1].split(), name, number)


def make_pair(source: Iterable[str], target: Iterable[str], path: str, line: int | None) -> Pair:
    """Make a pair, and check the lengths of its sides."""
    pair = Pair(tuple(source), tuple(target), path, line)
    for side, tokens in (("first", pair.source), ("second", pair.target)):
        if not 0 < len(tokens) <= MAX_TOKENS:
            raise DataError(path, line, f"a {side} text of {len(tokens)} words", f"1 to {MAX_TOKENS}")
    return pair


def pair_from_json(value: Any, source: str) -> Pair:
    """A pair from {"source": ..., "target": ...} or (source, target); each side a text or a list of words."""
    if isinstance(value, list | tuple) and len(value) == 2:
        value = dict(zip(("source", "target"), value, strict=True))
    if not isinstance(value, Mapping):
        raise DataError(source, None, repr(value), 'an object with "source" and "target", or two texts')
    check_fields(value, ("source", "target", "id"), source)
    sides = [value.get(name) for name in ("source", "target")]
    words = [side.split() if isinstance(side, str) else side for side in sides]
    for name, side in zip(("source", "target"), words, strict=True):
        if not isinstance(side, list | tuple) or not all(isinstance(word, str) and word for word in side):
            raise DataError(source, None, shown_field(value, name), f'"{name}": a text, or a list of words')
    return make_pair(words[0] or (), words[1] or (), source, None)
