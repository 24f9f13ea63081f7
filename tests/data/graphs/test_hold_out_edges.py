"""Held-out constructions: what is held out, and that training keeps none of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from edge_transformer.data.graphs.edges import SentenceGraph
from edge_transformer.data.graphs.hold_out_edges import construction, hold_out_constructions, longest_chain
from edge_transformer.errors import DataError

PLAIN = SentenceGraph(("Ann", "saw", "Bob"), ((1, 0, "agent"), (1, 2, "theme")))
DEEP = SentenceGraph(tuple("abcd"), ((0, 1, "nmod"), (1, 2, "nmod"), (2, 3, "nmod"), (3, 2, "theme")), group="deep")
GAVE = SentenceGraph(tuple("abcd"), ((1, 0, "theme"), (1, 2, "recipient"), (0, 3, "nmod")))
SAW = SentenceGraph(tuple("abcd"), ((1, 0, "theme"), (1, 2, "agent"), (0, 3, "nmod")))


def test_how_deep_a_label_nests() -> None:
    assert [longest_chain(row, "nmod") for row in (PLAIN, DEEP, GAVE)] == [0, 3, 1]
    circle = SentenceGraph(("a", "b"), ((0, 1, "nmod"), (1, 0, "nmod"), (1, 1, "nmod")))
    assert longest_chain(circle, "nmod") == 1


def test_constructions() -> None:
    found = [construction(row, ("nmod",), ("recipient",), 2) for row in (PLAIN, DEEP, GAVE, SAW)]
    assert found == ["", "nmod 3 deep, deep", "modified theme, before its head, beside recipient", ""]
    assert construction(DEEP, ("nmod",), (), 3) == ""


def test_train_keeps_none_of_what_is_asked() -> None:
    rows = [PLAIN] * 20 + [SAW] * 30 + [DEEP] * 9 + [GAVE] * 7
    parts = hold_out_constructions(rows, ("nmod",), ("recipient",), 2, seed=1, scored=8, dev=5)
    assert Counter(parts.test.values()) == {
        "nmod 3 deep, deep": 8,
        "modified theme, before its head, beside recipient": 7,
    }
    assert len(parts.train) == 45
    assert len(parts.dev) == 5
    assert not {*parts.train, *parts.dev} & parts.test.keys()
    assert all(rows[row] in (PLAIN, SAW) for row in (*parts.train, *parts.dev))


def test_rows_with_words_that_training_lacks_are_not_asked() -> None:
    other = SentenceGraph(("x", "b", "c", "d"), DEEP.edges)
    parts = hold_out_constructions([PLAIN, SAW, SAW, DEEP, other], ("nmod",), (), 2, seed=1)
    assert list(parts.test) == [3]


@pytest.mark.parametrize("rows", [[PLAIN] * 3, [DEEP] * 3])
def test_nothing_to_hold_out(rows: list[SentenceGraph]) -> None:
    with pytest.raises(DataError, match="rows to hold out; expected some rows, but not all"):
        hold_out_constructions(rows, ("nmod",), (), 2, seed=1, source=Path("train.jsonl"))
