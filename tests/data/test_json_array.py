"""JSON arrays read value by value: the same values as json gives, whatever the size of the chunks."""

from __future__ import annotations

import io
import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_transformer.data import json_array as json_rows
from edge_transformer.data.json_array import read_json_array
from edge_transformer.errors import DataError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@pytest.fixture(params=[1, 2, 7, 1 << 20])
def chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(json_rows, "CHUNK", request.param)
    return request.param


def read(text: str) -> list[object]:
    return [value for _, value in read_json_array(io.StringIO(text), "rows.json")]


@pytest.mark.parametrize("indent", [None, 4])
def test_the_same_values_as_json(chunk: int, indent: int | None) -> None:
    @settings(max_examples=60, deadline=None)
    @given(values=st.lists(VALUES, max_size=5), ascii_only=st.booleans())
    def check(values: list[object], ascii_only: bool) -> None:
        assert read(json.dumps(values, indent=indent, ensure_ascii=ascii_only)) == values

    check()


def test_lines_are_counted(chunk: int) -> None:
    text = '\n[\n\n  {"a":\n 1},\n {"b": 2}, 3,\n\n4\n]\n'
    assert [line for line, _ in read_json_array(io.StringIO(text), "rows.json")] == [4, 6, 6, 8]


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("", 1, "a JSON array"),
        ('{"a": 1}', 1, "a JSON array"),
        ("[\n1,\n2", 3, "a comma or the end"),
        ("[\n1,\n2 3]", 3, "a comma or the end"),
        ("[1,\n]", 2, "a JSON value"),
        ('[1,\n{"a": "b]', 2, "a JSON value"),
        ("[1,\nnope]", 2, "a JSON value"),
        ("[1]\n x", 2, "nothing after the end"),
    ],
)
def test_what_is_no_array(chunk: int, text: str, line: int, expected: str) -> None:
    with pytest.raises(DataError) as error:
        read(text)
    assert (error.value.line, str(error.value.path)) == (line, "rows.json")
    assert expected in error.value.expected


def test_deep_and_long_values_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="a JSON value"):
        read("[" * 200_000)
    monkeypatch.setattr(json_rows, "MAX_VALUE", 100)
    monkeypatch.setattr(json_rows, "CHUNK", 10)
    with pytest.raises(DataError, match="a JSON value"):
        read('["' + "a" * 1000 + '"]')


def test_no_more_is_held_than_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_rows, "CHUNK", 100)
    file = io.StringIO(json.dumps([{"a": number} for number in range(10_000)]))
    rows = read_json_array(file, "rows.json")
    for _ in range(10):
        next(rows)
    assert file.tell() <= 300


@settings(max_examples=200, deadline=None)
@given(text=st.text(alphabet='[]{},:"1a \n', max_size=20))
def test_any_text_is_refused_or_read(text: str) -> None:
    with suppress(DataError):
        assert read(text) == json.loads(text)
