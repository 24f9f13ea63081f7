"""Longer training stories out of shorter ones.

A story says how two people are related, so it can stand in the place of any edge with that relation: where Bob is
told to be the son of Ann, another story whose answer is "son" may be told of the two instead. What followed still
follows. The new story is longer than both, and nothing is in it that the training rows do not say. The edge itself may
be told as well: then there are two ways from one to the other, as in stories that come back to a person.

Only relations are compared. Who is a wife in one story may be told to have a wife by another: such families are none
that one meets, but the answers follow from the relations all the same.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from .clutrr import Story


def spliced_stories(stories: Sequence[Story], count: int, longest: int, seed: int, keep: float = 0.0) -> list[Story]:
    """`count` stories, all longer than the longest of `stories` and of at most `longest` relations, all lengths alike.

    An edge in whose place a story was told is kept with the probability `keep`; such edges are not counted.

    Stories whose graph has different answers in different rows take no part. Fewer come back, or none, where the
    answers of the stories are never relations of their edges.
    """
    usable = _without_contradictions(stories)
    shortest = max((story.k for story in stories), default=0) + 1
    if not usable or shortest > longest:
        return []
    by_answer: dict[str, list[Story]] = {}
    for story in usable:
        if len(story.edges) > 1:
            by_answer.setdefault(story.target, []).append(story)
    chance = random.Random(seed)
    made = (
        _grow(chance.choice(usable), by_answer, chance.randint(shortest, longest), keep, chance) for _ in range(count)
    )
    return [story for story in made if story.k >= shortest]


def splice(story: Story, edge: int, part: Story) -> Story:
    """`part` told in the place of one edge of `story`, whose relation is the answer of `part`."""
    ends = dict(zip(part.query, story.edges[edge], strict=True))
    others = [node for node in range(part.size) if node not in ends]
    number = ends | {node: story.size + place for place, node in enumerate(others)}
    told = tuple((number[start], number[end]) for start, end in part.edges)
    return Story(
        edges=(*story.edges[:edge], *told, *story.edges[edge + 1 :]),
        relations=(*story.relations[:edge], *part.relations, *story.relations[edge + 1 :]),
        query=story.query,
        target=story.target,
        names=tuple(str(node) for node in range(story.size + len(others))),
    )


def _grow(story: Story, by_answer: dict[str, list[Story]], length: int, keep: float, chance: random.Random) -> Story:
    """Splice until the story has that length, or as near below it as can be."""
    kept: list[tuple[tuple[int, int], str]] = []
    while True:
        missing = length - len(story.edges)
        fitting = [
            (edge, part)
            for edge, relation in enumerate(story.relations)
            for part in [_choose(by_answer.get(relation, []), missing, chance)]
            if part is not None
        ]
        if not fitting:
            break
        edge, part = chance.choice(fitting)
        if chance.random() < keep:
            kept.append((story.edges[edge], story.relations[edge]))
        story = splice(story, edge, part)
    more = [fact for fact in dict(kept).items() if fact[0] not in story.edges]
    return replace(
        story,
        edges=(*story.edges, *(edge for edge, _ in more)),
        relations=(*story.relations, *(relation for _, relation in more)),
        needed=len(story.edges),
    )


def _choose(parts: list[Story], missing: int, chance: random.Random) -> Story | None:
    """One that makes the story longer by at most `missing`."""
    for _ in range(10):  # most fit: looking at all of them would take long
        part = chance.choice(parts) if parts else None
        if part is not None and len(part.edges) - 1 <= missing:
            return part
    return None


def _without_contradictions(stories: Sequence[Story]) -> list[Story]:
    """The first story of each graph that has the same answer in all rows, and needs all that it tells."""
    answers: dict[object, set[str]] = {}
    first: dict[object, Story] = {}
    for story in stories:
        answers.setdefault(story.graph, set()).add(story.target)
        first.setdefault(story.graph, story)
    return [
        story
        for graph, story in first.items()
        if len(answers[graph]) == 1 and story.k == len(story.edges) and story.query[0] != story.query[1]
    ]
