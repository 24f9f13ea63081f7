"""Rows as JSON, what is asked: questions and answers of pairs, nodes and graphs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from edge_transformer.data.relations import fields
from edge_transformer.data.relations.fields import WHOLE_GRAPH, graph_from_json
from edge_transformer.data.relations.rows import UNKNOWN_TARGET, Story
from edge_transformer.errors import DataError

GRAPH = {"edges": [["Ann", "daughter", "Lil"], ["Lil", "brother", "Bob"]]}  # Ann is 0, Lil 1, Bob 2
BOTH = [["Ann", "Bob"], ["Lil", "Ann"]]
PAIRS = [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]


def read(asks: str, needs_target: bool = True, **row: Any) -> Story:
    value = json.loads(json.dumps(GRAPH | row))
    return graph_from_json(value, "rows.jsonl", 7, needs_target, asks=asks)


def questions(asks: str, needs_target: bool = True, **row: Any) -> list[Any]:
    return list(read(asks, needs_target, **row).questions)


def fail(asks: str, needs_target: bool = True, **row: Any) -> str:
    with pytest.raises(DataError) as caught:
        read(asks, needs_target, **row)
    assert (caught.value.line, str(caught.value)[:20]) == (7, "rows.jsonl:7: found ")
    return str(caught.value).removeprefix("rows.jsonl:7: ")


# --- answers, wherever they stand -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ("son", "son"),
        (["son", "heir", "son"], ("son", "heir")),
        (["son"], ("son",)),
        ([], ()),
        (3, 3.0),
        (-0.5, -0.5),
        (0, 0.0),
        (10**29, 1e29),
    ],
)
def test_kinds_of_answers(given: Any, answer: Any) -> None:
    found = [
        questions("pairs", query=["Ann", "Bob"], target=given),
        questions("pairs", query=[["Ann", "Bob"]], target=[given]),
        questions("graph", target=given),
        questions("nodes", target={"Lil": given}),
    ]
    assert found == [[((0, 2), answer)], [((0, 2), answer)], [(WHOLE_GRAPH, answer)], [((1, 1), answer)]]
    assert {type(target) for [(_, target)] in found} == {type(answer)}


@pytest.mark.parametrize("needs_target", [True, False])
@pytest.mark.parametrize(
    "broken",
    [
        "",
        True,
        False,
        float("nan"),
        float("inf"),
        -float("inf"),
        1e30,
        10**31,
        [""],
        ["son", 3],
        [None],
        [["son"]],
        {"a": 1},
    ],
)
def test_broken_answers_are_named(broken: Any, needs_target: bool) -> None:
    expected = "; expected a target that is a label, a list of labels or a number"
    for asks, row in (
        ("pairs", {"query": ["Ann", "Bob"], "target": broken}),
        ("pairs", {"query": BOTH, "target": ["son", broken]}),
        ("pairs", {"query": "all", "target": [["Ann", broken, "Bob"]]}),
        ("graph", {"target": broken}),
        ("nodes", {"target": {"Ann": "boss", "Lil": broken}}),
    ):
        message = fail(asks, needs_target, **row)
        assert message == f"found {json.dumps(row['target'])}{expected}"


def test_answers_are_needed_for_training_only() -> None:
    for asks, row, pairs in (
        ("pairs", {"query": ["Ann", "Bob"]}, [(0, 2)]),
        ("pairs", {"query": BOTH}, [(0, 2), (1, 0)]),
        ("pairs", {"query": "all"}, PAIRS),
        ("graph", {}, [WHOLE_GRAPH]),
        ("nodes", {}, [(0, 0), (1, 1), (2, 2)]),
    ):
        nothing: list[dict[str, Any]] = [{}, {"target": None}]
        for missing in nothing:
            assert questions(asks, False, **row, **missing) == [(pair, UNKNOWN_TARGET) for pair in pairs]
            found = "null" if missing else 'no "target"'
            assert fail(asks, **row, **missing).startswith(f'found {found}; expected "target": ')


@pytest.mark.parametrize(
    ("asks", "row"),
    [
        ("pairs", {"query": BOTH, "target": ["son", None]}),
        ("nodes", {"target": {"Ann": None, "Lil": "boss"}}),
    ],
)
def test_one_of_several_answers_may_miss_in_questions_only(asks: str, row: dict[str, Any]) -> None:
    assert UNKNOWN_TARGET in [target for _, target in questions(asks, False, **row)]
    assert "expected a target that is a label" in fail(asks, **row)


# --- pairs ------------------------------------------------------------------------------------------------------------


def test_several_questions() -> None:
    found = read("pairs", query=BOTH, target=["son", ["mother", "boss"]])
    assert found.questions == (((0, 2), "son"), ((1, 0), ("mother", "boss")))
    assert (found.query, found.target) == ((0, 2), "son")
    assert found.more == (((1, 0), ("mother", "boss")),)
    assert questions("pairs", query=[["Ann", "Ann"], ["Bob", "Ann"]], target=[1, 2]) == [((0, 0), 1.0), ((2, 0), 2.0)]
    whole: dict[str, Any] = {"edges": [[1, "r", 2]], "query": [[1, 2], ["2", 1]], "target": ["a", "b"]}
    assert questions("pairs", **whole) == [((0, 1), "a"), ((1, 0), "b")]


def test_a_question_may_be_about_nodes_without_edges() -> None:
    found = read("pairs", nodes=["Eve"], absent=[["Ann", "son", "Tom"]], query=["Eve", "Tom"], target="none")
    assert found.query == (0, 4)


@pytest.mark.parametrize(
    ("query", "found", "expected"),
    [
        (None, "null", '"query": two nodes, such as'),
        ([], "[]", '"query": two nodes'),
        (["Ann"], '["Ann"]', '"query": two nodes'),
        (["Ann", "Lil", "Bob"], '["Ann", "Lil", "Bob"]', '"query": two nodes'),
        ("Ann", '"Ann"', '"query": two nodes'),
        ("ALL", '"ALL"', '"query": two nodes'),
        (3, "3", '"query": two nodes'),
        ({"from": "Ann"}, '{"from": "Ann"}', '"query": two nodes'),
        ([["Ann", "Bob"], ["Lil"]], '[["Ann", "Bob"], ["Lil"]]', '"query": two nodes'),
        ([["Ann", "Bob"], "Lil"], '[["Ann", "Bob"], "Lil"]', '"query": two nodes'),
        ([["Ann", ["Bob"]]], '[["Ann", ["Bob"]]]', '"query": two nodes'),
        (["Ann", "Zoe"], '["Ann", "Zoe"]', 'nodes that some edge or "nodes" mentions: Ann, Lil, Bob'),
        (["Ann", None], '["Ann", null]', 'nodes that some edge or "nodes" mentions'),
        (["Ann", 1.5], '["Ann", 1.5]', 'nodes that some edge or "nodes" mentions'),
        (["Ann", {"a": 1}], '["Ann", {"a": 1}]', 'nodes that some edge or "nodes" mentions'),
        ([["Ann", "Bob"], ["Ann", "Zoe"]], '[["Ann", "Bob"], ["Ann", "Zoe"]]', "nodes that some edge"),
        ([["Ann", "Bob"], ["Ann", "Bob"]], '[["Ann", "Bob"], ["Ann", "Bob"]]', "each pair of nodes once"),
    ],
)
def test_broken_queries_are_named(query: Any, found: str, expected: str) -> None:
    message = fail("pairs", query=query, target="son")
    assert message.startswith(f"found {found}; expected {expected}")


def test_truth_values_are_no_nodes() -> None:
    edges = [["True", "r", "1"]]
    assert "nodes that some edge" in fail("pairs", edges=edges, query=[True, "1"], target="son")


def test_long_lists_of_nodes_are_cut() -> None:
    edges = [[0, "r", node] for node in range(1, 100)]
    message = fail("pairs", edges=edges, query=["Ann", 0], target="son")
    assert message.endswith(f"mentions: {', '.join(map(str, range(20)))}, ...")


@pytest.mark.parametrize("target", ["son", ["son"], ["son", "mother", "uncle"], 3, {"Ann": "son"}, []])
def test_as_many_answers_as_questions(target: Any) -> None:
    expected = '"target": a list with an answer for each of the 2 pairs of "query"'
    assert fail("pairs", query=BOTH, target=target) == f"found {json.dumps(target)}; expected {expected}"


# --- all pairs --------------------------------------------------------------------------------------------------------


def test_all_pairs_with_labels() -> None:
    target = [["Ann", "son", "Bob"], ["Ann", ["heir", "son"], "Bob"], ["Bob", "mother", "Ann"]]
    found = dict(questions("pairs", query="all", target=target))
    assert list(found) == PAIRS
    assert {pair: labels for pair, labels in found.items() if labels} == {(0, 2): ("son", "heir"), (2, 0): ("mother",)}
    assert set(dict(questions("pairs", query="all", target=[])).values()) == {()}


def test_all_pairs_with_numbers_are_those_that_are_named() -> None:
    target = [["Bob", 2, "Ann"], ["Ann", 0.5, "Bob"], ["Bob", 2.0, "Ann"]]
    assert questions("pairs", query="all", target=target) == [((2, 0), 2.0), ((0, 2), 0.5)]


@pytest.mark.parametrize(
    ("target", "found", "expected"),
    [
        ("son", '"son"', '"target" of "query": "all": a list of [from, label or number, to]'),
        ({"Ann": "son"}, '{"Ann": "son"}', '"target" of "query": "all"'),
        (3, "3", '"target" of "query": "all"'),
        (["son"], '"son"', '"target" of "query": "all"'),
        ([["Ann", "son"]], '["Ann", "son"]', '"target" of "query": "all"'),
        ([["Ann", "son", "Ann"]], '["Ann", "son", "Ann"]', '"target" of "query": "all"'),
        ([["Ann", [], "Bob"]], '["Ann", [], "Bob"]', '"target" of "query": "all"'),
        ([["Ann", "son", "Zoe"]], '["Ann", "son", "Zoe"]', 'nodes that some edge or "nodes" mentions'),
        ([["Ann", 1, "Bob"], ["Ann", 2, "Bob"]], '["Ann", 2, "Bob"]', "one number a pair"),
        ([["Ann", 1, "Bob"], ["Lil", "son", "Bob"]], '[["Ann", 1, "Bob"]', "either labels or numbers as answers"),
    ],
)
def test_broken_answers_of_all_pairs_are_named(target: Any, found: str, expected: str) -> None:
    message = fail("pairs", query="all", target=target)
    assert message.startswith(f"found {found}")
    assert f"; expected {expected}" in message


def test_a_label_that_is_null_is_none() -> None:
    target = [["Ann", None, "Bob"]]
    assert "expected a target that is a label" in fail("pairs", query="all", target=target)
    assert fail("pairs", False, query="all", target=target).startswith(
        'found ["Ann", null, "Bob"]; expected "target" of'
    )


def test_all_pairs_of_too_few_or_too_many_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        fail("pairs", edges=[["a", "r", "a"]], query="all", target=[])
        == 'found a graph of 1 node; expected "query": "all" for two nodes or more'
    )
    monkeypatch.setattr(fields, "free_memory", lambda: 150_000)
    monkeypatch.setattr(fields, "UNASKED_BYTES", 0)
    nodes = list(range(20))
    assert fail("pairs", nodes=nodes, edges=[], query="all", target=[]) == (
        'found "query": "all" for a graph of 20 nodes, which needs at least 0.00016 GB of memory; expected at most '
        "about 19 nodes, as 0.00015 GB are free; ask for a list of pairs in several rows"
    )
    assert len(questions("pairs", nodes=nodes[:19], edges=[], query="all", target=[])) == 19 * 18


# --- nodes and graphs -------------------------------------------------------------------------------------------------


def test_answers_of_nodes() -> None:
    target = {"Bob": "boss", "Ann": "heir"}
    assert questions("nodes", target=target) == [((2, 2), "boss"), ((0, 0), "heir")]
    found = questions("nodes", edges=[[1, "r", 2]], target={"2": 1.5})
    assert found == [((1, 1), 1.5)]
    in_memory = graph_from_json({"edges": [[1, "r", 2]], "target": {2: ["a", "b"]}}, "x", asks="nodes")
    assert in_memory.questions == (((1, 1), ("a", "b")),)


@pytest.mark.parametrize(
    ("target", "found", "expected"),
    [
        ("boss", '"boss"', '"target": an object with the label, labels or number of each node'),
        (["boss"], '["boss"]', '"target": an object'),
        (3, "3", '"target": an object'),
        ({}, "{}", '"target": an object'),
        ({"Zoe": "boss"}, '{"Zoe": "boss"}', 'nodes that some edge or "nodes" mentions: Ann, Lil, Bob'),
        ({"Ann": "boss", "": "boss"}, '{"Ann": "boss", "": "boss"}', "nodes that some edge"),
    ],
)
def test_broken_answers_of_nodes_are_named(target: Any, found: str, expected: str) -> None:
    assert fail("nodes", target=target).startswith(f"found {found}; expected {expected}")


def test_a_node_has_one_answer() -> None:
    row = {"edges": [[1, "r", 2]], "target": {1: "a", "1": "b"}}
    with pytest.raises(DataError, match="expected each node once"):
        graph_from_json(row, "x", asks="nodes")


def test_a_graph_has_one_question() -> None:
    found = read("graph", nodes={"Eve": "boss"}, target="family")
    assert found.questions == ((WHOLE_GRAPH, "family"),)
    assert found.more == ()
