"""Longer training stories out of shorter ones.

A story says how two people are related, so it can stand in the place of any edge with that relation: where Bob is
told to be the son of Ann, another story whose answer is "son" may be told of the two instead. What followed still
follows. The new story is longer than both, and nothing is in it that the training rows do not say. It may also come
back to people it has met (see `returning`).

Relations are compared, and genders where the rows have them, so that nobody is a wife and has one.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from .clutrr import Story
from .returning import Kinship, Visits, is_sound

Parts = dict[tuple[str, str, str], list[Story]]  # (answer, genders of the two people of the question) -> stories


def spliced_stories(stories: Sequence[Story], count: int, longest: int, seed: int, returns: float = 0.0) -> list[Story]:
    """`count` stories, all longer than the longest of `stories` and of at most `longest` relations, all lengths alike.

    With the probability `returns` a step of making one longer does not splice, but comes back to somebody.

    Stories whose graph has different answers in different rows take no part. Fewer come back, or none, where the
    answers of the stories are never relations of their edges.
    """
    usable = _without_contradictions(stories)
    shortest = max((story.k for story in stories), default=0) + 1
    if not usable or shortest > longest:
        return []
    parts: Parts = {}
    for story in usable:
        if len(story.edges) > 1:
            parts.setdefault((story.target, *_genders(story, story.query)), []).append(story)
    kinship = Kinship.shown_by(usable)
    chance = random.Random(seed)
    made = (
        _grow(Visits(chance.choice(usable), kinship), parts, chance.randint(shortest, longest), returns, chance)
        for _ in range(count)
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
        genders=(*story.genders, *(part.genders[node] for node in others)) if story.genders and part.genders else (),
    )


def _grow(visits: Visits, parts: Parts, length: int, returns: float, chance: random.Random) -> Story:
    """Make the story longer until it has that length, or until nothing can be spliced in any more."""
    while (missing := length - len(visits.story.edges)) > 0:
        if chance.random() < returns and visits.return_once(missing, chance):
            continue
        story = visits.story
        fitting = [
            (edge, part)
            for edge, (ends, relation) in enumerate(zip(story.edges, story.relations, strict=True))
            for part in [_choose(parts.get((relation, *_genders(story, ends)), []), missing, chance)]
            if part is not None
        ]
        if not fitting:
            break
        longer = splice(story, *chance.choice(fitting))
        if not is_sound(longer):
            break
        visits.learn(longer)
    return visits.story


def _genders(story: Story, people: tuple[int, int]) -> tuple[str, str]:
    return (story.genders[people[0]], story.genders[people[1]]) if story.genders else ("", "")


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
