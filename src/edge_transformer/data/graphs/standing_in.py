"""Words that are rows of their own stand in for each other.

Two such words are of a kind where their labels agree, but for one column that says what a word is called, if there is
such a column. A word that stands in for another of its kind brings that label; all else belongs to the place.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from .rows import TokenGraph


class StandIns:
    """The words that some rows consist of, and the sentences in which another of their kind could be.

    `name` is the column that says what words are called.
    """

    def __init__(self, graphs: Sequence[TokenGraph], name: str | None = None) -> None:
        self.name = name
        alone = {graph.tokens[0]: graph for graph in graphs if graph.size == 1}
        self.labels = {word: {column: label for column, (label,) in row.labels.items()} for word, row in alone.items()}
        self.places: dict[str, list[tuple[TokenGraph, int]]] = defaultdict(list)
        for graph in graphs:
            for token, word in enumerate(graph.tokens):
                if graph.size > 1 and word in alone and self.is_named(graph, token):
                    self.places[word].append((graph, token))
        self.of_kind: dict[tuple[object, ...], list[str]] = defaultdict(list)
        for word in self.places:
            self.of_kind[self.kind(word)].append(word)
        others = {word: [other for other in self.of_kind.get(self.kind(word), ()) if other != word] for word in alone}
        self.instead_of = {word: those for word, those in others.items() if those}

    def kind(self, word: str) -> tuple[object, ...]:
        """Equal for words of a kind."""
        return tuple(bool(label) if name == self.name else label for name, label in self.labels[word].items())

    def is_named(self, graph: TokenGraph, token: int) -> bool:
        """Whether a word of a sentence is called there what it is called alone."""
        own = self.labels[graph.tokens[token]]
        return not self.name or graph.labels[self.name][token] == own[self.name]

    def sentence(self, chance: random.Random) -> TokenGraph:
        """A sentence with one word for another. All words, and all that they can stand in for, are drawn alike."""
        word = chance.choice(list(self.instead_of))
        graph, token = chance.choice(self.places[chance.choice(self.instead_of[word])])
        labels = dict(graph.labels)
        if self.name:
            labels[self.name] = _with(labels[self.name], token, self.labels[word][self.name])
        return replace(graph, tokens=_with(graph.tokens, token, word), labels=labels)


def _with(column: tuple[str, ...], place: int, value: str) -> tuple[str, ...]:
    return (*column[:place], value, *column[place + 1 :])
