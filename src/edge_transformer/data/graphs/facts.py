"""What is in a set of graphs over sentences: the facts one should know before training on them or reading a score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from .rows import TokenGraph


@dataclass(frozen=True)
class TokenGraphFacts:
    """The facts about one split."""

    rows: int
    words: tuple[int, float, int]  # of a sentence: fewest, mean and most
    in_train: int  # rows whose sentence the training split has too, whatever its graph
    unseen_words: tuple[str, ...]  # that no training row has
    with_unseen_word: int  # rows
    with_unseen_label: int  # rows with a label that no training row has in that column
    labels: dict[str, int]  # how many different ones each column has, besides the empty one of tokens that need none
    groups: dict[str, int]  # how many rows name each


def describe_token_graphs(rows: Iterable[tuple[str, TokenGraph]]) -> dict[str, TokenGraphFacts]:
    """Count everything in graphs that come with the name of their split, those of train, if any, before all others.

    Graphs are forgotten once they are counted: only words and labels are kept, and the sentences of train.
    """
    train = _Counts()
    splits = {"train": train}
    sentences: set[tuple[str, ...]] = set()
    for split, graph in rows:
        if split == "train":
            sentences.add(graph.tokens)
        counts = splits.setdefault(split, _Counts())
        counts.add(graph)
        counts.in_train += graph.tokens in sentences
        counts.with_unseen_word += not train.words.issuperset(graph.tokens)
        counts.with_unseen_label += any(
            not train.labels.get(column, set()).issuperset(labels) for column, labels in graph.labels.items()
        )
    return {split: _facts(counts, train) for split, counts in splits.items() if counts.lengths}


@dataclass
class _Counts:
    """What is counted of a split while its rows come."""

    lengths: Counter[int] = field(default_factory=Counter)
    words: set[str] = field(default_factory=set)
    labels: dict[str, set[str]] = field(default_factory=dict)  # by column
    groups: Counter[str] = field(default_factory=Counter)
    in_train: int = 0
    with_unseen_word: int = 0
    with_unseen_label: int = 0

    def add(self, graph: TokenGraph) -> None:
        """Count what a row says by itself."""
        self.lengths[graph.size] += 1
        self.words.update(graph.tokens)
        for column, labels in graph.labels.items():
            self.labels.setdefault(column, set()).update(labels)
        if graph.group:
            self.groups[graph.group] += 1


def _facts(counts: _Counts, train: _Counts) -> TokenGraphFacts:
    rows = counts.lengths.total()
    mean = sum(length * count for length, count in counts.lengths.items()) / rows
    return TokenGraphFacts(
        rows=rows,
        words=(min(counts.lengths), mean, max(counts.lengths)),
        in_train=counts.in_train,
        unseen_words=tuple(sorted(counts.words - train.words)),
        with_unseen_word=counts.with_unseen_word,
        with_unseen_label=counts.with_unseen_label,
        labels={column: len(labels - {""}) for column, labels in counts.labels.items()},
        groups=dict(counts.groups.most_common()),
    )
