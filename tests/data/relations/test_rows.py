"""Labelled graphs as JSON lines: what is read, what is refused, and which questions are as those of CLUTRR."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_transformer.data.relations.generate import generate
from edge_transformer.data.relations.rows import (
    MAX_NODES,
    Story,
    graph_from_json,
    guess_note,
    read_graph_lines,
    told_path,
)
from edge_transformer.errors import DataError
from edge_transformer.io.streams import MAX_CHARACTERS

EDGES = [["Ann", "daughter", "Lil"], ["Lil", "brother", "Bob"]]
GRAPH = {"edges": EDGES, "query": ["Ann", "Bob"], "target": "son"}
LINE = json.dumps(GRAPH)


def read(*lines: str, needs_target: bool = False) -> list[Story]:
    return list(read_graph_lines(lines, "graphs.jsonl", needs_target))


def fail(line: str, **options: Any) -> str:
    """The message that a file with this as its third line ends in."""
    with pytest.raises(DataError) as caught:
        list(read_graph_lines([LINE, "", line, LINE], "graphs.jsonl", **options))
    assert caught.value.line == 3
    assert str(caught.value).startswith("graphs.jsonl:3: found ")
    return str(caught.value).removeprefix("graphs.jsonl:3: ")


def test_a_graph() -> None:
    [story] = read(LINE, needs_target=True)
    assert story == Story(((0, 1), (1, 2)), ("daughter", "brother"), (0, 2), "son", ("Ann", "Lil", "Bob"))
    assert (story.k, story.size) == (2, 3)


def test_nodes_are_numbered_by_first_mention() -> None:
    [story] = read('{"edges": [["c", "r", "a"], ["b", "s", "c"]], "query": ["a", "b"]}')
    assert story.names == ("c", "a", "b")
    assert story.edges == ((0, 1), (2, 0))
    assert story.query == (1, 2)
    assert story.target == ""  # a question


def test_nodes_may_be_whole_numbers() -> None:
    [numbers] = read('{"edges": [[7, "r", -3], [-3, "s", 100000000000000000000]], "query": [7, 100000000000000000000]}')
    assert numbers.names == ("7", "-3", "100000000000000000000")
    [mixed] = read('{"edges": [[7, "r", "x"]], "query": ["7", "x"]}')  # 7 and "7" are the same node
    assert (mixed.query, mixed.size) == ((0, 1), 2)


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


def test_self_loops_and_edges_that_agree() -> None:
    [story] = read('{"edges": [["a", "r", "a"], ["a", "r", "a"]], "query": ["a", "a"]}')
    assert (story.edges, story.query, story.size) == (((0, 0), (0, 0)), (0, 0), 1)


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


@pytest.mark.parametrize("value", [None, 3, "text", [], [GRAPH], True])
def test_json_that_is_no_object(value: Any) -> None:
    assert fail(json.dumps(value)) == f'found {json.dumps(value)}; expected an object with "edges" and "query"'


@pytest.mark.parametrize(
    ("changes", "found", "expected"),
    [
        ({"edges": None}, "null", '"edges": a list of'),
        ({"edges": []}, "[]", '"edges": a list of'),
        ({"edges": {"a": "b"}}, '{"a": "b"}', '"edges": a list of'),
        ({"edges": ["abc"]}, '"abc"', "an edge as [from, relation, to]"),
        ({"edges": [["a", "r"]]}, '["a", "r"]', "an edge as"),
        ({"edges": [["a", "r", "b", "c"]]}, '["a", "r", "b", "c"]', "an edge as"),
        ({"edges": [["a", 1, "b"]]}, '["a", 1, "b"]', "an edge as"),
        ({"edges": [["a", "", "b"]]}, '["a", "", "b"]', "an edge as"),
        ({"edges": [["a", None, "b"]]}, '["a", null, "b"]', "an edge as"),
        ({"edges": [[1.0, "r", "b"]]}, '[1.0, "r", "b"]', "nodes that are texts or whole numbers"),
        ({"edges": [["a", "r", True]]}, '["a", "r", true]', "nodes that are texts or whole numbers"),
        ({"edges": [["a", "r", None]]}, '["a", "r", null]', "nodes that are texts or whole numbers"),
        ({"edges": [["a", "r", ["b"]]]}, '["a", "r", ["b"]]', "nodes that are texts or whole numbers"),
        ({"edges": [*EDGES, ["Ann", "niece", "Lil"]]}, '[["Ann", "daughter"', "one relation an edge"),
        ({"query": None}, "null", '"query": the two nodes'),
        ({"query": ["Ann"]}, '["Ann"]', '"query": the two nodes'),
        ({"query": ["Ann", "Lil", "Bob"]}, '["Ann", "Lil", "Bob"]', '"query": the two nodes'),
        ({"query": "Ann"}, '"Ann"', '"query": the two nodes'),
        ({"query": ["Ann", "Zoe"]}, '["Ann", "Zoe"]', "nodes that some edge mentions: Ann, Lil, Bob"),
        ({"query": ["Ann", None]}, '["Ann", null]', "nodes that some edge mentions"),
        ({"edges": [["True", "r", "b"]], "query": [True, "b"]}, '[true, "b"]', "nodes that are texts"),
        ({"target": 3}, "3", '"target"'),
        ({"target": None}, "null", '"target"'),
    ],
)
def test_broken_graphs_are_named(changes: dict[str, Any], found: str, expected: str) -> None:
    message = fail(json.dumps(GRAPH | changes))
    assert message.startswith(f"found {found}")
    assert f"; expected {expected}" in message


@pytest.mark.parametrize("name", ["edges", "query"])
def test_missing_fields(name: str) -> None:
    message = fail(json.dumps({key: value for key, value in GRAPH.items() if key != name}))
    assert message.startswith(f'found no "{name}"; expected "{name}"')


def test_unknown_fields_are_refused() -> None:
    message = fail(json.dumps(GRAPH | {"nodes": ["Ann"]}))
    assert message == 'found the field "nodes"; expected no other than "edges", "query", "target", "id"'
    assert read(json.dumps(GRAPH | {"id": 7}))[0].id == 7


def test_target_is_needed_for_training_only() -> None:
    question = json.dumps({"edges": EDGES, "query": ["Ann", "Bob"]})
    assert read(question)[0].target == ""
    assert 'expected "target"' in fail(question, needs_target=True)
    assert 'expected "target"' in fail(json.dumps(GRAPH | {"target": ""}), needs_target=True)


def test_relations_outside_a_vocabulary_are_refused_where_one_is_given() -> None:
    assert len(list(read_graph_lines([LINE], "x", known=["brother", "daughter"]))) == 1
    message = fail(json.dumps(GRAPH | {"edges": [["a", "boss", "b"]]}), known=["brother", "daughter"])
    assert message == 'found ["a", "boss", "b"]; expected a relation that the model knows: brother, daughter'


def test_most_nodes() -> None:
    def star(nodes: int) -> str:
        return json.dumps({"edges": [[0, "r", node] for node in range(1, nodes)], "query": [0, 1]})

    assert read(star(MAX_NODES))[0].size == MAX_NODES
    assert fail(star(MAX_NODES + 1)) == f"found a graph of {MAX_NODES + 1} nodes; expected at most {MAX_NODES}"
    assert fail(star(4), max_nodes=3) == "found a graph of 4 nodes; expected at most 3"


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


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda values: st.lists(values, max_size=4) | st.dictionaries(st.text(max_size=3), values, max_size=3),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(edges=json_values | st.lists(st.lists(json_values, min_size=3, max_size=3), max_size=3), query=json_values)
def test_any_json_is_read_or_refused(edges: Any, query: Any) -> None:
    try:
        [story] = read(json.dumps({"edges": edges, "query": query}))
    except DataError:  # anything else would be a traceback to the user
        return
    assert len(story.relations) == len(story.edges) == len(edges)
    assert max(max(edge) for edge in (*story.edges, story.query)) < story.size


# --- what all questions of CLUTRR have in common ----------------------------------------------------------------------


FAMILY = [["Ann", "wife", "Bob"], ["Bob", "son", "Tom"], ["Eve", "son", "Tom"]]


def note(edges: list[list[str]], *query: str) -> str | None:
    return guess_note(graph_from_json({"edges": edges, "query": list(query)}, "test"))


def test_stories_are_in_scope() -> None:
    train, tests = generate([2, 3, 4], [10], rows=200, seed=1, test_rows=20)
    assert {guess_note(story) for story in (*train, *tests[10])} == {None}
    assert note(FAMILY[::-1], "Ann", "Tom") is None  # told in any order


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (("Ann", "Bob"), "Ann -wife-> Bob is told, and CLUTRR never asks for what is told"),
        (("Bob", "Ann"), "no told edges lead from Bob to Ann, as they do in all of CLUTRR"),
        (("Ann", "Eve"), "no told edges lead from Ann to Eve, as they do in all of CLUTRR"),
        (("Ann", "Ann"), "both ends of the question are Ann, as they never are in CLUTRR"),
    ],
)
def test_other_questions_are_called_guesses(query: tuple[str, str], reason: str) -> None:
    assert note(FAMILY, *query) == f"a guess, however sure: {reason}"


def test_an_edge_from_someone_to_themselves() -> None:
    edges = [*FAMILY, ["Tom", "son", "Tom"], ["Eve", "son", "Eve"]]
    reason = "an edge leads from Tom to Tom, and none in CLUTRR leads from someone to themselves"  # one is enough
    assert note(edges, "Ann", "Tom") == f"a guess, however sure: {reason}"
    both = "both ends of the question are Tom, as they never are in CLUTRR"
    assert note(edges, "Tom", "Tom") == f"a guess, however sure: {both}; {reason}"


def test_nothing_is_known_of_other_relations() -> None:
    assert note([["a", "left", "b"], ["b", "left", "c"]], "c", "a") is None
    assert note([["a", "son", "b"], ["b", "left", "b"]], "a", "b") is None


def test_told_paths() -> None:
    edges = [(0, 1), (1, 2), (2, 0), (2, 3), (1, 3)]
    assert told_path(edges, (0, 3)) == [0, 1, 3]
    assert told_path(edges, (0, 0)) == [0, 1, 2, 0]  # at least one edge
    assert told_path(edges, (3, 0)) is None
