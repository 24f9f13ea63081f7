"""Rows as JSON, the graph: what is read, what is refused, and what the error says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from edge_transformer.data.relations import fields
from edge_transformer.data.relations.fields import (
    FIELDS,
    MAX_NODES,
    graph_from_json,
    read_graph_lines,
    relation_rows,
)
from edge_transformer.data.relations.rows import Story
from edge_transformer.errors import DataError, UserError
from edge_transformer.io.streams import MAX_CHARACTERS

EDGES = [["Ann", "daughter", "Lil"], ["Lil", "brother", "Bob"]]
GRAPH = {"edges": EDGES, "query": ["Ann", "Bob"], "target": "son"}
LINE = json.dumps(GRAPH)


def read(*lines: str, needs_target: bool = False) -> list[Story]:
    return list(read_graph_lines(lines, "graphs.jsonl", needs_target))


def story(**changes: Any) -> Story:
    """The plain graph with other fields, through JSON."""
    [found] = read(json.dumps(GRAPH | changes))
    assert graph_from_json(GRAPH | changes, "memory") == found
    return found


def fail(line: str, **options: Any) -> str:
    """The message that a file with this as its third line ends in."""
    with pytest.raises(DataError) as caught:
        list(read_graph_lines([LINE, "", line, LINE], "graphs.jsonl", **options))
    assert caught.value.line == 3
    assert str(caught.value).startswith("graphs.jsonl:3: found ")
    return str(caught.value).removeprefix("graphs.jsonl:3: ")


def fail_with(found: str, expected: str, **changes: Any) -> None:
    """That the plain graph with other fields is refused with this message; `expected` is how its second part begins."""
    message = fail(json.dumps(GRAPH | changes))
    assert message.startswith(f"found {found}")
    assert f"; expected {expected}" in message


# --- lines ------------------------------------------------------------------------------------------------------------


def test_a_graph() -> None:
    [found] = read(LINE, needs_target=True)
    assert found == Story(((0, 1), (1, 2)), ("daughter", "brother"), (0, 2), "son", ("Ann", "Lil", "Bob"))
    assert (found.k, found.size) == (2, 3)
    assert found.is_plain


def test_blank_lines_are_passed_over_and_counted() -> None:
    assert len(read("", LINE, "  \n", "\t", LINE, "")) == 2
    with pytest.raises(DataError) as caught:
        read("", "\n", LINE, "", "{}")
    assert caught.value.line == 5


def test_lines_are_read_as_they_come() -> None:
    def endless() -> Iterator[str]:
        while True:
            yield LINE

    stories = read_graph_lines(endless(), "stream")
    assert next(stories) == next(stories)


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "{",
        LINE + LINE,
        "'single quotes'",
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"edges": [[0, "r", ' + "9" * 5000 + "]]}",
        "\ufeff" + LINE,
        "[" * 990 + "]" * 990,
        "[" * 993 + "]" * 993,
    ],
)
def test_lines_that_are_no_json_object(line: str) -> None:
    message = fail(line)
    assert "object" in message
    assert len(message) < 500


@pytest.mark.parametrize("asks", ["pairs", "nodes", "graph"])
@pytest.mark.parametrize("value", [None, 3, "text", [], [GRAPH], True])
def test_json_that_is_no_object(value: Any, asks: str) -> None:
    wanted = 'an object with "edges" and "query"' if asks == "pairs" else 'an object with "edges"'
    with pytest.raises(DataError) as caught:
        graph_from_json(value, "x", 1, asks=asks)
    assert str(caught.value) == f"x:1: found {json.dumps(value)}; expected {wanted}"


def test_longest_line() -> None:
    def of_length(length: int) -> str:
        return LINE + " " * (length - len(LINE))

    assert len(read(of_length(MAX_CHARACTERS))) == 1
    assert (
        fail(of_length(MAX_CHARACTERS + 1))
        == f"found a line of {MAX_CHARACTERS + 1} characters; expected at most {MAX_CHARACTERS}"
    )


def test_errors_of_values_that_come_without_a_line() -> None:
    with pytest.raises(DataError, match=r"^input 4: found 3; expected an object"):
        graph_from_json(3, "input 4")


# --- fields -----------------------------------------------------------------------------------------------------------


def test_unknown_fields_are_refused() -> None:
    message = fail(json.dumps(GRAPH | {"node": ["Ann"]}))
    known = ", ".join(json.dumps(name) for name in FIELDS)
    assert message == f'found the field "node"; expected no other than {known}; did you mean nodes?'
    for wrong, right in (("edgs", "edges"), ("traget", "target"), ("qeury", "query")):
        assert fail(json.dumps(GRAPH | {wrong: []})).endswith(f'"id"; did you mean {right}?')
    assert fail(json.dumps(GRAPH | {"colour": 3})).endswith('"id"')
    for asks in ("nodes", "graph"):
        with pytest.raises(DataError, match='found the field "query"; expected none in rows of node-labels'):
            graph_from_json(GRAPH, "x", asks=asks)


@pytest.mark.parametrize("name", [7, "seven", [1, {"a": None}], {"x": 1.5}])
def test_an_id_is_anything(name: Any) -> None:
    assert story(id=name).id == name
    assert story(id=name) == story()  # and says nothing of the graph


@pytest.mark.parametrize("name", ["edges", "query"])
def test_missing_fields(name: str) -> None:
    message = fail(json.dumps({key: value for key, value in GRAPH.items() if key != name}))
    assert message.startswith(f'found no "{name}"; expected "{name}"')


# --- nodes ------------------------------------------------------------------------------------------------------------


def test_nodes_are_numbered_by_first_mention() -> None:
    [found] = read('{"edges": [["c", "r", "a"], ["b", "s", "c"]], "query": ["a", "b"]}')
    assert found.names == ("c", "a", "b")
    assert found.edges == ((0, 1), (2, 0))
    assert found.query == (1, 2)
    assert found.target == ""  # a question


def test_nodes_may_be_whole_numbers() -> None:
    [numbers] = read('{"edges": [[7, "r", -3], [-3, "s", 100000000000000000000]], "query": [7, 100000000000000000000]}')
    assert numbers.names == ("7", "-3", "100000000000000000000")
    [mixed] = read('{"edges": [[7, "r", "x"]], "query": ["7", "x"]}')  # 7 and "7" are the same node
    assert (mixed.query, mixed.size) == ((0, 1), 2)


@pytest.mark.parametrize("nodes", [["Eve", "Bob", 7], {"Eve": None, "Bob": [], "7": {}}])
def test_nodes_come_first_in_their_order(nodes: Any) -> None:
    found = story(nodes=nodes)
    assert found.names == ("Eve", "Bob", "7", "Ann", "Lil")
    assert (found.edges, found.query) == (((3, 4), (4, 1)), (3, 1))
    assert (found.node_labels, found.node_features) == ((), ())


def test_labels_of_nodes() -> None:
    nodes = {
        "Ann": "person",
        "Bob": ["person", "boss", "person"],  # the second time says nothing
        "Eve": {"labels": "boss"},
        "Lil": {"labels": ["boss", "heir"], "features": None},
        "Tom": None,
    }
    of_node = (0, "person"), (1, "person"), (1, "boss"), (2, "boss"), (3, "boss"), (3, "heir")
    assert story(nodes=nodes).node_labels == of_node
    assert story(nodes=nodes).node_features == ()


def test_features_of_nodes() -> None:
    nodes = {
        "Ann": {"labels": "boss", "features": [1.5, -2]},
        "Eve": None,
        "Bob": [0, 1e-9],
        "Tom": {"features": [3, 4]},
    }
    found = story(nodes=nodes)  # Lil is named by edges only
    assert found.names == ("Ann", "Eve", "Bob", "Tom", "Lil")
    assert found.node_features == ((1.5, -2.0), None, (0.0, 1e-9), (3.0, 4.0), None)
    assert found.node_labels == ((0, "boss"),)
    assert all(type(x) is float for numbers in found.node_features if numbers for x in numbers)
    assert story(nodes={"Ann": 3, "Bob": {"features": 4.5}}).node_features == ((3.0,), (4.5,), None)


def test_nodes_alone_are_a_graph() -> None:
    found = graph_from_json({"nodes": ["a", "b"], "edges": [], "query": ["a", "b"]}, "x")
    assert (found.edges, found.names) == ((), ("a", "b"))
    for row in ({"nodes": ["a"], "edges": []}, {"nodes": ["a"]}):
        assert graph_from_json({**row, "target": "x"}, "x", asks="graph", needs_target=True).size == 1
    with pytest.raises(
        DataError, match=r'found no "edges"; expected "edges": a list .* at least one entry, or "nodes"'
    ):
        graph_from_json({"target": "x"}, "x", asks="graph")


@pytest.mark.parametrize(
    ("nodes", "found", "expected"),
    [
        ([], "[]", '"nodes": an object such as'),
        ({}, "{}", '"nodes": an object such as'),
        ("Ann", '"Ann"', '"nodes": an object such as'),
        (3, "3", '"nodes": an object such as'),
        (True, "true", '"nodes": an object such as'),
        (["Ann", "Ann"], '"Ann"', "each node once; 'Ann' stands twice"),
        (["Ann", "Bob", "Ann"], '"Ann"', "each node once; 'Ann' stands twice"),
        ([7, "7"], '"7"', "each node once; '7' stands twice"),
        (["Ann", ["Bob"]], '["Ann", ["Bob"]]', "nodes that are texts or whole numbers"),
        (["Ann", None], '["Ann", null]', "nodes that are texts or whole numbers"),
        (["Ann", 1.5], '["Ann", 1.5]', "nodes that are texts or whole numbers"),
        ([True], "[true]", "nodes that are texts or whole numbers"),
        ([{"Ann": "boss"}], '[{"Ann": "boss"}]', "nodes that are texts or whole numbers"),
        ({"Ann": ""}, '{"Ann": ""}', "texts that are not empty as labels of a node"),
        ({"Ann": ["boss", ""]}, '{"Ann": ["boss", ""]}', "texts that are not empty as labels"),
        ({"Ann": ["boss", 3]}, '{"Ann": ["boss", 3]}', "texts that are not empty as labels"),
        ({"Ann": True}, '{"Ann": true}', "texts that are not empty as labels"),
        ({"Ann": {"labels": 3}}, '{"Ann": {"labels": 3}}', "texts that are not empty as labels"),
        ({"Ann": {"labels": {"boss": 1}}}, '{"Ann": {"labels"', "texts that are not empty as labels"),
        ({"Ann": {"label": "boss"}}, 'the field "label"', 'no other than "labels", "features"'),
        ({"Ann": {"features": []}}, '{"Ann": {"features": []}}', "features that are numbers, finite ones"),
        ({"Ann": {"features": "high"}}, '{"Ann": {"features": "high"}}', "features that are numbers"),
        ({"Ann": {"features": [1, None]}}, '{"Ann": {"features": [1, null]}}', "features that are numbers"),
        ({"Ann": {"features": [1, True]}}, '{"Ann": {"features": [1, true]}}', "features that are numbers"),
        ({"Ann": {"features": float("nan")}}, '{"Ann": {"features": NaN}}', "features that are numbers"),
        ({"Ann": {"features": [float("inf")]}}, '{"Ann": {"features": [Infinity]}}', "features that are numbers"),
        ({"Ann": {"features": -1e30}}, '{"Ann": {"features": -1e+30}}', "features that are numbers"),
        ({"Ann": {"features": 10**40}}, '{"Ann": {"features": 1000', "features that are numbers"),
        ({"Ann": {"features": [[1]]}}, '{"Ann": {"features": [[1]]}}', "features that are numbers"),
        ({"Ann": 1, "Bob": [1, 2]}, 'features of lengths 1, 2 in "nodes"', "as many numbers wherever"),
    ],
)
def test_broken_nodes_are_named(nodes: Any, found: str, expected: str) -> None:
    fail_with(found, expected, nodes=nodes)


def test_most_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    def star(nodes: int) -> str:
        return json.dumps({"edges": [[0, "r", node] for node in range(1, nodes)], "query": [0, 1]})

    monkeypatch.setattr(fields, "free_memory", lambda: 150_000)
    assert read(star(200))[0].size == 200  # so few bytes that nobody looks
    monkeypatch.setattr(fields, "UNASKED_BYTES", 0)
    assert read(star(190))[0].size == 190
    assert fail(star(1000)) == (
        "found a graph of 1,000 nodes, which needs at least 0.004 GB of memory; expected at most about 193 nodes, as "
        "0.00015 GB are free; take a smaller graph, such as the part around the question"
    )
    monkeypatch.setattr(fields, "free_memory", lambda: None)  # unknown: nothing is refused
    assert read(star(1000))[0].size == 1000
    assert fail(star(4), max_nodes=3) == "found a graph of 4 nodes; expected at most 3"
    assert "a graph of 4 nodes" in fail(json.dumps(GRAPH | {"nodes": ["Eve"]}), max_nodes=3)
    assert "a graph of 4 nodes" in fail(json.dumps(GRAPH | {"absent": [["Ann", "r", "Eve"]]}), max_nodes=3)
    with pytest.raises(DataError, match=f"found a graph of {MAX_NODES + 1} nodes; expected at most {MAX_NODES}"):
        graph_from_json({"nodes": list(range(MAX_NODES + 1)), "target": "x"}, "x", asks="graph")


@pytest.mark.parametrize("asks", ["pairs", "nodes", "graph"])
def test_values_of_numpy_and_pytorch_in_memory(asks: str) -> None:
    target = {"pairs": 0.5, "nodes": {1: 0.5}, "graph": 0.5}[asks]
    plain: dict[str, Any] = {"nodes": {1: [0.5, 2.0], 2: [3.0, 1.0]}, "edges": [[1, "r", 2, [1.0, 2.0]]]}
    plain |= {"target": target, "id": 7}
    plain |= {"query": [1, 2]} if asks == "pairs" else {}
    strange: dict[str, Any] = {
        "nodes": {np.int64(1): np.array([0.5, 2]), np.int32(2): torch.tensor([3.0, 1.0])},
        "edges": [[np.int64(1), np.str_("r"), torch.tensor(2), np.array([1, 2], dtype=np.float32)]],
        "target": {np.int64(1): np.float64(0.5)} if asks == "nodes" else np.float32(0.5),
        "id": np.int64(7),
    }
    strange |= {"query": np.array([1, 2])} if asks == "pairs" else {}
    found = graph_from_json(strange, "x", asks=asks)
    assert found == graph_from_json(plain, "x", asks=asks)
    assert type(found.id) is int
    edges = np.array([["a", "r", "b"], ["b", "r", "c"]], dtype=object)
    assert graph_from_json({"edges": edges, "query": ("a", "c")}, "x").names == ("a", "b", "c")


def test_errors_show_values_of_numpy_as_what_they_are() -> None:
    for row, found in (
        ({"edges": [[np.float64(1.5), "r", 2]], "query": [1, 2]}, '[1.5, "r", 2]'),
        ({"edges": [[np.int64(1), np.int64(3), 2]], "query": [1, 2]}, "[1, 3, 2]"),
        ({"edges": [[1, "r", 2, np.array([1, np.inf])]], "query": [1, 2]}, '[1, "r", 2, [1.0, Infinity]]'),
        ({"edges": [[1, "r", np.bool_(True)]], "query": [1, 2]}, '[1, "r", true]'),
        ({"nodes": {(1, 2): "a"}}, "a dict that cannot be written as JSON"),
    ):
        with pytest.raises(DataError) as caught:
            graph_from_json(row, "x")
        assert caught.value.found == found


# --- edges ------------------------------------------------------------------------------------------------------------


def test_self_loops_and_edges_that_agree() -> None:
    [found] = read('{"edges": [["a", "r", "a"], ["a", "r", "a"]], "query": ["a", "a"]}')
    assert (found.edges, found.query, found.size) == (((0, 0), (0, 0)), (0, 0), 1)


def test_several_relations_a_pair() -> None:
    both = [["Ann", ["son", "heir", "son"], "Bob"]]
    each = [["Ann", "son", "Bob"], ["Ann", "heir", "Bob"]]
    assert story(edges=both) == story(edges=each)
    assert story(edges=both).edges == ((0, 1), (0, 1))
    assert story(edges=both).relations == ("son", "heir")


def test_features_of_edges() -> None:
    edges = [["Ann", ["near", "far"], "Bob", [0.5, 2]], ["Bob", "near", "Ann"], ["Ann", "son", "Bob"]]
    found = story(edges=edges)
    assert found.edges == ((0, 1), (0, 1), (1, 0), (0, 1))
    assert found.edge_features == ((0.5, 2.0), (0.5, 2.0), None, (0.5, 2.0))  # they are those of the pair
    assert story(edges=[["Ann", "near", "Bob", 3], ["Ann", "far", "Bob", [3.0]]]).edge_features == ((3.0,), (3.0,))


@pytest.mark.parametrize(
    ("edges", "found", "expected"),
    [
        (None, "null", '"edges": a list of'),
        ([], "[]", '"edges": a list of'),
        ({"a": "b"}, '{"a": "b"}', '"edges": a list of'),
        ("Ann", '"Ann"', '"edges": a list of'),
        (["abc"], '"abc"', "an edge as [from, relation, to]"),
        ([["a", "r"]], '["a", "r"]', "an edge as"),
        ([["a", "r", "b", 1, 2]], '["a", "r", "b", 1, 2]', "an edge as"),
        ([["a", 1, "b"]], '["a", 1, "b"]', "an edge as"),
        ([["a", "", "b"]], '["a", "", "b"]', "an edge as"),
        ([["a", None, "b"]], '["a", null, "b"]', "an edge as"),
        ([["a", [], "b"]], '["a", [], "b"]', "an edge as"),
        ([["a", ["r", ""], "b"]], '["a", ["r", ""], "b"]', "an edge as"),
        ([["a", ["r", 2], "b"]], '["a", ["r", 2], "b"]', "an edge as"),
        ([["a", {"r": 2}, "b"]], '["a", {"r": 2}, "b"]', "an edge as"),
        ([["a", True, "b"]], '["a", true, "b"]', "an edge as"),
        ([[1.0, "r", "b"]], '[1.0, "r", "b"]', "nodes that are texts or whole numbers"),
        ([["a", "r", True]], '["a", "r", true]', "nodes that are texts or whole numbers"),
        ([["a", "r", None]], '["a", "r", null]', "nodes that are texts or whole numbers"),
        ([["a", "r", ["b"]]], '["a", "r", ["b"]]', "nodes that are texts or whole numbers"),
        ([["a", "r", "b", "c"]], '["a", "r", "b", "c"]', "features that are numbers"),
        ([["a", "r", "b", None]], '["a", "r", "b", null]', "features that are numbers"),
        ([["a", "r", "b", []]], '["a", "r", "b", []]', "features that are numbers"),
        ([["a", "r", "b", True]], '["a", "r", "b", true]', "features that are numbers"),
        ([["a", "r", "b", [float("nan")]]], '["a", "r", "b", [NaN]]', "features that are numbers"),
        ([["a", "r", "b", float("-inf")]], '["a", "r", "b", -Infinity]', "features that are numbers"),
        ([["a", "r", "b", 1], ["a", "s", "b", 2]], '["a", "s", "b", 2]', "the same features wherever a pair"),
        ([["a", "r", "b", 1], ["b", "s", "a", [2, 3]]], 'features of lengths 1, 2 in "edges"', "as many numbers"),
    ],
)
def test_broken_edges_are_named(edges: Any, found: str, expected: str) -> None:
    fail_with(found, expected, edges=edges)


def test_relations_outside_a_vocabulary_are_refused_where_one_is_given() -> None:
    known = ["brother", "daughter"]
    assert len(list(read_graph_lines([LINE], "x", known=known))) == 1
    for changes, found in (
        ({"edges": [["a", "boss", "b"]]}, '["a", "boss", "b"]'),
        ({"edges": [["a", ["brother", "boss"], "b"]]}, '["a", ["brother", "boss"], "b"]'),
        ({"absent": [["Ann", "boss", "Bob"]]}, '["Ann", "boss", "Bob"]'),
    ):
        message = fail(json.dumps(GRAPH | changes), known=known)
        assert message == f"found {found}; expected a relation that the model knows: brother, daughter"


def test_absent_edges() -> None:
    absent = [["Ann", "son", "Eve"], ["Lil", ["son", "brother"], "Ann"], ["Ann", "son", "Eve"]]
    found = story(absent=absent)
    assert found.names == ("Ann", "Lil", "Bob", "Eve")
    assert found.absent == ((0, 3, "son"), (1, 0, "son"), (1, 0, "brother"))
    assert found.edges == story().edges
    assert story(absent=[]) == story()
    assert story(absent=[["Ann", "son", "Lil"]]).absent == ((0, 1, "son"),)  # another relation of a told pair


@pytest.mark.parametrize(
    ("absent", "found", "expected"),
    [
        (None, "null", '"absent": a list of'),
        ("Ann", '"Ann"', '"absent": a list of'),
        ({}, "{}", '"absent": a list of'),
        (["Ann"], '"Ann"', "an absent edge as [from, relation, to]"),
        ([["Ann", "son"]], '["Ann", "son"]', "an absent edge as"),
        ([["Ann", "son", "Bob", 1]], '["Ann", "son", "Bob", 1]', "an absent edge as"),
        ([["Ann", "", "Bob"]], '["Ann", "", "Bob"]', "an edge as"),
        ([["Ann", "son", 1.5]], '["Ann", "son", 1.5]', "nodes that are texts or whole numbers"),
        ([["Ann", "daughter", "Lil"]], '["Ann", "daughter", "Lil"]', "an edge that is told either"),
        ([["Ann", ["son", "daughter"], "Lil"]], '["Ann", ["son", "daughter"], "Lil"]', "an edge that is told either"),
    ],
)
def test_broken_absent_edges_are_named(absent: Any, found: str, expected: str) -> None:
    fail_with(found, expected, absent=absent)


# --- rows in memory ---------------------------------------------------------------------------------------------------


def test_tuples_are_lists() -> None:
    row = {"nodes": {"Ann": ("boss", "heir")}, "edges": (("Ann", ("r", "s"), "Bob", (1, 2)),), "query": ("Ann", "Bob")}
    assert graph_from_json(row, "x") == graph_from_json(json.loads(json.dumps(row)), "x")


def test_values_that_json_does_not_have_are_refused() -> None:
    loop: list[Any] = ["a", "r"]
    loop.append(loop)
    endless = 10**5000  # Python writes no number of so many digits
    changes: list[dict[Any, Any]] = [
        {"nodes": {("a", "b"): None}},
        {"nodes": {b"a": None}},
        {"nodes": {"Ann", "Bob"}},
        {"nodes": [endless]},
        {"edges": [loop]},
        {"edges": [["a", "r", endless]]},
        {"edges": [["a", "r", "b", endless]]},
        {"edges": [["a", {"r"}, "b"]]},
        {"query": ["Ann", endless]},
        {"query": loop},
        {"target": {("Ann", "Bob"): "son"}},
        {"target": b"son"},
        {"target": 1j},
        {"target": endless},
        {("edges",): []},
    ]
    for change in changes:
        with pytest.raises(DataError, match=r"^x: found "):
            graph_from_json(GRAPH | change, "x")


def test_splits_of_rows() -> None:
    splits = {"train": [GRAPH, GRAPH], "dev": [GRAPH | {"target": "uncle"}], "test": [GRAPH]}
    rows = relation_rows(splits)
    assert [story.target for story in (*rows.train, *rows.valid)] == ["son", "son", "uncle"]
    assert list(rows.tests) == [2]
    assert relation_rows({"train": splits["train"], "valid": splits["dev"]}).valid == rows.valid
    with pytest.raises(DataError, match=r'^train\[1\]: found no "target"'):
        relation_rows({"train": [GRAPH, {"edges": EDGES, "query": ["Ann", "Bob"]}]})
    with pytest.raises(UserError, match="found the split 'tests'; expected train, test and valid"):
        relation_rows({"tests": [GRAPH]})
    with pytest.raises(UserError, match="found the splits dev and valid, two names for the same"):
        relation_rows({"train": [GRAPH], "dev": [GRAPH], "valid": [GRAPH]})


def test_nodes_of_both_types_have_a_fingerprint() -> None:
    row = {"nodes": {1: "boss", "Ann": None}, "edges": [[1, "r", "Ann"]], "query": [1, "Ann"], "target": "s"}
    rows, other = relation_rows({"train": [row]}), relation_rows({"train": [row | {"target": "t"}]})
    assert rows.train[0].names == ("1", "Ann")
    assert rows.fingerprint != other.fingerprint
    assert relation_rows({"train": [row]}).fingerprint == rows.fingerprint


def test_a_node_has_a_name() -> None:
    row = {"edges": [["", "r", "b"]], "query": ["", "b"], "target": "x"}
    with pytest.raises(DataError, match="nodes that are texts or whole numbers, none of them empty"):
        graph_from_json(row, "rows")


@pytest.mark.parametrize("field", ["edges", "query", "target"])
def test_half_a_character_in_a_line_is_refused(field: str) -> None:
    row = {"edges": [["a", "r", "b"]], "query": ["a", "b"], "target": "x"}
    row[field] = {"edges": [["a", "r\ud800", "b"]], "query": ["a", "\udc00"], "target": "\ud83d"}[field]
    with pytest.raises(DataError, match=r"rows:1: .*whole characters"):
        list(read_graph_lines([json.dumps(row)], "rows"))
    row[field] = {"edges": [["a", "\U0001f600", "b"]], "query": ["b", "a"], "target": "\U0001f600"}[field]
    assert len(list(read_graph_lines([json.dumps(row)], "rows"))) == 1
