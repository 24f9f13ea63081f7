"""Train a translator on pairs of texts, and look at its beam and its samples.

The source is a command such as "walk left twice", the target the actions. Run it: python examples/translate_pairs.py
"""

from __future__ import annotations

from itertools import product

import edge_transformer as et

VERBS, TURNS, TIMES = ("walk", "run", "jump", "look"), ("", "left", "right"), {"": 1, "twice": 2, "thrice": 3}


def pair(verb: str, turn: str, times: str) -> dict[str, str]:
    """A command and its actions."""
    actions = [*([turn.upper()] if turn else []), verb.upper()]
    return {"source": " ".join(filter(None, (verb, turn, times))), "target": " ".join(actions * TIMES[times])}


def main() -> None:
    words = list(product(VERBS, TURNS, TIMES))
    held_out = [("jump", "left", "twice"), ("look", "right", "thrice"), ("run", "", "twice")]
    train = [pair(*each) for each in words if each not in held_out] * 15
    test = [pair(*each) for each in words if each in held_out]
    model = et.train("seq2seq", {"train": train, "test": test}, dim=32, epochs=6, lr=0.003, threads=1)
    print("scores:", model.record.metrics)

    for row in test:
        [best] = model.translate([row["source"]])
        print(f"{row['source']} -> {best.text}  (log-probability {best.log_probability:.3f})")
    [several] = model.candidates(["jump left twice"], 3, beams=4)
    print("beam:", [found.text for found in several])
    [drawn] = model.sample(["jump left twice"], 3, temperature=1.5, seed=1)
    print("samples:", [found.text for found in drawn])


if __name__ == "__main__":
    main()
