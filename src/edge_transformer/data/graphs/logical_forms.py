"""The logical forms of COGS: text to structure and back.

    * cake ( x _ 3 ) ; eat . agent ( x _ 1 , Emma ) AND eat . theme ( x _ 1 , x _ 3 )
    LAMBDA a . LAMBDA e . walk . agent ( e , a )
    Emma

A form is a name, or the variables it abstracts over, the definite nouns (each with a star), and conjuncts. `x _ 3`
stands for token 3, counted from 0. Nothing is read loosely: a text that is read is written back the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ...errors import DataError

MAX_FORM = 100_000  # characters; the longest official form has 1,385
Term = int | str  # the token at a position, or a name or bound variable


class Atom(NamedTuple):
    """A predicate and its one or two arguments: ("eat", "agent") of (1, "Emma"), or ("cake",) of (4,)."""

    predicate: tuple[str, ...]
    arguments: tuple[Term, ...]

    def __str__(self) -> str:
        arguments = [term if isinstance(term, str) else f"x _ {term}" for term in self.arguments]
        return f"{' . '.join(self.predicate)} ( {' , '.join(arguments)} )"


@dataclass(frozen=True, slots=True)
class LogicalForm:
    """A logical form. `name` goes alone; all others have definite nouns or conjuncts."""

    definites: tuple[Atom, ...] = ()
    conjuncts: tuple[Atom, ...] = ()
    bound: tuple[str, ...] = ()  # the variables of a lambda form, in their order
    name: str = ""

    def __str__(self) -> str:
        if self.name:
            return self.name
        parts = [f"* {atom}" for atom in self.definites]
        if self.conjuncts:
            parts.append(" AND ".join(map(str, self.conjuncts)))
        return "".join(f"LAMBDA {variable} . " for variable in self.bound) + " ; ".join(parts)


_WORD = r"(?!(?:AND|LAMBDA) )[^\s().,;*]+"
_TERM = rf"x _ (?:0|[1-9][0-9]{{0,5}})|{_WORD}"
_IS_WORD = re.compile(r"(?!(?:AND|LAMBDA)$)[^\s().,;*]+")
_ATOM = re.compile(rf"({_WORD})(?: \. ({_WORD}))?(?: \. ({_WORD}))? \( ({_TERM})(?: , ({_TERM}))? \)")
_LAMBDA = re.compile(rf"LAMBDA ({_WORD}) \. ")


def is_word(text: str) -> bool:
    """Whether a text can stand in a form as a predicate or a name."""
    return _IS_WORD.fullmatch(text) is not None


def parse_logical_form(text: str, source: str | Path = "logical form", line: int | None = None) -> LogicalForm:
    """The structure of a logical form; errors quote the part that is broken."""
    if len(text) > MAX_FORM:
        raise DataError(source, line, f"a logical form of {len(text)} characters", f"at most {MAX_FORM}")
    if is_word(text):
        return LogicalForm(name=text)
    bound, start = [], 0
    while match := _LAMBDA.match(text, start):
        bound.append(match[1])
        start = match.end()
    if len(set(bound)) != len(bound):
        raise DataError(source, line, repr(text), "each variable bound once")

    def atom(part: str, what: str, expected: str, only_noun: bool) -> Atom:
        match = _ATOM.fullmatch(part)
        if match:
            name, role, preposition, first, second = match.groups()
            # A noun has one argument; a role or modifier relates two.
            if role is None and second is None:
                return Atom((name,), (_term(first),))
            if role is not None and second is not None and not only_noun:
                predicate = (name, role) if preposition is None else (name, role, preposition)
                return Atom(predicate, (_term(first), _term(second)))
        raise DataError(source, line, f"{what} {part!r}", expected)

    noun = "a noun and its variable, such as cake ( x _ 1 )"
    *starred, rest = text[start:].split(" ; ")
    parts = rest.split(" AND ")
    if rest.startswith("* "):  # no conjuncts: nothing but definite nouns
        starred.append(rest)
        parts = []
    definites = []
    for part in starred:
        if not part.startswith("* "):
            raise DataError(source, line, f"{part!r} before a semicolon", "a definite noun, such as * cake ( x _ 1 )")
        definites.append(atom(part[2:], "definite", noun, True))
    relation = "verb . role ( x _ 1 , x _ 3 ) or noun . nmod . preposition ( x _ 1 , x _ 4 )"
    conjuncts = [atom(part, f"conjunct {n}", f"{noun}, or {relation}", False) for n, part in enumerate(parts, 1)]
    return LogicalForm(tuple(definites), tuple(conjuncts), tuple(bound))


def _term(text: str) -> Term:
    return int(text[4:]) if text.startswith("x _ ") else text
