"""Atom and compound divergence of two sets of examples, after Keysers et al. (2020).

Examples are made of atoms, such as words, and of compounds, which combine them. With p and q the frequencies of atoms,
or of compounds, in train and test,

    divergence = 1 - sum over i of p_i^alpha * q_i^(1 - alpha)

is 0 for equal distributions and 1 where nothing is shared. alpha is 0.5 for atoms and 0.1 for compounds, where it
matters less how often train has a compound than whether it has it. A split that tests composition has low atom
divergence and high compound divergence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

ATOM_ALPHA, COMPOUND_ALPHA = 0.5, 0.1
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def divergence(train: ArrayLike, test: ArrayLike, alpha: float) -> float:
    """The divergence of two frequency tables over the same types, normalised here."""
    p, q = np.asarray(train, np.float64), np.asarray(test, np.float64)
    if p.shape != q.shape or p.ndim != 1:
        raise ValueError(f"tables of shapes {p.shape} and {q.shape}; expected one number a type in both")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha = {alpha}; expected a number between 0 and 1")
    for table in (p, q):
        if not np.isfinite(table).all() or (table < 0).any():
            raise ValueError("expected frequencies of zero or more")
    if not p.any() or not q.any():
        return 0.0 if not p.any() and not q.any() else 1.0
    shared = float((p**alpha * q ** (1 - alpha)).sum() / (p.sum() ** alpha * q.sum() ** (1 - alpha)))
    return min(1.0, max(0.0, 1.0 - shared))  # guards against rounding


@dataclass(frozen=True)
class SparseRows:
    """A sparse matrix of weights: one row an example, one column a type."""

    types: int
    starts: Ints  # (rows + 1,)
    columns: NDArray[np.int32]  # (entries,) types, rising within a row
    weights: NDArray[np.float32]  # (entries,), above 0

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, float]]) -> SparseRows:
        """From names and weights; types are numbered in order of first occurrence."""
        numbers: dict[str, int] = {}
        starts: list[int] = [0]
        columns: list[int] = []
        weights: list[float] = []
        for row in rows:
            entries = sorted((numbers.setdefault(name, len(numbers)), weight) for name, weight in row.items())
            columns.extend(number for number, _ in entries)
            weights.extend(weight for _, weight in entries)
            starts.append(len(columns))
        return cls(len(numbers), np.array(starts, np.int64), np.array(columns, np.int32), np.array(weights, np.float32))

    @classmethod
    def of_entries(cls, rows: int, types: int, row: Ints, column: Ints, weight: Floats, how: str) -> SparseRows:
        """From entries in any order; repeated places are combined by "sum" or "max". Zeros are left out."""
        places, inverse = np.unique(row * max(types, 1) + column, return_inverse=True)
        combined = np.zeros(len(places))
        (np.add if how == "sum" else np.maximum).at(combined, inverse, weight)
        kept = combined > 1e-9
        places, combined = places[kept], combined[kept]
        counts = np.bincount(places // max(types, 1), minlength=rows)
        starts = np.concatenate(([0], np.cumsum(counts)))
        return cls(types, starts, (places % max(types, 1)).astype(np.int32), combined.astype(np.float32))

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def row_of_entry(self) -> Ints:
        """(entries,) the row of each entry."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def totals(self) -> Floats:
        """(rows,) the weight of each row."""
        return self.dot(np.ones(self.types))

    def dot(self, values: Floats, rows: ArrayLike | None = None) -> Floats:
        """(rows,) the sum of each row's weights times the values of their types; all rows by default."""
        entries, starts = (slice(None), self.starts) if rows is None else self._entries(rows)
        sums = np.concatenate(([0.0], np.cumsum(values[self.columns[entries]] * self.weights[entries])))
        return np.diff(sums[starts])

    def frequencies(self, rows: ArrayLike) -> Floats:
        """(types,) the weight of each type in these rows, which may be repeated."""
        entries, _ = self._entries(rows)
        return np.bincount(self.columns[entries], self.weights[entries], self.types).astype(np.float64)

    def _entries(self, rows: ArrayLike) -> tuple[Ints, Ints]:
        """The entries of these rows, in order, and where each row begins among them."""
        chosen = np.asarray(rows, np.int64)
        lengths = self.starts[chosen + 1] - self.starts[chosen]
        starts = np.concatenate(([0], np.cumsum(lengths)))
        return np.arange(starts[-1]) + np.repeat(self.starts[chosen] - starts[:-1], lengths), starts


@dataclass(frozen=True)
class Parts:
    """The atoms and the compounds of the same examples."""

    atoms: SparseRows
    compounds: SparseRows

    def __len__(self) -> int:
        return len(self.atoms)

    def unseen_atoms(self, train: ArrayLike, test: ArrayLike) -> UnseenAtoms:
        """The atoms of test that train lacks."""
        lacking = self.atoms.frequencies(train) == 0  # (types,)
        asked = lacking & (self.atoms.frequencies(test) > 0)
        return UnseenAtoms(int(asked.sum()), int((self.atoms.dot(lacking.astype(np.float64), test) > 0).sum()))

    def divergences(self, train: ArrayLike, test: ArrayLike) -> Divergences:
        """Atom and compound divergence of two sets of rows."""
        return Divergences(
            divergence(self.atoms.frequencies(train), self.atoms.frequencies(test), ATOM_ALPHA),
            divergence(self.compounds.frequencies(train), self.compounds.frequencies(test), COMPOUND_ALPHA),
        )


@dataclass(frozen=True)
class UnseenAtoms:
    """How many atoms of test train lacks: composition alone cannot produce them."""

    atoms: int
    rows: int  # of test that have one or more of them


@dataclass(frozen=True)
class Divergences:
    """Atom and compound divergence."""

    atoms: float
    compounds: float
