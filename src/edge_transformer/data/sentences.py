"""Sentences with a target for every token, as tensors, and batches of them without padding.

All sentences lie behind each other in one long tensor. Sentences of equal length are picked out of it with one index,
so that no work is done for each of them, whatever the batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class SentenceBatch:
    """Sentences of one length."""

    tokens: Tensor  # (B, n)
    targets: Tensor  # (B, n, columns)
    places: Tensor  # (B, n) where the tokens lie in the table

    @property
    def edges(self) -> int:
        """The number of pairs of tokens."""
        return self.tokens.numel() * self.tokens.shape[1]


class SentenceTable:
    """Rows of token numbers, each with one target for each of the `columns`."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self._sizes: list[int] = []
        self._cells: list[Sequence[Sequence[int]]] = []  # for each row: tokens, then a target for each token a column
        self._built: tuple[Tensor, Tensor, Tensor] | None = None

    def add(self, tokens: Sequence[int], targets: Sequence[Sequence[int]]) -> None:
        """Add a row: its tokens, and for each column one target a token."""
        if not tokens or len(targets) != self.columns or any(len(column) != len(tokens) for column in targets):
            raise ValueError(f"a row needs tokens, and {self.columns} columns of one target a token")
        self._sizes.append(len(tokens))
        self._cells.append([tokens, *targets])
        self._built = None

    def __len__(self) -> int:
        return len(self._sizes)

    @property
    def sizes(self) -> Tensor:
        """The length of every row."""
        return self._build()[0]

    @property
    def tokens(self) -> Tensor:
        """All tokens, row after row: `[tokens]`."""
        return self._build()[2][:, 0]

    @property
    def targets(self) -> Tensor:
        """The targets of all tokens, row after row: `[tokens, columns]`."""
        return self._build()[2][:, 1:]

    def rows_of_tokens(self) -> Tensor:
        """For each token, row after row, the number of its row: `[tokens]`."""
        return torch.arange(len(self)).repeat_interleave(self.sizes)

    def batches(self, rows: Tensor | None = None, max_edges: int | None = None) -> Iterator[SentenceBatch]:
        """These rows (all by default) as batches of equal length, at most `max_edges` pairs of tokens each.

        A sentence that has more pairs by itself is a batch of its own.
        """
        sizes, starts, cells = self._build()
        rows = torch.arange(len(self)) if rows is None else rows
        of_rows = sizes[rows]
        for size in of_rows.unique().tolist():
            of_size = rows[of_rows == size]
            for part in of_size.split(len(of_size) if max_edges is None else max(1, max_edges // size**2)):
                places = starts[part][:, None] + torch.arange(size)  # (B, n)
                found = cells[places].long()  # (B, n, 1 + columns)
                yield SentenceBatch(found[..., 0], found[..., 1:], places)

    def _build(self) -> tuple[Tensor, Tensor, Tensor]:
        if self._built is None:
            sizes = torch.tensor(self._sizes, dtype=torch.long)
            lines = [torch.tensor(row, dtype=torch.int32).T for row in self._cells]  # (n, 1 + columns) each
            cells = torch.cat(lines) if lines else torch.zeros(0, 1 + self.columns, dtype=torch.int32)
            self._built = sizes, sizes.cumsum(0) - sizes, cells
        return self._built
