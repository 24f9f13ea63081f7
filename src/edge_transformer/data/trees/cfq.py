"""Dependency trees of CFQ's questions in the style of Universal Dependencies.

`cfq_grammar` finds the constituents of a question; here each kind of constituent has a rule for its head and arcs. Only
the sorts of terms matter, so questions of equal sorts share one tree. `docs/benchmarks.md` has the rules with examples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, cast

from .cfq_grammar import MAX_TERMS, Grammar, Phrase
from .cfq_words import (
    ADJECTIVE_CLASS,
    AND,
    ENTITY_CLASS,
    KIND_CLASS,
    QUESTION_MARK,
    ROLE_CLASS,
    VERB_CLASS,
    Term,
    join_possessives,
    terms_of,
)

RELATIONS = (
    *("root", "nsubj", "nsubj:pass", "obj", "obl:agent", "nmod", "nmod:poss", "det", "case", "amod", "compound"),
    *("aux", "aux:pass", "cop", "conj", "cc", "punct", "acl", "acl:relcl"),
)
_CLASSES = {  # of the uses that the rules distinguish; other words are their own class
    "entity": ENTITY_CLASS,
    "adjective": ADJECTIVE_CLASS,
    "kind": KIND_CLASS,
    "role": ROLE_CLASS,
    "verb": VERB_CLASS,
}


class NotCovered(ValueError):
    """A question is outside the grammar; the message says why."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The tree over the terms of a question, common to all questions with these sorts of terms."""

    heads: tuple[int, ...]  # of each term, from 0; -1 for the root
    relations: tuple[str, ...]
    uses: tuple[str, ...]  # for word class and part of speech, where the sort is not enough

    depths: tuple[int, ...]  # arcs between each term and the root
    projective: bool  # no two arcs cross, with the root before the first word

    @classmethod
    def of(cls, heads: Sequence[int], relations: Sequence[str], uses: Sequence[str]) -> Shape:
        depths: list[int] = []
        for start in range(len(heads)):
            term, depth = start, 0
            while (term := heads[term]) >= 0:
                depth += 1
            depths.append(depth)
        arcs = [(min(arc), max(arc)) for arc in enumerate(heads)]
        crossing = any(a < c < b < d for a, b in arcs for c, d in arcs)
        return cls(tuple(heads), tuple(relations), tuple(uses), tuple(depths), not crossing)


@dataclass(frozen=True, slots=True)
class CfqTree:
    """A question with its dependency tree."""

    terms: tuple[Term, ...]
    shape: Shape

    @property
    def words(self) -> list[str]:
        """The words, with "'s" as one of them."""
        return [word for term in self.terms for word in term.words]

    def columns(self) -> list[tuple[str, str, str, str]]:
        """(form, lemma, UPOS, class) of each word; words that `questionTemplate` keeps are their own class."""
        return [columns for term, use in self._uses() for columns in _columns(term.words, use)]

    @property
    def template(self) -> str:
        """The question as `questionTemplate` has it: one class in brackets for each term."""
        return " ".join(f"[{_CLASSES[use]}]" if use in _CLASSES else term.words[0] for term, use in self._uses())

    def arcs(self) -> list[tuple[int, str]]:
        """Head and relation of each word; words count from 1, and 0 is the head of the root."""
        terms, starts = self.terms, [1]  # the first word of each term
        for term in terms:
            starts.append(starts[-1] + len(term.words))
        arcs: list[tuple[int, str]] = []
        for place, term in enumerate(terms):
            head, relation = self.shape.heads[place], self.shape.relations[place]
            above = starts[head] + terms[head].head if head >= 0 else 0
            if not term.inside:
                arcs.append((above, relation))
            else:
                inside = {word: (starts[place] + over, name) for word, over, name in term.inside}
                arcs += [inside.get(word, (above, relation)) for word in range(len(term.words))]
        return arcs

    def depth(self) -> int:
        """The number of arcs from the root down to the word furthest from it."""
        return max(
            depth + (len(term.words) - 1 if term.inside else 0)
            for depth, term in zip(self.shape.depths, self.terms, strict=True)
        )

    def _uses(self) -> Iterator[tuple[Term, str]]:
        return zip(self.terms, self.shape.uses, strict=True)


@cache
def _columns(words: tuple[str, ...], use: str) -> tuple[tuple[str, str, str, str], ...]:
    """The columns of the words of a known term, cached."""
    (term,) = cast(list[Term], terms_of(words))
    tags = term.parts_of_speech
    if use == "determiner":
        tags = ("DET",)
    elif use == "verb" and len(words) == 1:
        tags = ("VERB",)  # "star" is a noun elsewhere
    rows = zip(words, term.lemmas, tags, strict=True)
    return tuple((word, lemma, tag, _CLASSES.get(use, word)) for word, lemma, tag in rows)


class CfqParser:
    """Parses questions, and caches the shapes of their trees."""

    def __init__(self) -> None:
        self._shapes: dict[tuple[str, ...], Shape | int] = {}

    def parse(self, question: str | Sequence[str]) -> CfqTree:
        """The tree of a tokenised question, such as "Did M0 's sibling influence M1"; or NotCovered."""
        words = join_possessives(question.split() if isinstance(question, str) else question)
        terms = terms_of(words)
        if isinstance(terms, int):
            raise NotCovered(f"word {terms + 1} is {words[terms]!r}, which the grammar does not know")
        if not terms:
            raise NotCovered("no words")
        if len(terms) > MAX_TERMS:
            raise NotCovered(f"{len(terms)} words and fixed groups of words; the grammar takes {MAX_TERMS} at most")
        sorts = tuple([term.sort for term in terms])
        shape = self._shapes.get(sorts)
        if shape is None:
            shape = self._shapes[sorts] = _shape(sorts)
        if isinstance(shape, int):
            place = sum(len(term.words) for term in terms[:shape])
            where = f"from word {place + 1}, {words[place]!r}, on" if place < len(words) else "at its end"
            raise NotCovered(f"no construction of the grammar fits the question {where}")
        return CfqTree(tuple(terms), shape)

    @property
    def shapes(self) -> int:
        """How many different sequences of sorts were seen."""
        return len(self._shapes)


def _shape(sorts: tuple[str, ...]) -> Shape | int:
    """The tree over terms of these sorts, or the number of terms that the grammar accepts."""
    if sorts[-1] == QUESTION_MARK and QUESTION_MARK not in sorts[:-1] and len(sorts) > 1:  # CFQ itself has none
        shape = _shape(sorts[:-1])
        if isinstance(shape, int):
            return shape
        root = shape.heads.index(-1)
        return Shape.of((*shape.heads, root), (*shape.relations, "punct"), (*shape.uses, ""))
    grammar = Grammar(sorts)
    reading = grammar.question()
    if reading is None:
        return grammar.furthest()
    return shape_of(reading, sorts)


def shape_of(reading: Phrase, sorts: Sequence[str]) -> Shape:
    """The dependency tree of a question's constituents."""
    tree = _Attachment(sorts)
    tree.attach(reading)
    return Shape.of(tree.heads, tree.relations, tree.uses)


class _Gap(NamedTuple):
    """A verb without its object, or without the noun after its "by"."""

    verb: int
    by: int | None


class _Head(NamedTuple):
    """The head of a constituent, whether it is a passive verb, and its gaps."""

    term: int
    passive: bool = False
    gaps: tuple[_Gap, ...] = ()

    @property
    def subject(self) -> str:
        return "nsubj:pass" if self.passive else "nsubj"


class _Attachment:
    """One rule for each kind of constituent, which attaches its parts to its head and returns the head."""

    def __init__(self, sorts: Sequence[str]) -> None:
        self.sorts = sorts
        self.heads = [-1] * len(sorts)
        self.relations = ["root"] * len(sorts)
        self.uses = [""] * len(sorts)
        self._rules: dict[str, Callable[..., _Head]] = {
            "list": self._list,
            "nominal": self._nominal,
            "possessed": self._possessed,
            "active": self._active,
            "agentive": self._agentive,
            "passive": self._passive,
            "copular": self._copular,
            "gapped": self._gapped,
            "passive gapped": self._passive,
            "shared": self._shared,
            "clause": self._clause,
            "did question": self._did_question,
            "wh did question": self._wh_did_question,
            "subject question": self._subject_question,
            "passive question": self._passive_question,
            "copular question": self._copular_question,
        }

    def attach(self, phrase: Phrase) -> _Head:
        rule = self._rules.get(phrase.kind)
        if rule is not None:
            return rule(*phrase.parts)
        (term,) = phrase.parts
        self.uses[term] = phrase.kind
        return _Head(term)

    def _set(self, term: int, head: int, relation: str) -> None:
        self.heads[term], self.relations[term] = head, relation

    # --- lists --------------------------------------------------------------------------------------------------------

    def _list(self, *parts: Any) -> _Head:
        """The first member is the head of the others; conjunctions and commas attach to the member after them."""
        first = self.attach(parts[0])
        gaps = first.gaps
        for marks, member in zip(parts[1::2], parts[2::2], strict=True):
            head = self.attach(member)
            self._set(head.term, first.term, "conj")
            for mark in marks:
                self._set(mark, head.term, "cc" if self.sorts[mark] == AND else "punct")
            gaps += head.gaps
        return _Head(first.term, first.passive, gaps)

    # --- noun phrases -------------------------------------------------------------------------------------------------

    def _nominal(
        self,
        determiner: int,
        adjectives: tuple[Phrase, ...],
        nouns: Phrase,
        of: int | None,
        whole: Phrase | None,
        modifier: Phrase | None,
    ) -> _Head:
        noun = self._modified(adjectives, nouns)
        self._set(determiner, noun, "det")
        self.uses[determiner] = "determiner"
        if of is not None and whole is not None:
            complement = self.attach(whole).term
            self._set(complement, noun, "nmod")
            self._set(of, complement, "case")
        if modifier is not None:
            self._modify(noun, modifier)
        return _Head(noun)

    def _modified(self, adjectives: tuple[Phrase, ...], nouns: Phrase) -> int:
        noun = self.attach(nouns).term
        for adjective in adjectives:
            self._set(self.attach(adjective).term, noun, "amod")
        return noun

    def _possessed(self, owner: Phrase, mark: int, adjectives: tuple[Phrase, ...], roles: Phrase) -> _Head:
        role = self._modified(adjectives, roles)
        possessor = self.attach(owner).term
        self._set(possessor, role, "nmod:poss")
        self._set(mark, possessor, "case")
        return _Head(role)

    def _modify(self, noun: int, modifier: Phrase) -> None:
        """Attach a relative clause to its noun."""
        parts, relation = modifier.parts, "acl:relcl"
        if modifier.kind == "subject relative":
            verb = self.attach(parts[1])
            self._set(parts[0], verb.term, verb.subject)
        elif modifier.kind == "object relative":
            verb = self.attach(parts[1])
            self._fill(parts[0], verb.gaps, 0)
        elif modifier.kind == "whose":
            whose, adjectives, roles, phrase = parts
            role, verb = self._modified(adjectives, roles), self.attach(phrase)
            self._set(whose, role, "nmod:poss")
            self._set(role, verb.term, verb.subject)
        else:
            verb, relation = self.attach(parts[0]), "acl"
        self._set(verb.term, noun, relation)

    # --- verb phrases -------------------------------------------------------------------------------------------------

    def _active(self, verbs: Phrase, thing: Phrase) -> _Head:
        verb = self.attach(verbs).term
        self._set(self.attach(thing).term, verb, "obj")
        return _Head(verb)

    def _agentive(self, verbs: Phrase, by: int, agent: Phrase) -> _Head:
        verb = self.attach(verbs).term
        self._fill(self.attach(agent).term, (_Gap(verb, by),), 0)
        return _Head(verb, passive=True)

    def _passive(self, was: int, participles: Phrase) -> _Head:
        verb = self.attach(participles)
        self._set(was, verb.term, "aux:pass")
        return verb

    def _copular(self, was: int, predicate: Phrase) -> _Head:
        head = self.attach(predicate).term
        self._set(was, head, "cop")
        return _Head(head)

    def _gapped(self, verbs: Phrase, by: int | None) -> _Head:
        verb = self.attach(verbs).term
        return _Head(verb, by is not None, (_Gap(verb, by),))

    def _shared(self, phrases: Phrase, thing: Phrase) -> _Head:
        verb = self.attach(phrases)
        self._fill(self.attach(thing).term, verb.gaps, len(verb.gaps) - 1)
        return _Head(verb.term, verb.passive)

    def _clause(self, subject: Phrase, gapped: Phrase) -> _Head:
        verb = self.attach(gapped)
        self._set(self.attach(subject).term, verb.term, verb.subject)
        return verb

    def _fill(self, filler: int, gaps: tuple[_Gap, ...], chosen: int) -> None:
        """Fill one of the gaps; in the others, "by" is attached in place of its noun."""
        for number, (verb, by) in enumerate(gaps):
            if number != chosen:
                if by is not None:
                    self._set(by, verb, "obl:agent")
            elif by is None:
                self._set(filler, verb, "obj")
            else:
                self._set(filler, verb, "obl:agent")
                self._set(by, filler, "case")

    # --- questions ----------------------------------------------------------------------------------------------------

    def _did_question(self, did: int, subject: Phrase, phrase: Phrase) -> _Head:
        verb = self.attach(phrase)
        self._set(did, verb.term, "aux")
        self._set(self.attach(subject).term, verb.term, verb.subject)
        return verb

    def _wh_did_question(self, asked: Phrase, did: int, clauses: Phrase) -> _Head:
        verb = self.attach(clauses)
        self._fill(self.attach(asked).term, verb.gaps, 0)
        self._set(did, verb.term, "aux")
        return verb

    def _subject_question(self, asked: Phrase, phrase: Phrase) -> _Head:
        head = self.attach(phrase)
        self._set(self.attach(asked).term, head.term, head.subject)
        return head

    def _passive_question(self, was: int, subject: Phrase, participles: Phrase) -> _Head:
        return self._subject_question(subject, Phrase("passive", participles.end, (was, participles)))

    def _copular_question(self, was: int, subject: Phrase, predicate: Phrase) -> _Head:
        return self._subject_question(subject, Phrase("copular", predicate.end, (was, predicate)))
