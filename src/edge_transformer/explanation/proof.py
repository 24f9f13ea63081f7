"""From the traces of a model to the proof of an answer: which edges it was put together from, down to told ones.

Layer by layer an edge (i, j) is either carried on or composed from (i, l) and (l, j) as they were one layer below. Of
all ways to derive the query edge from told edges, the proof is the one with the largest product of strengths (see
`trace`); carrying on costs nothing. Dynamic programming finds it, for many graphs at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
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
from .trace import Trace, trace

MAX_NODES = 64  # beyond, n^3 triangles in every layer are too many to keep
BATCH_TRIANGLES = 100_000
TOP_PIVOTS = 5

Triangle = tuple[int, int, int]  # (i, l, j): edge (i, j) from (i, l) and (l, j)
Reading = tuple[str, float]  # what the head answers for an edge, and its probability


@dataclass(frozen=True)
class Claim:
    """`end` is `start`'s `relation`: told, or composed in a layer from two other claims through a pivot."""

    start: int
    end: int
    relation: str  # as told, or what the head answers for the edge where it is used
    probability: float | None = None  # of that answer; None where told
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
    proof: Claim | None  # None where no told edges lead from the first node of the query to the second
    layers: tuple[Layer, ...]

    @property
    def triangles(self) -> frozenset[Triangle]:
        """The composition steps of the proof."""
        steps = self.proof.steps() if self.proof else ()
        return frozenset((step.start, step.pivot, step.end) for step in steps if step.pivot is not None)

    def text(self) -> str:
        """The proof as an indented tree."""
        names = self.story.names
        start, end = (names[node] for node in self.story.query)
        lines = [f"{start} -{self.answer}-> {end}  ({self.probability:.2f})"]
        if self.proof is None:
            lines.append(f"  no told edges lead from {start} to {end}, so that there is no proof to follow")
            lines += self._last_pivots()
        elif not self.proof.premises:
            lines.append(f"  told: {start} -{self.proof.relation}-> {end}")
        else:
            lines += self._because(self.proof, 1)
        return "\n".join(lines)

    def _because(self, claim: Claim, depth: int) -> Iterator[str]:
        names, pad = self.story.names, "  " * depth
        assert claim.pivot is not None
        yield f"{pad}because, through {names[claim.pivot]} (layer {claim.layer}, weight {claim.weight:.2f}):"
        for premise in claim.premises:
            sure = "told" if premise.probability is None else f"{premise.probability:.2f}"
            yield f"{pad}  {names[premise.start]} -{premise.relation}-> {names[premise.end]}  ({sure})"
            if premise.premises:
                yield from self._because(premise, depth + 2)

    def _last_pivots(self) -> Iterator[str]:
        for number, layer in enumerate(self.layers, start=1):
            found = ", ".join(f"{self.story.names[pivot]} {weight:.2f}" for pivot, weight, _ in layer.pivots[:3])
            yield f"  layer {number}: {layer.reading[0]} ({layer.reading[1]:.2f}); strongest pivots {found}"

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain JSON values."""
        names = self.story.names

        def plain(claim: Claim) -> dict[str, Any]:
            edge: dict[str, Any] = {"edge": [names[claim.start], claim.relation, names[claim.end]]}
            if claim.pivot is None:
                return {**edge, "told": True}
            return {
                **edge,
                "told": False,
                "probability": _rounded(claim.probability),
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
        chosen = [stories[row] for row in rows]
        labels = graph_labels(relation_model, chosen)
        traced = trace(encoder, relation_model.input(labels))
        pivots = best_pivots(traced.strengths.log(), labels != NULL_LABEL)
        probabilities = read_edges(relation_model, encoder, traced.states)
        for number, row in enumerate(rows):
            view = _View(relation_model, stories[row], traced, pivots[:, number], probabilities[:, number], number)
            results[row] = view.explanation()
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


def derivation(pivots: Tensor, told: Tensor, query: tuple[int, int]) -> list[tuple[int, Triangle]] | None:
    """The steps from `best_pivots` of one graph, (layers, n, n), as (layer, triangle), the conclusion first.

    None where the query does not follow from told edges.
    """
    table, leaves = pivots.tolist(), told.tolist()
    steps: list[tuple[int, Triangle]] = []

    def follow(start: int, end: int, layer: int) -> bool:
        while layer and table[layer - 1][start][end] < 0:
            layer -= 1
        if not layer:
            return bool(leaves[start][end])
        pivot = table[layer - 1][start][end]
        steps.append((layer, (start, pivot, end)))
        return follow(start, pivot, layer - 1) and follow(pivot, end, layer - 1)

    return steps if follow(*query, len(table)) else None


class _View:
    """One graph of a traced batch."""

    def __init__(
        self, model: RelationModel, story: Story, traced: Trace, pivots: Tensor, probabilities: Tensor, number: int
    ) -> None:
        self.story, self.answers = story, list(model.answers)
        self.told = dict(zip(story.edges, story.relations, strict=True))
        self.weights, self.strengths = traced.weights[:, number], traced.strengths[:, number]
        self.pivots, self.probabilities = pivots.tolist(), probabilities

    def explanation(self) -> Explanation:
        start, end = self.story.query
        depth = len(self.pivots)
        answer, probability = self.reading(start, end, depth)
        layers = tuple(self.layer(start, end, number) for number in range(1, depth + 1))
        return Explanation(self.story, answer, probability, self.claim(start, end, depth), layers)

    def claim(self, start: int, end: int, layer: int) -> Claim | None:
        """The claim of an edge as it stands after `layer`, with all it follows from."""
        used = layer
        while layer and self.pivots[layer - 1][start][end] < 0:
            layer -= 1
        if not layer:
            relation = self.told.get((start, end))
            return None if relation is None else Claim(start, end, relation)
        pivot = self.pivots[layer - 1][start][end]
        premises = self.claim(start, pivot, layer - 1), self.claim(pivot, end, layer - 1)
        relation, probability = self.reading(start, end, used)
        weight = float(self.weights[layer - 1, start, pivot, end].mean())
        strength = float(self.strengths[layer - 1, start, pivot, end])
        found = tuple(premise for premise in premises if premise is not None)
        assert len(found) == 2, "a pivot joins two edges that were derived below"
        return Claim(start, end, relation, probability, layer, pivot, weight, strength, found)

    def reading(self, start: int, end: int, layer: int) -> Reading:
        probability, number = self.probabilities[layer, start, end].max(-1)
        return self.answers[int(number)], float(probability)

    def layer(self, start: int, end: int, number: int) -> Layer:
        weights = self.weights[number - 1, start, :, end].mean(-1).tolist()
        strengths = self.strengths[number - 1, start, :, end].tolist()
        order = sorted(range(len(weights)), key=lambda pivot: -strengths[pivot])[:TOP_PIVOTS]
        pivots = tuple((pivot, weights[pivot], strengths[pivot]) for pivot in order)
        return Layer(pivots, self.reading(start, end, number))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
