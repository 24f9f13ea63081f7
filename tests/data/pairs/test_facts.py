"""The facts about pairs: a few counted by hand, and what is known of the official splits."""

from __future__ import annotations

import pytest

from edge_transformer.data.facts import PairFacts, describe_pairs
from edge_transformer.data.pairs.folder import pair_files
from edge_transformer.data.pairs.rows import Pair
from official_data import benchmark


def pair(source: str, target: str) -> Pair:
    return Pair(tuple(source.split()), tuple(target.split()))


def test_counts() -> None:
    train = [pair("a b", "x y a"), pair("c", "x " * 25), pair("c", "y")]
    test = [pair("a b", "x y a"), pair("c", "a"), pair("c", "c"), pair("z", "x " * 49)]
    facts = describe_pairs({"train": train, "dev": [], "test": test})
    assert list(facts.splits) == ["train", "test"]
    assert (facts.source_vocabulary, facts.target_vocabulary, facts.both) == (3, 3, 1)
    assert facts.splits["train"] == PairFacts(3, (4 / 3, 2), (29 / 3, 25), {25: 2, 30: 3, 50: 3}, 3, 3, 0)
    assert facts.splits["test"] == PairFacts(4, (5 / 4, 2), (54 / 4, 49), {25: 3, 30: 3, 50: 4}, 1, 3, 2)


def test_without_training_rows() -> None:
    facts = describe_pairs({"test": [pair("a", "b")]})
    assert facts.splits["test"].in_train == facts.source_vocabulary == 0
    assert facts.splits["test"].unseen == 1


@pytest.mark.parametrize(
    ("name", "rows", "under"), [("scan", (8365, 1045), None), ("cfq/mcd1", (95_743, 11_968), (61_933, 92_353))]
)
def test_official_splits(name: str, rows: tuple[int, int], under: tuple[int, int] | None) -> None:
    if not benchmark(name).is_dir():
        pytest.skip(f"needs the official pairs in {benchmark(name)}")
    facts = describe_pairs(pair_files(benchmark(name)).read(["train", "test"]))
    assert tuple(facts.splits[split].rows for split in ("train", "test")) == rows
    assert facts.splits["test"].in_train == facts.splits["test"].unseen == 0
    assert under is None or (facts.splits["train"].under[30], facts.splits["train"].under[50]) == under
