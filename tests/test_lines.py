"""Lines as they arrive: none is lost, and nobody waits for a line that is not needed."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_transformer import lines
from edge_transformer.errors import UserError
from edge_transformer.lines import STANDARD_INPUT, ArrivingLines, json_line, name_of, open_lines


@given(st.lists(st.text(st.characters(exclude_characters="\n\ufeff", exclude_categories=["Cs"]))), st.integers(1, 9))
def test_all_lines_in_their_order(texts: list[str], chunk: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "CHUNK_BYTES", chunk)  # so that lines and letters are cut anywhere
        for end in ("", "\n"):
            data = "\n".join(texts).encode() + end.encode()
            expected = data.decode().split("\n")
            expected = expected if expected[-1] else expected[:-1]
            assert list(ArrivingLines(io.BytesIO(data))) == expected


def test_a_mark_at_the_beginning_is_no_part_of_the_first_line() -> None:
    assert list(ArrivingLines(io.BytesIO("\ufeffone\n\ufefftwo\n".encode()))) == ["one", "\ufefftwo"]


def test_lines_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "some.txt").write_text("one\ntwo")
    with open_lines(tmp_path / "some.txt", "words") as arriving:
        assert list(arriving) == ["one", "two"]
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
