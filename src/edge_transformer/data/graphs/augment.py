"""Augmentation: new sentences by swapping a phrase for another of its kind.

A phrase is a token with all its descendants, and the words without parent or labels among and before them. Such a word
belongs to the token after it if it stands before every token of that kind, as articles do before common nouns. One
column of labels says which tokens are of a kind, and so interchangeable. Another may give a phrase's relation to its
parent, which stays with the place.

Nothing is known of the language but that sentences may begin with a capital. New sentences mean what their parts mean,
but need not be natural.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from .edges import SentenceGraph
from .rows import TokenGraph

G = TypeVar("G", TokenGraph, SentenceGraph)
TRIES = 24  # of swaps for one new sentence


@dataclass(frozen=True, slots=True)
class Phrase:
    """The tokens from `first` to `last` of a graph, all below one of them, `top`."""

    graph: TokenGraph
    top: int
    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first + 1


class Augmentation:
    """The phrases of some sentences by kind, and sentences made of them.

    Args:
        kind: the column whose label, not empty, two phrases must share to be swapped. Sentences of one token take part
            where phrases of their kind can be that short.
        place: the column whose label stays with the place.
        evenly: draw a word and then a sentence with it, and a top and then a phrase of it, so that rare words come as
            often as others. A phrase without parent then stays, as all that was drawn would be lost with it.
        words: the fraction of sentences in which a word is substituted first; `name` is as in `WordSubstitution`.
    """

    def __init__(
        self,
        graphs: Sequence[TokenGraph],
        kind: str,
        place: str | None = None,
        evenly: bool = False,
        words: float = 0.0,
        name: str | None = None,
    ) -> None:
        self.kind, self.place, self.evenly = kind, place, evenly
        self.words = {token for graph in graphs for token in graph.tokens}
        self.rows = {_content(graph) for graph in graphs}
        self.sentences = [graph for graph in graphs if graph.size > 1]
        self.before = words_before(self.sentences, kind)
        self.by_kind: dict[str, list[Phrase]] = defaultdict(list)
        for graph in self.sentences:
            for phrase in phrases(graph, kind, self.before):
                self.by_kind[graph.labels[kind][phrase.top]].append(phrase)
        short = {label for label, those in self.by_kind.items() if any(len(phrase) == 1 for phrase in those)}
        for graph in graphs:
            if graph.size == 1 and graph.labels[kind][0] in short:
                self.by_kind[graph.labels[kind][0]] += phrases(graph, kind, self.before)
        if evenly:
            self.having = sentences_by_word(self.sentences, loose_tokens)
            self.by_top = {label: _phrases_by_top(those) for label, those in self.by_kind.items()}
        self.substitution = WordSubstitution(graphs, name) if words else None
        self.substituted = words if self.substitution and self.substitution.instead_of else 0.0

    def new_sentences(self, count: int, longest: int, seed: int) -> list[TokenGraph]:
        """`count` new sentences of at most `longest` tokens; fewer, or none, where there is little to swap."""
        if not self.by_kind:
            return []
        chance = random.Random(seed)
        made = (self.sentence(longest, chance) for _ in range(count))
        return [graph for graph in made if graph is not None]

    def sentence(self, longest: int, chance: random.Random) -> TokenGraph | None:
        """Swap a phrase of a sentence, then others for longer ones up to a random length; None if it is not new."""
        graph = self._draw_sentence(chance)
        wanted = chance.randint(1, longest)
        places = self._places(graph)
        for tries in range(TRIES):
            if not places or (tries and graph.size >= wanted):
                break
            there = chance.choice(places)
            found = self._draw_phrases(graph.labels[self.kind][there.top], 4 if tries else 1, chance)
            least, most = (len(there) + 1 if tries else 1), longest - graph.size + len(there)
            fitting = [phrase for phrase in found if least <= len(phrase) <= most]
            if fitting:
                graph = self.swap(there, max(fitting, key=len))
                places = self._places(graph)
        return None if _content(graph) in self.rows else graph

    def _places(self, graph: TokenGraph) -> list[Phrase]:
        found = phrases(graph, self.kind, self.before)
        return [phrase for phrase in found if graph.parents[phrase.top] != phrase.top] if self.evenly else found

    def _draw_sentence(self, chance: random.Random) -> TokenGraph:
        if self.substitution and self.substituted and chance.random() < self.substituted:
            return self.substitution.sentence(chance)
        return chance.choice(chance.choice(self.having) if self.evenly else self.sentences)

    def _draw_phrases(self, kind: str, count: int, chance: random.Random) -> list[Phrase]:
        if self.evenly:
            return [chance.choice(those) for those in chance.choices(self.by_top[kind], k=count)]
        return chance.choices(self.by_kind[kind], k=count)

    def swap(self, there: Phrase, new: Phrase) -> TokenGraph:
        """Swap `there` for `new`, and adapt the case of the first letter where the result is a known word."""
        made = swap(there, new, self.place)
        if (there.first == 0) == (new.first == 0):
            return made
        return replace(made, tokens=with_case_of_place(made.tokens, there.first, self.words))


def with_case_of_place(tokens: tuple[str, ...], place: int, words: Collection[str]) -> tuple[str, ...]:
    """The same with a capital at `place` if it is the first and without one if not, where that is a known word."""
    word = tokens[place]
    other = word[:1].lower() + word[1:] if place else word[:1].upper() + word[1:]
    if other not in words:  # a name, or a word that never begins a sentence
        return tokens
    return _with(tokens, place, other)


def swap(there: Phrase, new: Phrase, place: str | None = None) -> TokenGraph:
    """The sentence of `there` with `new` in its place."""
    host, guest = there.graph, new.graph
    shift = len(new) - len(there)

    def moved(token: int) -> int:
        """The new number of a token outside `there`, and the new top for the old one."""
        return _top(there, new) if token == there.top else token if token < there.first else token + shift

    inside = [parent + there.first - new.first for parent in guest.parents[new.first : new.last + 1]]
    if host.parents[there.top] == there.top:
        inside[new.top - new.first] = _top(there, new)
    else:
        inside[new.top - new.first] = moved(host.parents[there.top])
    labels = {}
    for name, column in host.labels.items():
        own = list(guest.labels[name][new.first : new.last + 1])
        if name == place:
            own[new.top - new.first] = column[there.top]
        labels[name] = (*column[: there.first], *own, *column[there.last + 1 :])
    return TokenGraph(
        tokens=(*host.tokens[: there.first], *guest.tokens[new.first : new.last + 1], *host.tokens[there.last + 1 :]),
        parents=(
            *map(moved, host.parents[: there.first]),
            *inside,
            *map(moved, host.parents[there.last + 1 :]),
        ),
        labels=labels,
    )


def sentences_by_word(graphs: Iterable[G], find_loose: Callable[[G], list[bool]]) -> list[list[G]]:
    """For each word with a parent or labels, the sentences in which it has them."""
    having: dict[str, list[G]] = defaultdict(list)
    for graph in graphs:
        loose = find_loose(graph)
        for word in {word: None for word, is_loose in zip(graph.tokens, loose, strict=True) if not is_loose}:
            having[word].append(graph)
    return list(having.values())


def _phrases_by_top(those: Iterable[Phrase]) -> list[list[Phrase]]:
    by_top: dict[str, list[Phrase]] = defaultdict(list)
    for phrase in those:
        by_top[phrase.graph.tokens[phrase.top]].append(phrase)
    return list(by_top.values())


def _content(graph: TokenGraph) -> tuple[object, ...]:
    """A key of sentence and graph."""
    return graph.tokens, graph.parents, *graph.labels.values()


def _top(there: Phrase, new: Phrase) -> int:
    return there.first + new.top - new.first


def phrases(graph: TokenGraph, kind: str, before: dict[str, int]) -> list[Phrase]:
    """All phrases of a sentence whose top has a kind."""
    loose = loose_tokens(graph)
    kinds = graph.labels[kind]
    first = [token if loose[token] else token - before.get(kinds[token], 0) for token in range(graph.size)]
    last, below = list(range(graph.size)), [1] * graph.size
    order = _leaves_first(graph.parents)
    for token in order:
        parent = graph.parents[token]
        if parent != token:
            first[parent], last[parent] = min(first[parent], first[token]), max(last[parent], last[token])
            below[parent] += below[token]
    loose_up_to = [0]
    for each in loose:
        loose_up_to.append(loose_up_to[-1] + each)
    return [
        Phrase(graph, top, first[top], last[top])
        for top in sorted(order)
        if kinds[top]
        and first[top] >= 0
        # All tokens in between are loose or below the top.
        and below[top] + loose_up_to[last[top] + 1] - loose_up_to[first[top]] == last[top] + 1 - first[top]
    ]


def loose_tokens(graph: TokenGraph) -> list[bool]:
    """Which tokens have no parent, no children and no labels."""
    parents = {parent for token, parent in enumerate(graph.parents) if parent != token}
    return [
        parent == token and token not in parents and not any(column[token] for column in graph.labels.values())
        for token, parent in enumerate(graph.parents)
    ]


def words_before(
    graphs: Iterable[TokenGraph | SentenceGraph], kind: str, find_loose: Callable[[Any], list[bool]] = loose_tokens
) -> dict[str, int]:
    """The number of loose tokens that stand before every token of a kind."""
    least: dict[str, int] = {}
    for graph in graphs:
        loose = find_loose(graph)
        run = 0
        for token in range(graph.size):
            label = graph.labels[kind][token]
            if label:
                least[label] = min(run, least.get(label, run))
            run = run + 1 if loose[token] else 0
    return least


def _leaves_first(parents: Sequence[int]) -> list[int]:
    """Tokens in topological order, children before parents, without cycles and all above them."""
    waiting_for = [0] * len(parents)
    for token, parent in enumerate(parents):
        waiting_for[parent] += parent != token
    ready = [token for token, number in enumerate(waiting_for) if not number]
    for token in ready:  # grows during the loop
        parent = parents[token]
        if parent != token:
            waiting_for[parent] -= 1
            if not waiting_for[parent]:
                ready.append(parent)
    return ready


class WordSubstitution(Generic[G]):
    """Substitutes words that are rows of their own for words of their kind in sentences.

    `name` is the column that names words, such as verbs by their base form.
    """

    labels: dict[str, dict[str, str]]  # of the words that are rows of their own, by column
    own: dict[str, tuple[str, ...]]  # their labels besides, in sentence graphs

    def __init__(self, graphs: Sequence[G], name: str | None = None) -> None:
        self.name = name
        alone: dict[str, G] = {graph.tokens[0]: graph for graph in graphs if graph.size == 1}
        self.labels = {word: {column: label for column, (label,) in row.labels.items()} for word, row in alone.items()}
        self.own = {
            word: tuple(label for _, _, label in row.edges) if isinstance(row, SentenceGraph) else ()
            for word, row in alone.items()
        }
        self.places: dict[str, list[tuple[G, int]]] = defaultdict(list)
        for graph in graphs:
            for token, word in enumerate(graph.tokens):
                if graph.size > 1 and word in alone and self.is_named(graph, token):
                    self.places[word].append((graph, token))
        self.of_kind: dict[tuple[object, ...], list[str]] = defaultdict(list)
        for word in self.places:
            self.of_kind[self.kind(word)].append(word)
        others: dict[str, list[str]] = {
            word: [other for other in self.of_kind.get(self.kind(word), ()) if other != word] for word in alone
        }
        self.instead_of = {word: those for word, those in others.items() if those}

    def kind(self, word: str) -> tuple[object, ...]:
        """Equal for interchangeable words."""
        own: dict[str, str] = self.labels[word]
        return *(bool(label) if name == self.name else label for name, label in own.items()), self.own[word]

    def is_named(self, graph: G, token: int) -> bool:
        """Whether a word has the same name in a sentence as alone."""
        own = self.labels[graph.tokens[token]]
        return not self.name or graph.labels[self.name][token] == own[self.name]

    def sentence(self, chance: random.Random) -> G:
        """A sentence with one word substituted. New and old words are drawn uniformly."""
        word = chance.choice(list(self.instead_of))
        graph, token = chance.choice(self.places[chance.choice(self.instead_of[word])])
        labels = dict(graph.labels)
        if self.name:
            labels[self.name] = _with(labels[self.name], token, self.labels[word][self.name])
        return replace(graph, tokens=_with(graph.tokens, token, word), labels=labels)


def _with(column: tuple[str, ...], place: int, value: str) -> tuple[str, ...]:
    return (*column[:place], value, *column[place + 1 :])
