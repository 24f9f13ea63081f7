"""What all questions of CLUTRR have in common: at others, a model that was trained on them guesses."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable


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
