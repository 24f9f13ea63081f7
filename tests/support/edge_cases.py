"""Sentence graphs that can be learned: who does what to whom follows from the words."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from edge_transformer.data.graphs.edge_folder import SentenceFolder
from edge_transformer.data.graphs.edges import SentenceGraph
from edge_transformer.tasks.graphs.data import GraphSettings
from edge_transformer.tasks.graphs.edge_data import EdgeData

WORDS = ("Ann", "Bob", "dog", "saw", "ran", "that", "the", ".")
VERBS, NOUNS = ("saw", "ran"), ("Ann", "Bob", "dog")


def random_sentence_graphs(count: int, seed: int, longest: int = 8, several: bool = True) -> list[SentenceGraph]:
    """Every verb has all nouns as dependents; `several`: some pairs and some tokens have two labels."""
    draw = random.Random(seed)
    graphs = []
    for _ in range(count):
        tokens = tuple(draw.choices(WORDS, k=draw.randint(1, longest)))
        edges = [
            (head, dependent, label)
            for head, verb in enumerate(tokens)
            for dependent, noun in enumerate(tokens)
            if verb in VERBS and noun in NOUNS
            for label in (["theme", "agent"] if noun == "dog" and several else ["theme" if noun == "dog" else "agent"])
        ]
        for place, word in enumerate(tokens):
            if word in VERBS:
                edges += [
                    (place, place, label) for label in (["root", "past"] if word == "ran" and several else ["root"])
                ]
        kind = tuple("V" if word in VERBS else "N" if word in NOUNS else "" for word in tokens)
        asks = "yes" if "that" in tokens else "no"
        graphs.append(SentenceGraph(tokens, tuple(edges), {"kind": kind}, {"asks": asks}, draw.choice("ab")))
    return graphs


def edge_rows(count: int, seed: int, **options: Any) -> list[dict[str, Any]]:
    """The same as rows."""
    return [graph.to_json() for graph in random_sentence_graphs(count, seed, **options)]


def make_edge_data(
    train: Sequence[SentenceGraph], settings: GraphSettings | None = None, **splits: Sequence[SentenceGraph]
) -> EdgeData:
    rows = {"train": list(train), **{split: list(graphs) for split, graphs in splits.items()}}
    return EdgeData(SentenceFolder("tiny", "0a", rows), settings or GraphSettings(), seed=1)
