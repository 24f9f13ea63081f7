"""Train a parser on your own sentences and draw what it says.

Each word has a parent or none, and a label in every column. The rows are requests such as "book a flight to Oslo";
the test asks for combinations of words that training does not have. Run it: python examples/parse_sentences.py
"""

from __future__ import annotations

from itertools import product
from typing import Any

import edge_transformer as et
from edge_transformer.draw.arcs import diagram_of_graph
from edge_transformer.draw.text import draw_text

VERBS, THINGS, CITIES = ("book", "cancel", "change"), ("flight", "train", "room"), ("Oslo", "Rome", "Graz")


def request(verb: str, thing: str, city: str) -> dict[str, Any]:
    """A row: the thing hangs on the verb, the city on the thing."""
    place = "in" if thing == "room" else "to"
    return {
        "tokens": [verb, "the", thing, place, city],
        "parents": [-1, -1, 0, -1, 2],
        "labels": {
            "role": ["", "", "what", "", "where" if place == "in" else "where to"],
            "kind": ["action", "", "thing", "", "place"],
        },
    }


def main() -> None:
    held_out = {("book", "flight", "Graz"), ("cancel", "room", "Oslo"), ("change", "train", "Rome")}
    words = list(product(VERBS, THINGS, CITIES))
    train = [request(*each) for each in words if each not in held_out] * 20
    test = [request(*each) for each in words if each in held_out]
    parser = et.train(
        "graphs", {"train": train, "test": test}, dim=32, epochs=12, batch_size=20, warmup_steps=50, lr=0.002, threads=1
    )
    print("scores:", parser.record.metrics)

    parse = parser.parse("cancel the room in Oslo")
    print(draw_text(diagram_of_graph(parse.graph), width=80))

    # A bundled parser answers with logical forms.
    print(et.GraphParser.load("cogs-small").parse("A cat liked that the boy ran .").logical_form)


if __name__ == "__main__":
    main()
