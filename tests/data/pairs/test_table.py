"""Batches of pairs: every pair once, little padding, bounded work, and the cheapest groups."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_transformer.data.pairs.table import BY_EDGES, BY_NODES, IGNORED, Cost, PairBatch, PairTable, cuts

END = 0
sequences = st.lists(st.integers(2, 9), min_size=1, max_size=7)
costs = st.builds(Cost, power=st.integers(1, 2), group=st.integers(0, 700), most=st.integers(1, 500))


def cost_of(batch: PairBatch, cost: Cost) -> int:
    return len(batch.source) * (batch.source.shape[1] + batch.target.shape[1]) ** cost.power


@settings(max_examples=60, deadline=None)
@given(pairs=st.lists(st.tuples(sequences, sequences), min_size=1, max_size=12), cost=costs)
def test_every_pair_is_in_one_batch_as_it_was(pairs: list[tuple[list[int], list[int]]], cost: Cost) -> None:
    table = PairTable(pairs, END)
    assert table.sizes.tolist() == [len(source) + len(target) + 1 for source, target in pairs]
    seen = []
    for batch in table.batches(torch.arange(len(pairs)), cost):
        assert len(batch.rows) == 1 or cost_of(batch, cost) <= cost.most
        for place, row in enumerate(batch.rows.tolist()):
            source, target = pairs[row]
            real = batch.source[place] if batch.source_mask is None else batch.source[place, batch.source_mask[place]]
            assert real.tolist() == source
            assert batch.wanted[place][batch.wanted[place] != IGNORED].tolist() == [*target, END]
            assert batch.target[place].tolist() == [*target, *[END] * (batch.target.shape[1] - len(target))]
            seen.append(row)
    assert sorted(seen) == list(range(len(pairs)))


def test_equal_lengths_have_no_mask() -> None:
    [batch] = PairTable([([2, 3], [4]), ([5, 6], [7, 8])], END).batches(torch.arange(2), BY_EDGES)
    assert batch.source_mask is None
    assert batch.target.tolist() == [[4, 0, 0], [7, 8, 0]]
    assert batch.wanted.tolist() == [[4, 0, IGNORED], [7, 8, 0]]
    assert (cost_of(batch, BY_EDGES), cost_of(batch, BY_NODES)) == (2 * 5**2, 2 * 5)
    assert list(PairTable([], END).batches(torch.arange(0), BY_EDGES)) == []


def test_parts_of_a_group_are_of_about_equal_size() -> None:
    table = PairTable([([2, 3], [4])] * 16, END)
    limited = BY_EDGES._replace(most=15 * 4**2)
    assert [len(batch.rows) for batch in table.batches(torch.arange(16), limited)] == [8, 8]


def test_rows_of_one_shape_have_one_number() -> None:
    shapes = PairTable(
        [([2] * source, [3] * target) for source, target in ((9, 1), (1, 2), (9, 1), (2, 2))], END
    ).shapes
    assert shapes[0] == shapes[2] < shapes[1] < shapes[3]  # targets first


def test_some_rows_only() -> None:
    table = PairTable([([2] * size, [3] * size) for size in (1, 2, 3, 40)], END)
    rows = [batch.rows.tolist() for batch in table.batches(torch.tensor([3, 1, 0]), BY_EDGES._replace(most=10**6))]
    assert rows == [[0, 1], [3]]


def cost_of_cuts(cells: list[tuple[int, int, int]], ends: list[int], cost: Cost) -> int:
    groups = [cells[start:end] for start, end in pairwise([0, *ends])]
    padded = [
        sum(rows for *_, rows in group) * (max(s for s, *_ in group) + max(t for _, t, _ in group)) ** cost.power
        for group in groups
    ]
    return sum(padded) + cost.group * len(groups)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40), st.integers(1, 9)), min_size=1, max_size=7),
    st.sampled_from([BY_EDGES, BY_NODES]),
)
def test_no_other_cuts_cost_less(cells: list[tuple[int, int, int]], cost: Cost) -> None:
    best = cost_of_cuts(cells, cuts(cells, cost), cost)
    for mask in range(2 ** (len(cells) - 1)):
        ends = [place + 1 for place in range(len(cells) - 1) if mask >> place & 1] + [len(cells)]
        assert cost_of_cuts(cells, ends, cost) >= best


@pytest.mark.parametrize(
    ("cells", "by_edges", "by_nodes"),
    [
        ([(3, 4, 5)], [1], [1]),
        ([(3, 4, 5), (3, 5, 5)], [2], [2]),
        ([(2, 2, 9), (90, 90, 9)], [1, 2], [1, 2]),
        ([(9, 9, 4), (9, 14, 4)], [1, 2], [2]),
    ],
)
def test_cuts(cells: list[tuple[int, int, int]], by_edges: list[int], by_nodes: list[int]) -> None:
    assert cuts(cells, BY_EDGES) == by_edges
    assert cuts(cells, BY_NODES) == by_nodes
