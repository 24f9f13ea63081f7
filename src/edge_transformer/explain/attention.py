"""The triangles of chosen edges in every layer, head by head, as plain JSON values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..data.relations.rows import Pair, Story
from ..tasks.base import TaskModel
from .proof import TracedStories, check_model


def edge_attention(model: TaskModel, story: Story, pairs: Iterable[Pair]) -> list[dict[str, Any]]:
    """The pivots of some edges of a story, with the weight of each by layer and head, and its strength by layer.

    `weights[head][pivot]` sum to 1 over the pivots, which are all nodes in the order of `pivots`. The head's answer for
    the edge is read after each layer, and before the first as layer 0, which has no pivots.
    """
    relation_model, encoder = check_model(model)
    traced = TracedStories(relation_model, encoder, [story])
    weights, strengths = traced.trace.weights[:, 0], traced.trace.strengths[:, 0]  # (layers, n, n, n, h), (..., n)
    found = []
    for start, end in pairs:
        layers: list[dict[str, Any]] = []
        for number, answers in enumerate(traced.probabilities[:, 0, start, end].tolist()):
            best = max(range(len(answers)), key=answers.__getitem__)
            read = {"layer": number, "answer": traced.answers[best], "probability": round(answers[best], 6)}
            if number:
                by_head = weights[number - 1, start, :, end].T.tolist()  # (heads, pivots)
                read["weights"] = [[round(weight, 4) for weight in row] for row in by_head]
                read["strengths"] = [round(value, 4) for value in strengths[number - 1, start, :, end].tolist()]
            layers.append(read)
        edge = [story.names[start], story.names[end]]
        found.append({"edge": edge, "pivots": list(story.names), "layers": layers})
    return found
