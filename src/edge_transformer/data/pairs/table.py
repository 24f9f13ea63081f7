"""Pairs of sequences as tensors, and batches of them with little padding.

Pairs of different lengths share a batch where that costs less than separate ones. Shorter sources are masked; shorter
targets are padded with the end token, which has no loss there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

IGNORED = -100  # a target without loss


class Cost(NamedTuple):
    """The cost of a group of pairs: for each pair (nodes of the longest)^power, plus `group` for the group itself."""

    power: int
    group: int
    most: int  # of one batch; bounds memory

    def of(self, pairs: int, source: int, target: int) -> int:
        """The cost of pairs padded to these lengths, without `group`."""
        return pairs * (source + target) ** self.power


BY_EDGES = Cost(power=2, group=600, most=20_000)  # models with a state for each pair of nodes
BY_NODES = Cost(power=1, group=30, most=4_000)  # models with a state for each node


@dataclass(frozen=True)
class PairBatch:
    """Pairs that are computed together."""

    source: Tensor  # (B, S)
    source_mask: Tensor | None  # (B, S); None where all sources have one length
    target: Tensor  # (B, T), with end token; shorter ones are padded with it
    wanted: Tensor  # (B, T), the same but padded with IGNORED
    rows: Tensor  # (B,) row numbers, always on the CPU

    def to(self, device: torch.device) -> PairBatch:
        """The same batch on another device."""
        mask = None if self.source_mask is None else self.source_mask.to(device)
        return PairBatch(self.source.to(device), mask, self.target.to(device), self.wanted.to(device), self.rows)


class PairTable:
    """Rows of two sequences of numbers; each target gets an end token."""

    def __init__(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], end: int) -> None:
        self._end = end
        self.sources = [torch.tensor(source, dtype=torch.int32) for source, _ in pairs]
        self.targets = [torch.tensor([*target, end], dtype=torch.int32) for _, target in pairs]
        self.source_sizes = torch.tensor([len(source) for source in self.sources], dtype=torch.long)
        self.target_sizes = torch.tensor([len(target) for target in self.targets], dtype=torch.long)  # with the end
        # A number for every row; near numbers need little padding.
        self._widest = 1 + max((len(source) for source in self.sources), default=0)
        self.shapes = self.target_sizes * self._widest + self.source_sizes

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def sizes(self) -> Tensor:
        """The number of nodes of every row in the decoder's graph."""
        return self.source_sizes + self.target_sizes

    def batches(self, rows: Tensor, cost: Cost) -> Iterator[PairBatch]:
        """These rows in batches of similar lengths that cost at most `cost.most`, padding included, or of one pair."""
        for group in self._groups(rows, cost):
            one = cost.of(1, int(self.source_sizes[group].max()), int(self.target_sizes[group].max()))
            for part in group.tensor_split(-(-len(group) // max(1, cost.most // one))):
                yield self._batch(part)

    def _groups(self, rows: Tensor, cost: Cost) -> list[Tensor]:
        """Sort the rows by both lengths, and cut them into groups of least total cost."""
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
    """The ends of the groups of least total cost in a list of (source length, target length, rows)."""
    best: list[tuple[int, int]] = [(0, 0)]  # for each end: the least cost up to it, and the start of its group
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
