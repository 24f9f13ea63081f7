"""Read lines of text and JSON from files and streams; answer those of a stream in batches, promptly and in order."""

from __future__ import annotations

import gzip
import json
import re
import sys
import zlib
from codecs import BOM_UTF8
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import BufferedIOBase
from pathlib import Path
from typing import IO, Any, TypeVar, cast

from ..errors import DataError, UserError, no_text, suggestion

CHUNK_BYTES = 1 << 20
MAX_CHARACTERS = 10_000_000  # of a line, such as a graph of 400,000 edges; no reader takes more
MAX_BYTES = 4 * MAX_CHARACTERS  # of a line; no character has more than 4
STANDARD_INPUT = Path("-")

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def never() -> bool:
    """Never wait: all items are there, as in a list or a file."""
    return False


def answered(
    items: Iterable[Item],
    answer: Callable[[list[Item]], Iterable[Answer]],
    cost: Callable[[Item], int],
    budget: int,
    pausing: Callable[[], bool] = never,
) -> Iterator[Answer]:
    """Yield the answers, in order, to items that may still be arriving.

    Items are answered together once they cost more than the budget, which bounds memory, or once `pausing` says that
    the next one is not there yet. Items before a broken one are answered before its error is raised.
    """
    waiting: list[Item] = []
    spent = 0
    try:
        for item in items:
            waiting.append(item)
            spent += cost(item)
            if spent > budget or pausing():
                yield from answer(waiting)
                waiting, spent = [], 0
    except DataError:
        if waiting:
            yield from answer(waiting)
        raise
    if waiting:
        yield from answer(waiting)


def read_json_lines(lines: Iterable[str], source: str | Path, first_line: int = 1) -> Iterator[tuple[int, Any]]:
    """Yield (line number, value) for lines of JSON; blank lines are skipped."""
    number = first_line - 1
    try:
        for number, line in enumerate(lines, start=first_line):
            text = line.removeprefix("\ufeff") if number == 1 else line
            if not text.strip():
                continue
            yield number, json_of_line(text, source, number)
    except UnicodeDecodeError as error:
        raise no_text(source, number, error) from error


class ArrivingLines(Iterator[str]):
    """The lines of a UTF-8 stream, without byte order mark, and whether the next one is already there.

    A line of more than MAX_BYTES raises `DataError` without waiting for its end. Iteration can go on after it.
    """

    def __init__(self, stream: BufferedIOBase, name: str = "standard input") -> None:
        self._stream, self._name = stream, name
        self._lines: deque[bytes] = deque()  # complete, or too long to wait for their end
        self._start = bytearray()  # of the line that is still arriving
        self._number = 0  # of the line returned last
        self._ended = False
        self._passing = False  # skipping the rest of a line that was too long

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
        """Whether the next line may still have to arrive; blank lines do not count."""
        return not any(line.strip() for line in self._lines)

    def _receive(self) -> None:
        """Read what has arrived, up to CHUNK_BYTES; wait only where nothing has."""
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
    """Open a file, or standard input for None and "-"; errors say what content was `expected`."""
    if source in (None, STANDARD_INPUT):
        if sys.stdin is None:  # closed by the parent process
            raise UserError(f"standard input: closed; expected {expected}, one a line")
        yield ArrivingLines(cast(BufferedIOBase, sys.stdin.buffer), name_of(source))
        return
    assert source is not None
    try:
        file = open(source, "rb")  # noqa: SIM115 - closed below, outside of this try
    except OSError as error:
        found = "found a folder" if source.is_dir() else error.strerror
        raise UserError(f"{source}: {found}; expected a file of {expected}") from error
    with file:
        yield ArrivingLines(file, name_of(source))


@contextmanager
def open_text(path: str | Path) -> Iterator[IO[str]]:
    """Open a text file, gzipped where its name ends in `.gz`; errors name the file."""
    path = Path(path)
    try:
        if path.suffix == ".gz":
            with gzip.open(path, "rt", encoding="utf-8-sig") as file:
                yield file
        else:
            with open(path, encoding="utf-8-sig") as file:
                yield file
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(path, None, f"bytes that cannot be unpacked ({error})", "a whole gzip file") from error
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from error


def lines_of(file: IO[str], path: str | Path, longest: int = MAX_CHARACTERS) -> Iterator[str]:
    """Yield the lines of a text; refuse one that is too long for memory."""
    number = 0
    while True:
        try:
            line = file.readline(longest + 1)
        except UnicodeDecodeError as error:
            raise no_text(path, number, error) from error
        if not line:
            return
        number += 1
        if len(line) > longest:
            raise DataError(path, number, f"a line of more than {longest} characters", f"at most {longest}")
        yield line


def counted(rows: Iterable[Item], progress: Callable[[int], None] | None) -> Iterator[Item]:
    """Yield the same rows and report each to `progress`."""
    for row in rows:
        yield row
        if progress:
            progress(1)


def name_of(source: Path | None) -> str:
    """The name of a source of lines in errors."""
    return "standard input" if source in (None, STANDARD_INPUT) else str(source)


def json_line(value: Any) -> str:
    """JSON for standard output, escaped where its encoding lacks a letter."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value)
    return text


_JSON = re.compile(r'\s*([{\[]\s*"|\{\s*\}\s*$|\[\s*\]\s*$)')


def text_or_json(line: str, source: str | Path, number: int) -> Any:
    """The JSON value of a line that begins like an object or a list of texts; else the text itself.

    Other lines that begin with a bracket are text: `[1] See the notes .` is a sentence.
    """
    if _JSON.match(line):
        return json_of_line(line, source, number)
    check_length(line, source, number)
    return line.strip(" \t\r\n")


def check_length(line: str, source: str | Path, number: int) -> None:
    """Refuse a line of more than MAX_CHARACTERS characters."""
    if len(line) > MAX_CHARACTERS:
        raise DataError(source, number, f"a line of {len(line)} characters", f"at most {MAX_CHARACTERS}")


def json_of_line(line: str, source: str | Path, number: int) -> Any:
    """The JSON value of one line."""
    check_length(line, source, number)
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:  # also huge numbers and deep nesting
        raise DataError(source, number, repr(line.strip()), f"one JSON object a line ({error})") from error
    if "\\u" in line and not is_text(value):
        raise DataError(source, number, repr(line.strip()), "whole characters; this has half of one, such as \\ud800")
    return value


def is_text(value: Any) -> bool:
    """Whether all texts in a value of JSON can be written as UTF-8: a lone surrogate cannot."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def unquoted(line: str) -> str:
    """The text of a line that is a text in JSON; other lines as they are."""
    if line.strip()[:1] == '"':
        with suppress(ValueError):
            return str(json.loads(line))
    return line


def shown(value: Any) -> str:
    """A value as errors quote it: as JSON, where it can be written so."""
    try:
        return json.dumps(value, default=lambda other: other.tolist() if hasattr(other, "tolist") else str(other))
    except (TypeError, ValueError, RecursionError):  # rows in memory: keys of other types, loops, endless numbers
        return f"a {type(value).__name__} that cannot be written as JSON"


def shown_field(row: Mapping[str, Any], name: str) -> str:
    """A field of a row as errors quote it, or that there is none."""
    return shown(row[name]) if name in row else f'no "{name}"'


def check_fields(row: Mapping[str, Any], known: Sequence[str], source: str | Path, line: int | None = None) -> None:
    """Refuse a row with a field that nothing reads: it may be misspelt, or mean something to its author."""
    for name in row:
        if name not in known:
            fields = ", ".join(f'"{each}"' for each in known)
            raise DataError(
                source, line, f"the field {shown(name)}", f"no other than {fields}{suggestion(name, known)}"
            )


def read_json(path: str | Path) -> dict[str, Any]:
    """Read a JSON file that holds an object."""
    try:
        value = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: damaged, not JSON: {error}") from error
    if not isinstance(value, dict):
        raise UserError(f"{path}: found {type(value).__name__}; expected an object")
    return value
