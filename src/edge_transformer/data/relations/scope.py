"""What all questions of CLUTRR have in common: at others, a model that was trained on them guesses."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable

from .clutrr import Story
from .families import RELATIONS


def is_of_families(relations: Iterable[str]) -> bool:
    """Whether all relations are such as CLUTRR tells."""
    return set(relations) <= set(RELATIONS)


def guess_note(story: Story) -> str | None:
    """One line where the question is none that CLUTRR asks; a model may be sure of its answer all the same.

    Of other relations than those of families nothing is known.
    """
    found = list(_out_of_scope(story)) if is_of_families(story.relations) else []
    return f"a guess, however sure: {'; '.join(found)}" if found else None


def _out_of_scope(story: Story) -> Iterable[str]:
    """What sets a question apart from all of CLUTRR's, in words."""
    start, end = (story.names[node] for node in story.query)
    told = dict(zip(story.edges, story.relations, strict=True))
    if story.query[0] == story.query[1]:
        yield f"both ends of the question are {start}, as they never are in CLUTRR"
    elif story.query in told:
        yield f"{start} -{told[story.query]}-> {end} is told, and CLUTRR never asks for what is told"
    elif told_path(story.edges, story.query) is None:
        yield f"no told edges lead from {start} to {end}, as they do in all of CLUTRR"
    for node, other in told:
        if node == other:
            name = story.names[node]
            yield f"an edge leads from {name} to {name}, and none in CLUTRR leads from someone to themselves"
            break


def told_path(edges: Iterable[tuple[int, int]], query: tuple[int, int]) -> list[int] | None:
    """The nodes of a shortest path of at least one edge from the first node of the query to the second."""
    ends: dict[int, list[int]] = defaultdict(list)
    for start, end in edges:
        ends[start].append(end)
    paths, reached = deque([[query[0]]]), set()
    while paths:
        path = paths.popleft()
        for end in ends[path[-1]]:
            if end == query[1]:
                return [*path, end]
            if end not in reached:
                reached.add(end)
                paths.append([*path, end])
    return None
