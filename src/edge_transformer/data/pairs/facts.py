"""What is in a set of pairs: the facts one should know before training on them or reading a score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean

from .rows import Pair

LENGTHS = (25, 30, 50)  # targets under these are counted: where presets, and the paper, leave out longer ones


@dataclass(frozen=True)
class PairFacts:
    """The facts about one split."""

    rows: int
    source_words: tuple[float, int]  # mean and most
    target_words: tuple[float, int]
    under: dict[int, int]  # rows with a target under each of LENGTHS
    in_train: int  # rows that the training split has too
    source_in_train: int  # rows whose source it has, whatever the target
    unseen: int  # rows with a word that no training row has on that side


@dataclass(frozen=True)
class PairSetFacts:
    """The facts about all splits, and how many words the sides have in training."""

    splits: dict[str, PairFacts]
    source_vocabulary: int
    target_vocabulary: int
    both: int


def describe_pairs(splits: Mapping[str, Sequence[Pair]]) -> PairSetFacts:
    """Count everything. Splits without rows are left out."""
    train = splits.get("train", ())
    pairs, questions = {(pair.source, pair.target) for pair in train}, {pair.source for pair in train}
    sources = set(chain.from_iterable(pair.source for pair in train))
    targets = set(chain.from_iterable(pair.target for pair in train))
    facts = {
        split: PairFacts(
            rows=len(rows),
            source_words=_mean_and_most([len(pair.source) for pair in rows]),
            target_words=_mean_and_most([len(pair.target) for pair in rows]),
            under={length: sum(len(pair.target) < length for pair in rows) for length in LENGTHS},
            in_train=sum((pair.source, pair.target) in pairs for pair in rows),
            source_in_train=sum(pair.source in questions for pair in rows),
            unseen=sum(not (sources.issuperset(pair.source) and targets.issuperset(pair.target)) for pair in rows),
        )
        for split, rows in splits.items()
        if rows
    }
    return PairSetFacts(facts, len(sources), len(targets), len(sources & targets))


def _mean_and_most(lengths: Sequence[int]) -> tuple[float, int]:
    return fmean(lengths), max(lengths)
