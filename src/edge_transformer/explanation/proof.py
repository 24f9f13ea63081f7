"""From the traces of a model to the proof of an answer: which edges it was put together from, down to told ones.

Layer by layer an edge (i, j) is either carried on or composed from (i, l) and (l, j) as they were one layer below. Of
all ways to derive the query edge from told edges, the proof is the one with the largest product of strengths (see
`trace`); carrying on costs nothing. Dynamic programming finds it, for many graphs at once.

A model with `inverse_edges` reads each told edge from both ends, so that its proofs may end in told edges from either.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..data.clutrr import Story
from ..data.graphs import graph_from_json
from ..encoder import EdgeTransformer
from ..errors import UserError
from ..inputs import NULL_LABEL
from ..tasks.base import TaskModel
from ..tasks.clutrr import RelationModel, labelled_edges
from .trace import trace

MAX_NODES = 64  # beyond, n^3 triangles in every layer are too many to keep
BATCH_TRIANGLES = 100_000
TOP_PIVOTS = 5

Triangle = tuple[int, int, int]  # (i, l, j): edge (i, j) from (i, l) and (l, j)
Reading = tuple[str, float]  # what the head answers for an edge, and its probability


@dataclass(frozen=True)
class Derivation:
    """How an edge follows from told ones: it is one of them, or a layer composes it from two others."""

    start: int
    end: int
    layer: int = 0  # where it is composed, counted from 1; 0 where told
    premises: tuple[Derivation, ...] = ()  # none where told, else those to the pivot and from it

    @property
    def triangle(self) -> Triangle:
        """Of a composed edge."""
        return self.start, self.premises[0].end, self.end

    def steps(self) -> Iterator[Derivation]:
        """The composed edges, the conclusion first."""
        if self.premises:
            yield self
        for premise in self.premises:
            yield from premise.steps()


@dataclass(frozen=True)
class Claim:
    """`end` is `start`'s `relation`: told, or composed in a layer from two other claims through a pivot."""

    start: int
    end: int
    relation: str  # as told, or what the head answers for the edge where it is used
    backwards: bool = False  # told the other way round: `start` is `end`'s `relation`
    probability: float | None = None  # of the head's answer; None where told
    read_after: int = (
        0  # the layer after which the head was asked: the one below that which uses the claim, or the last
    )
    layer: int = 0  # where it was composed, counted from 1; 0 where told
    pivot: int | None = None
    weight: float | None = None  # of the pivot in this layer, mean over heads
    strength: float | None = None  # of the triangle in this layer
    premises: tuple[Claim, ...] = ()

    def steps(self) -> Iterator[Claim]:
        """The composed claims, the conclusion first."""
        if self.premises:
            yield self
        for premise in self.premises:
            yield from premise.steps()


@dataclass(frozen=True)
class Layer:
    """What one layer did to the query edge."""

    pivots: tuple[tuple[int, float, float], ...]  # (pivot, weight, strength), the strongest first
    reading: Reading  # what the head would answer after this layer


@dataclass(frozen=True)
class Explanation:
    """An answer and what it was put together from."""

    story: Story
    answer: str
    probability: float
    proof: Claim | None  # None where the layers cannot derive the query from told edges
    layers: tuple[Layer, ...]

    @property
    def triangles(self) -> frozenset[Triangle]:
        """The composition steps of the proof."""
        steps = self.proof.steps() if self.proof else ()
        return frozenset((step.start, step.pivot, step.end) for step in steps if step.pivot is not None)

    @property
    def note(self) -> str | None:
        """One line where the question is none that CLUTRR trains, or none that so many layers can answer."""
        path = told_path(self.story.edges, self.story.query)
        start, end = (self.story.names[node] for node in self.story.query)
        if path is None:
            return f"a guess, however sure: no told edges lead from {start} to {end}, as they do in all of CLUTRR"
        if self.proof is None:
            most = f"{len(self.layers)} layers cannot compose"
            return f"the shortest chain from {start} to {end} has {len(path) - 1} told edges, which {most}"
        return None

    def text(self) -> str:
        """The proof as an indented tree."""
        names = self.story.names
        start, end = (names[node] for node in self.story.query)
        lines = [f"{start} -{self.answer}-> {end}  ({self.probability:.2f})"]
        if self.note:
            lines.append(f"  note: {self.note}")
        if self.proof is None:
            lines += self._last_pivots()
        elif not self.proof.premises:
            lines.append(f"  {self._told(self.proof)}")
        else:
            lines += self._because(self.proof, 1)
        return "\n".join(lines)

    def _because(self, claim: Claim, depth: int) -> Iterator[str]:
        names, pad = self.story.names, "  " * depth
        assert claim.pivot is not None
        yield f"{pad}because, through {names[claim.pivot]} (layer {claim.layer}, weight {claim.weight:.2f}):"
        for premise in claim.premises:
            if premise.premises:
                edge = f"{names[premise.start]} -{premise.relation}-> {names[premise.end]}"
                yield f"{pad}  {edge}  ({premise.probability:.2f})"
                yield from self._because(premise, depth + 2)
            else:
                yield f"{pad}  {self._told(premise)}"

    def _told(self, claim: Claim) -> str:
        start, end = self.story.names[claim.start], self.story.names[claim.end]
        if claim.backwards:
            return f"{start} <-{claim.relation}- {end}  (told the other way round)"
        return f"{start} -{claim.relation}-> {end}  (told)"

    def _last_pivots(self) -> Iterator[str]:
        for number, layer in enumerate(self.layers, start=1):
            found = ", ".join(f"{self.story.names[pivot]} {weight:.2f}" for pivot, weight, _ in layer.pivots[:3])
            yield f"  layer {number}: {layer.reading[0]} ({layer.reading[1]:.2f}); strongest pivots {found}"

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain JSON values."""
        names = self.story.names

        def plain(claim: Claim) -> dict[str, Any]:
            start, end = names[claim.start], names[claim.end]
            if claim.pivot is None:
                told = [end, claim.relation, start] if claim.backwards else [start, claim.relation, end]
                return {"edge": told, "told": True, "used_backwards": claim.backwards}
            return {
                "edge": [start, claim.relation, end],
                "told": False,
                "probability": _rounded(claim.probability),
                "read_after_layer": claim.read_after,
                "layer": claim.layer,
                "pivot": names[claim.pivot],
                "weight": _rounded(claim.weight),
                "strength": _rounded(claim.strength),
                "because": [plain(premise) for premise in claim.premises],
            }

        return {
            "query": [names[node] for node in self.story.query],
            "answer": self.answer,
            "probability": _rounded(self.probability),
            **({"note": self.note} if self.note else {}),
            "proof": plain(self.proof) if self.proof else None,
            "layers": [
                {
                    "layer": number,
                    "answer": layer.reading[0],
                    "probability": _rounded(layer.reading[1]),
                    "pivots": [
                        {"pivot": names[pivot], "weight": _rounded(weight), "strength": _rounded(strength)}
                        for pivot, weight, strength in layer.pivots
                    ],
                }
                for number, layer in enumerate(self.layers, start=1)
            ],
        }


def explain(model: TaskModel, graph: Mapping[str, Any]) -> Explanation:
    """Why the model answers what it answers for a graph such as

    {"edges": [["Ann", "daughter", "Lil"], ["Lil", "brother", "Bob"]], "query": ["Ann", "Bob"]}
    """
    story = graph_from_json(graph, "graph", known=check_model(model)[0].relations)
    return explain_stories(model, [story])[0]


def explain_stories(model: TaskModel, stories: Sequence[Story]) -> list[Explanation]:
    """The same for many stories, whose relations the model must know."""
    relation_model, encoder = check_model(model)
    results: dict[int, Explanation] = {}
    for rows in equal_sizes(stories):
        traced = TracedStories(relation_model, encoder, [stories[row] for row in rows])
        for number, (row, proof) in enumerate(zip(rows, traced.best_proofs(), strict=True)):
            results[row] = traced.explanation(number, proof)
    return [results[row] for row in range(len(stories))]


def check_model(model: TaskModel) -> tuple[RelationModel, EdgeTransformer]:
    """The model and its encoder, where they are of the kind that has triangles to show."""
    if not isinstance(model, RelationModel):
        raise UserError(f"explain: found a {type(model).__name__}; expected a model that labels the query of a graph")
    if not isinstance(model.encoder, EdgeTransformer):
        kind = model.settings.get("kind")
        raise UserError(f"explain: found a model of kind {kind!r}; expected 'edge': only that one attends to triangles")
    model.eval()
    return model, model.encoder


def equal_sizes(stories: Sequence[Story]) -> Iterator[list[int]]:
    """The numbers of the stories in batches of equal n, none too large."""
    by_size: dict[int, list[int]] = defaultdict(list)
    for number, story in enumerate(stories):
        if story.size > MAX_NODES:
            raise UserError(f"explain: found a graph of {story.size} nodes; expected at most {MAX_NODES}")
        by_size[story.size].append(number)
    for size, rows in sorted(by_size.items()):
        step = max(1, BATCH_TRIANGLES // size**3)
        yield from (rows[start : start + step] for start in range(0, len(rows), step))


def graph_labels(model: RelationModel, stories: Sequence[Story]) -> Tensor:
    """The labels of stories of one size: (B, n, n)."""
    n = stories[0].size
    labels = torch.full((len(stories), n, n), NULL_LABEL)
    for number, story in enumerate(stories):
        edges = labelled_edges(story, model.relations)
        if edges is None:
            unknown = sorted(set(story.relations) - set(model.relations))
            raise UserError(f"explain: found the relations {unknown}; the model knows {', '.join(model.relations)}")
        for start, end, label in edges:
            labels[number, start, end] = label
    return labels.to(next(model.parameters()).device)


@torch.no_grad()
def read_edges(model: RelationModel, encoder: EdgeTransformer, states: Tensor) -> Tensor:
    """What the trained head would answer for every edge: (..., dim) -> (..., answers) probabilities."""
    return model.head.classify(encoder.final_norm(states)).float().softmax(-1)


def best_pivots(scores: Tensor, told: Tensor) -> Tensor:
    """The best derivation of every edge that has one.

    Args:
        scores: (layers, B, n, n, n), the logarithm of each triangle's strength, below 0.
        told: bool (B, n, n), the edges of the graph.

    Returns:
        (layers, B, n, n): the pivot through which the layer composes the edge, or -1 where it carries on what there is.
        Of equal pivots the first counts, and of equal layers the lowest.
    """
    # (i, i, j) and (i, j, j) compose nothing and are never chosen: they need (i, j) itself, which is better carried on.
    best = torch.zeros_like(scores[0, ..., 0]).masked_fill(~told, -torch.inf)  # (B, n, n)
    pivots = []
    for score in scores.clamp_min(-1e4):  # a strength of 0 is a bad way, not an impossible one
        ways = score + best[:, :, :, None] + best[:, None, :, :]  # (B, i, l, j)
        composed, pivot = ways.max(dim=2)
        better = composed > best
        pivots.append(torch.where(better, pivot, -1))
        best = torch.where(better, composed, best)
    return torch.stack(pivots)


def derivation(pivots: Tensor, told: Tensor, query: tuple[int, int]) -> Derivation | None:
    """The derivation of the query from `best_pivots` of one graph, (layers, n, n); None where there is none."""
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


def told_path(edges: Iterable[tuple[int, int]], query: tuple[int, int]) -> list[int] | None:
    """The nodes of a shortest path of at least one edge from the first node of the query to the second."""
    ends: dict[int, list[int]] = defaultdict(list)
    for start, end in edges:
        ends[start].append(end)
    paths, reached = deque([[query[0]]]), set()
    while paths:
        path = paths.popleft()
        for end in ends[path[-1]]:
            if end == query[1]:
                return [*path, end]
            if end not in reached:
                reached.add(end)
                paths.append([*path, end])
    return None


class TracedStories:
    """Stories of one size and what the model did with them: proofs are found here, and read with its head."""

    def __init__(self, model: RelationModel, encoder: EdgeTransformer, stories: Sequence[Story]) -> None:
        self.stories, self.answers, self.layers = stories, list(model.answers), encoder.config.layers
        labels = graph_labels(model, stories)
        self.trace = trace(encoder, model.input(labels))
        self.leaves = labels != NULL_LABEL  # bool (B, n, n): the edges that a proof may end in
        if model.options.inverse_edges:
            self.leaves = self.leaves | self.leaves.transpose(1, 2)
        self.probabilities = read_edges(model, encoder, self.trace.states)

    def best_proofs(self, strengths: Tensor | None = None) -> list[Derivation | None]:
        """The strongest proof of each query, by the strengths of the trace or by others of their shape."""
        strengths = self.trace.strengths if strengths is None else strengths.to(self.leaves.device)
        pivots = best_pivots(strengths.log(), self.leaves)
        return [derivation(pivots[:, row], self.leaves[row], story.query) for row, story in enumerate(self.stories)]

    def explanation(self, row: int, proof: Derivation | None) -> Explanation:
        """The answer for a story with this proof of it."""
        start, end = self.stories[row].query
        answer, probability = self._reading(row, start, end, self.layers)
        layers = tuple(self._layer(row, start, end, number) for number in range(1, self.layers + 1))
        claim = self._claim(row, proof, self.layers) if proof else None
        return Explanation(self.stories[row], answer, probability, claim, layers)

    def _claim(self, row: int, proof: Derivation, read_after: int) -> Claim:
        """What a derivation claims, composed edges as the head reads them after this layer."""
        start, end = proof.start, proof.end
        if not proof.premises:
            told = dict(zip(self.stories[row].edges, self.stories[row].relations, strict=True))
            if (start, end) in told:
                return Claim(start, end, told[start, end])
            return Claim(start, end, told[end, start], backwards=True)
        pivot, layer = proof.triangle[1], proof.layer
        relation, probability = self._reading(row, start, end, read_after)
        return Claim(
            start,
            end,
            relation,
            probability=probability,
            read_after=read_after,
            layer=layer,
            pivot=pivot,
            weight=float(self.trace.weights[layer - 1, row, start, pivot, end].mean()),
            strength=float(self.trace.strengths[layer - 1, row, start, pivot, end]),
            premises=tuple(self._claim(row, premise, layer - 1) for premise in proof.premises),
        )

    def _reading(self, row: int, start: int, end: int, layer: int) -> Reading:
        probability, number = self.probabilities[layer, row, start, end].max(-1)
        return self.answers[int(number)], float(probability)

    def _layer(self, row: int, start: int, end: int, number: int) -> Layer:
        weights = self.trace.weights[number - 1, row, start, :, end].mean(-1).tolist()
        strengths = self.trace.strengths[number - 1, row, start, :, end].tolist()
        order = sorted(range(len(weights)), key=lambda pivot: -strengths[pivot])[:TOP_PIVOTS]
        pivots = tuple((pivot, weights[pivot], strengths[pivot]) for pivot in order)
        return Layer(pivots, self._reading(row, start, end, number))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
