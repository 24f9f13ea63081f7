"""Stories for tests, written short, and whether they are true of a family."""

from __future__ import annotations

from collections.abc import Iterator

from edge_transformer.data.relations.families import Family
from edge_transformer.data.relations.rows import Story


def story(text: str, query: tuple[int, int], target: str) -> Story:
    """A story from "0 son 1, 1 sister 2"."""
    facts = [fact.split() for fact in text.split(", ")]
    edges = tuple((int(start), int(end)) for start, _, end in facts)
    size = 1 + max(max(edge) for edge in edges)
    names = tuple(f"person {node}" for node in range(size))
    return Story(edges, tuple(relation for _, relation, _ in facts), query, target, names)


def told(story: Story) -> str:
    edges = zip(story.edges, story.relations, strict=True)
    return ", ".join(f"{start} {relation} {end}" for (start, end), relation in edges)


def truth(stories: list[Story], family: Family, most: int = 50) -> float:
    """How often the answer holds where a family has people who stand to each other as the story tells."""
    right = [
        family.holds(people[each.query[0]], str(each.target), people[each.query[1]])
        for each in stories
        for first in range(len(family.male))
        for _, people in zip(range(most), castings(each, family, {each.edges[0][0]: first}), strict=False)
    ]
    assert len(right) > 1000
    return sum(right) / len(right)


def castings(story: Story, family: Family, people: dict[int, int], edge: int = 0) -> Iterator[dict[int, int]]:
    """Who may be who in a walk, all different, beginning with these."""
    if edge == len(story.edges):
        yield people
        return
    start, end = story.edges[edge]
    for other in family.those_of[story.relations[edge]].get(people[start], []):
        if people.get(end, other) == other and (end in people or other not in people.values()):
            yield from castings(story, family, {**people, end: other}, edge + 1)
