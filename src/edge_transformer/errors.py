"""Errors that a user can act on. The command line prints them without a traceback and exits with code 2."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path


class UserError(ValueError):
    """Something outside the program is not as it must be; the message says what and where."""


class DataError(UserError):
    """A file does not hold what it should: names the file, the line, what was found and what was expected."""

    def __init__(self, path: str | Path, line: int | None, found: str, expected: str) -> None:
        where = f"{path}:{line}" if line is not None else f"{path}"
        super().__init__(f"{where}: found {_shorten(found)}; expected {expected}")
        self.path, self.line, self.found, self.expected = Path(path), line, found, expected


def _shorten(text: str, limit: int = 200) -> str:
    """Keep one broken cell from filling the screen."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


def no_text(path: str | Path, lines_read: int, error: UnicodeDecodeError) -> DataError:
    """What to raise where bytes after so many whole lines are not UTF-8."""
    line = lines_read + 1 + error.object[: error.start].count(b"\n")
    return DataError(path, line, f"bytes that are no text ({error.reason})", "UTF-8")


def no_folder(path: str | Path) -> str:
    """What there is where a folder was expected."""
    return "found a file" if Path(path).exists() else "no such folder"


def suggestion(name: object, known: Iterable[str]) -> str:
    """What to add to an error on an unknown name: the nearest known one, if one is near."""
    near = difflib.get_close_matches(name, sorted(known), n=1) if isinstance(name, str) else []
    return f"; did you mean {near[0]}?" if near else ""
