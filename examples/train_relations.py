"""Train a model of relations on rows in memory, score it on longer chains, ask it and let it explain.

The relations are turns: an edge says how the second ship is turned as seen from the first, and the question is how the
last one is turned as seen from the first. The rows have chains of 2 and 3 turns; `augmented=1.0` adds longer ones that
it puts together from them.
Run it: python examples/train_relations.py
"""

from __future__ import annotations

import random
from typing import Any

import edge_transformer as et

TURNS = ("ahead", "right", "back", "left")  # 0, 90, 180 and 270 degrees


def chain(length: int, chance: random.Random) -> dict[str, Any]:
    """A row: a chain of so many turns, and the turn that they make together."""
    ships = [f"ship {number}" for number in range(length + 1)]
    turns = [chance.randrange(4) for _ in range(length)]
    edges = [[start, TURNS[turn], end] for start, turn, end in zip(ships, turns, ships[1:], strict=False)]
    chance.shuffle(edges)
    return {"edges": edges, "query": [ships[0], ships[-1]], "target": TURNS[sum(turns) % 4]}


def main() -> None:
    chance = random.Random(1)
    train = [chain(chance.choice([2, 3]), chance) for _ in range(800)]
    test = [chain(length, chance) for length in (2, 3, 4, 6) for _ in range(30)]
    model = et.train(
        "relations",
        {"train": train, "test": test},
        augmented=1.0,
        augmented_k=6,
        dim=32,
        layers=4,
        min_layers=3,
        dropout=0.0,
        epochs=4,
        batch_size=32,
        lr=0.003,
        threads=1,
    )
    print("accuracy by number of turns:", {name: score for name, score in model.record.metrics.items() if "k=" in name})

    question = {"edges": [["Ann", "right", "Bob"], ["Bob", "back", "Eve"]], "query": ["Ann", "Eve"]}
    print("As seen from Ann, Eve is turned to the", model.predict([question])[0]["answer"])  # left
    print(et.explain(model, question).text())


if __name__ == "__main__":
    main()
