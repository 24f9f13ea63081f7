"""Batches of pairs: every pair once, little padding, bounded edges, and the cheapest groups."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_transformer.data.pair_table import GROUP_EDGES, IGNORED, PairTable, cuts

END = 0
sequences = st.lists(st.integers(2, 9), min_size=1, max_size=7)


@settings(max_examples=60, deadline=None)
@given(pairs=st.lists(st.tuples(sequences, sequences), min_size=1, max_size=12), max_edges=st.integers(1, 500))
def test_every_pair_is_in_one_batch_as_it_was(pairs: list[tuple[list[int], list[int]]], max_edges: int) -> None:
    table = PairTable(pairs, END)
    assert table.sizes.tolist() == [len(source) + len(target) + 1 for source, target in pairs]
    seen = []
    for batch in table.batches(torch.arange(len(pairs)), max_edges):
        assert len(batch.rows) == 1 or batch.edges <= max_edges
        for place, row in enumerate(batch.rows.tolist()):
            source, target = pairs[row]
            real = batch.source[place] if batch.source_mask is None else batch.source[place, batch.source_mask[place]]
            assert real.tolist() == source
            assert batch.wanted[place][batch.wanted[place] != IGNORED].tolist() == [*target, END]
            assert batch.target[place].tolist() == [*target, *[END] * (batch.target.shape[1] - len(target))]
            seen.append(row)
    assert sorted(seen) == list(range(len(pairs)))


def test_equal_lengths_have_no_mask() -> None:
    [batch] = PairTable([([2, 3], [4]), ([5, 6], [7, 8])], END).batches(torch.arange(2), 10_000)
    assert batch.source_mask is None
    assert batch.target.tolist() == [[4, 0, 0], [7, 8, 0]]
    assert batch.wanted.tolist() == [[4, 0, IGNORED], [7, 8, 0]]
    assert batch.edges == 2 * 5**2
    assert list(PairTable([], END).batches(torch.arange(0), 100)) == []


def test_some_rows_only() -> None:
    table = PairTable([([2] * size, [3] * size) for size in (1, 2, 3, 40)], END)
    rows = [batch.rows.tolist() for batch in table.batches(torch.tensor([3, 1, 0]), 10**6)]
    assert rows == [[0, 1], [3]]


def cost(cells: list[tuple[int, int, int]], ends: list[int]) -> int:
    groups = [cells[start:end] for start, end in pairwise([0, *ends])]
    edges = [
        sum(rows for *_, rows in group) * (max(s for s, *_ in group) + max(t for _, t, _ in group)) ** 2
        for group in groups
    ]
    return sum(edges) + GROUP_EDGES * len(groups)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40), st.integers(1, 9)), min_size=1, max_size=7))
def test_no_other_cuts_cost_less(cells: list[tuple[int, int, int]]) -> None:
    best = cost(cells, cuts(cells))
    for mask in range(2 ** (len(cells) - 1)):
        ends = [place + 1 for place in range(len(cells) - 1) if mask >> place & 1] + [len(cells)]
        assert cost(cells, ends) >= best


@pytest.mark.parametrize(
    ("cells", "ends"), [([(3, 4, 5)], [1]), ([(3, 4, 5), (3, 5, 5)], [2]), ([(2, 2, 9), (90, 90, 9)], [1, 2])]
)
def test_cuts(cells: list[tuple[int, int, int]], ends: list[int]) -> None:
    assert cuts(cells) == ends
