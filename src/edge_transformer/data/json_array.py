"""Read a JSON array one value at a time, in the memory of its largest value."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from ..errors import DataError

CHUNK = 1 << 20  # characters
MAX_VALUE = 1 << 26  # characters of one value

_BLANK = " \t\r\n"
_OF_NUMBERS = "0123456789+-.eE"


class _Text:
    """A window on the text of a file that counts lines."""

    def __init__(self, file: IO[str], path: str | Path) -> None:
        self._file, self._path = file, path
        self.text, self.at, self.ended = "", 0, False
        self._lines, self._counted = 1, 0  # the line at this place of the window

    @property
    def line(self) -> int:
        self._lines += self.text.count("\n", self._counted, self.at)
        self._counted = self.at
        return self._lines

    def more(self) -> None:
        """Drop what was parsed, and read as much as the window still holds, to read long values in few steps."""
        line, rest = self.line, self.text[self.at :]
        try:
            chunk = self._file.read(max(CHUNK, len(rest)))
        except UnicodeDecodeError as error:
            raise DataError(self._path, line, f"bytes that are no text ({error.reason})", "UTF-8") from error
        self.text, self.at, self._counted, self.ended = rest + chunk, 0, 0, not chunk

    def peek(self) -> str:
        """The next non-blank character; empty at the end."""
        while True:
            while self.at < len(self.text) and self.text[self.at] in _BLANK:
                self.at += 1
            if self.at < len(self.text) or self.ended:
                return self.text[self.at : self.at + 1]
            self.more()

    def found(self) -> str:
        return repr(self.text[self.at : self.at + 50]) if self.peek() else "the end of the file"


def read_json_array(file: IO[str], path: str | Path) -> Iterator[tuple[int, Any]]:
    """Yield (line number, value) for each value of the array in a file."""
    text = _Text(file, path)
    decoder = json.JSONDecoder()
    if text.peek() != "[":
        raise DataError(path, text.line, text.found(), "a JSON array")
    text.at += 1
    if text.peek() == "]":
        text.at += 1
    else:
        while True:
            text.peek()
            yield text.line, _value(decoder, text, path)
            mark = text.peek()
            if mark not in (",", "]") or not mark:
                raise DataError(path, text.line, text.found(), "a comma or the end of the JSON array")
            text.at += 1
            if mark == "]":
                break
    if text.peek():
        raise DataError(path, text.line, text.found(), "nothing after the end of the JSON array")


def _value(decoder: json.JSONDecoder, text: _Text, path: str | Path) -> Any:
    while True:
        try:
            value, end = decoder.raw_decode(text.text, text.at)
        except (ValueError, RecursionError) as error:
            left = len(text.text) - text.at
            # A value cut off by the end of the window looks broken.
            if text.ended or left > MAX_VALUE or isinstance(error, RecursionError):
                raise DataError(path, text.line, text.found(), f"a JSON value ({error})") from error
            text.more()
            continue
        # A number may continue after the window: of "10.5" the decoder may have seen only "10.".
        if text.ended or (end < len(text.text) and text.text[end] not in _OF_NUMBERS):
            text.at = end
            return value
        if len(text.text) - text.at > MAX_VALUE:
            raise DataError(path, text.line, text.found(), f"JSON values of at most {MAX_VALUE} characters")
        text.more()
