"""Noun phrases in graphs of CFQ's queries: what is said inside of one stands at its noun.

What "which" or "what" with a noun asks for stands at the noun, as it would with "a": "Which prequel of M0 was edited by
M1". And an adjective belongs to its noun, wherever the variable of both stands: in "Who was a French editor of M0"
French -subject-> editor -subject-> Who.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from ..trees.cfq_words import ADJECTIVE, AND, COMMA, WHAT, WHICH, Term, terms_of
from .cfq_anchors import places_of_nouns
from .cfq_chains import ENDS, OBJECT, SUBJECT
from .edges import Edge


class Phrases:
    """The adjectives and nouns of a question."""

    def __init__(self, words: Sequence[str]) -> None:
        terms = terms_of(words)
        self.nouns: dict[int, int] = {}  # of adjectives
        self.asked = 0  # the word that stands for what is asked for: a noun, or the wh-word
        if isinstance(terms, int):  # a word that is not CFQ's
            return
        places, nouns = places_of_nouns(terms)
        for number, term in enumerate(terms):
            if term.sort == ADJECTIVE and (noun := _next_noun(terms, nouns, number + 1)) is not None:
                self.nouns[places[number]] = places[noun]
        if terms and terms[0].sort in (WHAT, WHICH):
            noun = _next_noun(terms, nouns, 1)
            self.asked = 0 if noun is None else places[noun]

    def gathered(self, edges: Iterable[Edge]) -> list[Edge]:
        """Edges of the form `words`, with what phrases say at their nouns."""
        edges = set(edges)
        if self.asked and self._is_free(edges):
            edges = {(self._moved(head), self._moved(dependent), label) for head, dependent, label in edges}
            subjects = _subjects(edges)
            if subjects.get(self.asked) == {self.asked}:
                edges.discard((self.asked, self.asked, SUBJECT))
        subjects, stands = _subjects(edges), self._stands(edges)
        with_objects = {head for head, _, label in edges if label == OBJECT}
        for adjective, noun in self.nouns.items():
            own = subjects.get(adjective, set())
            same = own == subjects.get(noun) and noun not in own
            if same and adjective not in with_objects and noun not in stands:
                edges -= {(adjective, one, SUBJECT) for one in own}
                edges.add((adjective, noun, SUBJECT))
        return sorted(edges)

    def spread(self, edges: Sequence[Edge]) -> list[Edge]:
        """The inverse for adjectives: one whose subject is its noun has the subjects of the noun."""
        subjects, stands = _subjects(edges), self._stands(edges)
        found = set(edges)
        for adjective, noun in self.nouns.items():
            if noun not in stands and noun in subjects.get(adjective, set()) and noun not in subjects.get(noun, {noun}):
                found.remove((adjective, noun, SUBJECT))
                found |= {(adjective, one, SUBJECT) for one in subjects[noun]}
        return sorted(found)

    def _is_free(self, edges: Iterable[Edge]) -> bool:
        """Whether the wh-word says nothing, and the noun stands for nothing else."""
        says = any(head == 0 and (dependent == 0 or label in ENDS) for head, dependent, label in edges)
        stands = any(dependent == self.asked and label in ENDS for _, dependent, label in edges)
        subjects = _subjects(edges)
        speaks = any(head == dependent == self.asked for head, dependent, _ in edges)
        return not says and not stands and (not speaks or 0 in subjects.get(self.asked, set()))

    def _moved(self, word: int) -> int:
        return self.asked if word == 0 else word

    def _stands(self, edges: Iterable[Edge]) -> set[int]:
        """The words that stand for something of which others than their adjectives speak."""
        return {node for word, node, label in edges if label in ENDS and self.nouns.get(word) != node}

    def asked_for(self, nodes: Iterable[int]) -> int:
        """Which of these nodes is asked for: the wh-word, if it stands for one, else the noun after it."""
        return 0 if 0 in set(nodes) else self.asked


def _subjects(edges: Iterable[Edge]) -> dict[int, set[int]]:
    subjects: dict[int, set[int]] = defaultdict(set)
    for word, node, label in edges:
        if label == SUBJECT:
            subjects[word].add(node)
    return dict(subjects)


def _next_noun(terms: Sequence[Term], nouns: Sequence[bool], number: int) -> int | None:
    """The noun that adjectives before it belong to."""
    while number < len(terms) and terms[number].sort in (ADJECTIVE, AND, COMMA):
        number += 1
    return number if number < len(terms) and nouns[number] else None
