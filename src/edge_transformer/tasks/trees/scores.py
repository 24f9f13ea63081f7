"""Scores of predicted trees, as in the CoNLL 2018 shared task with gold words.

Every word counts once, punctuation too. CoNLL 2018 compares relations up to the first colon (`nmod:poss` as `nmod`);
`las` here compares whole relations. CLAS counts content words only. Exact match is the share of sentences without a
mistake; `exact_content`, of Goodwin et al. (2022), looks at content words only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# The relations that CoNLL 2018 counts in CLAS.
# fmt: off
CONTENT_RELATIONS = frozenset((
    "nsubj", "obj", "iobj", "csubj", "ccomp", "xcomp", "obl", "vocative", "expl", "dislocated", "advcl", "advmod",
    "discourse", "nmod", "appos", "nummod", "acl", "amod", "conj", "fixed", "flat", "compound", "list", "parataxis",
    "orphan", "goeswith", "reparandum", "root", "dep",
))
# fmt: on


def universal(relation: str) -> str:
    """A relation without its subtype."""
    return relation.partition(":")[0]


@dataclass
class TreeCounts:
    """Counts over sentences, and scores as fractions; a score is 0 if there is nothing to score."""

    sentences: int = 0
    words: int = 0
    heads: int = 0  # words with the right head
    arcs: int = 0  # and the right relation
    content_words: int = 0  # in the gold trees
    predicted_content_words: int = 0
    content_arcs: int = 0  # content words with the right head and universal relation
    whole_arcs: int = 0
    whole_content_arcs: int = 0

    def add(
        self,
        gold_heads: Sequence[int],
        gold_relations: Sequence[str],
        heads: Sequence[int],
        relations: Sequence[str],
    ) -> None:
        """Count one sentence."""
        size = len(gold_heads)
        if not size == len(gold_relations) == len(heads) == len(relations):
            raise ValueError("a predicted tree and its gold tree have the same number of words")
        right = [head == gold for head, gold in zip(heads, gold_heads, strict=True)]
        gold_types, types = [universal(name) for name in gold_relations], [universal(name) for name in relations]
        labels = [name == gold for name, gold in zip(relations, gold_relations, strict=True)]
        arcs = sum(head and label for head, label in zip(right, labels, strict=True))
        same = [head and name == gold for head, name, gold in zip(right, types, gold_types, strict=True)]
        content = [_is_content(name) for name in gold_types]
        content_arcs = sum(hit and counts for hit, counts in zip(same, content, strict=True))
        self.sentences += 1
        self.words += size
        self.heads += sum(right)
        self.arcs += arcs
        self.content_words += sum(content)
        self.predicted_content_words += sum(map(_is_content, types))
        self.content_arcs += content_arcs
        self.whole_arcs += arcs == size
        self.whole_content_arcs += content_arcs == sum(content)

    @property
    def uas(self) -> float:
        """Unlabelled attachment score."""
        return _part(self.heads, self.words)

    @property
    def las(self) -> float:
        """Labelled attachment score, with subtypes as they are in the files."""
        return _part(self.arcs, self.words)

    @property
    def clas(self) -> float:
        """Labelled attachment of content words (F1), without subtypes."""
        return _part(2 * self.content_arcs, self.content_words + self.predicted_content_words)

    @property
    def exact(self) -> float:
        """Sentences with every head and relation right."""
        return _part(self.whole_arcs, self.sentences)

    @property
    def exact_content(self) -> float:
        """Sentences with every content word right, without subtypes."""
        return _part(self.whole_content_arcs, self.sentences)


def _is_content(relation: str) -> bool:
    """Whether a relation is that of a content word; Goodwin et al. write relations in capitals."""
    return relation.lower() in CONTENT_RELATIONS


def _part(count: int, of: int) -> float:
    return count / of if of else 0.0
