"""Labelled graphs as tensors: a table of rows, and batches of one size without padding of nodes or repeated work.

Equal graphs are computed once, with one dropout mask; `merge_equal=False` computes each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import accumulate

import torch
from torch import Tensor

from .rows import Story
from .schema import Schema

NOT_ASKED = -1  # as number of an answer: padding, or an answer that no training row has


@dataclass(frozen=True)
class GraphBatch:
    """Graphs of one size, each with questions, and the rows that they stand for with their answers."""

    labels: Tensor  # (G, n, n), or (G, n, n, m) where pairs have up to m labels
    pairs: Tensor  # (G, P, 2) the pairs asked for, padded
    row_graph: Tensor  # (R,) for each row, its graph in this batch
    rows: Tensor  # (R,) the row numbers
    targets: Tensor  # (R, P) numbers of labels, NOT_ASKED as padding; (R, P, answers) 0 or 1; or (R, P) units
    asked: Tensor  # (R, P) bool: whether there is an answer to learn or to score
    node_features: Tensor | None = None  # (G, n, f)
    edge_features: Tensor | None = None  # (G, n, n, f)

    def to(self, device: torch.device) -> GraphBatch:
        """The same batch on another device."""
        values = (getattr(self, field.name) for field in fields(self))
        return GraphBatch(*(None if value is None else value.to(device) for value in values))  # type: ignore[arg-type]


@dataclass(frozen=True)
class _GraphsOfOneSize:
    labels: Tensor  # (G, n, n) or (G, n, n, m), stored small
    node_features: Tensor | None
    edge_features: Tensor | None


class GraphTable:
    """Rows of labelled graphs with questions and answers; each distinct graph is stored once."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._numbers: dict[tuple[object, ...], tuple[int, int]] = {}
        self._graphs: dict[int, list[tuple[list[tuple[int, int, int]], Story]]] = {}  # by size
        self._pairs: list[tuple[tuple[int, int], ...]] = []  # of each graph, in order of first mention
        self._rows: list[tuple[int, int, int]] = []  # (size, graph of this size, graph of all)
        self._answers: list[list[int | tuple[int, ...] | float | None]] = []
        self._built: _Built | None = None

    def add(self, story: Story) -> bool:
        """Add a row; False, and nothing is added, if it says what no training row said."""
        edges = self.schema.edges(story)
        if edges is None:
            return False
        key = story.graph
        of_size = self._graphs.setdefault(story.size, [])
        if key not in self._numbers:
            self._numbers[key] = len(of_size), len(self._pairs)
            of_size.append((edges, story))
            self._pairs.append(tuple(pair for pair, _ in story.questions))
        self._rows.append((story.size, *self._numbers[key]))
        self._answers.append([self.schema.answer(target) for _, target in story.questions])
        self._built = None
        return True

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def distinct(self) -> int:
        """The number of distinct graphs with their questions."""
        return len(self._numbers)

    @property
    def questions(self) -> int:
        """The number of questions of all rows."""
        return sum(map(len, self._answers))

    def batches(
        self, rows: Tensor | None = None, max_edges: int | None = None, merge_equal: bool = True
    ) -> Iterator[GraphBatch]:
        """These rows (all by default) as batches of equal size, at most about `max_edges` edges each."""
        built = self._built = self._built or _Built(self.schema, self._graphs, self._pairs, self._rows, self._answers)
        rows = torch.arange(len(self)) if rows is None else rows
        sizes = built.sizes[rows]
        for size in built.graphs:
            of_size = rows[sizes == size]
            if not len(of_size):
                continue
            graphs, row_graph = built.graph_of_row[of_size], torch.arange(len(of_size))
            if merge_equal:
                graphs, row_graph = graphs.unique(return_inverse=True)
            step = len(graphs) if max_edges is None else max(1, max_edges // size**2)
            for start in range(0, len(graphs), step):
                within = (row_graph >= start) & (row_graph < start + step)
                yield built.batch(size, graphs[start : start + step], of_size[within], row_graph[within] - start)


class _Built:
    """The tensors of a table."""

    def __init__(
        self,
        schema: Schema,
        graphs: dict[int, list[tuple[list[tuple[int, int, int]], Story]]],
        pairs: Sequence[Sequence[tuple[int, int]]],
        rows: Sequence[tuple[int, int, int]],
        answers: Sequence[Sequence[int | tuple[int, ...] | float | None]],
    ) -> None:
        self.schema = schema
        columns = torch.tensor(rows, dtype=torch.long).reshape(-1, 3)
        self.sizes, self.graph_of_row, self.pairs_of_row = columns.unbind(1)
        self.graphs = {size: _tensors(schema, size, of_size) for size, of_size in sorted(graphs.items())}
        # Questions lie one after the other, graph by graph; answers row by row.
        self.pair_counts = torch.tensor([len(of_graph) for of_graph in pairs], dtype=torch.long)
        self.pair_starts = torch.tensor([0, *accumulate(map(len, pairs))][:-1], dtype=torch.long)
        self.pairs = torch.tensor([pair for of_graph in pairs for pair in of_graph]).reshape(-1, 2)
        self.first = torch.tensor([0, *accumulate(map(len, answers))][:-1], dtype=torch.long)
        flat = [answer for of_row in answers for answer in of_row]
        self.has_answer = torch.tensor([answer is not None for answer in flat], dtype=torch.bool)
        if schema.kind == "several":
            self.answers = torch.zeros(len(flat), len(schema.answers), dtype=torch.uint8)
            cells = [(row, label) for row, labels in enumerate(flat) for label in labels or ()]  # type: ignore[union-attr]
            if cells:
                self.answers[tuple(torch.tensor(cells).T)] = 1
        elif schema.kind == "number":
            self.answers = torch.tensor([0.0 if answer is None else answer for answer in flat], dtype=torch.float32)
        else:
            self.answers = torch.tensor([NOT_ASKED if answer is None else answer for answer in flat], dtype=torch.long)
        # The graph of each row among all graphs, by size and number, to find its questions.
        self.place_of_graph = {
            size: torch.zeros(len(of_size), dtype=torch.long) for size, of_size in sorted(graphs.items())
        }
        for size, place in self.place_of_graph.items():
            of_size = self.sizes == size
            place[self.graph_of_row[of_size]] = self.pairs_of_row[of_size]

    def batch(self, size: int, graphs: Tensor, rows: Tensor, row_graph: Tensor) -> GraphBatch:
        table, places = self.graphs[size], self.place_of_graph[size][graphs]
        counts = self.pair_counts[places]  # (G,)
        most = int(counts.max())
        column = torch.arange(most)
        inside = column < counts[:, None]  # (G, P)
        found = (self.pair_starts[places][:, None] + column).where(inside, self.pair_starts[places][:, None])
        asked = inside[row_graph]  # (R, P)
        flat = (self.first[rows][:, None] + column).where(asked, self.first[rows][:, None])
        targets, asked = self.answers[flat], asked & self.has_answer[flat]
        if self.schema.kind == "one":
            targets = targets.where(asked, torch.tensor(NOT_ASKED))
        elif self.schema.kind == "several":
            targets = targets.float()
        return GraphBatch(
            table.labels[graphs].long(),
            self.pairs[found],
            row_graph,
            rows,
            targets,
            asked,
            None if table.node_features is None else table.node_features[graphs],
            None if table.edge_features is None else table.edge_features[graphs],
        )


def _tensors(schema: Schema, size: int, graphs: Sequence[tuple[list[tuple[int, int, int]], Story]]) -> _GraphsOfOneSize:
    cells, most = [], 1
    for number, (edges, _) in enumerate(graphs):
        slots: dict[tuple[int, int], int] = {}
        for start, end, label in sorted(edges):  # in one order, as the graph is a set of edges
            slot = slots.get((start, end), 0)
            slots[start, end] = slot + 1
            cells.append((number, start, end, slot, label))
        most = max(most, *slots.values()) if slots else most
    labels = torch.zeros(len(graphs), size, size, most, dtype=torch.int32)
    if cells:
        places = torch.tensor(cells).unbind(1)
        labels[places[:-1]] = places[-1].int()
    nodes: Tensor | None = None
    of_edges: Tensor | None = None
    if schema.node_features is not None:
        nodes = torch.zeros(len(graphs), size, len(schema.node_features.mean))
        for number, (_, story) in enumerate(graphs):
            for node, features in enumerate(story.node_features):
                if features is not None:
                    nodes[number, node] = torch.tensor(schema.node_features.units(features))
    if schema.edge_features is not None:
        of_edges = torch.zeros(len(graphs), size, size, len(schema.edge_features.mean))
        for number, (_, story) in enumerate(graphs):
            for (start, end), features in zip(story.edges, story.edge_features, strict=False):
                if features is not None:
                    of_edges[number, start, end] = torch.tensor(schema.edge_features.units(features))
    return _GraphsOfOneSize(labels.squeeze(-1) if most == 1 else labels, nodes, of_edges)
