"""Augmentation of sentence graphs: deep recursion, by phrases that stand in phrases of their own form.

    the cat that a dog saw          has `a dog`, another phrase with a noun as its top
    the cat that a dog that the bird that ... heard saw

A form is the sequence of a phrase's words, where words with a kind count as that kind. All levels of a new phrase have
one form, so that no level helps to tell the others apart.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from ..edges import SentenceGraph
from .phrases import EdgePhrase

LEAST = 20  # phrases of a form; others are exceptions
LONGEST = 12  # tokens of a form


class Form(NamedTuple):
    """The form of a phrase, with the kind of its top."""

    kind: str
    words: tuple[str, ...]


class Nesting:
    """Phrases with one of their own kind inside, by form.

    Args:
        found: all phrases of the training rows. kind: the column with kinds. before: see `phrases`.
    """

    def __init__(self, found: Iterable[EdgePhrase], kind: str, before: dict[str, int]) -> None:
        self.kind = kind
        self.places: dict[str, list[EdgePhrase]] = defaultdict(list)
        by_graph: dict[int, list[EdgePhrase]] = defaultdict(list)
        for phrase in found:
            by_graph[id(phrase.graph)].append(phrase)
        forms: dict[Form, list[tuple[EdgePhrase, list[EdgePhrase]]]] = defaultdict(list)
        for those in by_graph.values():
            for phrase in those:
                kinds = phrase.graph.labels[kind]
                own = kinds[phrase.top]
                if not phrase.is_root:
                    self.places[own].append(phrase)
                inside = [
                    each
                    for each in those
                    if each.top != phrase.top
                    and kinds[each.top] == own
                    and phrase.first <= each.first
                    and each.last <= phrase.last
                ]
                if inside and len(phrase) <= LONGEST:
                    forms[Form(own, _words(phrase, kinds, before))].append((phrase, inside))
        found_forms = [those for form, those in forms.items() if len(those) >= LEAST and self.places.get(form.kind)]
        self.of_form = [those for those in found_forms for _ in those]  # of each phrase, all of its form

    def __bool__(self) -> bool:
        return bool(self.of_form)

    def sentence(
        self, longest: int, swap: Callable[[EdgePhrase, EdgePhrase], SentenceGraph], chance: random.Random
    ) -> SentenceGraph:
        """A sentence with phrases of one form inside each other, up to a random length; frequent forms come often."""
        those = chance.choice(self.of_form)
        first = those[0][0]
        there = chance.choice(self.places[first.graph.labels[self.kind][first.top]])
        wanted = chance.randint(1, longest)
        while True:
            new, inside = chance.choice(those)
            size = there.graph.size - len(there) + len(new)
            if size > longest:
                return there.graph
            graph = swap(there, new)
            if size >= wanted:
                return graph
            inner, shift = chance.choice(inside), there.first - new.first
            there = EdgePhrase(graph, inner.top + shift, inner.first + shift, inner.last + shift, False)


def _words(phrase: EdgePhrase, kinds: tuple[str, ...], before: dict[str, int]) -> tuple[str, ...]:
    words: list[str] = []
    for token in range(phrase.first, phrase.last + 1):
        if kinds[token]:
            del words[len(words) - min(before.get(kinds[token], 0), len(words)) :]
        words.append(kinds[token] or phrase.graph.tokens[token])
    return tuple(words)
