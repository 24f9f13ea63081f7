"""Batches: every row is in exactly one of them, and computing each graph once gives what computing each row gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from edge_transformer.data.tensors import (
    POOL_BATCHES,
    GraphBatch,
    GraphTable,
    SentenceTable,
    batches_by_length,
    batches_by_words,
    count_by_words,
    shuffled_batches,
)

Edge = tuple[int, int, int]
Row = tuple[int, list[Edge], tuple[int, int], int]  # size, edges, query, answer
ANSWERS = 3


def assert_each_epoch_has_its_own(make: Callable[[int], list[Tensor]]) -> None:
    """Batches follow from the epoch alone, no two epochs share one, and nothing else is drawn differently for them."""
    batches, again, later = make(4), make(4), make(5)
    assert all(torch.equal(a, b) for a, b in zip(batches, again, strict=True))
    assert {frozenset(batch.tolist()) for batch in later}.isdisjoint(frozenset(batch.tolist()) for batch in batches)
    state = torch.get_rng_state()
    make(6)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(("rows", "batch_size"), [(10, 3), (12, 4), (1, 5), (7, 1), (5, 100)])
def test_shuffled_batches_are_a_permutation(rows: int, batch_size: int) -> None:
    batches = shuffled_batches(rows, batch_size, seed=1, epoch=0)
    assert sorted(torch.cat(batches).tolist()) == list(range(rows))
    assert [len(batch) for batch in batches[:-1]] == [batch_size] * (len(batches) - 1)
    assert 1 <= len(batches[-1]) <= batch_size


def test_shuffled_batches_depend_on_seed_and_epoch_only() -> None:
    def order(seed: int, epoch: int) -> list[int]:
        return torch.cat(shuffled_batches(50, 8, seed, epoch)).tolist()

    first = order(3, 4)
    torch.manual_seed(99)
    torch.rand(5)
    assert order(3, 4) == first
    assert torch.cat(shuffled_batches(50, 50, 3, 4)).tolist() == first  # nor on the size of the batches
    assert len({tuple(order(seed, epoch)) for seed in (0, 3, 12345) for epoch in (0, 4, 5)}) == 9
    state = torch.get_rng_state()
    shuffled_batches(50, 8, 3, 5)
    assert torch.equal(torch.get_rng_state(), state)  # dropout goes on as if nothing had been drawn


@settings(deadline=None)
@given(st.lists(st.integers(1, 20), min_size=1, max_size=400), st.integers(1, 7), st.integers(0, 3))
def test_batches_by_length_are_a_permutation(sizes: list[int], batch_size: int, epoch: int) -> None:
    batches = batches_by_length(torch.tensor(sizes), batch_size, seed=1, epoch=epoch)
    assert sorted(torch.cat(batches).tolist()) == list(range(len(sizes)))
    assert sorted(map(len, batches)) == sorted(map(len, shuffled_batches(len(sizes), batch_size, 1, epoch)))


def test_batches_by_length_have_nearly_equal_lengths() -> None:
    sizes = torch.randint(3, 13, (10 * POOL_BATCHES * 8,), generator=torch.Generator().manual_seed(1))
    batches = batches_by_length(sizes, 8, seed=3, epoch=4)
    groups = [len(sizes[batch].unique()) for batch in batches]
    assert sum(groups) < 1.2 * len(groups)
    random = [len(sizes[batch].unique()) for batch in shuffled_batches(len(sizes), 8, 3, 4)]
    assert sum(random) > 4 * len(random)
    # Neither the batches nor their order follow the lengths, and they change from epoch to epoch.
    means = torch.tensor([float(sizes[batch].float().mean()) for batch in batches])
    assert abs(float(torch.corrcoef(torch.stack([means, torch.arange(len(means)).float()]))[0, 1])) < 0.2
    assert_each_epoch_has_its_own(lambda epoch: batches_by_length(sizes, 8, 3, epoch))


@settings(deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=400), st.integers(1, 300), st.integers(0, 3))
def test_batches_by_words_are_a_permutation(sizes: list[int], words: int, epoch: int) -> None:
    batches = batches_by_words(torch.tensor(sizes), words, seed=1, epoch=epoch)
    assert sorted(torch.cat(batches).tolist()) == list(range(len(sizes)))
    assert all(map(len, batches))
    assert len(batches) == count_by_words(torch.tensor(sizes), words)
    if max(sizes) <= words:
        share = sum(sizes) / len(batches)
        assert all(abs(sum(sizes[row] for row in batch.tolist()) - share) <= max(sizes) for batch in batches)


def test_batches_by_words_have_nearly_equal_lengths_and_numbers_of_words() -> None:
    sizes = torch.randint(1, 41, (20_000,), generator=torch.Generator().manual_seed(1))
    batches = batches_by_words(sizes, 500, seed=3, epoch=4)
    words = torch.tensor([int(sizes[batch].sum()) for batch in batches])
    assert 450 < int(words.min()) <= int(words.max()) < 550
    assert len(batches) == -(-int(sizes.sum()) // 500)
    groups = [len(sizes[batch].unique()) for batch in batches]
    assert sum(groups) < 2.5 * len(groups)
    assert_each_epoch_has_its_own(lambda epoch: batches_by_words(sizes, 500, 3, epoch))


@st.composite
def tables(draw: st.DrawFn) -> list[Row]:
    """Rows of small graphs, many of which are the same."""
    graphs = []
    for _ in range(draw(st.integers(1, 5))):
        size = draw(st.integers(1, 4))
        node = st.integers(0, size - 1)
        labels = draw(st.dictionaries(st.tuples(node, node), st.integers(1, 5), max_size=5))
        edges = [(start, end, label) for (start, end), label in labels.items()]
        graphs.append((size, edges, draw(st.tuples(node, node))))
    rows = []
    for _ in range(draw(st.integers(1, 20))):
        size, edges, query = draw(st.sampled_from(graphs))
        rows.append((size, draw(st.permutations(edges)), query, draw(st.integers(0, ANSWERS - 1))))
    return rows


def table_of(rows: list[Row]) -> GraphTable:
    table = GraphTable(ANSWERS)
    for row in rows:
        table.add(*row)
    return table


def score(labels: Tensor, query: Tensor) -> Tensor:
    """A number for each graph, answer and query that hangs on every label and its place."""
    size = labels.shape[-1]
    places = torch.arange(1, size * size + 1).reshape(size, size)
    total = (labels * places).sum((-1, -2)) + 1000 * query[..., 0] + 10_000 * query[..., 1]
    return torch.stack([(total + answer).double().sqrt() for answer in range(ANSWERS)], dim=-1)


def dense(row: Row) -> tuple[Tensor, Tensor]:
    size, edges, query, _ = row
    labels = torch.zeros(size, size, dtype=torch.long)
    for start, end, label in edges:
        labels[start, end] = label
    return labels, torch.tensor(query)


@settings(max_examples=100, deadline=None)
@given(rows=tables(), max_edges=st.none() | st.integers(1, 40), merge=st.booleans(), data=st.data())
def test_batches_sum_up_to_what_single_rows_give(
    rows: list[Row], max_edges: int | None, merge: bool, data: st.DataObject
) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=25))  # repetitions included
    table = table_of(rows)
    total, seen = 0.0, []
    for batch in table.batches(torch.tensor(chosen, dtype=torch.long), max_edges, merge):
        assert merge or len(batch.labels) == len(batch.rows)
        scores = score(batch.labels, batch.query)
        total += (batch.counts * scores).sum().item()
        for number, graph in zip(batch.rows.tolist(), batch.row_graph.tolist(), strict=True):
            labels, query = dense(rows[number])
            assert torch.equal(batch.labels[graph], labels)
            assert torch.equal(batch.query[graph], query)
        seen += batch.rows.tolist()
    assert sorted(seen) == sorted(chosen)
    alone = sum(score(*dense(rows[number]))[rows[number][3]].item() for number in chosen)
    assert total == pytest.approx(alone, rel=1e-12)


@settings(max_examples=60, deadline=None)
@given(rows=tables(), max_edges=st.integers(1, 40))
def test_batches_are_bounded_and_never_repeat_a_graph(rows: list[Row], max_edges: int) -> None:
    table = table_of(rows)
    graphs: Counter[tuple] = Counter()
    for batch in table.batches(max_edges=max_edges):
        count, size, _ = batch.labels.shape
        assert count * size**2 <= max_edges or count == 1
        assert batch.counts.sum(1).min() >= 1
        assert set(batch.row_graph.tolist()) == set(range(count))
        for labels, query in zip(batch.labels.tolist(), batch.query.tolist(), strict=True):
            graphs[size, str(labels), tuple(query)] += 1
    assert set(graphs.values()) == {1}
    assert len(graphs) == table.distinct
    assert len(table) == len(rows)


def only(batches: object) -> GraphBatch:
    [batch] = list(batches)  # type: ignore[call-overload]
    return batch


def test_equal_graphs_are_counted_by_answer() -> None:
    edges = [(0, 1, 5), (1, 2, 2)]
    table = GraphTable(answers=4)
    for answer in (3, 1, 3):  # conflicting answers
        table.add(3, edges, (0, 2), answer)
    table.add(3, edges[::-1], (0, 2), 1)  # the order of the edges does not matter
    table.add(3, edges, (2, 0), 0)  # but the question does
    assert (len(table), table.distinct) == (5, 2)
    batch = only(table.batches())
    assert batch.counts.tolist() == [[0, 2, 0, 2], [1, 0, 0, 0]]
    assert batch.labels[0].tolist() == [[0, 5, 0], [0, 0, 2], [0, 0, 0]]
    assert batch.query.tolist() == [[0, 2], [2, 0]]
    assert batch.row_graph.tolist() == [0, 0, 0, 0, 1]
    assert batch.labels.dtype == torch.long


def test_size_tells_graphs_apart() -> None:
    table = GraphTable(1)
    table.add(2, [(0, 1, 1)], (0, 1), 0)
    table.add(3, [(0, 1, 1)], (0, 1), 0)  # a third node, alone
    assert table.distinct == 2
    assert [list(batch.labels.shape) for batch in table.batches()] == [[1, 2, 2], [1, 3, 3]]


def test_some_rows() -> None:
    table = GraphTable(2)
    for label in (1, 2, 3):
        table.add(2, [(0, 1, label)], (0, 1), label % 2)
    batch = only(table.batches(torch.tensor([2, 0, 2])))
    assert batch.labels[:, 0, 1].tolist() == [1, 3]
    assert batch.counts.tolist() == [[0, 1], [0, 2]]
    assert batch.rows.tolist() == [2, 0, 2]
    assert batch.row_graph.tolist() == [1, 0, 1]


def test_a_graph_without_edges_and_an_empty_table() -> None:
    table = GraphTable(2)
    assert list(table.batches()) == []
    table.add(2, [], (0, 1), 1)
    assert only(table.batches()).labels.tolist() == [[[0, 0], [0, 0]]]
    assert list(table.batches(torch.tensor([], dtype=torch.long))) == []


def test_rows_can_be_added_after_reading() -> None:
    table = GraphTable(1)
    table.add(2, [(0, 1, 1)], (0, 1), 0)
    assert only(table.batches()).rows.tolist() == [0]
    table.add(2, [(0, 1, 2)], (0, 1), 0)
    assert only(table.batches()).labels[:, 0, 1].tolist() == [1, 2]


def test_to_moves_every_tensor() -> None:
    table = GraphTable(2)
    table.add(2, [(0, 1, 1)], (0, 1), 1)
    moved = only(table.batches()).to(torch.device("meta"))
    assert {getattr(moved, name).device.type for name in moved.__dataclass_fields__} == {"meta"}
    assert moved.labels.shape == (1, 2, 2)


# --- tables of sentences ----------------------------------------------------------------------------------------------


rows = st.lists(
    st.integers(1, 6).flatmap(
        lambda n: st.lists(st.tuples(*[st.integers(0, 99)] * 3), min_size=n, max_size=n)  # token and two targets
    ),
    min_size=1,
    max_size=12,
)


@settings(deadline=None)
@given(rows, st.sampled_from([None, 1, 20, 1000]), st.data())
def test_rows_come_back(rows: list[list[tuple[int, int, int]]], max_edges: int | None, data: st.DataObject) -> None:
    table = SentenceTable(columns=2)
    for row in rows:
        tokens, *targets = (list(column) for column in zip(*row, strict=True))
        table.add(tokens, targets)
    assert len(table) == len(rows)
    assert table.sizes.tolist() == [len(row) for row in rows]
    cells = [cell for row in rows for cell in row]
    assert table.tokens.tolist() == [cell[0] for cell in cells]
    assert table.targets.tolist() == [list(cell[1:]) for cell in cells]
    assert table.rows_of_tokens().tolist() == [number for number, row in enumerate(rows) for _ in row]

    chosen = data.draw(st.none() | st.lists(st.integers(0, len(rows) - 1), min_size=1))
    expected = [rows[number] for number in (range(len(rows)) if chosen is None else chosen)]
    found = []
    for batch in table.batches(None if chosen is None else torch.tensor(chosen), max_edges):
        assert (
            max_edges is None or len(batch.tokens) == 1 or batch.tokens[0].numel() ** 2 * len(batch.tokens) <= max_edges
        )
        together = torch.cat([batch.tokens[..., None], batch.targets], dim=-1)
        found += [[tuple(cell) for cell in row] for row in together.tolist()]
        assert torch.equal(table.tokens[batch.places].long(), batch.tokens)
    assert sorted(found) == sorted(expected)


def test_a_table_without_targets() -> None:
    table = SentenceTable(columns=0)
    table.add([4, 5], [])
    [batch] = table.batches()
    assert batch.tokens.tolist() == [[4, 5]]
    assert batch.targets.shape == (1, 2, 0)
    table.add([6], [])  # later rows count too
    assert table.sizes.tolist() == [2, 1]


@pytest.mark.parametrize(("tokens", "targets"), [([], [[]]), ([1], []), ([1, 2], [[1]]), ([1], [[1], [1]])])
def test_rows_of_another_shape_are_refused(tokens: list[int], targets: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="a row needs tokens, and 1 columns"):
        SentenceTable(columns=1).add(tokens, targets)
