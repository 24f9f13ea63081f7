"""Graphs over short sentences that can be learned, for tests of graph parsing."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from edge_transformer.data.graphs.folder import GraphFolder
from edge_transformer.data.graphs.rows import TokenGraph
from edge_transformer.tasks.graphs.data import GraphData, GraphSettings

EDGE = {"kind": "edge", "dim": 16, "heads": 2, "layers": 2}
TRANSFORMER = {"kind": "transformer", "dim": 16, "heads": 2, "layers": 2, "max_distance": 4}
WORDS = ("Ann", "Bob", "the", "dog", "saw", "ran", "that", ".")


def make_graph(tokens: str, parents: Sequence[int], group: str = "", **labels: str) -> TokenGraph:
    """A graph; labels are given as words, with - for none."""
    columns = {name: tuple(word.replace("-", "") for word in text.split()) for name, text in labels.items()}
    return TokenGraph(tuple(tokens.split()), tuple(parents), columns, group)


def random_graphs(count: int, seed: int, longest: int = 9) -> list[TokenGraph]:
    """Sentences of random words; parents and labels follow from the words, so that they can be learned."""
    generator = torch.Generator().manual_seed(seed)
    graphs = []
    for _ in range(count):
        size = int(torch.randint(1, longest + 1, (), generator=generator))
        words = [WORDS[number] for number in torch.randint(len(WORDS), (size,), generator=generator).tolist()]
        parents = [
            place if word in ("saw", "ran", ".") else min(place + 1, size - 1) for place, word in enumerate(words)
        ]
        role = " ".join("-" if parent == place else "arg" for place, parent in enumerate(parents))
        kind = " ".join({"saw": "V", "ran": "V", "dog": "N", "Ann": "N", "Bob": "N"}.get(word, "-") for word in words)
        graphs.append(make_graph(" ".join(words), parents, role=role, kind=kind))
    return graphs


def make_data(
    train: Sequence[TokenGraph], settings: GraphSettings | None = None, **splits: Sequence[TokenGraph]
) -> GraphData:
    rows = {"train": list(train), **{split: list(graphs) for split, graphs in splits.items()}}
    return GraphData(GraphFolder("tiny", "0a", rows), settings or GraphSettings(), seed=1)
