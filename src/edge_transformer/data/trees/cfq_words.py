"""The words of CFQ's questions and their classes.

A *term* is one unit for the grammar: a word, or a fixed group such as "costume designer" or "executive produced". Its
*sort* says where the grammar allows it. Sorts are about form only: the grammar decides whether "star" is a noun or a
verb, and whether "cinematographer" is a kind of person or a role in a film.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

# Sorts of terms. Those of function words are the words themselves.
ENTITY = "entity"  # M0, M1, ...
ADJECTIVE = "adjective"
KIND = "kind"  # a noun that stands alone: a person, a film director
ROLE = "role"  # a noun that needs another one: M0 's director, a sibling of M1
KIND_OR_ROLE = "kind or role"  # a noun that does both: a cinematographer, M0 's cinematographer
STAR = "star"  # a role or the base form of a verb
BASE = "base"  # produce
PAST = "past"  # wrote
PARTICIPLE = "participle"  # written
PAST_OR_PARTICIPLE = "past or participle"  # produced
DID, WAS, WHO, WHAT, WHICH = "did", "was", "who", "what", "which"
THAT, WHOSE, A, OF, BY, AND, COMMA, POSSESSIVE = "that", "whose", "a", "of", "by", "and", ",", "'s"
QUESTION_MARK = "?"

# Word classes as `questionTemplate` of the official rows calls them, without its brackets.
ENTITY_CLASS, ADJECTIVE_CLASS = "entity", "ADJECTIVE_SIMPLE"
KIND_CLASS, ROLE_CLASS, VERB_CLASS = "NP_SIMPLE", "ROLE_SIMPLE", "VP_SIMPLE"

_ENTITY = re.compile(r"M[0-9]{1,4}")
_ADJECTIVES = (
    "American British Canadian Chinese Dutch French German Italian Japanese Mexican Spanish Swedish female male"
)
_KINDS = "character company film person screenwriter"
_ROLES = (
    "child director distributor editor employee employer founder gender parent prequel producer sequel sibling spouse"
    " writer"
)
_BOTH = "actor cinematographer"
_REGULAR_VERBS = {  # base form: past form, which is also the participle
    "acquire": "acquired",
    "direct": "directed",
    "distribute": "distributed",
    "edit": "edited",
    "employ": "employed",
    "found": "founded",
    "influence": "influenced",
    "marry": "married",
    "play": "played",
    "produce": "produced",
}
_FUNCTION_WORDS = {  # word: sort, lemma, part of speech
    "Did": (DID, "do", "AUX"),
    "did": (DID, "do", "AUX"),
    "Was": (WAS, "be", "AUX"),
    "was": (WAS, "be", "AUX"),
    "Were": (WAS, "be", "AUX"),
    "were": (WAS, "be", "AUX"),
    "Who": (WHO, "who", "PRON"),
    "What": (WHAT, "what", "PRON"),  # or a determiner, as the grammar decides
    "Which": (WHICH, "which", "DET"),
    "that": (THAT, "that", "PRON"),
    "whose": (WHOSE, "whose", "PRON"),
    "a": (A, "a", "DET"),
    "an": (A, "a", "DET"),  # CFQ itself has "a actor"
    "of": (OF, "of", "ADP"),
    "by": (BY, "by", "ADP"),
    "and": (AND, "and", "CCONJ"),
    ",": (COMMA, ",", "PUNCT"),
    "?": (QUESTION_MARK, "?", "PUNCT"),
    "'s": (POSSESSIVE, "'s", "PART"),
}


@dataclass(frozen=True, slots=True)
class Term:
    """One or more words that are one unit for the grammar."""

    sort: str
    words: tuple[str, ...]
    lemmas: tuple[str, ...]
    parts_of_speech: tuple[str, ...]  # UPOS
    head: int = 0  # which of the words is the head of the others
    inside: tuple[tuple[int, int, str], ...] = ()  # arcs within: word, its head, relation


def _lexicon() -> dict[str, Term]:
    terms = [Term(sort, (word,), (lemma,), (pos,)) for word, (sort, lemma, pos) in _FUNCTION_WORDS.items()]
    terms += [Term(ADJECTIVE, (word,), (word,), ("ADJ",)) for word in _ADJECTIVES.split()]
    nouns = {KIND: _KINDS, ROLE: _ROLES, KIND_OR_ROLE: _BOTH, STAR: "star"}
    terms += [Term(sort, (word,), (word,), ("NOUN",)) for sort, words in nouns.items() for word in words.split()]
    compounds = {
        KIND: "film director,film distributor,film editor,film producer,production company",
        KIND_OR_ROLE: "art director,costume designer",
    }
    for sort, pairs in compounds.items():
        for first, second in (pair.split() for pair in pairs.split(",")):
            terms.append(Term(sort, (first, second), (first, second), ("NOUN", "NOUN"), 1, ((0, 1, "compound"),)))
    producer = ("executive", "producer")
    terms.append(Term(ROLE, producer, producer, ("ADJ", "NOUN"), 1, ((0, 1, "amod"),)))
    country = ("country", "of", "nationality")
    terms.append(Term(ROLE, country, country, ("NOUN", "ADP", "NOUN"), 0, ((1, 2, "case"), (2, 0, "nmod"))))

    verbs = [(form, base, sort) for base, past in _REGULAR_VERBS.items() for form, sort in _forms(base, past)]
    verbs += [("write", "write", BASE), ("wrote", "write", PAST), ("written", "write", PARTICIPLE)]
    verbs += [("starred", "star", PAST_OR_PARTICIPLE)]  # its base form is the STAR above
    terms += [Term(sort, (form,), (base,), ("VERB",)) for form, base, sort in verbs]
    for form, sort in _forms("produce", "produced"):
        words, lemmas = ("executive", form), ("executive", "produce")
        terms.append(Term(sort, words, lemmas, ("ADJ", "VERB"), 1, ((0, 1, "compound"),)))
    return {" ".join(term.words): term for term in terms}


def _forms(base: str, past: str) -> tuple[tuple[str, str], tuple[str, str]]:
    return (base, BASE), (past, PAST_OR_PARTICIPLE)


LEXICON = _lexicon()
LONGEST_TERM = max(len(term.words) for term in LEXICON.values())
# The first words of longer terms: only there are more words looked up.
_BEGINNINGS = frozenset(term.words[0] for term in LEXICON.values() if len(term.words) > 1)


@cache
def _entity(word: str) -> Term:
    return Term(ENTITY, (word,), (word,), ("PROPN",))


def join_possessives(words: Sequence[str]) -> list[str]:
    """Join "'" and "s", which some copies of CFQ split, to "'s" as in the official rows."""
    joined: list[str] = []
    for word in words:
        if word == "s" and joined and joined[-1] == "'":
            joined[-1] = POSSESSIVE
        else:
            joined.append(word)
    return joined


def terms_of(words: Sequence[str]) -> list[Term] | int:
    """Cut a question into terms, longest first; or return the number, from 0, of the first unknown word."""
    terms: list[Term] = []
    place = 0
    while place < len(words):
        word = words[place]
        term = LEXICON.get(word)
        if word in _BEGINNINGS:
            for length in range(2, LONGEST_TERM + 1):
                term = LEXICON.get(" ".join(words[place : place + length])) or term
        elif term is None and _ENTITY.fullmatch(word):
            term = _entity(word)
        if term is None:
            return place
        terms.append(term)
        place += len(term.words)
    return terms
