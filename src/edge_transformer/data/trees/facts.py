"""What is in a treebank: the facts one should know before training on it or reading a score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .conllu import DependencySentence


@dataclass(frozen=True)
class TreeFacts:
    """The facts about one split."""

    sentences: int
    words: int
    longest: int
    crossing: int  # sentences with arcs that cross, that of the root, which comes from before the first word, included
    in_train: int  # sentences whose words the training split has too
    unseen_words: int  # that no training sentence has
    unseen_relations: int  # sentences with a relation that no training sentence has


@dataclass(frozen=True)
class TreebankFacts:
    """The facts about all splits, and how often each relation stands in training."""

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
    # Arcs are opened and closed from left to right; without crossings, the one opened last is closed first.
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
