"""What is in a data set: the facts one should know before reading a score on it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from .clutrr import ClutrrData, Story


@dataclass(frozen=True)
class SplitFacts:
    """The facts about one split."""

    rows: int
    graphs: int  # distinct ones
    chains: int  # rows whose edges form one path through all nodes
    nodes: tuple[int, int]  # fewest and most
    in_train: int  # rows whose graph is in the training split
    unanswerable: int  # rows with a relation or answer that no training row has
    best: float  # the highest accuracy that any model can have, where equal graphs carry different answers


@dataclass(frozen=True)
class Facts:
    """The facts about a folder of labelled graphs."""

    name: str
    fingerprint: str
    relations: dict[str, int]  # how often each stands on a training edge
    targets: dict[str, int]  # how often each is a training answer
    splits: dict[str, SplitFacts]


def describe(data: ClutrrData) -> Facts:
    """Count everything."""
    relations = Counter(relation for story in data.train for relation in story.relations)
    targets = Counter(story.target for story in data.train)
    seen = {story.graph for story in data.train}
    splits: dict[str, Sequence[Story]] = {"train": data.train}
    if data.valid:
        splits["valid"] = data.valid
    splits |= {f"test k={k}": stories for k, stories in data.tests.items()}
    return Facts(
        name=data.name,
        fingerprint=data.fingerprint,
        relations=dict(relations.most_common()),
        targets=dict(targets.most_common()),
        splits={
            name: SplitFacts(
                rows=len(stories),
                graphs=len({story.graph for story in stories}),
                chains=sum(map(is_chain, stories)),
                nodes=(min(story.size for story in stories), max(story.size for story in stories)),
                in_train=sum(story.graph in seen for story in stories),
                unanswerable=sum(
                    story.target not in targets or not relations.keys() >= set(story.relations) for story in stories
                ),
                best=best_accuracy(stories),
            )
            for name, stories in splits.items()
        },
    )


def best_accuracy(stories: Sequence[Story]) -> float:
    """The accuracy of answering each distinct graph with its most frequent target."""
    answers: dict[object, Counter[str]] = defaultdict(Counter)
    for story in stories:
        answers[story.graph][story.target] += 1
    return sum(max(counts.values()) for counts in answers.values()) / len(stories)


def is_chain(story: Story) -> bool:
    """Whether the edges lead from node to node without ever coming back."""
    met = {story.edges[0][0], *(end for _, end in story.edges)}
    return len(met) == story.size == len(story.edges) + 1 and all(
        before[1] == after[0] for before, after in pairwise(story.edges)
    )
