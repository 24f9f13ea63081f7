"""The proof of an answer from the trace of a model: the edges that it was composed from, down to told ones.

Each layer either carries an edge (i, j) on or composes it from (i, l) and (l, j) of the layer below. Of all derivations
of the query edge from told edges, the proof is the one with the largest product of strengths (see `trace`); carrying
on costs nothing. Dynamic programming finds it, for many graphs at once.

A model with `inverse_edges` reads each told edge from both ends, so its proofs may use it in both directions. Labels
and features of nodes, and edges told to be absent, are in the trace, but in no proof.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..data.relations.fields import graph_from_json
from ..data.relations.rows import Story
from ..data.relations.table import GraphTable
from ..errors import UserError
from ..nn.encoder import EdgeTransformer
from ..nn.heads import QueryEdgeHead
from ..tasks.base import TaskModel, answering
from ..tasks.relations.model import RelationModel
from .claims import SECOND_ANSWER, Claim, Explanation, Layer, Reading, Triangle
from .trace import trace

MAX_NODES = 64  # the trace keeps n^3 triangles in every layer
BATCH_TRIANGLES = 100_000
TOP_PIVOTS = 5


@dataclass(frozen=True)
class Derivation:
    """The derivation of an edge: it is told, or a layer composes it from two others."""

    start: int
    end: int
    layer: int = 0  # where it is composed, counted from 1; 0 if told
    premises: tuple[Derivation, ...] = ()  # none if told, else the edges to and from the pivot

    @property
    def triangle(self) -> Triangle:
        """The triangle of a composed edge."""
        return self.start, self.premises[0].end, self.end

    def steps(self) -> Iterator[Derivation]:
        """The composed edges, the conclusion first."""
        if self.premises:
            yield self
        for premise in self.premises:
            yield from premise.steps()


def explain_graph(model: TaskModel, graph: Mapping[str, Any]) -> Explanation:
    """Explain the answer of a model of relations to a question, as `predict` takes it."""
    story = graph_from_json(graph, "graph", known=check_model(model)[0].relations, max_nodes=MAX_NODES)
    return explain_stories(model, [story])[0]


def explain_stories(model: TaskModel, stories: Sequence[Story]) -> list[Explanation]:
    """Explain the answers for stories, whose relations the model must know."""
    relation_model, encoder = check_model(model)
    results: dict[int, Explanation] = {}
    for rows in equal_sizes(stories):
        traced = TracedStories(relation_model, encoder, [stories[row] for row in rows])
        for number, (row, proof) in enumerate(zip(rows, traced.best_proofs(), strict=True)):
            results[row] = traced.explanation(number, proof)
    return [results[row] for row in range(len(stories))]


def check_model(model: TaskModel) -> tuple[RelationModel, EdgeTransformer]:
    """Check that a model has triangles to show; returns it with its encoder."""
    if not isinstance(model, RelationModel):
        raise UserError(f"explain: found a {type(model).__name__}; expected a model that labels the query of a graph")
    if model.schema.kind != "one":
        raise UserError(f"explain: found a model whose answers are {model.schema.kind!r}; expected one label")
    return model, encoder_with_triangles(model.encoder, model.settings)


def encoder_with_triangles(encoder: nn.Module, settings: Mapping[str, Any]) -> EdgeTransformer:
    """Check that an encoder attends to triangles."""
    if not isinstance(encoder, EdgeTransformer):
        kind = settings.get("kind")
        raise UserError(f"explain: found a model of kind {kind!r}; expected 'edge': only that one attends to triangles")
    return encoder


def equal_sizes(stories: Sequence[Story]) -> Iterator[list[int]]:
    """The numbers of the stories, in batches of equal n and bounded size."""
    by_size: dict[int, list[int]] = defaultdict(list)
    for number, story in enumerate(stories):
        if story.size > MAX_NODES:
            raise UserError(f"explain: found a graph of {story.size} nodes; expected at most {MAX_NODES}")
        by_size[story.size].append(number)
    for size, rows in sorted(by_size.items()):
        step = max(1, BATCH_TRIANGLES // size**3)
        yield from (rows[start : start + step] for start in range(0, len(rows), step))


def check_question(story: Story, where: str = "explain") -> None:
    """Refuse a row with several questions."""
    if story.more:
        pairs = f"{1 + len(story.more)} pairs of nodes"
        raise UserError(f'{where}: found {pairs} in "query"; expected one pair: ask for each in a row of its own')


def first_states(model: RelationModel, stories: Sequence[Story]) -> Tensor:
    """The state of all pairs before the first layer, of stories of one size: (B, n, n, dim)."""
    table = GraphTable(model.schema)
    for story in stories:
        check_question(story)
        if not table.add(story):
            raise UserError(f"explain: found {model.schema.unknown(story)}")
    [batch] = table.batches(merge_equal=False)
    batch = batch.to(next(model.parameters()).device)
    return model.input(batch.labels, batch.node_features, batch.edge_features)


def told_edges(model: RelationModel, stories: Sequence[Story]) -> Tensor:
    """The told edges, bool (B, n, n), with inverse edges in both directions: the leaves of proofs."""
    n = stories[0].size
    told = torch.zeros(len(stories), n, n, dtype=torch.bool)
    for number, story in enumerate(stories):
        for pair in story.edges:
            told[(number, *pair)] = True
    told = told | told.transpose(1, 2) if model.options.inverse_edges else told
    return told.to(next(model.parameters()).device)


@torch.no_grad()
def read_edges(model: RelationModel, encoder: EdgeTransformer, states: Tensor) -> Tensor:
    """The head's answers for edges, calibrated as those of `predict`: (..., dim) -> (..., answers) probabilities."""
    assert isinstance(model.head, QueryEdgeHead)
    return (model.head.classify(encoder.final_norm(states)).float() / model.temperature).softmax(-1)


def best_pivots(scores: Tensor, told: Tensor, worth: Tensor | None = None) -> Tensor:
    """The best derivation of every edge that has one.

    Args:
        scores: (layers, B, n, n, n), the logarithm of each triangle's strength.
        told: bool (B, n, n), the edges of the graph.
        worth: (B, n, n), the logarithm of what each told edge counts, at most 0; 0 unless given.

    Returns:
        (layers, B, n, n): the pivot through which the layer composes the edge, or -1 if it carries the edge on.
        The first of equal pivots counts, and the lowest of equal layers.
    """
    # (i, i, j) and (i, j, j) are never chosen: they need (i, j) itself, and carrying it on scores higher.
    worth = torch.zeros_like(scores[0, ..., 0]) if worth is None else worth
    best = worth.masked_fill(~told, -torch.inf)  # (B, n, n)
    pivots = []
    for score in scores.clamp_min(-1e4):  # a strength of 0 is bad, but not impossible
        ways = score + best[:, :, :, None] + best[:, None, :, :]  # (B, i, l, j)
        composed, pivot = ways.max(dim=2)
        better = composed > best
        pivots.append(torch.where(better, pivot, -1))
        best = torch.where(better, composed, best)
    return torch.stack(pivots)


def derivation(pivots: Tensor, told: Tensor, query: tuple[int, int]) -> Derivation | None:
    """The derivation of the query, if any, from the `best_pivots` of one graph, (layers, n, n)."""
    table, leaves = pivots.tolist(), told.tolist()

    def follow(start: int, end: int, layer: int) -> Derivation | None:
        while layer and table[layer - 1][start][end] < 0:
            layer -= 1
        if not layer:
            return Derivation(start, end) if leaves[start][end] else None
        pivot = table[layer - 1][start][end]
        first, second = follow(start, pivot, layer - 1), follow(pivot, end, layer - 1)
        assert first is not None, "a pivot joins two edges that were derived below"
        assert second is not None
        return Derivation(start, end, layer, (first, second))

    return follow(*query, len(table))


class TracedStories:
    """Stories of one size with their trace: finds proofs, and reads them with the model's head."""

    def __init__(self, model: RelationModel, encoder: EdgeTransformer, stories: Sequence[Story]) -> None:
        self.stories, self.answers, self.layers = stories, list(model.answers), encoder.config.layers
        with answering(model):
            self.trace = trace(encoder, first_states(model, stories))
            self.probabilities = read_edges(model, encoder, self.trace.states)
        self.leaves = told_edges(model, stories)

    def best_proofs(self, strengths: Tensor | None = None) -> list[Derivation | None]:
        """The strongest proof of each query, by the strengths of the trace or by the given ones."""
        strengths = self.trace.strengths if strengths is None else strengths.to(self.leaves.device)
        pivots = best_pivots(strengths.log(), self.leaves)
        return [derivation(pivots[:, row], self.leaves[row], story.query) for row, story in enumerate(self.stories)]

    def explanation(self, row: int, proof: Derivation | None) -> Explanation:
        """The explanation of a story with this proof."""
        start, end = self.stories[row].query
        reading = self._reading(row, start, end, self.layers)
        layers = tuple(self._layer(row, start, end, number) for number in range(1, self.layers + 1))
        claim = self._claim(row, proof, self.layers) if proof else None
        return Explanation(self.stories[row], reading, claim, layers)

    def _claim(self, row: int, proof: Derivation, read_after: int) -> Claim:
        """The claim of a derivation; the head reads composed edges after layer `read_after`."""
        start, end = proof.start, proof.end
        if not proof.premises:
            told = self.stories[row].told
            if (start, end) in told:
                return Claim(start, end, told[start, end])
            return Claim(start, end, told[end, start], backwards=True)
        pivot, layer = proof.triangle[1], proof.layer
        reading = self._reading(row, start, end, read_after)
        return Claim(
            start,
            end,
            reading.answer,
            reading=reading,
            read_after=read_after,
            layer=layer,
            pivot=pivot,
            weight=float(self.trace.weights[layer - 1, row, start, pivot, end].mean()),
            strength=float(self.trace.strengths[layer - 1, row, start, pivot, end]),
            premises=tuple(self._claim(row, premise, layer - 1) for premise in proof.premises),
        )

    def _reading(self, row: int, start: int, end: int, layer: int) -> Reading:
        probabilities = self.probabilities[layer, row, start, end].tolist()
        best, *others = sorted(zip(self.answers, probabilities, strict=True), key=lambda one: -one[1])
        return Reading(*best, others[0] if others and others[0][1] > SECOND_ANSWER else None)

    def _layer(self, row: int, start: int, end: int, number: int) -> Layer:
        weights = self.trace.weights[number - 1, row, start, :, end].mean(-1).tolist()
        strengths = self.trace.strengths[number - 1, row, start, :, end].tolist()
        order = sorted(range(len(weights)), key=lambda pivot: -strengths[pivot])[:TOP_PIVOTS]
        pivots = tuple((pivot, weights[pivot], strengths[pivot]) for pivot in order)
        return Layer(pivots, self._reading(row, start, end, number))
