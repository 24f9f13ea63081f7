"""Facts about a dataset to know before training on it or reading a score."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from statistics import fmean

from .graphs.edges import SentenceGraph
from .graphs.rows import TokenGraph
from .pairs.rows import Pair
from .relations.rows import RelationRows, Story, Target, is_of_families
from .trees.conllu import DependencySentence


@dataclass(frozen=True)
class SplitFacts:
    """The facts about one split."""

    rows: int
    graphs: int  # distinct ones
    chains: int  # rows whose edges form one path through all nodes
    nodes: tuple[int, int]  # fewest and most
    in_train: int  # rows whose graph is in the training split
    unanswerable: int  # rows with a relation or answer that no training row has
    best: float | None  # the highest possible accuracy, as equal graphs may have different answers; not of numbers


@dataclass(frozen=True)
class Facts:
    """The facts about a folder of labelled graphs."""

    name: str
    fingerprint: str
    relations: dict[str, int]  # counts on training edges
    targets: dict[str, int]  # counts among training answers, where they are labels
    splits: dict[str, SplitFacts]
    numbers: tuple[float, float, float] | None = (
        None  # least, mean and greatest training answer, where they are numbers
    )


def describe(data: RelationRows) -> Facts:
    """Count everything, each split in one pass: training rows may be streamed."""
    relations: Counter[str] = Counter()
    targets: Counter[str] = Counter()
    numbers = _Numbers()
    learned = _SplitCounts()
    for story in data.train:
        relations.update(story.relations)
        for _, target in story.questions:
            if isinstance(target, float):
                numbers.add(target)
            else:
                targets[shown(target)] += 1
        learned.add(story, seen=None, unanswerable=False)
    splits = {"train": learned} if data.train else {}
    families = bool(relations) and is_of_families(relations)  # scored by length
    rest = [("valid", data.valid), *((f"test k={k}" if families else "test", rows) for k, rows in data.tests.items())]
    for name, rows in rest:
        for story in rows:
            labels = [target for _, target in story.questions if not isinstance(target, float)]
            unknown = any(shown(target) not in targets for target in labels)
            unknown = unknown or not relations.keys() >= set(story.relations)
            splits.setdefault(name, _SplitCounts()).add(story, learned.graphs, unknown)
    return Facts(
        name=data.name,
        fingerprint=data.fingerprint,
        relations=dict(relations.most_common()),
        targets=dict(targets.most_common()),
        splits={name: counts.facts() for name, counts in splits.items()},
        numbers=(numbers.least, numbers.total / numbers.count, numbers.greatest) if numbers.count else None,
    )


@dataclass
class _Numbers:
    """Running facts about numbers."""

    count: int = 0
    total: float = 0.0
    least: float = math.inf
    greatest: float = -math.inf

    def add(self, number: float) -> None:
        self.count += 1
        self.total += number
        self.least, self.greatest = min(number, self.least), max(number, self.greatest)


@dataclass
class _SplitCounts:
    """Running counts of a split. Graphs and answers are known by their hashes, so that a million rows fit."""

    rows: int = 0
    chains: int = 0
    in_train: int = 0
    unanswerable: int = 0
    fewest: int = 0
    most: int = 0
    labels: bool = True  # as answers, not numbers
    graphs: set[int] = field(default_factory=set)
    answers: Counter[tuple[int, int]] = field(default_factory=Counter)  # rows of a graph with these answers

    def add(self, story: Story, seen: set[int] | None, unanswerable: bool) -> None:
        """Count a row; `seen` are the graphs of training, None for the training rows themselves."""
        graph = hash(story.graph)
        self.fewest = min(self.fewest, story.size) if self.rows else story.size
        self.most = max(self.most, story.size)
        self.rows += 1
        self.chains += is_chain(story)
        self.in_train += seen is None or graph in seen
        self.unanswerable += unanswerable
        self.graphs.add(graph)
        self.labels = self.labels and not isinstance(story.target, float)
        if self.labels:
            self.answers[graph, hash(tuple(shown(target) for _, target in story.questions))] += 1

    def facts(self) -> SplitFacts:
        usual: dict[int, int] = {}
        for (graph, _), count in self.answers.items():
            usual[graph] = max(count, usual.get(graph, 0))
        nodes = self.fewest, self.most
        best = sum(usual.values()) / self.rows if self.labels else None
        return SplitFacts(self.rows, len(self.graphs), self.chains, nodes, self.in_train, self.unanswerable, best)


def shown(target: Target) -> str:
    """An answer as text: several labels with commas between them."""
    if isinstance(target, float):
        return f"{target:g}"
    return ", ".join(sorted(target)) or "(no label)" if isinstance(target, tuple) else target


def best_accuracy(stories: Iterable[Story]) -> float | None:
    """The accuracy of answering each distinct graph with its most frequent answers."""
    counts = _SplitCounts()
    for story in stories:
        counts.add(story, None, False)
    return counts.facts().best


def is_chain(story: Story) -> bool:
    """Whether the edges form one path that visits each node once."""
    if not story.edges:
        return False
    met = {story.edges[0][0], *(end for _, end in story.edges)}
    return len(met) == story.size == len(story.edges) + 1 and all(
        before[1] == after[0] for before, after in pairwise(story.edges)
    )


@dataclass(frozen=True)
class TokenGraphFacts:
    """The facts about one split."""

    rows: int
    words: tuple[int, float, int]  # of a sentence: fewest, mean and most
    in_train: int  # rows whose sentence is in train, whatever its graph
    unseen_words: tuple[str, ...]  # that no training row has
    with_unseen_word: int  # rows
    with_unseen_label: int  # rows with a label that no training row has in that column
    labels: dict[str, int]  # distinct labels of each column, without the empty one
    groups: dict[str, int]  # rows of each
    with_several_heads: int = 0  # rows with a token that several edges lead to


def describe_token_graphs(rows: Iterable[tuple[str, TokenGraph | SentenceGraph]]) -> dict[str, TokenGraphFacts]:
    """Count everything in graphs that come with the name of their split; those of train must come first.

    Keeps words, labels and the sentences of train, but no graphs.
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
            not train.labels.get(column, set()).issuperset(labels) for column, labels in _columns(graph).items()
        )
    return {split: _facts(counts, train) for split, counts in splits.items() if counts.lengths}


@dataclass
class _Counts:
    """Running counts of a split."""

    lengths: Counter[int] = field(default_factory=Counter)
    words: set[str] = field(default_factory=set)
    labels: dict[str, set[str]] = field(default_factory=dict)  # by column
    groups: Counter[str] = field(default_factory=Counter)
    in_train: int = 0
    with_unseen_word: int = 0
    with_unseen_label: int = 0
    with_several_heads: int = 0

    def add(self, graph: TokenGraph | SentenceGraph) -> None:
        """Count what does not depend on train."""
        self.lengths[graph.size] += 1
        self.words.update(graph.tokens)
        for column, labels in _columns(graph).items():
            self.labels.setdefault(column, set()).update(labels)
        if isinstance(graph, SentenceGraph):
            heads = Counter(dependent for _, dependent in {edge[:2] for edge in graph.edges})
            self.with_several_heads += any(count > 1 for count in heads.values())
        if graph.group:
            self.groups[graph.group] += 1


def _columns(graph: TokenGraph | SentenceGraph) -> dict[str, Iterable[str]]:
    """The labels of a graph by column; those of edges, if it has any, are another one."""
    edges = {"edges": {label for _, _, label in graph.edges}} if isinstance(graph, SentenceGraph) else {}
    return {**graph.labels, **edges}


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
        with_several_heads=counts.with_several_heads,
    )


@dataclass(frozen=True)
class TreeFacts:
    """The facts about one split."""

    sentences: int
    words: int
    longest: int
    crossing: int  # non-projective sentences, with the root before the first word
    in_train: int  # sentences whose words are those of a training sentence
    unseen_words: int  # that no training sentence has
    unseen_relations: int  # sentences with a relation that no training sentence has


@dataclass(frozen=True)
class TreebankFacts:
    """The facts about all splits, and the counts of relations in train."""

    splits: dict[str, TreeFacts]
    relations: dict[str, int]


def describe_treebank(splits: Mapping[str, Sequence[DependencySentence]]) -> TreebankFacts:
    """Count everything. Splits without sentences are left out."""
    train = splits.get("train", ())
    sentences = {tree.words for tree in train}
    words = {word for tree in train for word in tree.words}
    relations = Counter(relation for tree in train for relation in tree.relations)
    facts = {
        split: TreeFacts(
            sentences=len(trees),
            words=sum(tree.size for tree in trees),
            longest=max(tree.size for tree in trees),
            crossing=sum(has_crossing_arcs(tree.heads) for tree in trees),
            in_train=sum(tree.words in sentences for tree in trees),
            unseen_words=sum(word not in words for tree in trees for word in tree.words),
            unseen_relations=sum(not relations.keys() >= set(tree.relations) for tree in trees),
        )
        for split, trees in splits.items()
        if trees
    }
    return TreebankFacts(facts, dict(relations.most_common()))


def has_crossing_arcs(heads: Sequence[int]) -> bool:
    """Whether two arcs of a tree cross, node 0 being the root before the first word."""
    # From left to right, arcs open and close like brackets unless some cross.
    size = len(heads) + 1
    closed: list[list[int]] = [[] for _ in range(size)]  # starts of the arcs that end here
    opened: list[list[int]] = [[] for _ in range(size)]  # ends of the arcs that start here
    for word, head in enumerate(heads, start=1):
        start, end = min(word, head), max(word, head)
        closed[end].append(start)
        opened[start].append(end)
    ends: list[int] = []
    for node in range(size):
        for _ in closed[node]:
            if ends.pop() != node:
                return True
        ends += sorted(opened[node], reverse=True)
    return False


LENGTHS = (25, 30, 50)  # limits of target lengths in presets and in the paper


@dataclass(frozen=True)
class PairFacts:
    """The facts about one split."""

    rows: int
    source_words: tuple[float, int]  # mean and most
    target_words: tuple[float, int]
    under: dict[int, int]  # rows with a target under each of LENGTHS
    in_train: int  # rows that are in train
    source_in_train: int  # rows whose source is in train, whatever its target
    unseen: int  # rows with a word that no training row has on that side


@dataclass(frozen=True)
class PairSetFacts:
    """The facts about all splits, and the vocabulary sizes of train."""

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
