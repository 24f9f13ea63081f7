"""Pairs of sequences as tensors, and batches of them with little padding.

Pairs of different lengths are computed together where that costs less than doing them apart: shorter sources are
masked, and shorter targets end with anything, as no token sees a later one and what is said after the end is ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

IGNORED = -100  # a target that has no loss
GROUP_EDGES = 600  # edges that can be computed in about the time that one more group takes


@dataclass(frozen=True)
class PairBatch:
    """Pairs that are computed together."""

    source: Tensor  # (B, S)
    source_mask: Tensor | None  # (B, S), where some sources are shorter
    target: Tensor  # (B, T), with the end of the sequence; shorter ones go on with it
    wanted: Tensor  # (B, T), the same with IGNORED after the end
    rows: Tensor  # (B,) their numbers in the table

    @property
    def edges(self) -> int:
        """The number of pairs of nodes in the graphs of the decoder."""
        return len(self.source) * (self.source.shape[1] + self.target.shape[1]) ** 2

    def to(self, device: torch.device) -> PairBatch:
        """The same batch on another device."""
        mask = None if self.source_mask is None else self.source_mask.to(device)
        return PairBatch(
            self.source.to(device), mask, self.target.to(device), self.wanted.to(device), self.rows.to(device)
        )


class PairTable:
    """Rows of two sequences of numbers; the end of the sequence is put behind each target."""

    def __init__(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], end: int) -> None:
        self._end = end
        self.sources = [torch.tensor(source, dtype=torch.int32) for source, _ in pairs]
        self.targets = [torch.tensor([*target, end], dtype=torch.int32) for _, target in pairs]
        self.source_sizes = torch.tensor([len(source) for source in self.sources], dtype=torch.long)
        self.target_sizes = torch.tensor([len(target) for target in self.targets], dtype=torch.long)  # with the end

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def sizes(self) -> Tensor:
        """The nodes of the decoder's graph of every row."""
        return self.source_sizes + self.target_sizes

    def batches(self, rows: Tensor, max_edges: int) -> Iterator[PairBatch]:
        """These rows in groups of about equal lengths, at most `max_edges` edges each, padding included.

        A pair that has more edges by itself is a group of its own.
        """
        for group in self._groups(rows):
            nodes = int(self.source_sizes[group].max() + self.target_sizes[group].max())
            for part in group.split(max(1, max_edges // nodes**2)):
                yield self._batch(part)

    def _groups(self, rows: Tensor) -> list[Tensor]:
        """Cut the rows, sorted by both lengths, where that makes edges and groups cost least together."""
        if not len(rows):
            return []
        widest = int(self.target_sizes.max()) + 1
        keys = self.source_sizes[rows] * widest + self.target_sizes[rows]
        order = rows[keys.argsort(stable=True)]
        cells, counts = keys.unique(return_counts=True)  # sorted
        lengths = [divmod(cell, widest) for cell in cells.tolist()]
        ends = cuts([(source, target, count) for (source, target), count in zip(lengths, counts.tolist(), strict=True)])
        return list(order.tensor_split(counts.cumsum(0)[torch.tensor(ends) - 1][:-1]))

    def _batch(self, rows: Tensor) -> PairBatch:
        numbers = rows.tolist()
        source = torch.nn.utils.rnn.pad_sequence([self.sources[row] for row in numbers], batch_first=True)
        target = torch.nn.utils.rnn.pad_sequence(
            [self.targets[row] for row in numbers], batch_first=True, padding_value=self._end
        ).long()
        missing = torch.arange(target.shape[1]) >= self.target_sizes[rows][:, None]
        mask = torch.arange(source.shape[1]) < self.source_sizes[rows][:, None]
        return PairBatch(
            source.long(), None if bool(mask.all()) else mask, target, target.masked_fill(missing, IGNORED), rows
        )


def cuts(cells: Sequence[tuple[int, int, int]]) -> list[int]:
    """Where to cut a list of (source length, target length, rows), so that the groups cost least: the end of each.

    A group costs its edges, with all rows as long as the longest, and GROUP_EDGES for being a group.
    """
    best: list[tuple[int, int]] = [(0, 0)]  # for each end: the cost up to it, and where its group begins
    for end in range(1, len(cells) + 1):
        source = target = rows = 0
        found = (-1, -1)
        for start in range(end - 1, -1, -1):
            source, target = max(source, cells[start][0]), max(target, cells[start][1])
            rows += cells[start][2]
            edges = rows * (source + target) ** 2
            if found[0] >= 0 and edges >= found[0]:
                break  # the group only grows
            cost = best[start][0] + edges + GROUP_EDGES
            if found[0] < 0 or cost < found[0]:
                found = (cost, start)
        best.append(found)
    ends: list[int] = []
    end = len(cells)
    while end:
        ends.append(end)
        end = best[end][1]
    return ends[::-1]
