"""Splits by divergence: they reach what can be reached, have the sizes asked for, and follow from the seed."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_transformer.errors import UserError
from edge_transformer.splits.compounds import PartsBuilder
from edge_transformer.splits.divergence import Divergences, Parts, UnseenAtoms
from edge_transformer.splits.search import SplitTarget, make_split, random_split, steps


def grid(size: int = 12, copies: int = 4) -> Parts:
    """Every pair of two words: atoms are the words, the compound is the pair."""
    builder = PartsBuilder()
    for left, right in product(range(size), repeat=2):
        for _ in range(copies):
            builder.add_weighted({f"l{left}": 1.0, f"r{right}": 1.0}, {f"{left}-{right}": 1.0})
    return builder.build()


def test_a_target_is_reached() -> None:
    parts = grid()
    told: list[int] = []
    split = make_split(parts, SplitTarget(300, 60, 60, 0.05, 0.9), 1, lambda count, note=None: told.append(count))
    assert split.reached
    assert split.divergences.compounds > 0.85
    assert split.dev_divergences is not None
    assert split.divergences == parts.divergences(split.train, split.test)
    assert split.divergences.atoms < 0.1  # those of half of the held rows, and by chance a little more
    assert parts.divergences(split.train, np.concatenate([split.dev, split.test])).atoms <= 0.05
    assert 0 < sum(told) <= steps()


def test_much_more_than_by_chance() -> None:
    parts, target = grid(), SplitTarget(400, 0, 100, 0.03)
    split, chance = make_split(parts, target), random_split(parts, target)
    assert split.divergences.compounds > chance.divergences.compounds + 0.4
    assert split.divergences.atoms <= 0.03
    assert not chance.reached


def test_the_limit_for_atoms_is_kept_where_atoms_and_compounds_are_the_same() -> None:
    builder = PartsBuilder()
    for number in range(300):
        builder.add_weighted({f"a{number % 10}": 1.0}, {f"c{number % 10}": 1.0})
    split = make_split(builder.build(), SplitTarget(200, 0, 100, 0.05))
    assert split.divergences.atoms <= 0.05
    assert split.reached  # as much as can be had, which is little
    assert split.divergences.compounds < 0.05
    assert not make_split(builder.build(), SplitTarget(200, 0, 100, 0.05, 0.5)).reached  # the best one found is given


def test_the_limit_for_atoms_matters_where_no_row_is_left_over() -> None:
    builder = PartsBuilder()
    for number in range(900):  # every compound has words of its own among its words
        builder.add_weighted({f"a{number % 20}": 1.0, f"b{number % 7}": 2.0}, {f"c{number % 20}": 1.0})
    parts = builder.build()
    found = [make_split(parts, SplitTarget(700, 0, 200, atoms)).divergences for atoms in (0.02, 0.05, 0.2)]
    assert found[0].compounds + 0.02 < found[1].compounds < found[2].compounds - 0.02
    assert found[0].atoms <= 0.02 < found[1].atoms <= 0.05 < found[2].atoms <= 0.2


def test_compounds_are_driven_out_of_train_where_rows_may_stay_unused() -> None:
    # A compound in dozens of rows leaves train only if rows move in groups: one row less seems to bring nothing.
    builder = PartsBuilder()
    for first, second in product(range(12), repeat=2):
        for _ in range(20):
            builder.add_weighted({f"l{first}": 1.0, f"r{second}": 1.0}, {f"{first}-{second}": 1.0})
    split = make_split(builder.build(), SplitTarget(1440, 300, 300, 0.05, 0.9))
    assert split.reached


def test_atoms_vanish_from_train_unless_some_rows_are_kept() -> None:
    builder = PartsBuilder()
    for number in range(900):  # every compound has a word of its own, so that it can only leave train with that
        builder.add_weighted({f"a{number % 20}": 1.0, f"b{number % 7}": 4.0}, {f"c{number % 20}": 1.0})
    for _ in range(3):
        builder.add_weighted({"too rare": 1.0, "b0": 4.0}, {"c20": 1.0})
    parts, target = builder.build(), SplitTarget(600, 100, 100, 0.2)
    split = make_split(parts, target)
    lost = parts.unseen_atoms(split.train, split.test)
    assert (lost.atoms > 0, lost.rows > 0) == (True, True)
    rows = parts.atoms.row_of_entry
    for seen in (1, 5):
        kept = make_split(parts, replace(target, seen=seen))
        held = np.concatenate([kept.dev, kept.test])
        assert parts.unseen_atoms(kept.train, held) == UnseenAtoms(0, 0)
        in_train = np.bincount(parts.atoms.columns[np.isin(rows, kept.train)], minlength=parts.atoms.types)
        assert in_train[parts.atoms.frequencies(held) > 0].min() >= seen
        assert not np.isin([900, 901, 902], held).any() or seen == 1
        assert kept.divergences.atoms <= 0.2
        assert [len(part) for part in kept.numbers().values()] == [600, 100, 100]
    with pytest.raises(UserError, match=r"in 5 rows of train takes \d+ rows of it; expected at most 9, or a smaller"):
        make_split(parts, SplitTarget(9, 5, 5, seen=5))


def test_what_is_not_kept_is_said() -> None:
    target = SplitTarget(5, 0, 5, 0.05, 0.5)
    assert target.complaints(Divergences(0.05, 0.5)) == []
    assert target.complaints(Divergences(0.0506, 0.6)) == ["atoms 0.0506, wanted at most 0.05"]
    assert target.complaints(Divergences(0.01, 0.4)) == ["compounds 0.4000, wanted at least 0.5"]
    assert SplitTarget(5, 0, 5).complaints(Divergences(0.01, 0.4)) == []  # as much as can be had


def test_the_same_seed_makes_the_same_split() -> None:
    parts, target = grid(8, 3), SplitTarget(100, 20, 30)
    first, again, other = make_split(parts, target, 1), make_split(parts, target, 1), make_split(parts, target, 2)
    assert first.numbers() == again.numbers()
    assert first.numbers() != other.numbers()


@settings(max_examples=8, deadline=None)
@given(train=st.integers(1, 20), dev=st.integers(0, 10), test=st.integers(1, 10), seed=st.integers(0, 3))
def test_sizes_are_exact(train: int, dev: int, test: int, seed: int) -> None:
    parts = grid(4, 3)
    target = SplitTarget(train, dev, test)
    for split in (make_split(parts, target, seed), random_split(parts, target, seed)):
        numbers = split.numbers()
        assert [len(rows) for rows in numbers.values()] == [train, dev, test]
        rows = [row for part in numbers.values() for row in part]
        assert len(set(rows)) == len(rows)
        assert set(rows) <= set(range(len(parts)))
        assert all(part == sorted(part) for part in numbers.values())


def test_all_rows_in_use() -> None:
    split = make_split(grid(4, 3), SplitTarget(38, 5, 5))
    assert sorted(np.concatenate([split.train, split.dev, split.test]).tolist()) == list(range(48))


def test_examples_without_parts() -> None:
    builder = PartsBuilder()
    for _ in range(10):
        builder.add_weighted({}, {})
    split = make_split(builder.build(), SplitTarget(5, 1, 2))
    assert (split.divergences.atoms, split.divergences.compounds) == (0, 0)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (SplitTarget(10, 0, 7), "found 16 examples; expected at least 17"),
        (SplitTarget(0, 0, 7), "at least one in train"),
        (SplitTarget(5, 0, 0), "at least one in train"),
        (SplitTarget(5, 0, 5, atoms=1.5), "divergence of atoms: found 1.5"),
        (SplitTarget(5, 0, 5, compounds=-1), "divergence of compounds: found -1"),
    ],
)
def test_targets_that_cannot_be(target: SplitTarget, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_split(grid(4, 1), target)
