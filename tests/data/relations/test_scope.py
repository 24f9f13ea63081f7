"""What all questions of CLUTRR have in common."""

from __future__ import annotations

import pytest

from edge_transformer.data.relations.generate import generate
from edge_transformer.data.relations.rows import graph_from_json, guess_note, told_path

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
