"""Small molecules: does one hold a lactam with a ring of five atoms?"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from .drawing import Edge, Row, Splits, draw_rows

SHARES = {"active": 0.5, "inactive": 0.5}
VALENCES = {"C": 4, "N": 3, "O": 2, "S": 2, "F": 1}
ORDERS = {"single": 1, "double": 2}


def molecules(seed: int = 1, rows: int = 1000, test_rows: int = 500) -> Splits:
    """Molecules of 9 to 22 atoms, atoms as labels of nodes, bonds as edges; rows for the task graph-labels.

    "active" are those with a ring of five atoms in which a nitrogen is bound to a carbon that has a double bond to an
    oxygen. Others have the same parts otherwise put together: rings of six, open amides, oxygen elsewhere in the ring.
    """
    seen: set[str] = set()
    return {
        split: draw_rows(random.Random(f"{seed} molecules {split}"), number, SHARES, _draw, seen)
        for split, number in (("train", rows), ("test", test_rows))
    }


def is_active(atoms: Mapping[str, str], bonds: Sequence[Edge]) -> bool:
    """Whether there is a ring of five atoms with a nitrogen beside a carbon with =O."""
    around: dict[str, list[str]] = defaultdict(list)
    carbonyls = set()
    for a, bond, b in bonds:
        around[a].append(b)
        around[b].append(a)
        if bond == "double":
            carbonyls |= {x for x, y in ((a, b), (b, a)) if atoms[x] == "C" and atoms[y] == "O"}

    def ring(path: list[str]) -> bool:
        if len(path) == 5:
            return path[0] in around[path[-1]]
        return any(ring([*path, atom]) for atom in around[path[-1]] if atom not in path)

    return any(
        ring([nitrogen, carbon])
        for nitrogen in atoms
        if atoms[nitrogen] == "N"
        for carbon in around[nitrogen]
        if carbon in carbonyls
    )


class _Molecule:
    """Atoms and bonds; `free` says how many more bonds an atom can have."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.atoms: dict[str, str] = {}
        self.bonds: list[Edge] = []
        self.free: dict[str, int] = {}

    def atom(self, element: str, to: str | None = None, bond: str = "single") -> str:
        name = f"{element}{len(self.atoms) + 1}"
        self.atoms[name], self.free[name] = element, VALENCES[element]
        if to is not None:
            self.bind(to, name, bond)
        return name

    def bind(self, a: str, b: str, bond: str = "single") -> None:
        self.bonds.append((a, bond, b) if self.rng.random() < 0.5 else (b, bond, a))
        for end in (a, b):
            self.free[end] -= ORDERS[bond]

    def ring(self, elements: str) -> list[str]:
        atoms = [self.atom(element) for element in elements]
        for a, b in zip(atoms, [*atoms[1:], atoms[0]], strict=True):
            self.bind(a, b)
        return atoms

    def joint(self, atoms: Sequence[str]) -> str | None:
        """An atom that something can be bound to."""
        free = [atom for atom in atoms if self.free[atom] > 0]
        return self.rng.choice(free) if free else None


Part = Callable[[_Molecule], list[str]]


def _with_oxygen(elements: str, place: int) -> Part:
    """A ring with =O at an atom."""

    def build(molecule: _Molecule) -> list[str]:
        ring = molecule.ring(elements)
        molecule.atom("O", ring[place], "double")
        return ring

    return build


def _ring_of(elements: str) -> Part:
    return lambda molecule: molecule.ring(elements)


def _amide(molecule: _Molecule) -> list[str]:
    carbon = molecule.atom("C")
    molecule.atom("O", carbon, "double")
    return [carbon, molecule.atom("N", carbon)]


def _ketone(molecule: _Molecule) -> list[str]:
    carbon = molecule.atom("C")
    molecule.atom("O", carbon, "double")
    return [carbon, molecule.atom("C", carbon)]


def _chain(molecule: _Molecule) -> list[str]:
    atoms = [molecule.atom("C")]
    for _ in range(molecule.rng.randint(1, 2)):
        atoms.append(molecule.atom(molecule.rng.choice("CCNO"), atoms[-1]))
    return atoms


def _amide_on_ring(molecule: _Molecule) -> list[str]:
    ring = molecule.ring(molecule.rng.choice(("CCCCC", "NCCCC")))
    carbon = molecule.atom("C", ring[1])
    molecule.atom("O", carbon, "double")
    return [*ring, molecule.atom("N", carbon)]


def _nitrogen_on_ring(molecule: _Molecule) -> list[str]:
    """A ring with =O whose nitrogen is outside."""
    ring = molecule.ring("CCCCC")
    molecule.atom("O", ring[0], "double")
    return [*ring, molecule.atom("N", ring[1])]


LACTAM = _with_oxygen("NCCCC", 1)
DECOYS: tuple[Part, ...] = (
    *(_with_oxygen("NCCCCC", 1), _with_oxygen("NCCCCC", 1), _with_oxygen("NCCCC", 2), _amide_on_ring),
    *(_nitrogen_on_ring, _with_oxygen("OCCCC", 1)),
)
PLAIN: tuple[Part, ...] = (
    *(_ring_of("CCCCC"), _ring_of("NCCCC"), _ring_of("SCCCC"), _ring_of("CCCCCC"), _amide, _ketone, _chain, _chain),
)


def _draw(rng: random.Random, target: str) -> Row | None:
    molecule = _Molecule(rng)
    parts = [LACTAM if target == "active" else rng.choice(DECOYS)]
    parts += [rng.choice(DECOYS if rng.random() < 0.4 else PLAIN) for _ in range(rng.randint(1, 2))]
    rng.shuffle(parts)
    built: list[list[str]] = []
    for part in parts:
        before = [atom for atoms in built for atom in atoms]
        built.append(part(molecule))
        if before and not _join(molecule, before, built[-1]):
            return None
    for element in _substituents(rng):
        place = molecule.joint([atom for atom in molecule.atoms if molecule.atoms[atom] in "CN"])
        if place is not None:
            molecule.atom(element, place)
    if not 9 <= len(molecule.atoms) <= 22 or is_active(molecule.atoms, molecule.bonds) != (target == "active"):
        return None
    atoms, bonds = list(molecule.atoms.items()), [list(bond) for bond in molecule.bonds]
    rng.shuffle(atoms)
    rng.shuffle(bonds)
    return {"nodes": dict(atoms), "edges": bonds, "target": target}


def _join(molecule: _Molecule, before: Sequence[str], atoms: Sequence[str]) -> bool:
    """Bind a part to what is there, by a bond or over a carbon; False where nothing is free."""
    start, end = molecule.joint(before), molecule.joint(atoms)
    if start is None or end is None:
        return False
    if molecule.rng.random() < 0.5:
        start = molecule.atom("C", start)
    molecule.bind(start, end)
    return True


def _substituents(rng: random.Random) -> Iterator[str]:
    for _ in range(rng.randint(0, 3)):
        yield rng.choice("CCNOFS")
