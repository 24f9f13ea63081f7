"""Generated family stories of a given number of people, and explanations of them with random proofs."""

from __future__ import annotations

import random

from edge_transformer.data.relations.families import TARGETS
from edge_transformer.data.relations.generate import generate_valid
from edge_transformer.data.relations.rows import Story
from edge_transformer.explain.claims import Claim, Explanation, Reading


def stories_of(people: int, count: int, seed: int = 1) -> list[Story]:
    """Stories that never come back to anybody."""
    [stories] = generate_valid([people - 1], count, seed, revisits=0.0).values()
    assert all(story.size == people for story in stories)
    return stories


def with_random_proof(story: Story, rng: random.Random, unsure: float = 0.3) -> Explanation:
    """An explanation whose proof composes the told edges in a random order."""

    def reading() -> Reading:
        second = (rng.choice(TARGETS), 0.4) if rng.random() < unsure else None
        return Reading(rng.choice(TARGETS), rng.random(), second)

    def compose(first: int, last: int) -> Claim:
        start, end = story.edges[first][0], story.edges[last][1]
        if first == last:
            return Claim(start, end, story.relations[first])
        middle = rng.randrange(first, last)
        premises = compose(first, middle), compose(middle + 1, last)
        layer, found = 1 + max(premise.layer for premise in premises), reading()
        weight, strength = rng.random(), rng.random()
        pivot = premises[0].end
        return Claim(start, end, found.answer, False, found, layer, layer, pivot, weight, strength, premises)

    proof = compose(0, len(story.edges) - 1)
    assert proof.reading is not None
    return Explanation(story, proof.reading, proof, ())
