"""Divergences: by hand, and what holds for any two distributions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from edge_transformer.splits.divergence import Parts, SparseRows, divergence


def test_by_hand() -> None:
    assert divergence([1, 1], [1, 3], 0.5) == pytest.approx(1 - math.sqrt(0.5 * 0.25) - math.sqrt(0.5 * 0.75))
    expected = 1 - 0.5**0.1 * 0.25**0.9 - 0.5**0.1 * 0.75**0.9  # p is train, q is test
    assert divergence([1, 1], [1, 3], 0.1) == pytest.approx(expected)
    assert divergence([1, 0], [1, 1], 0.1) == pytest.approx(1 - 0.5**0.9)
    assert divergence([1, 1], [1, 0], 0.1) == pytest.approx(1 - 0.5**0.1)


def test_nothing() -> None:
    assert divergence([], [], 0.5) == 0
    assert divergence([0, 0], [0, 0], 0.5) == 0
    assert divergence([0, 0], [0, 1], 0.5) == 1


@pytest.mark.parametrize(
    ("train", "test", "alpha"),
    [
        ([1], [1, 2], 0.5),
        ([[1]], [[1]], 0.5),
        ([1], [1], 0),
        ([1], [1], 1),
        ([-1, 2], [1, 1], 0.5),
        ([math.nan], [1], 0.5),
    ],
)
def test_what_makes_no_sense(train: list[Any], test: list[Any], alpha: float) -> None:
    with pytest.raises(ValueError, match="expected"):
        divergence(train, test, alpha)


tables = arrays(np.float64, 5, elements=st.integers(0, 20).map(float)).filter(np.any)


@settings(max_examples=200, deadline=None)
@given(p=tables, q=tables, alpha=st.sampled_from([0.1, 0.5, 0.9]), scale=st.floats(0.01, 100))
def test_any_distributions(p: np.ndarray, q: np.ndarray, alpha: float, scale: float) -> None:
    found = divergence(p, q, alpha)
    assert 0 <= found <= 1
    assert divergence(p, p * scale, alpha) == pytest.approx(0, abs=1e-12)
    assert divergence(p * scale, q, alpha) == pytest.approx(found, abs=1e-12)
    assert divergence(q, p, 1 - alpha) == pytest.approx(found, abs=1e-12)
    assert divergence(q, p, 0.5) == pytest.approx(divergence(p, q, 0.5), abs=1e-12)
    nowhere = np.zeros(5)
    assert divergence(np.concatenate([p, nowhere]), np.concatenate([nowhere, q]), alpha) == 1
    if (p > 0).all() and not np.allclose(p / p.sum(), q / q.sum()):
        assert found > 0


def test_sparse_rows() -> None:
    rows = SparseRows.of([{"a": 1.0, "b": 2.0}, {}, {"b": 0.5}])
    assert (len(rows), rows.types) == (3, 2)
    assert rows.totals().tolist() == [3.0, 0.0, 0.5]
    assert rows.dot(np.array([1.0, 10.0])).tolist() == [21.0, 0.0, 5.0]
    assert rows.dot(np.array([1.0, 10.0]), [2, 0, 1]).tolist() == [5.0, 21.0, 0.0]
    assert rows.frequencies([0, 2]).tolist() == [1.0, 2.5]
    assert rows.frequencies([2, 2]).tolist() == [0.0, 1.0]
    assert rows.frequencies([]).tolist() == [0.0, 0.0]


def test_entries_in_any_order() -> None:
    row, column, weight = np.array([2, 0, 2, 2]), np.array([1, 1, 1, 0]), np.array([0.5, 1.0, 0.25, 0.0])
    summed = SparseRows.of_entries(3, 2, row, column, weight, "sum")
    highest = SparseRows.of_entries(3, 2, row, column, weight, "max")
    assert summed.totals().tolist() == [1.0, 0.0, 0.75]
    assert highest.totals().tolist() == [1.0, 0.0, 0.5]
    assert highest.columns.tolist() == [1, 1]  # nothing is kept of a weight of zero


@settings(max_examples=60, deadline=None)
@given(table=arrays(np.float64, (6, 4), elements=st.integers(0, 3).map(float)), chosen=st.lists(st.integers(0, 5)))
def test_sparse_is_dense(table: np.ndarray, chosen: list[int]) -> None:
    row, column = np.nonzero(table)
    rows = SparseRows.of_entries(6, 4, row, column, table[row, column], "sum")
    values = np.array([1.0, -2.0, 0.5, 3.0])
    assert np.allclose(rows.dot(values), table @ values)
    assert np.allclose(rows.dot(values, chosen), table[chosen] @ values)
    assert np.allclose(rows.frequencies(chosen), table[chosen].sum(0))


def test_parts() -> None:
    parts = Parts(SparseRows.of([{"a": 1}, {"a": 1}]), SparseRows.of([{"x": 1}, {"y": 1}]))
    found = parts.divergences([0], [1])
    assert (found.atoms, found.compounds) == (0, 1)
