"""The facts about a data set: small ones counted by hand, and what is known of the official CLUTRR set."""

from __future__ import annotations

import pytest

from edge_transformer.data.facts import Facts, best_accuracy, describe, is_chain
from edge_transformer.data.relations.clutrr import read_clutrr
from edge_transformer.data.relations.rows import RelationRows, Story
from official_data import benchmark

OFFICIAL = benchmark("clutrr/data_db9b8f04")


def story(*edges: tuple[int, str, int], target: str = "t", query: tuple[int, int] = (0, 1), nodes: int = 0) -> Story:
    size = nodes or max(max(start, end) for start, _, end in edges) + 1
    return Story(
        edges=tuple((start, end) for start, _, end in edges),
        relations=tuple(relation for _, relation, _ in edges),
        query=query,
        target=target,
        names=tuple(map(str, range(size))),
    )


A, B = (0, "a", 1), (1, "b", 2)


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (story(A), True),
        (story(A, B), True),
        (story((2, "a", 0), (0, "b", 1)), True),  # numbers do not matter
        (story(B, A), False),  # not told in order
        (story(A, (1, "b", 0)), False),  # comes back
        (story(A, (1, "b", 0), nodes=3), False),  # the same, with a person nobody speaks of
        (story(A, (0, "b", 2)), False),  # two from one
        (story(A, B, (2, "c", 0)), False),  # a circle
        (story(A, nodes=3), False),
        (story((0, "a", 0)), False),
    ],
)
def test_chains(graph: Story, expected: bool) -> None:
    assert is_chain(graph) is expected


def test_best_accuracy() -> None:
    assert best_accuracy([story(A, target="x"), story(B, target="y")]) == 1.0
    conflicting = [story(A, B, target=target) for target in "xxyz"]
    assert best_accuracy(conflicting) == 0.5
    assert best_accuracy([*conflicting, story(A, B, query=(1, 0)), story(A)]) == pytest.approx(4 / 6)
    assert best_accuracy([story(A, B, target="x"), story(B, A, target="y")]) == 0.5  # the same graph, told otherwise


def test_facts_counted_by_hand() -> None:
    train = (story(A, target="x"), story(A, target="y"), story(A, B, target="x"), story(A, (1, "a", 0), target="x"))
    tests = {
        1: (story(A, target="x"), story((0, "b", 1), target="x")),
        2: (story(A, (1, "new", 2), target="x"), story(A, B, target="new"), story(A, B, target="y")),
    }
    facts = describe(RelationRows("name", "print", train, tests, valid=(story(A, target="new"),)))
    assert (facts.name, facts.fingerprint) == ("name", "print")
    assert list(facts.relations.items()) == [("a", 5), ("b", 1)]
    assert list(facts.targets.items()) == [("x", 3), ("y", 1)]
    assert list(facts.splits) == ["train", "valid", "test k=1", "test k=2"]
    learned, valid, short, long = facts.splits.values()
    assert (learned.rows, learned.graphs, learned.chains, learned.nodes) == (4, 3, 3, (2, 3))
    assert (learned.in_train, learned.unanswerable, learned.best) == (4, 0, 0.75)
    assert (valid.in_train, valid.unanswerable) == (1, 1)
    assert (short.rows, short.graphs, short.in_train, short.unanswerable, short.best) == (2, 2, 1, 0, 1.0)
    assert (long.rows, long.graphs, long.in_train, long.unanswerable) == (3, 2, 2, 2)
    assert long.best == pytest.approx(2 / 3)


def test_no_validation_rows() -> None:
    facts = describe(RelationRows("name", "print", (story(A),), {1: (story(A),)}))
    assert list(facts.splits) == ["train", "test k=1"]


@pytest.fixture(scope="module")
def official() -> Facts:
    if not OFFICIAL.is_dir():
        pytest.skip(f"needs the official CLUTRR set in {OFFICIAL}")
    return describe(read_clutrr(OFFICIAL))


def test_official_train(official: Facts) -> None:
    train = official.splits["train"]
    assert (train.rows, train.graphs) == (15_083, 2_340)
    assert (len(official.relations), len(official.targets)) == (14, 18)
    assert train.nodes == (3, 5)
    assert 0.9 < train.chains / train.rows < 1  # most rows are chains; from k = 4 on some are not
    assert sum(official.targets.values()) == 15_083
    assert train.in_train == train.rows
    assert train.best < 1  # 29 graphs carry conflicting labels


def test_official_tests(official: Facts) -> None:
    for k in range(2, 11):
        split = official.splits[f"test k={k}"]
        assert split.in_train == (split.rows if k == 2 else 0)
        assert split.unanswerable == 0
        assert split.best == (pytest.approx(0.953, abs=5e-4) if k == 3 else 1.0)
