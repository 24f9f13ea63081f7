"""Training rows of any number, read from disk block by block: what lies in memory has a bound.

A first pass checks every row, learns the schema and finds where blocks begin. An epoch takes the blocks in a random
order, some at a time, and shuffles the rows of these. The seed and the epoch say all of it, so a resumed run sees the
same rows.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ...errors import DataError, no_text
from ...io.streams import CHUNK_BYTES, MAX_BYTES, counted
from .fields import read_graph_lines
from .rows import Story
from .schema import Schema, SchemaBuilder

BLOCK_ROWS = 4096
WINDOW_BLOCKS = 4  # blocks whose rows are shuffled together
MOST_VALID = 2000  # rows of a validation part that is split off
STREAM_ROWS = 200_000  # files with more rows are streamed
_SHARES = 10_000  # hold-out shares are counted in these


@dataclass(frozen=True)
class Block:
    """Consecutive lines of a file."""

    path: Path
    offset: int  # in bytes
    first_line: int
    lines: int


class StreamedStories:
    """The training rows of some files, without those that are held out; and these."""

    def __init__(
        self,
        paths: Sequence[Path],
        asks: str,
        valid_share: float,
        most_valid: int,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self.asks = asks
        self._blocks = [block for path in paths for block in blocks_of(path)]
        rows = sum(block.lines for block in self._blocks)
        self._held_out_share = min(valid_share, most_valid / rows) if rows else 0.0
        self.held_out: list[Story] = []
        self.sample: list[Story] = []  # some rows, to know what they are like
        self.starts = [0]  # the number of the first row of each block, and of all rows
        self.lengths: set[int] = set()
        self.largest = 0
        builder, every = SchemaBuilder(), max(1, rows // 2000)
        for block in self._blocks:
            kept = 0
            for story in counted(self._read(block), progress):
                self.largest = max(self.largest, story.size)
                if self._is_held_out(story):
                    self.held_out.append(story)
                    continue
                builder.add(story)
                self.lengths.add(story.k)
                if (self.starts[-1] + kept) % every == 0:
                    self.sample.append(story)
                kept += 1
            self.starts.append(self.starts[-1] + kept)
        self.schema: Schema = builder.schema()

    def __len__(self) -> int:
        return self.starts[-1]

    def __iter__(self) -> Iterator[Story]:
        """All training rows, in the order of the files."""
        for block in range(len(self._blocks)):
            yield from self.stories(block)

    def _is_held_out(self, story: Story) -> bool:
        """By the graph alone, so that equal graphs stay together."""
        if not self._held_out_share:
            return False
        told = sorted(map(repr, zip(story.edges, story.relations, strict=True)))
        key = repr((story.size, told, story.node_labels, story.absent, [pair for pair, _ in story.questions]))
        return zlib.crc32(key.encode()) % _SHARES < self._held_out_share * _SHARES

    def _read(self, block: Block) -> Iterator[Story]:
        with open(block.path, "rb") as file:
            file.seek(block.offset)
            lines = (_decoded(file.readline(MAX_BYTES + 1), block, number) for number in range(block.lines))
            yield from read_graph_lines(
                lines, block.path, needs_target=True, asks=self.asks, first_line=block.first_line
            )

    def block_of(self, row: int) -> int:
        """The number of the block that has this row."""
        return bisect_right(self.starts, row) - 1

    def stories(self, block: int) -> list[Story]:
        """The training rows of a block."""
        return [story for story in self._read(self._blocks[block]) if not self._is_held_out(story)]

    def windows(self, seed: int, epoch: int) -> list[tuple[int, ...]]:
        """The blocks of an epoch, some at a time, in a random order."""
        generator = torch.Generator().manual_seed((seed * 1_000_003 + epoch) % 2**63)
        order = torch.randperm(len(self._blocks), generator=generator).tolist()
        return [tuple(sorted(order[start : start + WINDOW_BLOCKS])) for start in range(0, len(order), WINDOW_BLOCKS)]

    def shuffled(self, batch_size: int, seed: int, epoch: int) -> list[Tensor]:
        """The row numbers of an epoch in batches; a batch has rows of one window, or of two."""
        generator = torch.Generator().manual_seed((seed * 1_000_003 + epoch + 1) % 2**63)
        parts = []
        for window in self.windows(seed, epoch):
            rows = torch.cat([torch.arange(self.starts[block], self.starts[block + 1]) for block in window])
            parts.append(rows[torch.randperm(len(rows), generator=generator)])
        return list(torch.cat(parts).split(batch_size))


def count_rows(paths: Iterable[Path]) -> int:
    """The number of lines of some files."""
    rows = 0
    for path in paths:
        if not path.is_file():  # whoever reads it says what it is
            continue
        with open(path, "rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                rows += chunk.count(b"\n")
    return rows


def blocks_of(path: Path) -> list[Block]:
    """Where the blocks of a file begin."""
    blocks, offset, lines, line = [], 0, 0, 1
    at = 0
    with open(path, "rb") as file:
        while text := file.readline(MAX_BYTES + 1):
            if len(text) > MAX_BYTES:
                raise DataError(path, line + lines, f"a line of more than {MAX_BYTES} bytes", f"at most {MAX_BYTES}")
            at += len(text)
            lines += 1
            if lines == BLOCK_ROWS:
                blocks.append(Block(path, offset, line, lines))
                offset, line, lines = at, line + lines, 0
    if lines:
        blocks.append(Block(path, offset, line, lines))
    return blocks


def _decoded(line: bytes, block: Block, number: int) -> str:
    try:
        return line.decode("utf-8-sig" if block.first_line + number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise no_text(block.path, block.first_line + number - 1, error) from error
