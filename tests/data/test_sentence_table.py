"""Tables of sentences: every token of every row comes back, in batches of one length and bounded size."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_transformer.data.batching import SentenceTable

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
