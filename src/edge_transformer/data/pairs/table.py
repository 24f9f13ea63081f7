"""Pairs of sequences as tensors, and batches of them with little padding.

Pairs of different lengths are computed together where that costs less than doing them apart: shorter sources are
masked, and shorter targets end with anything, as no token sees a later one and what is said after the end is ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

IGNORED = -100  # a target that has no loss


class Cost(NamedTuple):
    """What it costs to compute pairs together: for each pair the nodes of the longest to a power, and something for
    being one more group, in the same unit.
    """

    power: int
    group: int
    most: int  # that is computed at once: bounds memory, whatever the lengths

    def of(self, pairs: int, source: int, target: int) -> int:
        """The cost of pairs that are padded to these lengths, without that of being a group."""
        return pairs * (source + target) ** self.power


BY_EDGES = Cost(power=2, group=600, most=20_000)  # models with a state for each pair of nodes
BY_NODES = Cost(power=1, group=30, most=4_000)  # models with one for each node


@dataclass(frozen=True)
class PairBatch:
    """Pairs that are computed together."""

    source: Tensor  # (B, S)
    source_mask: Tensor | None  # (B, S), where some sources are shorter
    target: Tensor  # (B, T), with the end of the sequence; shorter ones go on with it
    wanted: Tensor  # (B, T), the same with IGNORED after the end
    rows: Tensor  # (B,) their numbers in the table, wherever the others are

    def to(self, device: torch.device) -> PairBatch:
        """The same batch on another device."""
        mask = None if self.source_mask is None else self.source_mask.to(device)
        return PairBatch(self.source.to(device), mask, self.target.to(device), self.wanted.to(device), self.rows)


class PairTable:
    """Rows of two sequences of numbers; the end of the sequence is put behind each target."""

    def __init__(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], end: int) -> None:
        self._end = end
        self.sources = [torch.tensor(source, dtype=torch.int32) for source, _ in pairs]
        self.targets = [torch.tensor([*target, end], dtype=torch.int32) for _, target in pairs]
        self.source_sizes = torch.tensor([len(source) for source in self.sources], dtype=torch.long)
        self.target_sizes = torch.tensor([len(target) for target in self.targets], dtype=torch.long)  # with the end
        # A number for every row, near for rows that need little padding beside each other.
        self._widest = 1 + max((len(source) for source in self.sources), default=0)
        self.shapes = self.target_sizes * self._widest + self.source_sizes

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def sizes(self) -> Tensor:
        """The nodes of the decoder's graph of every row."""
        return self.source_sizes + self.target_sizes

    def batches(self, rows: Tensor, cost: Cost) -> Iterator[PairBatch]:
        """These rows in groups of about equal lengths, none of which costs more than `cost.most`, padding included.

        A pair that costs more by itself is a group of its own.
        """
        for group in self._groups(rows, cost):
            one = cost.of(1, int(self.source_sizes[group].max()), int(self.target_sizes[group].max()))
            for part in group.tensor_split(-(-len(group) // max(1, cost.most // one))):
                yield self._batch(part)

    def _groups(self, rows: Tensor, cost: Cost) -> list[Tensor]:
        """Cut the rows, sorted by both lengths, where that makes rows and groups cost least together."""
        if not len(rows):
            return []
        keys = self.shapes[rows]
        order = rows[keys.argsort(stable=True)]
        cells, counts = keys.unique(return_counts=True)  # sorted
        lengths = [divmod(cell, self._widest) for cell in cells.tolist()]
        ends = cuts(
            [(source, target, count) for (target, source), count in zip(lengths, counts.tolist(), strict=True)], cost
        )
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


def cuts(cells: Sequence[tuple[int, int, int]], cost: Cost) -> list[int]:
    """Where to cut a list of (source length, target length, rows), so that the groups cost least: the end of each."""
    best: list[tuple[int, int]] = [(0, 0)]  # for each end: the cost up to it, and where its group begins
    for end in range(1, len(cells) + 1):
        source = target = rows = 0
        found = (-1, -1)
        for start in range(end - 1, -1, -1):
            source, target = max(source, cells[start][0]), max(target, cells[start][1])
            rows += cells[start][2]
            padded = cost.of(rows, source, target)
            if found[0] >= 0 and padded >= found[0]:
                break  # the group only grows
            total = best[start][0] + padded + cost.group
            if found[0] < 0 or total < found[0]:
                found = (total, start)
        best.append(found)
    ends: list[int] = []
    end = len(cells)
    while end:
        ends.append(end)
        end = best[end][1]
    return ends[::-1]
