"""Predict the missing links of a knowledge graph: notes of music and the intervals between them, some of them lost.

No fact says how intervals add up; the model finds it out. It knows no names, so it answers for a note that comes after
training. Run it: python examples/missing_links.py
"""

from __future__ import annotations

import random

import edge_transformer as et

NOTES = ("C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B")
INTERVALS = {"semitone": 1, "tone": 2, "minor third": 3, "major third": 4, "fourth": 5, "fifth": 7}


def up(note: str, interval: str) -> str:
    """The note that is an interval above another one."""
    return NOTES[(NOTES.index(note) + INTERVALS[interval]) % len(NOTES)]


def main() -> None:
    facts = [(note, interval, up(note, interval)) for note in NOTES for interval in INTERVALS]
    random.Random(1).shuffle(facts)
    lost, known = facts[:12], facts[12:]
    model = et.train(
        "links",
        {"train": known, "test": lost},
        valid_share=0.0,
        hidden=0.5,
        dim=16,
        layers=2,
        dropout=0.0,
        epochs=60,
        batch_size=16,
        lr=0.01,
        warmup_steps=20,
        threads=1,
    )
    print(f"MRR of the lost facts: {model.record.metrics['MRR']:.2f}")
    [answer] = model.predict([{"head": lost[0][0], "relation": lost[0][1]}], top=1)
    print(f"the {lost[0][1]} above {lost[0][0]}:", answer["answer"], "- it is", lost[0][2])

    found = [(link["head"], link["relation"], link["tail"]) for link in model.missing(top=12)]
    print("the 12 most probable missing links:", len({*found} & {*lost}), "of them were lost")

    # A note that no fact knew in training: three facts place it.
    new = [("B", "semitone", "B#"), ("A", "minor third", "B#"), ("B#", "tone", "D")]
    [answer] = model.predict([{"head": "B#", "relation": "fifth"}], facts=new)
    print("the fifth above B#:", answer["answer"])  # G


if __name__ == "__main__":
    main()
