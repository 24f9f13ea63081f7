"""Augmentation of sentence graphs: clauses with a gap, made of whole clauses.

    Eve saw the cat that Ann fed .              the cat, a filler, before a clause that lacks it
    Cem gave the cake to Bob .                  a whole clause, with the phrase `Bob`
    Eve saw the cat that Cem gave the cake to . the new sentence: edges to `Bob` lead to the cat

A filler is a token before a clause, and below its top, whose place in the clause is empty. A new sentence has another
clause there: a whole one, less a phrase, whose edges then lead to the filler. Whether the gap comes first or later in
the clause is as it was, so are the words between filler and clause, and the form of the verb: that of its name, if all
clauses of this kind have it so. What the training rows show with another meaning is not made.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..augment import with_case_of_place
from ..edges import SentenceGraph
from .phrases import EdgePhrase, dependents, loose_tokens, phrases, reached, replaced, span_of

LEAST = 20  # training rows of a kind of gap; others are exceptions
TRIES = 50  # of a clause for one new sentence
BARE = 0.95  # the share of clauses whose verb is its own name, from which on all must be


class Kind(NamedTuple):
    """What clauses with a gap have in common."""

    filler: str  # its kind
    label: str  # of the edge from the filler to the clause; empty if there is none
    is_first: bool  # the gap is at the start of the clause


@dataclass(frozen=True, slots=True)
class Gap:
    """A clause with a gap: the tokens `first` to `last`, below `top`."""

    graph: SentenceGraph
    kind: Kind
    filler: int
    top: int
    first: int
    last: int


class Whole(NamedTuple):
    """A whole clause, and a phrase of it that can be left out."""

    clause: EdgePhrase
    phrase: EdgePhrase
    heads: tuple[int, ...]  # of the phrase


class Shape(NamedTuple):
    """A clause with a gap, without its words and without what is below its arguments."""

    order: tuple[str, ...]  # "*" an argument, "-" the top; other words as they are
    labels: tuple[str, ...]  # of the arguments
    gap: tuple[str, ...]  # of the filler


class Gaps:
    """The clauses with a gap of some sentences, and new sentences with others.

    Args:
        sentences: the training rows. kind: the column with kinds. before: see `phrases`.
        name: the column, if any, with the names of words, such as verbs by their base form.
    """

    def __init__(
        self, sentences: Sequence[SentenceGraph], kind: str, before: dict[str, int], name: str | None = None
    ) -> None:
        self.column, self.before, self.name = kind, before, name
        found: dict[Kind, list[Gap]] = defaultdict(list)
        for graph in sentences:
            for gap in self.gaps(graph):
                found[gap.kind].append(gap)
        found = {each: those for each, those in found.items() if len(those) >= LEAST}
        self.marker = {each: min(gap.first - gap.filler - 1 for gap in those) for each, those in found.items()}
        tops = Counter(gap.graph.labels[kind][gap.top] for those in found.values() for gap in those).most_common(1)
        self.top_kind = tops[0][0] if tops else ""
        self.labels: set[str] = set()  # that a filler has
        self.known: dict[tuple[str, ...], set[Shape]] = defaultdict(set)
        self.left: dict[Kind, set[tuple[str, ...]]] = defaultdict(set)  # the words directly before the top
        self.bare: dict[Kind, bool] = {}
        for each, those in found.items():
            for gap in those:
                shape = self._shape(gap.graph, gap.top, gap.filler, self._start(gap), gap.last, None)
                self.known[shape.order].add(shape)
                self.labels.update(shape.gap)
                self.left[each].add(_loose_before(gap.graph, gap.top, gap.first))
            bare = sum(gap.graph.tokens[gap.top] == self._name(gap.graph, gap.top) for gap in those)
            self.bare[each] = bare >= BARE * len(those)
        # A token before the rest of its clause is no filler if its kind never leaves a gap later in a clause.
        self.by_kind = {
            each: those for each, those in found.items() if each.label or each._replace(is_first=False) in found
        }
        self.whole: dict[bool, list[Whole]] = {True: [], False: []}
        for graph in sentences:
            for whole in self._wholes(graph):
                self.whole[whole.phrase.first == whole.clause.first].append(whole)

    def __bool__(self) -> bool:
        return any(self.whole[kind.is_first] for kind in self.by_kind)

    def sentence(self, words: Collection[str], chance: random.Random) -> SentenceGraph | None:
        """A sentence with a new clause; each kind of gap comes as often as others. None if none was found.

        `words` are all known ones; see `with_case_of_place`.
        """
        for _ in range(TRIES):
            kind = chance.choice(list(self.by_kind))
            if self.whole[kind.is_first]:
                gap, whole = chance.choice(self.by_kind[kind]), chance.choice(self.whole[kind.is_first])
                if self.fits(gap, whole):
                    made, place = self.made(gap, whole), self._start(gap)
                    if kind.is_first or whole.clause.first or not place:
                        return made
                    return replace(made, tokens=with_case_of_place(made.tokens, place, words))
        return None

    def gaps(self, graph: SentenceGraph) -> Iterator[Gap]:
        """The clauses with a gap of a sentence."""
        loose, kinds = loose_tokens(graph), graph.labels[self.column]
        below = dependents(graph.edges, graph.size)
        for top, filler in sorted({edge[:2] for edge in graph.edges}):
            if filler >= top or kinds[top] == kinds[filler] or not kinds[top] or not kinds[filler]:
                continue
            members = reached(below, top, without=filler)
            crossing = [edge for edge in graph.edges if (edge[0] in members) != (edge[1] in members)]
            span = span_of(members, kinds, self.before, loose)
            if span is None or span[0] <= filler or not all(loose[filler + 1 : span[0]]):
                continue
            if all(edge[1] == filler or edge[:2] == (filler, top) for edge in crossing):
                label = next((label for head, _, label in crossing if head == filler), "")
                is_first = min(members) == top
                yield Gap(graph, Kind(kinds[filler], label, is_first), filler, top, *span)

    def _wholes(self, graph: SentenceGraph) -> Iterator[Whole]:
        kinds, below = graph.labels[self.column], dependents(graph.edges, graph.size)
        found = phrases(graph, self.column, self.before)
        fillers = {kind.filler for kind in self.by_kind if not kind.label and not kind.is_first}
        for clause in found:
            if kinds[clause.top] != self.top_kind or fillers.intersection(kinds[clause.first : clause.last + 1]):
                continue
            alike = reached([{d for d in those if kinds[d] == self.top_kind} for those in below], clause.top)
            for phrase in found:
                edges = [edge for edge in graph.edges if edge[1] == phrase.top and edge[0] != phrase.top]
                heads = {head for head, _, _ in edges if not phrase.first <= head <= phrase.last}
                labels = {label for head, _, label in edges if head in heads}
                if phrase.top not in alike and heads and heads <= alike and labels <= self.labels:
                    yield Whole(clause, phrase, tuple(sorted(heads)))

    def fits(self, gap: Gap, whole: Whole) -> bool:
        """Whether a clause can stand in the place of another; `whole` has its gap where `gap` has it."""
        clause, phrase, heads = whole
        graph, kind = clause.graph, gap.kind
        if not kind.is_first and _loose_before(graph, clause.top, clause.first) not in self.left[kind]:
            return False
        inner = heads[0]
        if inner != clause.top and not kind.is_first:  # the gap is in a clause below the clause
            spans = {each.top: each for each in phrases(graph, self.column, self.before)}
            if inner not in spans or spans[inner].first == phrase.first:
                return False
            start, last = spans[inner].first, spans[inner].last
        else:
            start, last = clause.first, clause.last
        shape = self._shape(graph, inner, phrase.top, start, last, phrase)
        return shape.order not in self.known or shape in self.known[shape.order]

    def made(self, gap: Gap, whole: Whole) -> SentenceGraph:
        """The sentence of `gap` with the clause of `whole`, less its phrase."""
        clause, phrase, _ = whole
        host, guest = gap.graph, clause.graph
        kept = [token for token in range(clause.first, clause.last + 1) if not phrase.first <= token <= phrase.last]
        start = self._start(gap)
        place = {token: start + number for number, token in enumerate(kept)}
        place[phrase.top] = gap.filler
        shift = len(kept) - (gap.last + 1 - start)

        def moved(token: int) -> int:
            return place[clause.top] if token == gap.top else token if token < start else token + shift

        gone = set(range(start, gap.last + 1))
        edges = [
            (moved(head), moved(dependent), label)
            for head, dependent, label in host.edges
            if head not in gone and (dependent not in gone or dependent == gap.top)
        ]
        edges += [
            (place[head], place[dependent], label)
            for head, dependent, label in guest.edges
            if head in place and dependent in place and head != phrase.top
        ]
        made = replaced(host, start, gap.last, guest, kept, edges)
        tokens = list(made.tokens)
        if self.bare[gap.kind]:
            tokens[place[clause.top]] = self._name(guest, clause.top) or guest.tokens[clause.top]
        return replace(made, tokens=tuple(tokens))

    def _start(self, gap: Gap) -> int:
        """Where the clause begins, with the words that not all clauses of its kind have before it."""
        return gap.filler + 1 + self.marker[gap.kind]

    def _name(self, graph: SentenceGraph, token: int) -> str:
        return graph.labels[self.name][token] if self.name else ""

    def _shape(
        self, graph: SentenceGraph, top: int, filler: int, start: int, last: int, left_out: EdgePhrase | None
    ) -> Shape:
        gone = range(left_out.first, left_out.last + 1) if left_out else range(0)
        spans = {each.top: each for each in phrases(graph, self.column, self.before)}
        argument_at: dict[int, int] = {}
        for dependent in {edge[1] for edge in graph.edges if edge[0] == top and edge[1] not in (top, filler)}:
            span = spans.get(dependent)
            first, end = (span.first, span.last) if span else (dependent, dependent)
            argument_at |= dict.fromkeys(range(first, end + 1), dependent)
        order: list[str] = []
        labels: list[str] = []
        seen: set[int] = set()
        for token in range(start, last + 1):
            argument = argument_at.get(token)
            if token in gone or argument in seen:
                continue
            if argument is not None:
                seen.add(argument)
                order.append("*")
                labels += sorted(label for head, below, label in graph.edges if (head, below) == (top, argument))
            else:
                order.append("-" if token == top else graph.tokens[token])
        gap = sorted(label for head, below, label in graph.edges if (head, below) == (top, filler))
        return Shape(tuple(order), tuple(labels), tuple(gap))


def _loose_before(graph: SentenceGraph, top: int, first: int) -> tuple[str, ...]:
    loose = loose_tokens(graph)
    start = top
    while start > first and loose[start - 1]:
        start -= 1
    return graph.tokens[start:top]
