"""Lines as they arrive: none is lost, and nobody waits for a line that is not needed."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_transformer.data.trees import conllu as treebanks
from edge_transformer.errors import DataError, UserError
from edge_transformer.io import streams as lines
from edge_transformer.io.streams import STANDARD_INPUT, ArrivingLines, json_line, name_of, open_lines


@given(st.lists(st.text(st.characters(exclude_characters="\n\ufeff", exclude_categories=["Cs"]))), st.integers(1, 9))
def test_all_lines_in_their_order(texts: list[str], chunk: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "CHUNK_BYTES", chunk)  # so that lines and letters are cut anywhere
        for end in ("", "\n"):
            data = "\n".join(texts).encode() + end.encode()
            expected = data.decode().split("\n")
            expected = expected if expected[-1] else expected[:-1]
            assert list(ArrivingLines(io.BytesIO(data))) == expected


@given(st.lists(st.text("a\n", max_size=9)), st.integers(1, 9), st.integers(1, 9))
def test_lines_that_are_too_long_are_told_and_all_others_are_given(texts: list[str], chunk: int, most: int) -> None:
    data = "\n".join(texts)
    expected = data.split("\n")
    expected = expected if expected[-1] else expected[:-1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "CHUNK_BYTES", chunk)
        patch.setattr(lines, "MAX_BYTES", most)
        arriving = ArrivingLines(io.BytesIO(data.encode()), "here")
        for number, text in enumerate(expected, start=1):
            if len(text) > most:
                with pytest.raises(
                    DataError, match=f"^here:{number}: found a line of more than {most} bytes; expected"
                ):
                    next(arriving)
            else:
                assert next(arriving) == text
        assert list(arriving) == []


class Endless(io.BufferedIOBase):
    """Some lines, and then one without an end."""

    def __init__(self, start: bytes) -> None:
        self._start, self.given = start, 0

    def read1(self, size: int = -1) -> bytes:
        chunk, self._start = self._start or bytes(size), b""
        self.given += len(chunk)
        return chunk


def test_a_line_without_an_end_is_refused() -> None:
    stream = Endless(b"one\ntwo\n")
    arriving = ArrivingLines(stream)
    assert [next(arriving), next(arriving)] == ["one", "two"]
    message = r"^standard input:3: found a line of more than 40000000 bytes; expected at most 10000000 characters$"
    with pytest.raises(DataError, match=message):
        next(arriving)
    assert stream.given < lines.MAX_BYTES + 2 * lines.CHUNK_BYTES


def test_no_line_that_a_reader_takes_is_refused() -> None:
    longest = "\U0001f600" * lines.MAX_CHARACTERS
    assert list(ArrivingLines(io.BytesIO(f"{longest}\n{longest}".encode()))) == [longest, longest]
    assert treebanks.MAX_LINE == lines.MAX_CHARACTERS


def test_a_mark_at_the_beginning_is_no_part_of_the_first_line() -> None:
    assert list(ArrivingLines(io.BytesIO("\ufeffone\n\ufefftwo\n".encode()))) == ["one", "\ufefftwo"]


def test_lines_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "some.txt").write_text("one\ntwo")
    with open_lines(tmp_path / "some.txt", "words") as arriving:
        assert list(arriving) == ["one", "two"]
    monkeypatch.setattr(lines, "MAX_BYTES", 2)
    with open_lines(tmp_path / "some.txt", "words") as arriving, pytest.raises(DataError, match=r"some\.txt:1: found"):
        next(arriving)
    with pytest.raises(UserError, match=r"none\.txt: No such file"), open_lines(tmp_path / "none.txt", "words"):
        pass
    monkeypatch.setattr("sys.stdin", None)
    for source in (None, STANDARD_INPUT):
        assert name_of(source) == "standard input"
        with (
            pytest.raises(UserError, match="standard input: closed; expected words, one a line"),
            open_lines(source, "words"),
        ):
            pass


def test_json_that_the_output_can_show(monkeypatch: pytest.MonkeyPatch) -> None:
    for encoding, shown in (("utf-8", '{"a": "é"}'), ("ascii", '{"a": "\\u00e9"}')):
        monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
        assert json_line({"a": "é"}) == shown


def test_a_pause_is_where_nothing_more_has_arrived() -> None:
    reading, writing = os.pipe()
    with open(reading, "rb") as stream, open(writing, "wb", buffering=0) as sender:
        arriving = ArrivingLines(stream)
        sender.write(b"one\ntwo\n \n\nhal")
        assert next(arriving) == "one"
        assert not arriving.pausing()
        assert next(arriving) == "two"
        assert arriving.pausing()  # blank lines and half a line are nothing to wait for
        sender.write(b"f\nthree")
        assert [next(arriving) for _ in range(3)] == [" ", "", "half"]
        assert arriving.pausing()
        sender.close()
        assert list(arriving) == ["three"]
        assert list(arriving) == []


def test_bytes_that_are_no_text_are_said_where_they_are() -> None:
    arriving = ArrivingLines(io.BytesIO(b"one\n\xff\nthree\n"))
    assert next(arriving) == "one"
    with pytest.raises(UnicodeDecodeError):
        next(arriving)
