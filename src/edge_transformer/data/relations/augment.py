"""Augmentation: longer training stories composed of shorter ones.

A story with the answer "son" can be substituted for any edge with the relation "son". The target stays valid, and the
new story says nothing that the training rows do not. Relations must be equal and, where the rows have genders, the
genders of both people. Stories may also revisit people.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from .rows import Story, told_path

Parts = dict[tuple[str, str, str], list[Story]]  # (answer, genders of the two people of the question) -> stories


def augmented_stories(
    stories: Sequence[Story], count: int, longest: int, seed: int, returns: float = 0.0
) -> list[Story]:
    """`count` stories, longer than all of `stories` and of at most `longest` relations, with uniform lengths.

    Each step substitutes a story for an edge or, with the probability `returns`, revisits a person. Graphs with
    different answers in different rows are left out. Returns fewer stories, or none, where no answer labels an edge.
    """
    usable = _without_contradictions(stories)
    shortest = max((story.k for story in stories), default=0) + 1
    if not usable or shortest > longest:
        return []
    parts: Parts = {}
    for story in usable:
        if len(story.edges) > 1:
            parts.setdefault((story.label, *_genders(story, story.query)), []).append(story)
    kinship = Kinship.shown_by(usable)
    chance = random.Random(seed)
    made = (
        _grow(Visits(chance.choice(usable), kinship), parts, chance.randint(shortest, longest), returns, chance)
        for _ in range(count)
    )
    return [story for story in made if story.k >= shortest]


CHAINS, ANSWERS, AGREEING = 0.8, 0.6, 0.95  # shares of rows


def composes(stories: Sequence[Story]) -> bool:
    """Whether augmentation suits these rows: most are chains, most answers label edges too, and follow from the edges.

    Where a label means one thing on an edge and another as an answer, as "manager" of a chart and "indirect manager",
    its answers label no edges.
    """
    if not all(story.is_plain for story in stories):
        return False
    told = {relation for story in stories for relation in story.relations}
    chains = sum(told_path(story.edges, story.query) is not None for story in stories)
    paths = sum(story.size == len(story.edges) + 1 for story in stories)
    answers = sum(story.target in told for story in stories)
    steps: dict[tuple[object, ...], Counter[str]] = defaultdict(Counter)
    for story in stories:
        if len(story.edges) == 2:
            steps[(*story.relations, story.edges, story.query)][story.label] += 1
    rows = sum(counts.total() for counts in steps.values())
    agreeing = sum(max(counts.values()) for counts in steps.values())
    whole = len(stories)
    return (
        min(chains, paths) >= CHAINS * whole and answers >= ANSWERS * whole and rows > 0 and agreeing >= AGREEING * rows
    )


def substitute(story: Story, edge: int, part: Story) -> Story:
    """Substitute `part` for an edge of `story` whose relation is the answer of `part`."""
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
    """Make the story longer until it has that length, or until nothing fits."""
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
        longer = substitute(story, *chance.choice(fitting))
        if not is_sound(longer):
            break
        visits.learn(longer)
    return visits.story


def _genders(story: Story, people: tuple[int, int]) -> tuple[str, str]:
    return (story.genders[people[0]], story.genders[people[1]]) if story.genders else ("", "")


def _choose(parts: list[Story], missing: int, chance: random.Random) -> Story | None:
    """A random part that makes the story longer by at most `missing`."""
    for _ in range(10):  # most fit, and filtering all of them is slow
        part = chance.choice(parts) if parts else None
        if part is not None and len(part.edges) - 1 <= missing:
            return part
    return None


def _without_contradictions(stories: Sequence[Story]) -> list[Story]:
    """The first story of each graph that has one answer in all rows and needs all of its edges."""
    answers: dict[object, set[str]] = {}
    first: dict[object, Story] = {}
    for story in stories:
        answers.setdefault(story.graph, set()).add(story.label)
        first.setdefault(story.graph, story)
    return [
        story
        for graph, story in first.items()
        if len(answers[graph]) == 1 and story.k == len(story.edges) and story.query[0] != story.query[1]
    ]


MOSTLY = 2 / 3  # of the stories "c, there, back" have the answer c if "there, back" may return to the same person


def compositions(stories: Sequence[Story]) -> dict[tuple[str, str], str]:
    """The composition of two relations, where all stories of two relations agree."""
    seen: dict[tuple[str, str], set[str]] = {}
    for story in stories:
        if len(story.edges) == 2 and is_walk(story):
            seen.setdefault((story.relations[0], story.relations[1]), set()).add(story.label)
    return {pair: next(iter(answers)) for pair, answers in seen.items() if len(answers) == 1}


def is_walk(story: Story) -> bool:
    """Whether the edges, in order, lead from the first person of the query to the second."""
    people = [story.query[0], *(end for _, end in story.edges)]
    return story.edges == tuple(pairwise(people)) and people[-1] == story.query[1]


@dataclass(frozen=True)
class Kinship:
    """What training stories show about relations."""

    composed: dict[tuple[str, str], str]  # (there, on) -> their composition
    back: dict[tuple[str, str], str]  # (a person's gender, there) -> the relation back to that person
    named: dict[str, str]  # a relation -> the gender that it implies
    told: frozenset[str]  # the relations of edges; others are answers only

    @classmethod
    def shown_by(cls, stories: Sequence[Story]) -> Kinship:
        """Learn from stories; without genders, no relation back is known."""
        walks = [story for story in stories if story.genders and is_walk(story)]
        genders: dict[str, set[str]] = defaultdict(set)
        for story in walks:
            for (_, end), relation in zip(story.edges, story.relations, strict=True):
                genders[relation].add(story.genders[end])
        named = {relation: next(iter(those)) for relation, those in genders.items() if len(those) == 1}
        ways = _ways_taken(walks) | _ways_that_change_nothing(walks)
        # The same pair also holds from the other end.
        ways |= {(named[there], back, there) for gender, there, back in ways if named.get(back) == gender}
        ways_of: dict[tuple[str, str], set[str]] = defaultdict(set)
        for gender, there, back in ways:
            ways_of[gender, there].add(back)
        return cls(
            composed=compositions(stories),
            back={start: next(iter(backs)) for start, backs in sorted(ways_of.items()) if len(backs) == 1},
            named=named,
            told=frozenset(relation for story in stories for relation in story.relations),
        )


Way = tuple[str, str, str]  # a person's gender, the relation there, and the relation back


def _ways_taken(walks: Sequence[Story]) -> set[Way]:
    """The ways of stories that return after two steps."""
    return {
        (story.genders[start], there, back)
        for story in walks
        for ((start, _), there), ((_, end), back) in pairwise(zip(story.edges, story.relations, strict=True))
        if start == end
    }


def _ways_that_change_nothing(walks: Sequence[Story]) -> set[Way]:
    """The ways of stories "c, there, back" whose answer is mostly c: they may return to the same person."""
    unchanged: dict[Way, list[bool]] = defaultdict(list)
    for story in walks:
        if len(story.edges) == 3:
            before, there, back = story.relations
            unchanged[story.genders[story.edges[1][0]], there, back].append(before == story.target)
    return {way for way, those in unchanged.items() if sum(those) > MOSTLY * len(those)}


@dataclass
class Visits:
    """A growing story, and all known relations of its people."""

    story: Story
    kinship: Kinship
    known: dict[tuple[int, int], str] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.learn(self.story)

    def learn(self, story: Story) -> None:
        """Continue with this story about the same people, and maybe more."""
        self.story = story
        for (start, end), relation in zip(story.edges, story.relations, strict=True):
            self.known.setdefault((start, end), relation)
            if story.genders:
                back = self.kinship.back.get((story.genders[start], relation))
                if back is not None:
                    self.known.setdefault((end, start), back)

    def relation(self, a: int, b: int) -> str | None:
        """What b is to a, where it is known or all ways through a third person agree."""
        if a == b or (a, b) in self.known:
            return self.known.get((a, b))
        steps = [(self.known.get((a, middle)), self.known.get((middle, b))) for middle in range(self.story.size)]
        found = {self.kinship.composed.get((there, on)) for there, on in steps if there is not None and on is not None}
        return found.pop() if len(found) == 1 else None

    def return_once(self, most: int, chance: random.Random) -> bool:
        """Make the story longer by one or two edges, at most `most`; False where that failed."""
        by_one, by_two = [self._detour], [self._visit_new, self._visit_known]
        way = chance.choice([*by_two, *by_one] if most > 1 else by_one)
        return any(way(chance) for _ in range(10))

    def _visit_new(self, chance: random.Random) -> bool:
        place, person = self._stop(chance)
        genders = self.story.genders
        if not genders:
            return False
        ways = [(there, back) for (gender, there), back in self.kinship.back.items() if gender == genders[person]]
        ways = [way for way in ways if way[0] in self.kinship.named]
        if not ways:
            return False
        there, back = chance.choice(ways)
        new = self.story.size
        longer = replace(self.story, names=(*self.story.names, str(new)), genders=(*genders, self.kinship.named[there]))
        return self._tell(longer, place, place, [(person, there, new), (new, back, person)])

    def _visit_known(self, chance: random.Random) -> bool:
        place, person = self._stop(chance)
        other = chance.randrange(self.story.size)
        facts = [(person, self.relation(person, other), other), (other, self.relation(other, person), person)]
        return self._tell(self.story, place, place, facts)

    def _detour(self, chance: random.Random) -> bool:
        place = chance.randrange(len(self.story.edges))
        (start, end), relation = self.story.edges[place], self.story.relations[place]
        other = chance.randrange(self.story.size)
        there, on = self.relation(start, other), self.relation(other, end)
        if self.kinship.composed.get((there or "", on or "")) != relation:
            return False
        return self._tell(self.story, place, place + 1, [(start, there, other), (other, on, end)])

    def _stop(self, chance: random.Random) -> tuple[int, int]:
        """A random place between edges, and the person there."""
        place = chance.randint(0, len(self.story.edges))
        return place, self.story.edges[place][0] if place < len(self.story.edges) else self.story.edges[-1][1]

    def _tell(self, story: Story, first: int, last: int, facts: Sequence[tuple[int, str | None, int]]) -> bool:
        """Replace edges `first` to `last` - 1 by these facts, if that gives a sound story."""
        edges = [(start, end) for start, _, end in facts]
        relations = [relation for _, relation, _ in facts if relation in self.kinship.told]
        if len(relations) < len(edges):
            return False
        longer = replace(
            story,
            edges=(*story.edges[:first], *edges, *story.edges[last:]),
            relations=(*story.relations[:first], *relations, *story.relations[last:]),
            proof=(),
        )
        if not is_sound(longer):
            return False
        self.learn(longer)
        return True


def is_sound(story: Story) -> bool:
    """Whether no edge is told twice, and the query is not told."""
    return len(set(story.edges)) == len(story.edges) and story.query not in story.edges
