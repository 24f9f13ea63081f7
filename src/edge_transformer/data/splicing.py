"""Longer training stories out of shorter ones.

A story says how two people are related, so it can stand in the place of any edge with that relation: where Bob is
told to be the son of Ann, another story whose answer is "son" may be told of the two instead. What followed still
follows. The new story is longer than both, and nothing is in it that the training rows do not say. The edge itself may
be told as well: then there are two ways from one to the other.

A long story may also come back to a person. Two people of a spliced story are taken for one where the training rows do
not tell them apart: followed by the compositions that rows of two relations show, they are the same to all who come
before, and all who come after are the same to both.

Only relations are compared. Who is a wife in one story may be told to have a wife by another: such families are none
that one meets, but the answers follow from the relations all the same.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from .clutrr import Story


def spliced_stories(
    stories: Sequence[Story], count: int, longest: int, seed: int, keep: float = 0.0, merge: float = 0.0
) -> list[Story]:
    """`count` stories, all longer than the longest of `stories` and of at most `longest` relations, all lengths alike.

    An edge in whose place a story was told is kept with the probability `keep`; such edges are not counted. Two people
    who may be one become one with the probability `merge`.

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
    long_enough = [story for story in made if story.k >= shortest]
    if not merge:
        return long_enough
    rules = compositions(usable)
    return [merge_people(story, rules, merge, chance) for story in long_enough]


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


def compositions(stories: Sequence[Story]) -> dict[tuple[str, str], str]:
    """What two relations in a row come to, where all stories of two relations agree."""
    seen: dict[tuple[str, str], set[str]] = {}
    for story in stories:
        if len(story.edges) == 2 and is_walk(story):
            seen.setdefault((story.relations[0], story.relations[1]), set()).add(story.target)
    return {pair: next(iter(answers)) for pair, answers in seen.items() if len(answers) == 1}


def is_walk(story: Story) -> bool:
    """Whether the edges lead in their order from the first person of the question to the second."""
    people = [story.query[0], *(end for _, end in story.edges)]
    return story.edges == tuple(pairwise(people)) and people[-1] == story.query[1]


def merge_people(story: Story, rules: Mapping[tuple[str, str], str], merge: float, chance: random.Random) -> Story:
    """The same walk with people taken for one who may be one; other stories stay as they are."""
    if not is_walk(story):
        return story
    walk = [story.query[0], *(end for _, end in story.edges)]
    known = _followed(story.relations, rules)
    places = range(len(walk))

    def may_be_one(a: int, b: int) -> bool:
        """They are not told to be two, and there is someone to whom both are known to be the same."""
        if b - a < 2 or len(walk) - (b - a) <= 2:  # neighbours; and the question must not become one of its own edges
            return False
        before = [(known.get((x, a)), known.get((x, b))) for x in places[:a]]
        after = [(known.get((a, y)), known.get((b, y))) for y in places[b + 1 :]]
        both = [pair for pair in before + after if None not in pair]
        return all(one == other for one, other in both) and any(None not in pair for pair in before)

    one_of = [{place} for place in places]  # who is one with whom
    pairs = [(a, b) for a in places for b in places[a + 2 :] if may_be_one(a, b)]
    allowed = set(pairs)
    chance.shuffle(pairs)
    for a, b in pairs:
        if one_of[a] is one_of[b] or chance.random() >= merge:
            continue
        if all((min(x, y), max(x, y)) in allowed for x in one_of[a] for y in one_of[b]):
            together = one_of[a] | one_of[b]
            for place in together:
                one_of[place] = together
    if all(len(together) == 1 for together in one_of):
        return story
    number: dict[int, int] = {}
    for place in places:
        number.setdefault(min(one_of[place]), len(number))
    person = [number[min(one_of[place])] for place in places]
    facts = dict(zip(pairwise(person), story.relations, strict=True))
    told_twice = any(facts[edge] != relation for edge, relation in zip(pairwise(person), story.relations, strict=True))
    if told_twice or (person[0], person[-1]) in facts:
        return story  # two relations between the same two people, or the answer itself among them
    return replace(
        story,
        edges=tuple(facts),
        relations=tuple(facts.values()),
        query=(person[0], person[-1]),
        names=tuple(str(node) for node in range(len(number))),
        needed=None,
    )


def _followed(relations: Sequence[str], rules: Mapping[tuple[str, str], str]) -> dict[tuple[int, int], str]:
    """What is known of every two people of a walk, from the first of them step by step."""
    known: dict[tuple[int, int], str] = {}
    for start in range(len(relations)):
        relation: str | None = relations[start]
        for end in range(start + 1, len(relations) + 1):
            if end > start + 1:
                relation = rules.get((relation or "", relations[end - 1]))
            if relation is None:
                break
            known[start, end] = relation
    return known


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
