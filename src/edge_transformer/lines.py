"""Lines of text from a stream as they arrive: many at a time from a file, one by one from someone who types."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from io import BufferedIOBase

CHUNK_BYTES = 1 << 20


class ArrivingLines(Iterator[str]):
    """The lines of a stream of UTF-8, and whether the next one is already there."""

    def __init__(self, stream: BufferedIOBase) -> None:
        self._stream = stream
        self._lines: deque[bytes] = deque()  # whole ones that have arrived
        self._start = bytearray()  # of the line that is still arriving
        self._ended = False

    def __next__(self) -> str:
        while not self._lines:
            if self._ended:
                raise StopIteration
            self._receive()
        return self._lines.popleft().decode()

    def pausing(self) -> bool:
        """Whether the stream may let us wait for the next line; blank ones do not count, as they ask nothing."""
        return not any(line.strip() for line in self._lines)

    def _receive(self) -> None:
        """Take what has arrived, up to CHUNK_BYTES; waits only where nothing has."""
        chunk = self._stream.read1(CHUNK_BYTES)
        *whole, rest = chunk.split(b"\n")
        if whole:
            self._lines.append(bytes(self._start) + whole[0])
            self._lines.extend(whole[1:])
            self._start.clear()
        self._start += rest
        if not chunk:
            self._ended = True
            if self._start:  # the last line may lack its end
                self._lines.append(bytes(self._start))
