"""Lines as they arrive: none is lost, and nobody waits for a line that is not needed."""

from __future__ import annotations

import io
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_transformer import lines
from edge_transformer.lines import ArrivingLines


@given(st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]))), st.integers(1, 9))
def test_all_lines_in_their_order(texts: list[str], chunk: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "CHUNK_BYTES", chunk)  # so that lines and letters are cut anywhere
        for end in ("", "\n"):
            data = "\n".join(texts).encode() + end.encode()
            expected = data.decode().split("\n")
            expected = expected if expected[-1] else expected[:-1]
            assert list(ArrivingLines(io.BytesIO(data))) == expected


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
