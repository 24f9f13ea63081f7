"""Train a parser of graphs in which a word may have several parents: relative clauses.

In "Ann saw the cat that Bob fed" the cat is an argument of both verbs. The test asks for relative clauses where
training has none: at subjects. Augmentation makes such sentences of those of training, as phrases of one kind swap
places. Run it: python examples/parse_relative_clauses.py
"""

from __future__ import annotations

from itertools import product
from typing import Any

import edge_transformer as et
from edge_transformer.draw.text import draw_text

NAMES, NOUNS, VERBS = ("Ann", "Bob", "Eve"), ("cat", "dog", "bird"), ("saw", "fed", "met")
KINDS = dict.fromkeys(NAMES, "name") | dict.fromkeys(NOUNS, "noun") | dict.fromkeys(VERBS, "verb")


def row(text: str, *edges: tuple[int, int, str]) -> dict[str, Any]:
    tokens = text.split()
    return {"tokens": tokens, "edges": edges, "labels": {"kind": [KINDS.get(token, "") for token in tokens]}}


def simple(noun: str, verb: str, name: str) -> list[dict[str, Any]]:
    return [
        row(f"the {noun} {verb} {name} .", (2, 1, "agent"), (2, 3, "theme")),
        row(f"{name} {verb} the {noun} .", (1, 0, "agent"), (1, 3, "theme")),
    ]


def at_object(name: str, verb: str, noun: str, other: str, inner: str) -> dict[str, Any]:
    edges = (1, 0, "agent"), (1, 3, "theme"), (3, 6, "clause"), (6, 5, "agent"), (6, 3, "theme")
    return row(f"{name} {verb} the {noun} that {other} {inner} .", *edges)


def at_subject(noun: str, other: str, inner: str, verb: str, name: str) -> dict[str, Any]:
    edges = (1, 4, "clause"), (4, 3, "agent"), (4, 1, "theme"), (5, 1, "agent"), (5, 6, "theme")
    return row(f"the {noun} that {other} {inner} {verb} {name} .", *edges)


def main() -> None:
    train = [made for words in product(NOUNS, VERBS, NAMES) for made in simple(*words)]
    train += [at_object(*words) for words in product(NAMES, VERBS, NOUNS, NAMES, VERBS)]
    test = [at_subject(*words) for words in product(NOUNS, NAMES, VERBS, VERBS, NAMES)][::4]
    for augmented in (0, 2):
        parser = et.train(
            "graphs",
            {"train": train, "test": test},
            preset="graphs/edges",
            dim=32,
            layers=3,
            epochs=8,
            batch_size=100,
            warmup_steps=50,
            evaluate_every=8,
            threads=1,
            augmented=augmented,
            augmented_kind="kind",
            augmented_tokens=12,
        )
        print(f"{augmented} new sentences a row: exact match {parser.record.metrics['test']:.2f}")
    print(draw_text(parser.parse("the cat that Ann fed saw Bob .").diagram(), width=80))


if __name__ == "__main__":
    main()
