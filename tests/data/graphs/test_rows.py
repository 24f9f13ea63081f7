"""Graphs over tokens as JSON lines: what is written is read again, what is broken is named with its line."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_transformer.data.graphs.rows import (
    MAX_COLUMNS,
    MAX_TOKENS,
    TokenGraph,
    read_token_graph_lines,
    read_token_graphs,
    tokens_from_json,
    write_token_graphs,
)
from edge_transformer.errors import DataError, UserError
from edge_transformer.io.streams import MAX_CHARACTERS

ROW: dict[str, Any] = {
    "tokens": ["Ann", "ran", "."],
    "parents": [1, -1, -1],
    "labels": {"role": ["agent", "", ""], "pos": ["N", "V", "P"]},
}
GRAPH = TokenGraph(("Ann", "ran", "."), (1, 1, 2), {"role": ("agent", "", ""), "pos": ("N", "V", "P")})


def test_a_token_without_parent_is_its_own() -> None:
    assert TokenGraph.from_json(ROW) == GRAPH
    assert TokenGraph.from_json(ROW | {"parents": [1, 1, 2]}) == GRAPH
    assert GRAPH.to_json() == ROW
    assert GRAPH.size == 3


def test_any_columns() -> None:
    assert TokenGraph.from_json(ROW | {"labels": {}}).labels == {}
    assert TokenGraph.from_json(ROW | {"labels": {"any name": ["1", "", "é"]}}).labels == {"any name": ("1", "", "é")}


def test_group_is_kept_and_says_nothing_about_the_graph() -> None:
    graph = TokenGraph.from_json(ROW | {"group": "short"})
    assert graph.group == "short"
    assert graph == GRAPH
    assert graph.to_json() == ROW | {"group": "short"}


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    assert write_token_graphs(path, iter([GRAPH, GRAPH])) == 2
    assert [json.loads(line) for line in path.read_text().splitlines()] == [ROW, ROW]
    assert list(read_token_graphs(path)) == [GRAPH, GRAPH]


def test_reading_goes_line_by_line() -> None:
    def lines() -> Any:
        yield json.dumps(ROW)
        raise AssertionError("asked for more than the first line")

    assert next(read_token_graph_lines(lines(), "stream")) == GRAPH


def test_blank_lines_count_as_lines() -> None:
    with pytest.raises(DataError, match=r"^rows:3: "):
        list(read_token_graph_lines([json.dumps(ROW), "\n", "{}"], "rows"))


@pytest.mark.parametrize(
    ("value", "found", "expected"),
    [
        ([], "[]", "tokens"),
        ({}, "{}", "tokens"),
        (ROW | {"tokens": "Ann ran ."}, "Ann ran", "a list of texts"),
        (ROW | {"tokens": []}, "0 tokens", "1 to"),
        (ROW | {"tokens": ["a"] * (MAX_TOKENS + 1)}, f"{MAX_TOKENS + 1} tokens", f"1 to {MAX_TOKENS}"),
        (ROW | {"tokens": ["Ann", "", "."]}, '""', "not empty"),
        (ROW | {"tokens": ["Ann", 3, "."]}, "3", "texts"),
        (ROW | {"parents": None}, "null", '"parents"'),
        (ROW | {"parents": [1, -1]}, "2 parents", "each of the 3 tokens"),
        (ROW | {"parents": [3, -1, -1]}, "token 0 with parent 3", "0 to 2, or -1"),
        (ROW | {"parents": [-2, -1, -1]}, "token 0 with parent -2", "0 to 2, or -1"),
        (ROW | {"parents": [True, -1, -1]}, "token 0 with parent true", "number"),
        (ROW | {"parents": [-1.0, -1, -1]}, "token 0 with parent -1.0", "number"),
        (ROW | {"parents": ["1", -1, -1]}, 'token 0 with parent "1"', "number"),
        ({"tokens": ["a"], "parents": [0], "label": {}}, 'the field "label"', '"parents", "labels"'),
        ({"tokens": ["a"], "parents": [0]}, 'no "labels"', '"labels"'),
        (ROW | {"labels": {"role": "agent"}}, "agent", "a list for each column"),
        (ROW | {"labels": {"role": ["agent", ""]}}, "2 labels in column role", "each of the 3 tokens"),
        (ROW | {"labels": {"role": ["agent", None, ""]}}, "column role", "labels that are texts"),
        (ROW | {"labels": {"": ["", "", ""]}}, 'named ""', "a text"),
        (ROW | {"labels": {str(n): ["", "", ""] for n in range(MAX_COLUMNS + 1)}}, "columns", f"at most {MAX_COLUMNS}"),
        (ROW | {"group": 3}, "group = 3", "a text"),
    ],
)
def test_broken_graphs_are_named(value: Any, found: str, expected: str) -> None:
    with pytest.raises(DataError) as error:
        list(read_token_graph_lines([json.dumps(value)], "rows.jsonl"))
    assert (str(error.value.path), error.value.line) == ("rows.jsonl", 1)
    assert found in error.value.found
    assert expected in error.value.expected


def test_the_dataclass_checks_itself() -> None:
    with pytest.raises(DataError, match="token 0 with parent 1"):
        TokenGraph(("a",), (1,), {})


@pytest.mark.parametrize("line", ["{", "nonsense", "[" * 100_000, "1" * 5000, " " * MAX_CHARACTERS + "{}"])
def test_lines_that_are_no_json(line: str) -> None:
    with pytest.raises(DataError, match=r"^rows:1: "):
        list(read_token_graph_lines([line], "rows"))


def test_all_lines_have_the_columns_of_the_first() -> None:
    rows = [ROW, ROW | {"labels": {"pos": ["", "", ""], "role": ["", "", ""]}}, ROW | {"labels": {"role": [""] * 3}}]
    with pytest.raises(DataError, match=r"rows:3: found the columns role; expected .* pos, role"):
        list(read_token_graph_lines(map(json.dumps, rows), "rows"))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file"):
        list(read_token_graphs(tmp_path / "absent.jsonl"))
    path = tmp_path / "bytes.jsonl"
    path.write_bytes(json.dumps(ROW).encode() + b"\n\xff\n")
    with pytest.raises(DataError, match=r"bytes.jsonl:2: .*UTF-8"):
        list(read_token_graphs(path))


def test_questions_need_tokens_only() -> None:
    assert tokens_from_json({"tokens": ["Ann", "ran"]}) == ("Ann", "ran")
    with pytest.raises(DataError, match="tokens"):
        tokens_from_json("Ann ran")


@st.composite
def random_graphs(draw: st.DrawFn) -> TokenGraph:
    texts = st.text(max_size=4)  # lone surrogates among them
    tokens = draw(st.lists(texts.filter(bool), min_size=1, max_size=5))
    size = len(tokens)
    column = st.lists(texts, min_size=size, max_size=size).map(tuple)
    parents = draw(st.lists(st.integers(0, size - 1), min_size=size, max_size=size))
    labels = draw(st.dictionaries(texts.filter(bool), column, max_size=3))
    return TokenGraph(tuple(tokens), tuple(parents), labels, draw(texts))


@settings(max_examples=60, deadline=None)
@given(graph=random_graphs())
def test_random_graphs_are_read_as_they_were_written(
    graph: TokenGraph, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("graphs") / "rows.jsonl"
    write_token_graphs(path, [graph])
    [again] = read_token_graphs(path)
    assert (again, again.group) == (graph, graph.group)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(key=st.sampled_from(["tokens", "parents", "labels", "group"]), value=json_values, whole=st.booleans())
def test_whatever_is_broken_is_a_data_error(key: str, value: Any, whole: bool) -> None:
    line = json.dumps(value if whole else ROW | {key: value})
    with suppress(DataError):
        [graph] = read_token_graph_lines([line], "rows")
        assert TokenGraph.from_json(graph.to_json()) == graph


def test_a_notebook_shows_the_graph() -> None:
    svg = TokenGraph(("<script>", "ran"), (1, 1), {"role": ("agent", "")})._repr_svg_()
    assert "<script" not in svg
    assert ElementTree.fromstring(svg).findtext("{http://www.w3.org/2000/svg}title") == "<script> ran"
