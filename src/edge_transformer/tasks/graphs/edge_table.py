"""Sentence graphs as index tensors, built once: tokens, edges, labels of tokens, of columns and of sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from ...data.graphs.edges import SentenceGraph
from ...data.tensors import SentenceTable, Vocab, WordTypes

UNSEEN = -1  # number of a label that no training sentence has; never predicted


@dataclass(frozen=True)
class GraphVocabs:
    """The labels of sentence graphs."""

    edges: Vocab  # of edges between tokens
    own: Vocab  # of edges from a token to itself
    columns: dict[str, Vocab]
    sentence: dict[str, Vocab]

    @classmethod
    def of(cls, graphs: Sequence[SentenceGraph]) -> GraphVocabs:
        """The labels of some graphs."""
        edges: set[str] = set()
        own: set[str] = set()
        for graph in graphs:
            for head, dependent, label in graph.edges:
                (own if head == dependent else edges).add(label)
        columns = {
            name: Vocab.of(label for graph in graphs for label in graph.labels[name]) for name in graphs[0].labels
        }
        sentence = {name: Vocab.of(graph.sentence[name] for graph in graphs) for name in graphs[0].sentence}
        return cls(Vocab.of(edges), Vocab.of(own), columns, sentence)


@dataclass(frozen=True)
class EdgeTargets:
    """The targets of some sentences, computed in groups of equal length."""

    places: Tensor  # (edges,) the pair (head, dependent) of each, among the pairs of all groups, row by row
    labels: Tensor  # (edges,)
    own_places: Tensor  # (labels of tokens,) the token of each, among the tokens of all groups
    own_labels: Tensor
    columns: Tensor  # (tokens, columns)
    sentence: Tensor  # (sentences, labels of the sentence)

    def to(self, device: torch.device) -> EdgeTargets:
        """The same on another device."""
        return EdgeTargets(*(getattr(self, name).to(device) for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class EdgeGroups:
    """Groups of sentences; those of a group have equal length."""

    tokens: list[Tensor]  # (B, n) each, numbers of word types
    rows: list[Tensor]  # (B,) each
    places: list[Tensor]  # (B, n) each: places of the tokens in the table


class EdgeTable:
    """Rows of sentence graphs. Edges stand row after row, and so do labels of tokens."""

    def __init__(self, graphs: Sequence[SentenceGraph], types: WordTypes, vocabs: GraphVocabs) -> None:
        self._sentences = SentenceTable(len(vocabs.columns))
        edges: list[tuple[int, int, int]] = []
        own: list[tuple[int, int]] = []
        edge_ends, own_ends = [0], [0]
        for graph in graphs:
            columns = [_numbers(known, graph.labels[name]) for name, known in vocabs.columns.items()]
            self._sentences.add(types.add(graph.tokens), columns)
            for head, dependent, label in graph.edges:
                if head == dependent:
                    own.append((head, _number(vocabs.own, label)))
                else:
                    edges.append((head, dependent, _number(vocabs.edges, label)))
            edge_ends.append(len(edges))
            own_ends.append(len(own))
        self.edges = torch.tensor(list(chain.from_iterable(edges)), dtype=torch.int32).view(
            -1, 3
        )  # head, dependent, label
        self.own = torch.tensor(list(chain.from_iterable(own)), dtype=torch.int32).view(-1, 2)  # token, label
        self._edge_ends, self._own_ends = torch.tensor(edge_ends), torch.tensor(own_ends)
        rows = [[_number(known, graph.sentence[name]) for name, known in vocabs.sentence.items()] for graph in graphs]
        self.sentence = torch.tensor(rows, dtype=torch.long).view(len(graphs), len(vocabs.sentence))
        self.row_of_token = self._sentences.rows_of_tokens()

    def __len__(self) -> int:
        return len(self._sentences)

    @property
    def sizes(self) -> Tensor:
        """The length of every row."""
        return self._sentences.sizes

    @property
    def tokens(self) -> Tensor:
        """The word types of all tokens, row after row."""
        return self._sentences.tokens

    @property
    def columns(self) -> Tensor:
        """The labels of all tokens in all columns: `[tokens, columns]`."""
        return self._sentences.targets

    @property
    def row_of_edge(self) -> Tensor:
        """The row of every edge."""
        return _of_rows(self._edge_ends, torch.arange(len(self)))[1]

    @property
    def row_of_own(self) -> Tensor:
        """The row of every label of a token."""
        return _of_rows(self._own_ends, torch.arange(len(self)))[1]

    def groups(self, rows: Tensor | None, max_pairs: int) -> Iterator[EdgeGroups]:
        """Rows (all by default) in groups of equal length, of at most `max_pairs` pairs of tokens together."""
        found = EdgeGroups([], [], [])
        pairs = 0
        for batch in self._sentences.batches(rows, max_pairs):
            if found.tokens and pairs + batch.edges > max_pairs:
                yield found
                found, pairs = EdgeGroups([], [], []), 0
            found.tokens.append(batch.tokens)
            found.rows.append(self.row_of_token[batch.places[:, 0]])
            found.places.append(batch.places)
            pairs += batch.edges
        if found.tokens:
            yield found

    def targets(self, groups: EdgeGroups) -> EdgeTargets:
        """The targets of groups, without those that no training sentence has."""
        rows = torch.cat(groups.rows)
        sizes = torch.cat([torch.full((len(tokens),), tokens.shape[1]) for tokens in groups.tokens])
        pair_starts, token_starts = _starts(sizes**2), _starts(sizes)
        edges, of = _of_rows(self._edge_ends, rows)
        head, dependent, label = self.edges[edges].long().unbind(1)
        places = pair_starts[of] + head * sizes[of] + dependent
        own, of_own = _of_rows(self._own_ends, rows)
        token, own_label = self.own[own].long().unbind(1)
        known, own_known = label != UNSEEN, own_label != UNSEEN
        columns = self.columns[torch.cat([places.flatten() for places in groups.places])].long()
        return EdgeTargets(
            places[known],
            label[known],
            (token_starts[of_own] + token)[own_known],
            own_label[own_known],
            columns,
            self.sentence[rows],
        )


def _of_rows(ends: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """The numbers of the items of some rows, and for each the place of its row among them. `ends` starts with 0."""
    counts = ends[rows + 1] - ends[rows]
    of = torch.arange(len(rows)).repeat_interleave(counts)
    return torch.arange(len(of)) + (ends[rows] - _starts(counts))[of], of


def _starts(counts: Tensor) -> Tensor:
    return counts.cumsum(0) - counts


def _numbers(known: Vocab, labels: Sequence[str]) -> list[int]:
    return [_number(known, label) for label in labels]


def _number(known: Vocab, label: str) -> int:
    number = known.number(label)
    return UNSEEN if number is None else number
