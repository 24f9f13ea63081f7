"""Coordination in graphs of CFQ's queries, said once: "M1 and M2 directed and edited M3, M4 and M5".

In the form `words` each of the two verbs has an edge to each of the five entities. Here only the first of each list
has them, and the members of a list follow each other by edges of two labels:

- `and`: the dependent has the edges that come to the head: M1 -> M2, M3 -> M4 -> M5;
- `too`: the dependent has the edges to subjects and objects that go out from the head: directed -> edited.

A word without `subject` says what it says of itself, and so do those that follow it by `too`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from .edges import Edge

SUBJECT, OBJECT = "subject", "object"
AND, TOO = "and", "too"
CHAINS = (AND, TOO)
ENDS = (SUBJECT, OBJECT)


def chained(edges: Iterable[Edge]) -> list[Edge]:
    """Edges of the form `words`, with lists as chains."""
    ends = {edge for edge in edges if edge[2] in ENDS}
    others = [edge for edge in edges if edge not in ends]
    coming: dict[int, set[tuple[int, str]]] = defaultdict(set)
    for word, node, label in ends:
        coming[node].add((word, label))
    lists = _alike({node: frozenset(each) for node, each in coming.items()})
    others += [(*pair, AND) for members in lists for pair in pairwise(members)]
    later = {node for members in lists for node in members[1:]}
    ends = {edge for edge in ends if edge[1] not in later}

    going = _going_out(ends)
    of_objects = {word: each for word, each in going.items() if any(label == OBJECT for _, label in each)}
    words = {word: frozenset(_said_of(word, each)) for word, each in of_objects.items()}
    for members in _alike(words):
        members.sort(key=lambda word: ((word, SUBJECT) not in words[word], word))  # its own subject is first
        others += [(*pair, TOO) for pair in pairwise(members)]
        ends = {edge for edge in ends if edge[0] not in members[1:]}
    return sorted([*others, *ends])


def unchained(edges: Sequence[Edge]) -> list[Edge]:
    """The inverse of `chained`; any edges will do, also those of a predicted graph."""
    if not any(label in CHAINS for _, _, label in edges):
        return list(edges)
    ends = {edge for edge in edges if edge[2] in ENDS}
    going = _going_out(ends)
    for word, first in _before(edges, TOO):
        if first in going:
            ends |= {(word, node, label) for node, label in _said_of(first, going[first])}
    coming: dict[int, set[tuple[int, str]]] = defaultdict(set)
    for word, node, label in ends:
        coming[node].add((word, label))
    for node, first in _before(edges, AND):
        ends |= {(word, node, label) for word, label in coming.get(first, ())}
    return sorted(ends | {edge for edge in edges if edge[2] not in (*ENDS, *CHAINS)})


def _going_out(ends: Iterable[Edge]) -> dict[int, set[tuple[int, str]]]:
    going: dict[int, set[tuple[int, str]]] = defaultdict(set)
    for word, node, label in ends:
        going[word].add((node, label))
    return going


def _said_of(word: int, going: Iterable[tuple[int, str]]) -> set[tuple[int, str]]:
    """The edges that go out from a word, with the subject that nobody names: the word itself."""
    going = set(going)
    return going if any(label == SUBJECT for _, label in going) else going | {(word, SUBJECT)}


def _alike(of: Mapping[int, Hashable]) -> list[list[int]]:
    """Lists of two or more words for which the same is given, each in the order of the sentence."""
    lists: dict[Hashable, list[int]] = defaultdict(list)
    for word in sorted(of):
        lists[of[word]].append(word)
    return [members for members in lists.values() if len(members) > 1]


def _before(edges: Iterable[Edge], label: str) -> Iterator[tuple[int, int]]:
    """Each word of a chain with each word before it."""
    before: dict[int, set[int]] = defaultdict(set)
    for head, dependent, found in edges:
        if found == label and head != dependent:
            before[dependent].add(head)
    for word in sorted(before):
        seen, new = {word}, [word]
        while new:
            more = {each for one in new for each in before.get(one, ())} - seen
            seen |= more
            new = sorted(more)
        yield from ((word, first) for first in sorted(seen - {word}))
