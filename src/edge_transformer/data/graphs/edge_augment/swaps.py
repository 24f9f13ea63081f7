"""Augmentation of sentence graphs: phrases swap places, and clauses with a gap are made of whole ones.

It follows `../augment.py`, with rare words as often as others. `phrases.py` says what a phrase of a sentence graph
is, `gaps.py` what a gap is.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from ..augment import TRIES, WordSubstitution, sentences_by_word, with_case_of_place, words_before
from ..edges import SentenceGraph
from .gaps import Gaps
from .nesting import Nesting
from .phrases import EdgePhrase, loose_tokens, phrases, swap


class EdgeAugmentation:
    """The phrases of some sentences by kind and top, and sentences made of them.

    Args:
        graphs: the training rows.
        kind: the column whose label, not empty, two phrases must share to be swapped.
        words: the fraction of sentences in which a word that is a row of its own is substituted first.
        gaps: the fraction of the others that get another clause with a gap first.
        nested: the fraction of all sentences in which phrases of one form stand inside each other.
        name: the column, if any, with the names of words; see `WordSubstitution` and `Gaps`.
    """

    def __init__(
        self,
        graphs: Sequence[SentenceGraph],
        kind: str,
        words: float = 0.0,
        gaps: float = 0.0,
        nested: float = 0.0,
        name: str | None = None,
    ) -> None:
        self.kind = kind
        self.words = {token for graph in graphs for token in graph.tokens}
        self.rows = {_content(graph) for graph in graphs}
        self.sentences = [graph for graph in graphs if graph.size > 1]
        self.before = words_before(self.sentences, kind, loose_tokens)
        found = [phrase for graph in graphs for phrase in phrases(graph, kind, self.before)]
        below = [phrase for phrase in found if not phrase.is_root]
        inside: dict[str, set[str]] = defaultdict(set)  # the kinds of tokens in phrases below others, by kind of top
        for phrase in below:
            inside[self._kind(phrase)].update(phrase.graph.labels[kind][phrase.first : phrase.last + 1])
        short = {self._kind(phrase) for phrase in below if len(phrase) == 1}
        by_top: dict[str, dict[str, list[EdgePhrase]]] = defaultdict(lambda: defaultdict(list))
        for phrase in found:
            own = self._kind(phrase)
            if phrase.is_root:  # it may stand below others if it has nothing that no such phrase has
                kinds = phrase.graph.labels[kind][phrase.first : phrase.last + 1]
                if not inside[own].issuperset(kinds) or (phrase.graph.size == 1 and own not in short):
                    continue
            by_top[own][phrase.graph.tokens[phrase.top]].append(phrase)
        self.by_top = {label: list(those.values()) for label, those in by_top.items()}
        self.having = sentences_by_word(self.sentences, loose_tokens)
        substitution = WordSubstitution(graphs, name) if words else None
        self.substitution = substitution if substitution and substitution.instead_of else None
        self.substituted = words
        self.gaps = Gaps(self.sentences, kind, self.before, name) if gaps else None
        self.gapped = gaps
        self.nesting = Nesting(found, kind, self.before) if nested else None
        self.nested = nested

    def _kind(self, phrase: EdgePhrase) -> str:
        return phrase.graph.labels[self.kind][phrase.top]

    def new_sentences(self, count: int, longest: int, seed: int) -> list[SentenceGraph]:
        """`count` new sentences of at most `longest` tokens; fewer, or none, where there is little to swap."""
        if not self.by_top:
            return []
        chance = random.Random(seed)
        made = (self.sentence(longest, chance) for _ in range(count))
        return [graph for graph in made if graph is not None]

    def sentence(self, longest: int, chance: random.Random) -> SentenceGraph | None:
        """Swap a phrase of a sentence, then others for longer ones up to a random length; None if it is not new."""
        if self.nesting and chance.random() < self.nested:
            graph = self.nesting.sentence(longest, self.swap, chance)
            return None if _content(graph) in self.rows else graph
        graph = self._draw_sentence(chance)
        wanted = chance.randint(1, longest)
        places = self._places(graph)
        for tries in range(TRIES):
            if not places or (tries and graph.size >= wanted):
                break
            there = chance.choice(places)
            those = self.by_top.get(self._kind(there))
            if not those:
                continue
            found = [chance.choice(each) for each in chance.choices(those, k=4 if tries else 1)]
            least, most = (len(there) + 1 if tries else 1), longest - graph.size + len(there)
            fitting = [phrase for phrase in found if least <= len(phrase) <= most]
            if fitting:
                graph = self.swap(there, max(fitting, key=len))
                places = self._places(graph)
        return None if graph.size > longest or _content(graph) in self.rows else graph

    def swap(self, there: EdgePhrase, new: EdgePhrase) -> SentenceGraph:
        """Swap `there` for `new`, and adapt the case of the first letter where the result is a known word."""
        made = swap(there, new)
        if (there.first == 0) == (new.first == 0):
            return made
        return replace(made, tokens=with_case_of_place(made.tokens, there.first, self.words))

    def _places(self, graph: SentenceGraph) -> list[EdgePhrase]:
        return [phrase for phrase in phrases(graph, self.kind, self.before) if not phrase.is_root]

    def _draw_sentence(self, chance: random.Random) -> SentenceGraph:
        if self.substitution and chance.random() < self.substituted:
            return self.substitution.sentence(chance)
        if self.gaps and chance.random() < self.gapped:
            made = self.gaps.sentence(self.words, chance)
            if made is not None:
                return made
        return chance.choice(chance.choice(self.having))


def _content(graph: SentenceGraph) -> tuple[object, ...]:
    """A key of sentence and graph."""
    return graph.tokens, graph.edges, *graph.labels.values()
