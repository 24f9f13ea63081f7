"""Splits that test composition: test rows have the atoms of train in compounds that train lacks.

After Keysers et al. (2020), greedy swaps of train, held-out and unused rows raise the compound divergence while the
atom divergence stays low. Each round scores all rows by what moving them would change, and moves the best as a group; a
group that does not help moves back and shrinks. Atom divergence has a price, which falls while it is below its limit,
else rises. A few random starts are swapped for some rounds, and the best one to the end. All follows from the seed.

Low atom divergence alone lets rare atoms vanish from train, and no model could then answer rows that need them. So
`Anchors` keeps some rows of every atom in train.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from .divergence import ATOM_ALPHA, COMPOUND_ALPHA, Divergences, Floats, Ints, Parts, SparseRows

TRAIN, HELD, UNUSED = 0, 1, 2  # where a row is; dev and test are one set until the end
_CHANGE = {TRAIN: (1, 0), HELD: (0, 1), UNUSED: (0, 0)}  # what a row adds to the counts of (train, held)
FIRST_PRICES = (2.0, 5.0, 1.0, 0.5)  # of atom divergence in compound divergence, one for each start
STARTS = len(FIRST_PRICES)
START_ROUNDS, SWAP_ROUNDS = 25, 100
STALLED_ROUNDS = 15  # without progress in so many, stop
HALVINGS = 10
EXCESS_PRICE = 10.0  # compares states; outweighs any gain in compounds at a limit of 0.01 and above
# Aim a little higher: dividing dev from test, and weights over the rows in use alone, cost some.
MARGIN = 0.01  # of compounds
ATOM_MARGIN = 0.96  # of the limit for atoms


class Progress(Protocol):
    """Called at each step with a note on the current state."""

    def __call__(self, count: int, note: str | None = None) -> None: ...


@dataclass(frozen=True)
class SplitTarget:
    """Wanted sizes and divergences of a split; other rows stay unused."""

    train: int
    dev: int
    test: int
    atoms: float = 0.02  # at most this divergence
    compounds: float = 1.0  # at least this one; 1 asks for the maximum
    seen: int = 0  # rows of train, at least, that have each atom of dev and test

    def check(self, rows: int) -> None:
        """Refuse sizes and divergences that no split can have."""
        if self.train < 1 or self.test < 1 or self.dev < 0:
            left = f"{max(0, self.train)} for train beside {self.dev} for dev and {self.test} for test"
            raise UserError(f"found {rows} examples, {left}; expected at least one in train and in test")
        if self.train + self.dev + self.test > rows:
            wanted = self.train + self.dev + self.test
            raise UserError(f"found {rows} examples; expected at least {wanted}, as train, dev and test together have")
        for name, value in (("atoms", self.atoms), ("compounds", self.compounds)):
            if not 0 <= value <= 1:
                raise UserError(f"divergence of {name}: found {value}; expected a number from 0 to 1")

    def missed_by(self, found: Divergences) -> float:
        """How far divergences miss the target; 0 where they meet it."""
        short = self.compounds - found.compounds if self.compounds < 1 else 0.0
        return max(0.0, found.atoms - self.atoms, short)

    def complaints(self, found: Divergences) -> list[str]:
        """The limits that are not met, in words; a target of 1 sets none for compounds."""
        atoms = f"atoms {found.atoms:.4f}, wanted at most {self.atoms}"
        compounds = f"compounds {found.compounds:.4f}, wanted at least {self.compounds}"
        return [atoms] * (found.atoms > self.atoms) + [compounds] * (found.compounds < self.compounds < 1)


@dataclass(frozen=True)
class Split:
    """Sorted row numbers of each part, and the divergences of dev and test from train."""

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
    anchors = Anchors.of(parts.atoms, target.seen)
    anchors.check(target)
    tell = progress or _silent
    best: _Sides | None = None
    for start, price in enumerate(FIRST_PRICES):  # the start matters, and is cheap to vary
        random = np.random.default_rng((seed, start))
        sides = _Sides(parts, target, anchors, anchors.random_sides(target, random), price)
        sides = _swap(sides, START_ROUNDS, tell)
        if best is None or sides.goal() > best.goal():
            best = sides
        if best.done():
            break
    assert best is not None
    if not best.done():
        best = _swap(best, SWAP_ROUNDS, tell)
    return _halve(best, seed)


def random_split(parts: Parts, target: SplitTarget, seed: int = 1) -> Split:
    """A random split of the same sizes, to compare divergences with."""
    target.check(len(parts))
    order = np.random.default_rng((seed, STARTS + 1)).permutation(len(parts))
    ends = np.cumsum([target.train, target.dev, target.test])
    train, dev, test = (np.sort(rows) for rows in np.split(order[: ends[2]], ends[:2]))
    of_dev = parts.divergences(train, dev) if target.dev else None
    return Split(train, dev, test, parts.divergences(train, test), of_dev, False)


def steps() -> int:
    """The highest number of steps that `make_split` reports."""
    return STARTS * START_ROUNDS + SWAP_ROUNDS


@dataclass(frozen=True)
class Anchors:
    """Rows that must stay in train, or must not be held out, so that train has every atom of dev and test."""

    fixed: NDArray[np.bool_]  # (rows,) stay in train
    barred: NDArray[np.bool_]  # (rows,) have an atom too rare to be in train and held out

    @classmethod
    def of(cls, atoms: SparseRows, seen: int) -> Anchors:
        """Fix the `seen` shortest rows of every atom, which bring the fewest compounds into train."""
        fixed, barred = np.zeros(len(atoms), bool), np.zeros(len(atoms), bool)
        if not seen:
            return cls(fixed, barred)
        row = atoms.row_of_entry
        order = np.lexsort((row, atoms.totals()[row], atoms.columns))  # by atom, then by length
        counts = np.bincount(atoms.columns, minlength=atoms.types)
        rows_of = np.split(row[order], np.cumsum(counts)[:-1])
        for atom in np.argsort(counts, kind="stable"):  # the rarest first: their rows have others too
            rows = rows_of[atom]
            if len(rows) <= seen:
                barred[rows] = True
            else:
                fixed[rows[~fixed[rows]][: max(0, seen - int(fixed[rows].sum()))]] = True
        return cls(fixed, barred)

    def check(self, target: SplitTarget) -> None:
        """Refuse a target that leaves too few rows to choose from."""
        needed, free, held = int(self.fixed.sum()), int((~self.fixed & ~self.barred).sum()), target.dev + target.test
        found = f"to have every atom of dev and test in {target.seen} rows of train"
        if needed > target.train:
            raise UserError(f"{found} takes {needed} rows of it; expected at most {target.train}, or a smaller --seen")
        if free < held:
            raise UserError(f"{found} leaves {free} rows for these; expected at least {held}, or a smaller --seen")

    def random_sides(self, target: SplitTarget, random: np.random.Generator) -> NDArray[np.int8]:
        """A random start: where every row is."""
        side = np.full(len(self.fixed), UNUSED, np.int8)
        order = random.permutation(len(side))
        side[order[(~self.fixed & ~self.barred)[order]][: target.dev + target.test]] = HELD
        side[self.fixed] = TRAIN
        others = order[side[order] == UNUSED]
        side[others[: target.train - int(self.fixed.sum())]] = TRAIN
        return side

    def may_move(self, origin: int, goal: int) -> NDArray[np.bool_]:
        """(rows,) whether each row may go from one place to the other."""
        may = np.ones(len(self.fixed), bool)
        if origin == TRAIN:
            may &= ~self.fixed
        if goal == HELD:
            may &= ~self.barred
        return may


class _Counts:
    """The weight of each type in train and in held rows, and what moving a row would change."""

    def __init__(self, rows: SparseRows, alpha: float, side: NDArray[np.int8], leaving: float) -> None:
        self.rows, self.alpha, self.leaving = rows, alpha, leaving
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
        # Rounding may leave values just below 0.
        self.train = np.maximum(self.train + in_train * moved, 0.0) if in_train else self.train
        self.held = np.maximum(self.held + in_held * moved, 0.0) if in_held else self.held

    def changes(self, rows: Ints, origin: int, goal: int) -> Floats:
        """(rows,) approximate change of the coefficient if each of these rows moved.

        Removing one of n occurrences counts `leaving` / n of what removing all of them would change. For compounds
        `leaving` is 1, as rows move in groups: the true change of removing one of many would be almost 0.
        """
        in_train, in_held = np.subtract(_CHANGE[goal], _CHANGE[origin])
        shared, whole = self._shared(self.train, self.held), self._whole()
        if whole <= 0:
            return np.zeros(len(rows))
        change = np.zeros(self.rows.types)
        for count, step, more in (
            (self.train, in_train, self._shared(self.train + 1, self.held)),
            (self.held, in_held, self._shared(self.train, self.held + 1)),
        ):
            if step:
                change += more - shared if step > 0 else -self.leaving * shared / np.maximum(count, 1.0)
        growth = self.alpha * in_train / self.train.sum() + (1 - self.alpha) * in_held / self.held.sum()
        return (self.rows.dot(change, rows) - shared.sum() * growth * self.row_totals[rows]) / whole

    def _whole(self) -> float:
        return float(self.train.sum() ** self.alpha * self.held.sum() ** (1 - self.alpha))

    def _shared(self, train: Floats, held: Floats) -> Floats:
        return train**self.alpha * held ** (1 - self.alpha)


class _Sides:
    """Where every row is, and how good that state is."""

    def __init__(
        self, parts: Parts, target: SplitTarget, anchors: Anchors, side: NDArray[np.int8], price: float
    ) -> None:
        self.parts, self.target, self.anchors, self.side, self.price = parts, target, anchors, side, price
        self.atoms = _Counts(parts.atoms, ATOM_ALPHA, side, ATOM_ALPHA)
        self.compounds = _Counts(parts.compounds, COMPOUND_ALPHA, side, 1.0)
        self.limit = ATOM_MARGIN * target.atoms
        self.enough = min(1.0, target.compounds + MARGIN)

    def move(self, rows: Ints, origin: int, goal: int) -> None:
        self.side[rows] = goal
        self.atoms.move(rows, origin, goal)
        self.compounds.move(rows, origin, goal)

    def gains(self, origin: int, goal: int) -> tuple[Ints, Floats]:
        """The rows at `origin` that may move, best first, and about what moving each is worth."""
        rows = np.flatnonzero((self.side == origin) & self.anchors.may_move(origin, goal))
        worth = self.price * self.atoms.changes(rows, origin, goal) - self.compounds.changes(rows, origin, goal)
        order = np.argsort(-worth, kind="stable")
        return rows[order], worth[order]

    def divergences(self) -> Divergences:
        return Divergences(1 - self.atoms.coefficient(), 1 - self.compounds.coefficient())

    def value(self) -> float:
        """What swaps improve, at the current price."""
        now = self.divergences()
        return now.compounds - self.price * now.atoms

    def goal(self) -> float:
        """Quality of a state, independent of its price."""
        now = self.divergences()
        return now.compounds - EXCESS_PRICE * max(0.0, now.atoms - self.limit)

    def done(self) -> bool:
        now = self.divergences()
        return now.atoms <= self.limit and now.compounds >= self.enough

    def set_price(self) -> None:
        """Raise the price above the limit for atoms, lower it below."""
        ratio = max(0.0, self.divergences().atoms) / max(self.limit, 1e-6)
        factor = np.clip(ratio**0.3, 1.03, 1.4) if ratio > 1 else np.clip(ratio**0.3, 0.7, 0.99)
        self.price = float(np.clip(self.price * factor, 0.02, 50.0))

    def note(self) -> str:
        now = self.divergences()
        return f"compounds {now.compounds:.3f}, atoms {now.atoms:.3f}"


def _halve(sides: _Sides, seed: int) -> Split:
    """Divide the held rows into dev and test: the best of a few random ways."""
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


def _swap(sides: _Sides, rounds: int, tell: Progress) -> _Sides:
    """Swap groups of rows between the parts while that helps; return the best state."""
    held = sides.target.dev + sides.target.test
    pairs = [(TRAIN, HELD)] + ([(UNUSED, HELD), (UNUSED, TRAIN)] if (sides.side == UNUSED).any() else [])
    group = {pair: max(1, held // 5) for pair in pairs}
    best, best_goal, best_price, waited = sides.side.copy(), sides.goal(), sides.price, 0
    for _ in range(rounds):
        most = 0
        for pair in pairs:
            moved = _swap_group(sides, pair, group[pair])
            group[pair] = moved + moved // 3 + 1 if moved else max(1, group[pair] // 2)
            most = max(most, moved)
        goal = sides.goal()
        waited = waited + 1 if most <= held // 200 and sides.divergences().atoms <= sides.limit else 0
        if goal > best_goal:
            best, best_goal, best_price, waited = sides.side.copy(), goal, sides.price, 0
        tell(1, sides.note())
        if sides.done() or waited >= STALLED_ROUNDS:
            break
        sides.set_price()
    return _Sides(sides.parts, sides.target, sides.anchors, best, best_price)


def _swap_group(sides: _Sides, pair: tuple[int, int], size: int) -> int:
    """Swap the most promising rows, or none where that does not help; return how many moved."""
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
