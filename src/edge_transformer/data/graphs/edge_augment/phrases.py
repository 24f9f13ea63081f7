"""Phrases of sentence graphs, and how they swap places.

As in `../augment.py`, a phrase is a token, its top, with all below it. In a graph the top may have several parents,
and be one of its own descendants, as a noun with a relative clause is. All edges from outside lead to the top; they
stay with the place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..edges import Edge, SentenceGraph


@dataclass(frozen=True, slots=True)
class EdgePhrase:
    """The tokens from `first` to `last` of a graph, all but loose ones below one of them, `top`."""

    graph: SentenceGraph
    top: int
    first: int
    last: int
    is_root: bool  # no edge leads to it from outside

    def __len__(self) -> int:
        return self.last - self.first + 1


def loose_tokens(graph: SentenceGraph) -> list[bool]:
    """Which tokens have no edges and no labels."""
    tied = {token for head, dependent, _ in graph.edges for token in (head, dependent)}
    return [
        token not in tied and not any(column[token] for column in graph.labels.values()) for token in range(graph.size)
    ]


def phrases(graph: SentenceGraph, kind: str, before: dict[str, int]) -> list[EdgePhrase]:
    """All phrases of a sentence whose top has a kind, the label in this column.

    `before` says how many loose tokens before a token of a kind belong to it; see `words_before`.
    """
    loose, kinds = loose_tokens(graph), graph.labels[kind]
    below = dependents(graph.edges, graph.size)
    found = []
    for top in range(graph.size):
        if not kinds[top]:
            continue
        members = reached(below, top)
        outside = [edge for edge in graph.edges if edge[1] in members and edge[0] not in members]
        if any(dependent != top for _, dependent, _ in outside):
            continue
        if not outside and any(other < top and top in reached(below, other) for other in members):
            continue  # of the tokens on a cycle, the first is the top
        span = span_of(members, kinds, before, loose)
        if span is not None:
            found.append(EdgePhrase(graph, top, *span, not outside))
    return found


def dependents(edges: Iterable[Edge], size: int) -> list[set[int]]:
    """The dependents of each token, without itself."""
    below: list[set[int]] = [set() for _ in range(size)]
    for head, dependent, _ in edges:
        if head != dependent:
            below[head].add(dependent)
    return below


def reached(below: Sequence[set[int]], start: int, without: int | None = None) -> set[int]:
    """A token and all below it, on paths that avoid one token."""
    found, waiting = {start}, [start]
    for token in waiting:  # grows during the loop
        new = below[token] - found - {without}
        found |= new
        waiting += new
    return found


def span_of(
    members: set[int], kinds: Sequence[str], before: dict[str, int], loose: Sequence[bool]
) -> tuple[int, int] | None:
    """The first and last of some tokens and the loose ones before and among them; None if others are among them."""
    first = min(token - before.get(kinds[token], 0) for token in members)
    last = max(members)
    if first < 0 or any(token not in members and not loose[token] for token in range(first, last + 1)):
        return None
    return first, last


def swap(there: EdgePhrase, new: EdgePhrase) -> SentenceGraph:
    """The sentence of `there` with `new` in its place."""
    host, guest = there.graph, new.graph
    shift, inside = len(new) - len(there), there.first - new.first

    def moved(token: int) -> int:
        """The new number of a token of the host, and the new top for the old one."""
        return new.top + inside if token == there.top else token if token < there.first else token + shift

    edges = [
        (moved(head), moved(dependent), label)
        for head, dependent, label in host.edges
        if not there.first <= head <= there.last
    ]
    edges += [
        (head + inside, dependent + inside, label)
        for head, dependent, label in guest.edges
        if new.first <= head <= new.last and new.first <= dependent <= new.last
    ]
    return replaced(host, there.first, there.last, guest, range(new.first, new.last + 1), edges)


def replaced(
    host: SentenceGraph, first: int, last: int, guest: SentenceGraph, tokens: Sequence[int], edges: Iterable[Edge]
) -> SentenceGraph:
    """A sentence with the tokens from `first` to `last` replaced by some of another, and these edges."""

    def column(own: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
        return (*own[:first], *(other[token] for token in tokens), *own[last + 1 :])

    labels = {name: column(own, guest.labels[name]) for name, own in host.labels.items()}
    return SentenceGraph(column(host.tokens, guest.tokens), tuple(edges), labels, host.sentence)
