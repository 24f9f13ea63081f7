"""Stories: what they say of themselves, and which questions are as those of CLUTRR."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from edge_transformer.data.relations.fields import graph_from_json
from edge_transformer.data.relations.generate import generate
from edge_transformer.data.relations.rows import RelationRows, Story, guess_note, told_path

PLAIN = Story(((0, 1), (1, 2)), ("daughter", "brother"), (0, 2), "son", ("Ann", "Lil", "Bob"))


def test_a_story() -> None:
    assert (PLAIN.k, PLAIN.size, PLAIN.label) == (2, 3, "son")
    assert PLAIN.questions == (((0, 2), "son"),)
    assert replace(PLAIN, needed=1).k == 1
    more = replace(PLAIN, more=(((1, 0), "mother"), ((2, 2), "himself")))
    assert more.questions == (((0, 2), "son"), ((1, 0), "mother"), ((2, 2), "himself"))


@pytest.mark.parametrize("target", [("son",), (), 1.5])
def test_other_answers_are_no_label(target: Any) -> None:
    with pytest.raises(AssertionError, match="another kind of answer"):
        _ = replace(PLAIN, target=target).label


def test_the_graph_is_what_the_model_sees() -> None:
    same = [
        replace(PLAIN, names=("x", "y", "z"), target="uncle", id=7, genders=("male",) * 3, needed=1),
        replace(PLAIN, edges=PLAIN.edges[::-1], relations=PLAIN.relations[::-1]),
        replace(PLAIN, edges=(*PLAIN.edges, (0, 1)), relations=(*PLAIN.relations, "daughter")),
    ]
    assert {story.graph for story in same} == {PLAIN.graph}
    other = [
        replace(PLAIN, names=(*PLAIN.names, "Eve")),
        replace(PLAIN, relations=("daughter", "sister")),
        replace(PLAIN, edges=((0, 1), (2, 1))),
        replace(PLAIN, query=(2, 0)),
        replace(PLAIN, more=(((2, 0), "mother"),)),
        replace(PLAIN, node_labels=((0, "boss"),)),
        replace(PLAIN, absent=((0, 1, "son"),)),
        replace(PLAIN, node_features=((1.0,), None, None)),
        replace(PLAIN, edge_features=((1.0,), None)),
        replace(PLAIN, edge_features=((2.0,), None)),
    ]
    assert len({story.graph for story in (PLAIN, *other)}) == 1 + len(other)


def test_plain_stories_are_as_those_of_clutrr() -> None:
    assert PLAIN.is_plain
    assert replace(PLAIN, edges=((0, 1), (1, 0))).is_plain
    for change in (
        {"more": (((2, 0), "mother"),)},
        {"node_labels": ((0, "boss"),)},
        {"absent": ((0, 1, "son"),)},
        {"node_features": ((1.0,), None, None)},
        {"edge_features": ((1.0,), None)},
        {"target": ("son",)},
        {"target": 1.5},
        {"edges": ((0, 1), (0, 1))},
    ):
        assert not replace(PLAIN, **change).is_plain, change


def test_rows_by_split() -> None:
    longer = replace(PLAIN, needed=5)
    rows = RelationRows.of("mine", "1234", {"train": [PLAIN], "test": [longer, PLAIN, longer], "valid": [longer]})
    assert (rows.train, rows.valid) == ((PLAIN,), (longer,))
    assert rows.tests == {2: (PLAIN,), 5: (longer, longer)}
    assert list(rows.tests) == [2, 5]
    assert RelationRows.of("none", "", {}).tests == {}


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
    assert told_path([(0, 0)], (0, 0)) == [0, 0]
    assert told_path([(n, n + 1) for n in range(20_000)], (0, 20_000)) == list(range(20_001))
    assert told_path(edges, (3, 0)) is None
