"""Batches of row numbers, and tables of sentences: every row is in exactly one batch, as it was added."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from edge_transformer.data.tensors import (
    POOL_BATCHES,
    SentenceTable,
    batches_by_length,
    batches_by_words,
    count_by_words,
    shuffled_batches,
)


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
