"""Simulated families over several generations, and their relations.

A family is defined by everyone's gender, parents and spouse. Spouses marry in, without parents of their own. Every
relation follows by definition:

    parent            father or mother
    child             reverse of parent
    grandparent       parent of a parent
    sibling           another child of one's parents
    uncle, aunt       sibling of a parent
    nephew, niece     reverse of uncle, aunt
    parent-in-law     parent of one's spouse; child-in-law is the reverse

In CLUTRR, whoever has children in a family also counts as a child of the spouse's parents (`by_marriage=True`). So the
spouse's father is a father too, the spouse's brothers and their wives are siblings, and uncles by marriage are uncles.
A spouse without children has only a spouse and in-laws. With `by_marriage=False`, parents are parents by birth only.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...errors import UserError

MAX_PERSONS = 2000

# The names of a man and of a woman in each kind of relation.
_NAMES = {
    "parent": ("father", "mother"),
    "child": ("son", "daughter"),
    "sibling": ("brother", "sister"),
    "grandparent": ("grandfather", "grandmother"),
    "grandchild": ("grandson", "granddaughter"),
    "uncle": ("uncle", "aunt"),
    "spouse": ("husband", "wife"),
    "nephew": ("nephew", "niece"),
    "parent-in-law": ("father-in-law", "mother-in-law"),
    "child-in-law": ("son-in-law", "daughter-in-law"),
}
_TOLD_KINDS = ("parent", "child", "sibling", "grandparent", "grandchild", "uncle", "spouse")

RELATIONS: tuple[str, ...] = tuple(name for kind in _TOLD_KINDS for name in _NAMES[kind])
"""The 14 relations a story may tell."""

TARGETS: tuple[str, ...] = tuple(name for kind, names in _NAMES.items() if kind != "spouse" for name in names)
"""The 18 relations that may be asked for; a marriage is told, never inferred."""

_UPWARDS = {
    "parent": 1,
    "grandparent": 2,
    "uncle": 1,
    "parent-in-law": 1,
    "sibling": 0,
    "spouse": 0,
    "child": -1,
    "grandchild": -2,
    "nephew": -1,
    "child-in-law": -1,
}
GENERATIONS: dict[str, int] = {name: _UPWARDS[kind] for kind, names in _NAMES.items() for name in names}
"""How many generations above a person each relative stands; negative below."""

# The kinds of relation that one step of a CLUTRR proof composes; the family says what follows. Other pairs say nothing
# (a child's parent), have no name (an uncle's son) or several (a grandfather's son is father or uncle), or are not in
# CLUTRR (a brother's uncle).
_JOINED_KINDS = {
    "sibling": ("sibling", "child", "parent", "grandparent"),
    "child": ("sibling", "child", "grandparent", "uncle", "spouse"),
    "parent": ("sibling", "child", "parent"),
    "grandchild": ("sibling",),
    "spouse": ("child", "parent", "grandchild"),
}
_MAKES_IN_LAW = {("spouse", "parent"), ("child", "spouse")}

# (first relation, second relation) -> whether the pair makes an in-law
_JOINED: dict[tuple[str, str], bool] = {
    (first, second): (kind, other) in _MAKES_IN_LAW
    for kind, others in _JOINED_KINDS.items()
    for other in others
    for first in _NAMES[kind]
    for second in _NAMES[other]
    # A marriage is between a man and a woman here, as in CLUTRR: a son has no husband.
    if other != "spouse" or _NAMES[kind].index(first) != _NAMES[other].index(second)
}
JOINED: tuple[tuple[str, str], ...] = tuple(_JOINED)
"""Pairs of relations that one step of a proof may compose."""


@dataclass(frozen=True, slots=True)
class FamilyShape:
    """How families grow: `levels` generations; a person marries and has children with probability `p_marry`."""

    levels: int = 3
    min_children: int = 3
    max_children: int = 5
    p_marry: float = 1.0
    by_marriage: bool = True

    def __post_init__(self) -> None:
        if self.levels < 3:
            raise UserError(f"levels is {self.levels}; a family with grandparents needs at least 3")
        if not 1 <= self.min_children <= self.max_children:
            raise UserError(
                f"children range from {self.min_children} to {self.max_children}; expected 1 <= least <= most"
            )
        if not 0 < self.p_marry <= 1:
            raise UserError(f"p_marry is {self.p_marry}; expected a probability above 0 and up to 1")
        # Stops early, as the power of a large number of levels would take too long.
        persons, generation = 0, 2
        for _ in range(self.levels):
            persons, generation = persons + generation, generation * self.max_children
            if persons > MAX_PERSONS:
                raise UserError(
                    f"{self.levels} levels of up to {self.max_children} children make families of more than "
                    f"{MAX_PERSONS} persons; ask for fewer levels or children"
                )


class Family:
    """Persons 0, 1, ... with their relations. `relatives[a]` maps a's relatives to what they are to a."""

    def __init__(
        self,
        male: Sequence[bool],
        parents: Sequence[tuple[int, ...]],
        spouse: Sequence[int | None],
        by_marriage: bool = True,
    ) -> None:
        self.male = male
        self.relatives: list[dict[int, str]] = [{} for _ in male]
        self.in_laws: list[dict[int, str]] = [{} for _ in male]
        self._tell_relatives(_parents_by_marriage(parents, spouse) if by_marriage else parents, spouse)
        self._tell_in_laws(parents, spouse)
        # Indices for sampling: those_of[r][b] are b's r's, owners[r][b] the persons whose r is b.
        self.those_of: dict[str, dict[int, list[int]]] = {name: {} for name in RELATIONS}
        self.owners: dict[str, dict[int, list[int]]] = {name: {} for name in RELATIONS}
        for a, relatives in enumerate(self.relatives):
            for b, name in relatives.items():
                if name in self.those_of:  # nephews and nieces are never told
                    self.those_of[name].setdefault(a, []).append(b)
                    self.owners[name].setdefault(b, []).append(a)
        self._pivots: dict[tuple[str, str], list[int]] = {}
        self._splits: dict[tuple[int, int], list[list[int]]] = {}

    def _tell_relatives(self, parents: Sequence[tuple[int, ...]], spouse: Sequence[int | None]) -> None:
        children: list[list[int]] = [[] for _ in parents]
        for person, couple in enumerate(parents):
            for parent in couple:
                children[parent].append(person)

        def siblings(person: int) -> Iterable[int]:
            others = dict.fromkeys(child for parent in parents[person] for child in children[parent])
            return (other for other in others if other not in (person, spouse[person]))

        for person, couple in enumerate(parents):
            for parent in couple:
                self._tell(self.relatives, person, "parent", parent, "child")
                for grandparent in parents[parent]:
                    self._tell(self.relatives, person, "grandparent", grandparent, "grandchild")
                for uncle in siblings(parent):
                    self._tell(self.relatives, person, "uncle", uncle, "nephew")
            for sibling in siblings(person):
                self._tell(self.relatives, person, "sibling", sibling, "sibling")
            partner = spouse[person]
            if partner is not None:
                self._tell(self.relatives, person, "spouse", partner, "spouse")

    def _tell_in_laws(self, parents: Sequence[tuple[int, ...]], spouse: Sequence[int | None]) -> None:
        for person, partner in enumerate(spouse):
            for parent in parents[partner] if partner is not None else ():
                self._tell(self.in_laws, person, "parent-in-law", parent, "child-in-law")

    def _tell(self, table: list[dict[int, str]], a: int, kind: str, b: int, reverse: str) -> None:
        """Note that b is a's `kind` and a is b's `reverse`."""
        table[a][b] = _NAMES[kind][0 if self.male[b] else 1]
        table[b][a] = _NAMES[reverse][0 if self.male[a] else 1]

    def holds(self, a: int, relation: str, b: int) -> bool:
        """Whether b is a's `relation`. A pair can have two: a father-in-law may count as a father."""
        return relation in (self.relatives[a].get(b), self.in_laws[a].get(b))

    def conclusion(self, a: int, b: int, c: int) -> str | None:
        """What c is to a by one step of a proof through b; None where nothing follows."""
        premises = (self.relatives[a].get(b, ""), self.relatives[b].get(c, ""))
        makes_in_law = _JOINED.get(premises)
        if makes_in_law is None:
            return None
        name = (self.in_laws if makes_in_law else self.relatives)[a].get(c)
        return None if name in _NAMES["spouse"] else name

    def splits(self, a: int, c: int) -> list[list[int]]:
        """Persons b through whom `relatives[a][c]` can be proved, grouped by the relations (a to b, b to c)."""
        groups = self._splits.get((a, c))
        if groups is None:
            by_premises: dict[tuple[str, str], list[int]] = {}
            if self.relatives[a][c] not in _NAMES["spouse"]:
                for b, first in self.relatives[a].items():
                    premises = first, self.relatives[b].get(c, "")
                    # A faster `conclusion`: what is in `relatives` needs no in-law step.
                    if _JOINED.get(premises) is False:
                        by_premises.setdefault(premises, []).append(b)
            groups = self._splits[a, c] = list(by_premises.values())
        return groups

    def pivots(self, first: str, second: str) -> list[int]:
        """Persons who are someone's `first` and have a `second`."""
        pivots = self._pivots.get((first, second))
        if pivots is None:
            have = self.those_of[second]
            pivots = self._pivots[first, second] = [b for b in self.owners[first] if b in have]
        return pivots


def _parents_by_marriage(parents: Sequence[tuple[int, ...]], spouse: Sequence[int | None]) -> list[tuple[int, ...]]:
    """Give the spouse's parents to whoever married in and has children."""
    with_children = {parent for couple in parents for parent in couple}
    return [
        couple if couple or partner is None or person not in with_children else parents[partner]
        for person, (couple, partner) in enumerate(zip(parents, spouse, strict=True))
    ]


def simulate_family(rng: random.Random, shape: FamilyShape) -> Family:
    """Simulate a family from one couple, generation by generation."""
    male: list[bool] = []
    parents: list[tuple[int, ...]] = []
    spouse: list[int | None] = []

    def add(is_male: bool, its_parents: tuple[int, ...] = ()) -> int:
        male.append(is_male)
        parents.append(its_parents)
        spouse.append(None)
        return len(male) - 1

    def marry(person: int) -> tuple[int, int]:
        partner = add(not male[person])
        spouse[person], spouse[partner] = partner, person
        return person, partner

    couples = [marry(add(rng.random() < 0.5))]
    for _ in range(shape.levels - 1):
        children = [
            add(rng.random() < 0.5, couple)
            for couple in couples
            for _ in range(rng.randint(shape.min_children, shape.max_children))
        ]
        couples = [marry(child) for child in children if rng.random() < shape.p_marry]
    return Family(male, parents, spouse, shape.by_marriage)
