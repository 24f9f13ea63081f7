"""Random questions made from the constructions of CFQ's grammar, for property tests."""

from __future__ import annotations

import random
from collections.abc import Callable

from hypothesis import strategies as st

_KINDS = ("person", "film", "company", "character", "screenwriter", "actor", "art director", "film producer")
_ROLES = ("star", "director", "sibling", "executive producer", "cinematographer", "country of nationality", "writer")
_BASES = ("star", "direct", "executive produce", "found", "marry", "write")
_PASTS = ("starred", "directed", "executive produced", "founded", "married", "wrote")
_PARTICIPLES = ("starred", "directed", "executive produced", "founded", "influenced", "written")


class _Maker:
    """Draws one phrase of each kind; `depth` says how many phrases may still lie within one another."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def choose(self, *options: str) -> str:
        return self.random.choice(options)

    def listed(self, make: Callable[[], str], most: int = 4) -> str:
        members = [make() for _ in range(self.random.choice((1, 1, 1, 2, 2, *range(3, most + 1))))]
        if len(members) < 3:
            return " and ".join(members)
        return " , ".join(members[:-1]) + " , and " + members[-1]

    def entities(self) -> str:
        return self.listed(lambda: f"M{self.random.randint(0, 9)}")

    def adjectives(self) -> str:
        return "".join(f"{self.listed(self.adjective)} " for _ in range(self.random.choice((0, 0, 1, 1, 2))))

    def adjective(self) -> str:
        return self.choose("French", "male", "Dutch")

    def roles(self) -> str:
        return self.adjectives() + self.listed(lambda: self.choose(*_ROLES))

    def nominal(self, depth: int) -> str:
        form = self.random.randint(0, 2 if depth else 0)
        if form == 0:
            return self.entities()
        return self.described("a", depth) if form == 1 else self.owned(depth)

    def owned(self, depth: int) -> str:
        owner = self.choose(self.entities(), f"a {self.adjectives()}{self.choose(*_KINDS)}")
        for _ in range(self.random.randint(1, 2)):
            owner += f" 's {self.roles()}"
        return owner

    def described(self, determiner: str, depth: int) -> str:
        if self.random.random() < 0.5:
            return f"{determiner} {self.roles()} of {self.nominal(depth - 1)}"
        kind = f"{determiner} {self.adjectives()}{self.choose(*_KINDS)}"
        form = self.random.randint(0, 4)
        if form == 0 or not depth:
            return kind
        if form == 1:
            return f"{kind} that {self.finite(depth - 1)}"
        if form == 2:
            return f"{kind} that {self.clauses(depth - 1, base=False)}"
        if form == 3:
            return f"{kind} whose {self.roles()} {self.finite(depth - 1)}"
        return f"{kind} {self.participles(depth - 1)}"

    def verbs(self, words: tuple[str, ...]) -> str:
        return self.listed(lambda: self.choose(*words))

    def base(self, depth: int) -> str:
        return self.listed(lambda: f"{self.verbs(_BASES)} {self.nominal(depth)}")

    def finite(self, depth: int) -> str:
        if self.random.random() < 0.5:
            return f"{self.listed(self.gapped)} {self.nominal(depth)}"
        return self.listed(
            lambda: self.choose(f"{self.verbs(_PASTS)} {self.nominal(depth)}", f"was {self.participles(depth)}")
        )

    def participles(self, depth: int) -> str:
        if self.random.random() < 0.5:
            return f"{self.listed(lambda: f'{self.verbs(_PARTICIPLES)} by')} {self.nominal(depth)}"
        return self.listed(lambda: f"{self.verbs(_PARTICIPLES)} by {self.nominal(depth)}")

    def gapped(self) -> str:
        return self.choose(self.choose(*_PASTS), f"were {self.verbs(_PARTICIPLES)} by")

    def clauses(self, depth: int, base: bool) -> str:
        def clause() -> str:
            return f"{self.nominal(depth)} {self.verbs(_BASES) if base else self.listed(self.gapped)}"

        return self.listed(clause, 3)

    def question(self, depth: int) -> str:
        form = self.random.randint(0, 6)
        if form == 0:
            return f"Did {self.nominal(depth)} {self.base(depth)}"
        if form == 1:
            return f"Was {self.nominal(depth)} {self.participles(depth)}"
        if form == 2:
            return f"Were {self.nominal(depth)} {self.choose(self.nominal(depth), 'Swedish')}"
        asked = self.choose("Who", "What", self.described(self.choose("What", "Which"), depth))
        if form in (3, 4):
            return f"{asked} {self.finite(depth)}"
        return f"{asked} did {self.clauses(depth, True)}" if form == 5 else f"{asked} was {self.nominal(depth)}"


def cfq_questions(depth: int = 2) -> st.SearchStrategy[str]:
    """Questions of CFQ's language, in which phrases lie within one another at most so deep."""
    # Drawn from a seed, not choice by choice: ten times as fast, and a failing question is short enough as it is.
    return st.builds(lambda seed, most: _Maker(seed).question(most), st.integers(0, 2**32 - 1), st.integers(0, depth))
