"""A grammar of CFQ's questions, from terms to constituents. `docs/benchmarks.md` states the rules in words.

A recursive descent parser memoises, for every place and kind of phrase, one reading for each end, and tries the longest
first. So attachment is always to the nearest phrase possible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from .cfq_words import (
    ADJECTIVE,
    AND,
    BASE,
    BY,
    COMMA,
    DID,
    ENTITY,
    KIND,
    KIND_OR_ROLE,
    OF,
    PARTICIPLE,
    PAST,
    PAST_OR_PARTICIPLE,
    POSSESSIVE,
    ROLE,
    STAR,
    THAT,
    WAS,
    WHAT,
    WHICH,
    WHO,
    WHOSE,
    A,
)

MAX_TERMS = 120  # keeps the recursion far from Python's limit; the longest question of CFQ has 29 words

END = "end"  # the sort that follows the last term
FINITE = "finite"  # a form of verb phrases: "directed M0", "was directed by M0"
_KINDS = frozenset({KIND, KIND_OR_ROLE})
_ROLES = frozenset({ROLE, KIND_OR_ROLE, STAR})
_VERBS = {
    BASE: frozenset({BASE, STAR}),
    FINITE: frozenset({PAST, PAST_OR_PARTICIPLE}),
    PARTICIPLE: frozenset({PARTICIPLE, PAST_OR_PARTICIPLE}),
}


class Phrase(NamedTuple):
    """A constituent. `parts` are phrases, numbers of terms, tuples of such numbers, or None, as `kind` says:

    - `list`: a phrase, then for each further member the terms that join it (a comma, "and", both) and its phrase
    - `entity`, `kind`, `role`, `verb`: the term
    - `nominal`: determiner or None, adjectives, nouns, "of" or None, its complement or None, modifier or None
    - `possessed`: owner, "'s", adjectives, roles
    - `subject relative`: "that", verb phrase. `object relative`: "that", clauses. `reduced relative`: participles
    - `whose`: "whose", adjectives, roles, verb phrase
    - `active`: verbs, object. `agentive`: verbs, "by", agent. `passive`: "was", participles. `copular`: "was", nominal
    - `gapped`: verbs, "by" or None, without what should follow. `passive gapped`: "was", those
    - `shared`: a list of gapped phrases, and the one nominal they all lack
    - `clause`: subject, gapped phrases
    - `did question`: "Did", subject, verb phrase. `wh did question`: wh-phrase, "did", clauses
    - `subject question`: wh-phrase, verb phrase. `passive question`: "Was", subject, participles
    - `copular question`: "Was", subject, nominal or adjectives. `wh`: a wh-word alone. `adjective`: the term
    """

    kind: str
    end: int  # the first term after it
    parts: tuple[Any, ...]


Rule = Callable[[int], Iterable[Phrase]]


def _end(phrase: Phrase) -> int:
    return phrase.end


class Grammar:
    """All readings of one question, found lazily."""

    def __init__(self, sorts: Sequence[str]) -> None:
        self.sorts = (*sorts, END)
        self.size = len(sorts)
        self._found: dict[tuple[str, int], list[Phrase]] = {}

    def question(self) -> Phrase | None:
        """The preferred reading, or None."""
        if not 0 < self.size <= MAX_TERMS:
            return None
        return next((reading for reading in self._questions() if reading.end == self.size), None)

    def furthest(self) -> int:
        """How many terms from the start belong to some phrase; without a reading, the error is near."""
        begun = int(self.sorts[0] in (DID, WAS, WHO, WHAT, WHICH))
        return max((phrase.end for phrases in self._found.values() for phrase in phrases), default=begun)

    def _once(self, name: str, start: int, rule: Rule) -> list[Phrase]:
        """The phrases of a rule, memoised: the first one found for each end, the longest first."""
        key = (name, start)
        found = self._found.get(key)
        if found is None:
            ends: dict[int, Phrase] = {}
            for phrase in rule(start):
                ends.setdefault(phrase.end, phrase)
            found = self._found[key] = sorted(ends.values(), key=_end, reverse=True)
        return found

    # --- questions ----------------------------------------------------------------------------------------------------

    def _questions(self) -> Iterator[Phrase]:
        first = self.sorts[0]
        if first == DID:
            for subject in self._nominals(1):
                for phrase in self._verb_phrases(subject.end, BASE):
                    yield Phrase("did question", phrase.end, (0, subject, phrase))
        elif first == WAS:
            for subject in reversed(self._nominals(1)):  # so that a participle is the main verb if possible
                after = subject.end
                for phrase in self._participles(after):
                    yield Phrase("passive question", phrase.end, (0, subject, phrase))
                for phrase in self._nominals(after):
                    yield Phrase("copular question", phrase.end, (0, subject, phrase))
                for phrase in self._once("adjectives", after, lambda place: self._lists(self._adjective, place)):
                    yield Phrase("copular question", phrase.end, (0, subject, phrase))
        else:
            for asked in self._wh_phrases():
                after = asked.end
                if self.sorts[after] == DID:
                    for phrase in self._clauses(after + 1, BASE):
                        yield Phrase("wh did question", phrase.end, (asked, after, phrase))
                else:
                    for phrase in self._verb_phrases(after, FINITE):
                        yield Phrase("subject question", phrase.end, (asked, phrase))
                    if self.sorts[after] == WAS:
                        for phrase in self._nominals(after + 1):
                            predicate = Phrase("copular", phrase.end, (after, phrase))
                            yield Phrase("subject question", phrase.end, (asked, predicate))

    def _wh_phrases(self) -> Iterator[Phrase]:
        first = self.sorts[0]
        if first in (WHO, WHAT):
            yield Phrase("wh", 1, (0,))
        if first in (WHAT, WHICH):
            yield from self._nominals_after(0, 1)

    # --- noun phrases -------------------------------------------------------------------------------------------------

    def _nominals(self, start: int) -> list[Phrase]:
        return self._once("nominals", start, self._find_nominals)

    def _find_nominals(self, start: int) -> Iterator[Phrase]:
        if self.sorts[start] == ENTITY:
            yield from self._with_owned(self._entities(start))
        elif self.sorts[start] == A:
            yield from self._nominals_after(start, start + 1)

    def _entities(self, start: int) -> Phrase:
        """The longest list of entities; a shorter one never leads to another reading."""
        return max(self._lists(self._entity, start), key=_end)

    def _entity(self, start: int) -> Iterator[Phrase]:
        if self.sorts[start] == ENTITY:
            yield Phrase("entity", start + 1, (start,))

    def _nominals_after(self, determiner: int, start: int) -> Iterator[Phrase]:
        """What follows an article or a wh-determiner: a kind with its modifiers, or roles "of" something."""
        adjectives = self._adjectives(start)
        noun = adjectives[-1].end if adjectives else start
        if self.sorts[noun] in _KINDS:
            kind = Phrase("kind", noun + 1, (noun,))
            for modifier in self._modifiers(noun + 1):
                yield Phrase("nominal", modifier.end, (determiner, adjectives, kind, None, None, modifier))
            yield from self._with_owned(Phrase("nominal", noun + 1, (determiner, adjectives, kind, None, None, None)))
        for roles in self._roles(noun):
            of = roles.end
            if self.sorts[of] == OF:
                for whole in self._nominals(of + 1):
                    yield Phrase("nominal", whole.end, (determiner, adjectives, roles, of, whole, None))

    def _with_owned(self, owner: Phrase) -> Iterator[Phrase]:
        """A phrase by itself, as the owner of roles, and these as owners of further roles."""
        yield owner
        if self.sorts[owner.end] == POSSESSIVE:
            adjectives = self._adjectives(owner.end + 1)
            for roles in self._roles(adjectives[-1].end if adjectives else owner.end + 1):
                parts = (owner, owner.end, adjectives, roles)
                yield from self._with_owned(Phrase("possessed", roles.end, parts))

    def _adjectives(self, start: int) -> tuple[Phrase, ...]:
        """Adjectives one after the other, each by itself or a list: "French male", "French and male"."""
        found: list[Phrase] = []
        while self.sorts[start] == ADJECTIVE:
            found.append(max(self._lists(self._adjective, start), key=_end))
            start = found[-1].end
        return tuple(found)

    def _adjective(self, start: int) -> Iterator[Phrase]:
        if self.sorts[start] == ADJECTIVE:
            yield Phrase("adjective", start + 1, (start,))

    def _roles(self, start: int) -> list[Phrase]:
        return self._once("roles", start, lambda place: self._lists(self._role, place))

    def _role(self, start: int) -> Iterator[Phrase]:
        if self.sorts[start] in _ROLES:
            yield Phrase("role", start + 1, (start,))

    def _modifiers(self, start: int) -> Iterator[Phrase]:
        sort = self.sorts[start]
        if sort == THAT:
            for phrase in self._verb_phrases(start + 1, FINITE):
                yield Phrase("subject relative", phrase.end, (start, phrase))
            for phrase in self._clauses(start + 1, FINITE):
                yield Phrase("object relative", phrase.end, (start, phrase))
        elif sort == WHOSE:
            adjectives = self._adjectives(start + 1)
            for roles in self._roles(adjectives[-1].end if adjectives else start + 1):
                for phrase in self._verb_phrases(roles.end, FINITE):
                    yield Phrase("whose", phrase.end, (start, adjectives, roles, phrase))
        else:
            for phrase in self._participles(start):
                yield Phrase("reduced relative", phrase.end, (phrase,))

    # --- verb phrases -------------------------------------------------------------------------------------------------

    def _verb_phrases(self, start: int, form: str) -> list[Phrase]:
        """Complete base or finite verb phrases: "directed M0 and was influenced by M1"."""
        return self._once(f"{form} verb phrases", start, lambda place: self._find_verb_phrases(place, form))

    def _find_verb_phrases(self, start: int, form: str) -> Iterator[Phrase]:
        yield from self._lists(lambda place: self._once(f"{form} whole", place, self._whole(form)), start)
        if form == FINITE:
            yield from self._sharing(self._gapped_finite, start)

    def _whole(self, form: str) -> Rule:
        def whole(start: int) -> Iterator[Phrase]:
            for verbs in self._verbs(start, form):
                for thing in self._nominals(verbs.end):
                    yield Phrase("active", thing.end, (verbs, thing))
            if form == FINITE and self.sorts[start] == WAS:
                for phrase in self._participles(start + 1):
                    yield Phrase("passive", phrase.end, (start, phrase))

        return whole

    def _participles(self, start: int) -> list[Phrase]:
        """Participles with their agents: "directed by M0 and edited by M1", "directed by and edited by M0"."""
        return self._once("participles", start, self._find_participles)

    def _find_participles(self, start: int) -> Iterator[Phrase]:
        yield from self._lists(self._agentive, start)
        yield from self._sharing(self._gapped_participle, start)

    def _agentive(self, start: int) -> list[Phrase]:
        return self._once("agentive", start, self._find_agentive)

    def _find_agentive(self, start: int) -> Iterator[Phrase]:
        for verbs in self._verbs(start, PARTICIPLE):
            if self.sorts[verbs.end] == BY:
                for agent in self._nominals(verbs.end + 1):
                    yield Phrase("agentive", agent.end, (verbs, verbs.end, agent))

    def _verbs(self, start: int, form: str) -> list[Phrase]:
        return self._once(f"{form} verbs", start, lambda place: self._lists(self._verb(_VERBS[form]), place))

    def _verb(self, sorts: frozenset[str]) -> Rule:
        def verb(start: int) -> Iterator[Phrase]:
            if self.sorts[start] in sorts:
                yield Phrase("verb", start + 1, (start,))

        return verb

    # --- verb phrases that lack an object or agent --------------------------------------------------------------------

    def _clauses(self, start: int, form: str) -> list[Phrase]:
        """Clauses with a gap for "that" or the wh-phrase: "M0 directed and M1 was influenced by"."""
        return self._once(f"{form} clauses", start, lambda place: self._lists(self._clause(form), place))

    def _clause(self, form: str) -> Rule:
        def clause(start: int) -> Iterator[Phrase]:
            for subject in self._nominals(start):
                for gapped in self._gapped(subject.end, form):
                    yield Phrase("clause", gapped.end, (subject, gapped))

        return clause

    def _gapped(self, start: int, form: str) -> Iterator[Phrase]:
        if form == FINITE:
            yield from self._lists(self._gapped_finite, start)
        else:
            for verbs in self._verbs(start, form):
                yield Phrase("gapped", verbs.end, (verbs, None))

    def _gapped_finite(self, start: int) -> Iterator[Phrase]:
        for verbs in self._verbs(start, FINITE):
            yield Phrase("gapped", verbs.end, (verbs, None))
        if self.sorts[start] == WAS:
            for phrase in self._lists(self._gapped_participle, start + 1):
                yield Phrase("passive gapped", phrase.end, (start, phrase))

    def _gapped_participle(self, start: int) -> Iterator[Phrase]:
        for verbs in self._verbs(start, PARTICIPLE):
            if self.sorts[verbs.end] == BY:
                yield Phrase("gapped", verbs.end + 1, (verbs, verbs.end))

    def _sharing(self, rule: Rule, start: int) -> Iterator[Phrase]:
        """A list of gapped phrases before their shared complement: "was influenced by and married M0".

        Verbs alone, as in "directed and edited M0", are a list of verbs with an object instead.
        """
        for phrases in self._lists(rule, start):
            if phrases.kind == "list" and any(member.parts[1] is not None for member in phrases.parts[::2]):
                for thing in self._nominals(phrases.end):
                    yield Phrase("shared", thing.end, (phrases, thing))

    # --- lists --------------------------------------------------------------------------------------------------------

    def _lists(self, rule: Rule, start: int) -> Iterator[Phrase]:
        """One member; two with "and"; or more with commas, the last one also with "and"."""
        for first in rule(start):
            yield first
            after = first.end
            if self.sorts[after] == AND:
                for second in rule(after + 1):
                    yield Phrase("list", second.end, (first, (after,), second))
            elif self.sorts[after] == COMMA:
                yield from self._longer_lists(rule, (first,), after)

    def _longer_lists(self, rule: Rule, parts: tuple[Any, ...], comma: int) -> Iterator[Phrase]:
        if self.sorts[comma + 1] == AND:
            if len(parts) > 1:
                for last in rule(comma + 2):
                    yield Phrase("list", last.end, (*parts, (comma, comma + 1), last))
            return
        for member in rule(comma + 1):
            if self.sorts[member.end] == COMMA:
                yield from self._longer_lists(rule, (*parts, (comma,), member), member.end)
