"""Splits that test composition: test rows with the atoms of train in compounds that train does not have.

After Keysers et al. (2020): the test rows are chosen greedily, so that the divergence of compounds becomes high while
that of atoms stays low, and are then swapped with rows of train, and with rows in neither, as long as that helps. Rows
are scored all at once by what moving each of them would change, and moved in groups; a group whose move does not help
after all is taken back and made smaller. Everything follows from the seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .divergence import ATOM_ALPHA, COMPOUND_ALPHA, Divergences, Floats, Ints, Parts, SparseRows
from .errors import UserError

TRAIN, HELD, UNUSED = 0, 1, 2  # where a row is; dev and test are one set until the end, so that they are alike
_CHANGE = {TRAIN: (1, 0), HELD: (0, 1), UNUSED: (0, 0)}  # what a row adds to the counts of train and of held rows
GROWTH_ROUNDS, SWAP_ROUNDS = 40, 150
STARTS = 4
HALVINGS = 10
_FIRST_ROWS = 50


class Progress(Protocol):
    """Is told each step, and how things stand."""

    def __call__(self, count: int, note: str | None = None) -> None: ...


@dataclass(frozen=True)
class SplitTarget:
    """What a split shall be like. Rows that are in none of its parts stay unused."""

    train: int
    dev: int
    test: int
    atoms: float = 0.02  # at most this divergence
    compounds: float = 1.0  # at least this one; 1 asks for as much as can be had

    def check(self, rows: int) -> None:
        """Refuse sizes and divergences that no split can have."""
        if self.train < 1 or self.test < 1 or self.dev < 0:
            found = f"{self.train} training, {self.dev} validation and {self.test} test rows"
            raise UserError(f"found {found}; expected at least one in train and in test")
        if self.train + self.dev + self.test > rows:
            wanted = self.train + self.dev + self.test
            raise UserError(f"found {rows} examples; expected at least {wanted}, as train, dev and test together have")
        for name, value in (("atoms", self.atoms), ("compounds", self.compounds)):
            if not 0 <= value <= 1:
                raise UserError(f"divergence of {name}: found {value}; expected a number from 0 to 1")

    def missed_by(self, found: Divergences) -> float:
        """How far divergences are from what is wanted; 0 where they are not."""
        return max(0.0, found.atoms - self.atoms, self.compounds - found.compounds)


@dataclass(frozen=True)
class Split:
    """Row numbers, rising, of each part, and how far the parts are from train."""

    train: Ints
    dev: Ints
    test: Ints
    divergences: Divergences  # of test from train
    dev_divergences: Divergences | None
    reached: bool  # the targets, by test and by dev

    def numbers(self) -> dict[str, list[int]]:
        """The row numbers by the names of the parts."""
        return {"train": self.train.tolist(), "dev": self.dev.tolist(), "test": self.test.tolist()}


def make_split(parts: Parts, target: SplitTarget, seed: int = 1, progress: Progress | None = None) -> Split:
    """Make a split of these sizes; the same seed makes the same one."""
    target.check(len(parts))
    tell = progress or _silent
    best: _Sides | None = None
    for start in range(STARTS):  # where the growth begins decides much, and is cheap to try
        random = np.random.default_rng((seed, start))
        sides = _grow(parts, target, random, tell)
        if best is None or sides.goal() > best.goal():
            best = sides
        if best.done():
            break
    assert best is not None
    if not best.done():
        best = _swap(best, tell)
    return _halve(best, seed)


def random_split(parts: Parts, target: SplitTarget, seed: int = 1) -> Split:
    """A split of the same sizes by chance: what the divergences of another one are to be compared with."""
    target.check(len(parts))
    order = np.random.default_rng((seed, STARTS + 1)).permutation(len(parts))
    ends = np.cumsum([target.train, target.dev, target.test])
    train, dev, test = (np.sort(rows) for rows in np.split(order[: ends[2]], ends[:2]))
    of_dev = parts.divergences(train, dev) if target.dev else None
    return Split(train, dev, test, parts.divergences(train, test), of_dev, False)


def steps() -> int:
    """How many steps `make_split` tells its progress at most."""
    return STARTS * GROWTH_ROUNDS + SWAP_ROUNDS


class _Counts:
    """The weight of each type in train and among the held rows, and what moving a row would change."""

    def __init__(self, rows: SparseRows, alpha: float, side: NDArray[np.int8]) -> None:
        self.rows, self.alpha = rows, alpha
        self.row_totals = rows.totals()  # (rows,)
        self.train = rows.frequencies(np.flatnonzero(side == TRAIN))  # (types,)
        self.held = rows.frequencies(np.flatnonzero(side == HELD))

    def coefficient(self) -> float:
        """One minus the divergence."""
        whole = self._whole()
        return float(self._shared(self.train, self.held).sum() / whole) if whole > 0 else 0.0

    def move(self, rows: Ints, origin: int, goal: int) -> None:
        moved = self.rows.frequencies(rows)
        in_train, in_held = np.subtract(_CHANGE[goal], _CHANGE[origin])
        # Rounding may leave a little less than nothing.
        self.train = np.maximum(self.train + in_train * moved, 0.0) if in_train else self.train
        self.held = np.maximum(self.held + in_held * moved, 0.0) if in_held else self.held

    def changes(self, origin: int, goal: int) -> Floats:
        """(rows,) by how much the coefficient would change, about, if a row moved."""
        in_train, in_held = np.subtract(_CHANGE[goal], _CHANGE[origin])
        before, whole = self._shared(self.train, self.held), self._whole()
        if whole <= 0:
            return np.zeros(len(self.rows))
        after = self._shared(np.maximum(self.train + in_train, 0.0), np.maximum(self.held + in_held, 0.0))
        growth = self.alpha * in_train / self.train.sum() + (1 - self.alpha) * in_held / self.held.sum()
        return self.rows.dot(after - before) / whole - before.sum() / whole * growth * self.row_totals

    def _whole(self) -> float:
        return float(self.train.sum() ** self.alpha * self.held.sum() ** (1 - self.alpha))

    def _shared(self, train: Floats, held: Floats) -> Floats:
        return train**self.alpha * held ** (1 - self.alpha)


class _Sides:
    """Where every row is, and how good that is."""

    def __init__(self, parts: Parts, target: SplitTarget, side: NDArray[np.int8]) -> None:
        self.parts, self.target, self.side = parts, target, side
        self.atoms = _Counts(parts.atoms, ATOM_ALPHA, side)
        self.compounds = _Counts(parts.compounds, COMPOUND_ALPHA, side)
        self.price = 2.0  # of a divergence of atoms above the target, in divergence of compounds

    def move(self, rows: Ints, origin: int, goal: int) -> None:
        self.side[rows] = goal
        self.atoms.move(rows, origin, goal)
        self.compounds.move(rows, origin, goal)

    def gains(self, origin: int, goal: int) -> tuple[Ints, Floats]:
        """The rows at `origin`, the best to move first, and what moving each of them is worth, about."""
        rows = np.flatnonzero(self.side == origin)
        worth = self.price * self.atoms.changes(origin, goal) - self.compounds.changes(origin, goal)
        order = np.argsort(-worth[rows], kind="stable")
        return rows[order], worth[rows[order]]

    def divergences(self) -> Divergences:
        return Divergences(1 - self.atoms.coefficient(), 1 - self.compounds.coefficient())

    def value(self) -> float:
        """What swaps improve, at the present price."""
        now = self.divergences()
        return now.compounds - self.price * max(0.0, now.atoms - self.target.atoms)

    def goal(self) -> tuple[float, float]:
        """Compares states whatever their price: those within the limit for atoms first."""
        now = self.divergences()
        excess = max(0.0, now.atoms - self.target.atoms)
        return (1.0, now.compounds) if excess == 0 else (0.0, now.compounds - 10 * excess)

    def done(self) -> bool:
        return self.target.missed_by(self.divergences()) == 0

    def note(self) -> str:
        now = self.divergences()
        return f"compounds {now.compounds:.3f}, atoms {now.atoms:.3f}"


def _halve(sides: _Sides, seed: int) -> Split:
    """Divide the held rows into dev and test by chance; of a few ways, one in which both keep to the targets."""
    parts, target = sides.parts, sides.target
    train, held = np.flatnonzero(sides.side == TRAIN), np.flatnonzero(sides.side == HELD)
    random = np.random.default_rng((seed, STARTS))
    best: Split | None = None
    least = np.inf
    for _ in range(HALVINGS if target.dev else 1):
        order = random.permutation(held)
        dev, test = np.sort(order[: target.dev]), np.sort(order[target.dev :])
        of_test, of_dev = parts.divergences(train, test), parts.divergences(train, dev) if target.dev else None
        missed = max(target.missed_by(found) for found in (of_test, of_dev) if found)
        if missed < least:
            best, least = Split(train, dev, test, of_test, of_dev, missed == 0), missed
        if missed == 0:
            break
    assert best is not None
    return best


def _grow(parts: Parts, target: SplitTarget, random: np.random.Generator, tell: Progress) -> _Sides:
    """Let the held rows grow from a few that share a compound; then keep the rows of train that fit best."""
    rows, held = len(parts), target.dev + target.test
    side = np.full(rows, TRAIN, np.int8)
    first = min(_FIRST_ROWS, max(1, held // 4))
    seeds = random.permutation(rows)[: 1 + first // 10]
    side[seeds] = HELD
    sides = _Sides(parts, target, side)
    for step in range(GROWTH_ROUNDS):
        wanted = max(first, round(held * ((step + 1) / GROWTH_ROUNDS) ** 1.5))
        missing = wanted - int((sides.side == HELD).sum())
        if missing > 0:
            sides.move(sides.gains(TRAIN, HELD)[0][:missing], TRAIN, HELD)
        surplus = int((sides.side == TRAIN).sum()) - target.train
        spare = rows - target.train - held
        if surplus > 0 and spare:  # rows that fit neither side leave as the held rows grow
            missing = round(spare * (step + 1) / GROWTH_ROUNDS) - int((sides.side == UNUSED).sum())
            leaving = sides.gains(TRAIN, UNUSED)[0][: max(0, min(surplus, missing))]
            sides.move(leaving, TRAIN, UNUSED)
        tell(1, sides.note())
    return sides


def _swap(sides: _Sides, tell: Progress) -> _Sides:
    """Swap groups of rows between the parts while that helps; the best state within the limit is kept."""
    held = sides.target.dev + sides.target.test
    pairs = [(TRAIN, HELD)] + ([(UNUSED, HELD), (UNUSED, TRAIN)] if (sides.side == UNUSED).any() else [])
    most = {pair: max(1, min(int((sides.side == part).sum()) for part in pair) // 3) for pair in pairs}
    group = {pair: max(1, held // 5) for pair in pairs}
    best, best_goal = sides.side.copy(), sides.goal()
    for _ in range(SWAP_ROUNDS):
        moved = 0
        for pair in pairs:
            size = min(group[pair], most[pair])
            if size:
                done = _swap_group(sides, pair, size)
                moved += done
                group[pair] = done + done // 3 + 1 if done else size // 3
        goal = sides.goal()
        if goal > best_goal:
            best, best_goal = sides.side.copy(), goal
        tell(1, sides.note())
        if sides.done():
            break
        # The price follows the limit: rising where there is too much divergence of atoms, falling where some is left.
        excess = sides.divergences().atoms > sides.target.atoms
        sides.price = min(100.0, sides.price * 1.3) if excess else max(0.2, sides.price * 0.9)
        if not moved:
            group = {pair: max(size, held // 200 + 1) for pair, size in group.items()}  # another price, another try
    return _Sides(sides.parts, sides.target, best)


def _swap_group(sides: _Sides, pair: tuple[int, int], size: int) -> int:
    """Swap the rows for which it promises most; takes it back where it does not help. Says how many moved."""
    one, other = pair
    there, there_worth = sides.gains(one, other)
    back, back_worth = sides.gains(other, one)
    size = min(size, len(there), len(back))
    promising = int((there_worth[:size] + back_worth[:size] > 0).sum())  # the sums fall
    if not promising:
        return 0
    before = sides.value()
    there, back = there[:promising], back[:promising]
    sides.move(there, one, other)
    sides.move(back, other, one)
    if sides.value() > before:
        return promising
    sides.move(there, other, one)
    sides.move(back, one, other)
    return 0


def _silent(count: int, note: str | None = None) -> None:
    pass
