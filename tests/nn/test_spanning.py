"""Trees from scores: the best one with a single root, compared with trying all trees."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from edge_transformer.data.trees.conllu import tree_problem
from edge_transformer.nn.spanning import best_tree, tree_score

INF = float("inf")


@cache
def all_trees(size: int) -> list[tuple[int, ...]]:
    return [heads for heads in product(range(size + 1), repeat=size) if tree_problem(heads) is None]


@st.composite
def score_tables(draw: st.DrawFn) -> np.ndarray:
    nodes = draw(st.integers(2, 6))
    few = st.integers(-3, 3).map(float)  # many ties
    masked = few | st.just(-INF)
    any_number = st.floats(-100, 100)
    return draw(arrays(np.float64, (nodes, nodes), elements=draw(st.sampled_from([few, masked, any_number]))))


@settings(max_examples=300, deadline=None)
@given(scores=score_tables())
def test_no_tree_is_better(scores: np.ndarray) -> None:
    heads = best_tree(scores)
    trees = all_trees(len(heads))
    assert tuple(heads) in trees
    totals = [tree_score(scores, tree) for tree in trees]
    if max(totals) > -INF:
        assert tree_score(scores, heads) == pytest.approx(max(totals), abs=1e-9)


def test_numbers_of_trees() -> None:
    assert [len(all_trees(size)) for size in range(1, 6)] == [size ** (size - 1) for size in range(1, 6)]


@settings(max_examples=30, deadline=None)
@given(size=st.integers(1, 40), seed=st.integers(0, 99), pull=st.sampled_from([-5.0, 0.0, 5.0]))
def test_large_ones_are_trees(size: int, seed: int, pull: float) -> None:
    scores = np.random.default_rng(seed).normal(size=(size + 1, size + 1))
    scores[:, 0] += pull
    assert tree_problem(best_tree(scores).tolist()) is None


def test_one_root_where_many_would_be_better() -> None:
    scores = np.array([[0, 0, 0, 0], [9, 0, 1, 1], [10, 1, 0, 1], [9, 1, 1, 0]], float)
    assert best_tree(scores)[1] == 0
    assert tree_score(scores, best_tree(scores)) == 12


def test_masks_do_not_cost_precision() -> None:
    lowest = float(np.finfo(np.float32).min)
    for mask in (lowest, -1e9, float(np.finfo(np.float64).min)):
        scores = np.full((4, 4), mask)
        scores[1, [0, 2]] = 5, 5 + 1e-7
        scores[2, [0, 1]] = 5 + 3e-7, 5
        scores[3, [0, 1, 2]] = 9, 1, 1 + 1e-7
        assert best_tree(scores).tolist() == [2, 0, 2]
    assert tree_problem(best_tree(np.full((5, 5), -INF)).tolist()) is None


def test_any_kind_of_numbers() -> None:
    assert best_tree([[0, 0], [1, 0]]).tolist() == [0]
    assert best_tree(np.zeros((1, 1))).tolist() == []
    assert best_tree(np.eye(4, dtype=np.float32)[::-1]).tolist() == best_tree(np.eye(4)[::-1]).tolist()
    given = np.random.default_rng(0).normal(size=(4, 4))
    before = given.copy()
    best_tree(given)
    assert (given == before).all()


@pytest.mark.parametrize("bad", [np.zeros((2, 3)), np.zeros(4), np.zeros((0, 0)), np.full((3, 3), INF)])
def test_scores_that_make_no_sense(bad: np.ndarray) -> None:
    with pytest.raises(ValueError, match="scores"):
        best_tree(bad)
    with pytest.raises(ValueError, match="nan"):
        best_tree(np.full((3, 3), np.nan))


def test_what_is_never_looked_at() -> None:
    scores = np.random.default_rng(1).normal(size=(5, 5))
    heads = best_tree(scores)
    scores[0] = np.nan
    np.fill_diagonal(scores, np.nan)
    assert (best_tree(scores) == heads).all()
