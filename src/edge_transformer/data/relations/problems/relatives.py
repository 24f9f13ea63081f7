"""Who is what to whom in some families: one knowledge graph of a few generations, for the task links."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from ..families import FamilyShape, simulate_family
from ..generate import first_names
from .drawing import Splits

SURNAMES = ("Ames", "Boyd", "Cole", "Dunn", "East", "Ford", "Gray", "Hale", "Ives", "Judd", "Kerr", "Lang")
SHAPE = FamilyShape(levels=3, min_children=2, max_children=3, p_marry=0.7, by_marriage=False)
HELD_OUT = 0.1  # of the facts, as validation, and again as many as test
FEWEST = 2  # facts that are left of a person


def relatives(seed: int = 1, families: int = 8) -> Splits:
    """All facts about relatives in some families, eight in ten of them to train on.

    A fact such as (Ann Ames, sister, Lil Ames) says that Lil is Ann's sister. Facts of train leave most others out of
    sight, but not out of reach: a grandmother is a mother's mother.
    """
    rng = random.Random(f"{seed} relatives {families}")
    facts: list[dict[str, Any]] = []
    for surname in SURNAMES[:families]:
        family = simulate_family(rng, SHAPE)
        names = [f"{first} {surname}" for first in first_names(rng, family.male)]
        for person, others in enumerate(family.relatives):
            for other, relation in others.items():
                facts.append({"head": names[person], "relation": relation, "tail": names[other]})
    rng.shuffle(facts)
    left = Counter(name for fact in facts for name in (fact["head"], fact["tail"]))
    wanted = 2 * round(HELD_OUT * len(facts))
    held_out: list[dict[str, Any]] = []
    train: list[dict[str, Any]] = []
    for fact in facts:
        ends = fact["head"], fact["tail"]
        if len(held_out) < wanted and min(left[name] for name in ends) > FEWEST:
            held_out.append(fact)
            left.subtract(ends)
        else:
            train.append(fact)
    return {"train": train, "dev": held_out[::2], "test": held_out[1::2]}
