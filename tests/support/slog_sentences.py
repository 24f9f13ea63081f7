"""Sentences with their logical forms as SLOG writes them, from a small grammar that knows nothing of graphs.

A clause lists its arguments as it goes, a gap where it is left, so that the order of conjuncts does not come from the
code under test. Every noun may have modifiers, gaps are at every place, and recursion is as deep as asked.
"""

from __future__ import annotations

import random
from collections import defaultdict

NOUNS = ("cat", "girl", "cake", "table", "TV", "boy")
NAMES = ("Emma", "Liam", "Ava", "Noah", "Mia", "Levi")
VERBS = ("see", "give", "find", "eat", "say", "want")
ROLES = ("agent", "theme", "recipient", "ccomp", "xcomp")
FRAMES = (  # V is the verb; English takes no recipient away from before a theme
    "agent V",
    "theme V",
    "agent V theme",
    "agent V theme to recipient",
    "agent V recipient theme",
    "theme was V",
    "theme was V by agent",
    "theme was V to recipient by agent",
    "recipient was V theme by agent",
    "agent V ccomp",
    "agent V xcomp",
)


class Speaker:
    """One sentence in the making; clauses and modifiers are at most `depth` deep inside each other."""

    def __init__(self, chance: random.Random, depth: int) -> None:
        self.chance, self.depth = chance, depth
        self.names = chance.sample(NAMES, len(NAMES))
        self.tokens: list[str] = []
        self.definites: list[str] = []
        self.conjuncts: dict[int, list[str]] = defaultdict(list)

    def say(self, *words: str) -> int:
        """Say words, and return the place of the last."""
        self.tokens += words
        return len(self.tokens) - 1

    @property
    def form(self) -> str:
        conjuncts = [atom for _, atoms in sorted(self.conjuncts.items()) for atom in atoms]
        return " ; ".join([*self.definites, *([" AND ".join(conjuncts)] if conjuncts else [])])

    def statement(self) -> Speaker:
        self.clause(self.depth)
        self.say(".")
        return self

    def question(self) -> Speaker:
        self.say(self.chance.choice(["Who", "What"]))
        self.clause(self.depth, "?")
        self.say("?")
        return self

    def phrase(self) -> Speaker:
        self.noun_phrase(self.depth)
        return self

    def noun_phrase(self, depth: int) -> str:
        """Say a noun phrase, and return its term."""
        if self.names and self.chance.random() < 0.3:
            return self.tokens[self.say(self.names.pop())]
        definite, noun = self.chance.random() < 0.5, self.chance.choice(NOUNS)
        place = self.say("the" if definite else "a", noun)
        term = f"x _ {place}"
        if definite:
            self.definites.append(f"* {noun} ( {term} )")
        else:
            self.conjuncts[place].append(f"{noun} ( {term} )")
        kind = self.chance.choice(["clause", "preposition", "none"]) if depth else "none"
        if kind == "preposition":
            preposition = self.chance.choice(["on", "in", "beside"])
            self.say(preposition)
            inner = self.noun_phrase(depth - 1)
            self.conjuncts[place].append(f"{noun} . nmod . {preposition} ( {term} , {inner} )")
        elif kind == "clause":
            self.say("that")
            verb = self.clause(depth - 1, term)
            self.conjuncts[place].append(f"{noun} . nmod ( {term} , x _ {verb} )")
        return term

    def clause(self, depth: int, filler: str = "", inner: bool = False) -> int:
        """Say a clause and return its verb. `filler` is the term of what is missing in it, somewhere."""
        parts = self.chance.choice(FRAMES if depth else FRAMES[:-2]).split()
        gaps = [part for part in parts if part in ROLES]
        if parts[1:3] == ["V", "recipient"]:
            gaps.remove("recipient")
        gap = self.chance.choice(gaps) if filler else ""
        if filler == "?" and not inner and gap != parts[0]:  # the auxiliary goes to the front
            self.say("was" if "was" in parts else "did")
            parts = [part for part in parts if part != "was"]
        arguments: list[tuple[str, str]] = []
        verb = -1
        for part in parts:
            if part == "V":
                name = self.chance.choice(VERBS)
                verb = self.say(f"{name}ed")
            elif part == "ccomp":
                self.say("that")
                inside = self.clause(depth - 1, filler if gap == part else "", inner=True)
                arguments.append((part, f"x _ {inside}"))
            elif part == "xcomp":
                inside = self.infinitive(arguments[0][1], filler if gap == part else "", depth)
                arguments.append((part, f"x _ {inside}"))
            elif part in ROLES:
                arguments.append((part, filler if gap == part else self.noun_phrase(depth and depth - 1)))
            else:
                self.say(part)
        self.conjuncts[verb] += [f"{name} . {role} ( x _ {verb} , {term} )" for role, term in arguments]
        return verb

    def infinitive(self, agent: str, filler: str, depth: int) -> int:
        """Say an infinitive and return its verb; what is missing is its object."""
        verb = self.say("to", "see")
        arguments = [("agent", agent)]
        if filler:
            arguments.append(("theme", filler))
        elif self.chance.random() < 0.5:
            arguments.append(("theme", self.noun_phrase(depth - 1)))
        self.conjuncts[verb] += [f"see . {role} ( x _ {verb} , {term} )" for role, term in arguments]
        return verb
