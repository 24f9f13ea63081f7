"""Dependency trees over short sentences that can be learned, for tests of dependency parsing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from edge_transformer.data.trees.conllu import DependencySentence, tree_problem
from edge_transformer.data.trees.folder import TreebankData
from edge_transformer.tasks.trees.data import TreeData, TreeSettings

EDGE = {"kind": "edge", "dim": 16, "heads": 2, "layers": 2}
WORDS = ("the", "The", "dog", "cat", "saw", "ran", "that", ".")


def make_tree(words: Sequence[str], heads: Sequence[int], relations: Sequence[str]) -> DependencySentence:
    return DependencySentence.of_words(words).with_tree(heads, relations)


def random_trees(count: int, seed: int, longest: int = 9) -> list[DependencySentence]:
    """Sentences of random words whose trees follow from the words, so that they can be learned."""
    generator = torch.Generator().manual_seed(seed)
    trees = []
    for _ in range(count):
        size = int(torch.randint(1, longest + 1, (), generator=generator))
        words = [WORDS[number] for number in torch.randint(len(WORDS), (size,), generator=generator).tolist()]
        verb = next((place for place, word in enumerate(words, start=1) if word in ("saw", "ran")), 1)
        heads, relations = [], []
        for place, word in enumerate(words, start=1):
            before_a_noun = word in ("the", "The") and place < size and place + 1 != verb
            heads.append(0 if place == verb else place + 1 if before_a_noun else verb)
            relations.append("root" if place == verb else "det" if before_a_noun else "punct" if word == "." else "dep")
        good = tree_problem(heads) is None
        trees.append(make_tree(words, heads, relations) if good else make_tree(words[:1], [0], ["root"]))
    return trees


def make_data(train: Sequence[DependencySentence], settings: TreeSettings | None = None, **splits: Any) -> TreeData:
    data = TreebankData("tiny", "0a", {"train": tuple(train), **splits})
    return TreeData(data, settings or TreeSettings())
