"""Lines of text from a stream as they arrive: many at a time from a file, one by one from someone who types; and the
lines of JSON that answer them.
"""

from __future__ import annotations

import json
import sys
from codecs import BOM_UTF8
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import Any, cast

from ..errors import DataError, UserError

CHUNK_BYTES = 1 << 20
MAX_CHARACTERS = 1_000_000  # of a line; no reader takes more
MAX_BYTES = 4 * MAX_CHARACTERS  # of a line; no character has more than 4
STANDARD_INPUT = Path("-")


class ArrivingLines(Iterator[str]):
    """The lines of a stream of UTF-8, without a mark at its beginning, and whether the next one is already there.

    A line of more than MAX_BYTES is a `DataError`, raised without waiting for its end, which may never come. Who goes
    on after that gets the line behind it.
    """

    def __init__(self, stream: BufferedIOBase, name: str = "standard input") -> None:
        self._stream, self._name = stream, name
        self._lines: deque[bytes] = deque()  # that have arrived: whole, or too long to wait for their end
        self._start = bytearray()  # of the line that is still arriving
        self._number = 0  # of the line that was given last
        self._ended = False
        self._passing = False  # over the rest of a line that was too long

    def __next__(self) -> str:
        while not self._lines:
            if self._ended:
                raise StopIteration
            self._receive()
        line = self._lines.popleft()
        self._number += 1
        if len(line) > MAX_BYTES:
            found = f"a line of more than {MAX_BYTES} bytes"
            raise DataError(self._name, self._number, found, f"at most {MAX_CHARACTERS} characters")
        if self._number == 1:
            line = line.removeprefix(BOM_UTF8)
        return line.decode()

    def pausing(self) -> bool:
        """Whether the stream may let us wait for the next line; blank ones do not count, as they ask nothing."""
        return not any(line.strip() for line in self._lines)

    def _receive(self) -> None:
        """Take what has arrived, up to CHUNK_BYTES; waits only where nothing has."""
        chunk = self._stream.read1(CHUNK_BYTES)
        self._ended = not chunk
        if self._passing:
            _, end, chunk = chunk.partition(b"\n")
            self._passing = not end
        *whole, rest = chunk.split(b"\n")
        if whole:
            self._lines.append(bytes(self._start) + whole[0])
            self._lines.extend(whole[1:])
            self._start.clear()
        self._start += rest
        self._passing = self._passing or len(self._start) > MAX_BYTES
        if self._start and (self._ended or self._passing):  # the last line may lack its end
            self._lines.append(bytes(self._start))
            self._start.clear()


@contextmanager
def open_lines(source: Path | None, expected: str) -> Iterator[ArrivingLines]:
    """The lines of a file, or of standard input for None and "-"; `expected` says in errors what they should hold."""
    if source in (None, STANDARD_INPUT):
        if sys.stdin is None:  # closed by who started us
            raise UserError(f"standard input: closed; expected {expected}, one a line")
        yield ArrivingLines(cast(BufferedIOBase, sys.stdin.buffer), name_of(source))
        return
    assert source is not None
    try:
        file = open(source, "rb")  # noqa: SIM115 - closed below; what happens there is not our error
    except OSError as error:
        raise UserError(f"{source}: {error.strerror}") from error
    with file:
        yield ArrivingLines(file, name_of(source))


def name_of(source: Path | None) -> str:
    """What errors call the source of lines."""
    return "standard input" if source in (None, STANDARD_INPUT) else str(source)


def json_line(value: Any) -> str:
    """JSON that standard output can show: readable where its encoding has all the letters, escaped where not."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value)
    return text
