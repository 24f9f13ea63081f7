"""Dependency parsing of treebanks in CoNLL-U: trees as tensors, the training loss and the scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import torch
from torch import Tensor, nn

from ...data.splits import SPLITS
from ...data.tensors import UNKNOWN, Lexicon, SentenceTable, Vocab, WordTypes
from ...data.trees.conllu import MAX_PARSED, DependencySentence
from ...data.trees.folder import TreebankData, read_treebank, treebank_paths, treebank_splits, trees_of_rows
from ...errors import DataError, UserError
from ...io.files import fingerprint
from ...io.settings import require_fraction, require_positive
from ..base import Progress, TaskModel
from ..splits import SplitTaskData
from .model import TreeParser, predict_trees, trees_of
from .scores import TreeCounts

TRAIN_EDGES = 20_000  # pairs of words computed at once in training; a larger batch is computed in parts
UNSEEN = -1  # the number of a relation that no training sentence has


@dataclass(frozen=True)
class TreeSettings:
    """The `data:` section of a preset."""

    max_tokens: int | None = None  # leave out training sentences with more words
    min_count: int = 1  # words that occur less often in training are read as unknown
    unknown: float = 0.0  # in training, probability that a word that occurs once is read as unknown; others less often
    lower_case: bool = False  # lower-case the words; the character model still sees their case
    split: str | None = None  # name of a split, such as "mcd1", if the corpus has several
    test: bool = True  # False leaves the test files unread, for runs that choose recipes

    def __post_init__(self) -> None:
        require_positive(self, "min_count")
        require_fraction(self, "unknown")
        if self.max_tokens is not None:
            require_positive(self, "max_tokens")


@dataclass(frozen=True)
class TreeBatch:
    """Sentences of one length: their distinct words, the place of each, and their trees."""

    words: Tensor  # (types,)
    letters: Tensor  # (types, most)
    places: Tensor  # (B, n)
    heads: Tensor  # (B, n); 0 is the root
    labels: Tensor  # (B, n)

    def to(self, device: torch.device) -> TreeBatch:
        """The same batch on another device."""
        return TreeBatch(*(getattr(self, name).to(device) for name in self.__dataclass_fields__))


class TreeData(SplitTaskData):
    """Trees as tensors, and how a model is trained and scored on them."""

    Settings: ClassVar[type] = TreeSettings

    def __init__(self, data: TreebankData, settings: TreeSettings, model: TreeParser | None = None) -> None:
        self._name, self._fingerprint, self._settings = data.name, data.fingerprint, settings
        self._split, self._missing, self._derived = data.split, data.missing, data.derived
        most = settings.max_tokens or MAX_PARSED
        trees = data.splits.get("train", ())
        self._train = [tree for tree in trees if tree.size <= most]
        self._left_out = len(trees) - len(self._train)
        self._splits = {split: trees for split, trees in data.splits.items() if split != "train"}
        for tree in (tree for trees in self._splits.values() for tree in trees):
            if tree.size > MAX_PARSED:  # unlike training, a score must not leave out sentences
                raise DataError(tree.source, tree.line, f"a sentence of {tree.size} words", f"at most {MAX_PARSED}")
        if model is None:
            if not self._train:
                raise UserError(f"data.max_tokens = {most}: leaves none of {len(trees)} sentences to train on")
            sentences = [tree.words for tree in self._train]
            self.lexicon = Lexicon.of(sentences, settings.min_count, settings.lower_case)
            self.labels = Vocab.of(relation for tree in self._train for relation in tree.relations)
            self.root_label = root_label(self._train)
        else:
            self.lexicon, self.labels, self.root_label = model.lexicon, model.labels, model.root_label

    @classmethod
    def from_rows(
        cls, splits: Mapping[str, Sequence[Any]], settings: Any, seed: int, model: TaskModel | None = None
    ) -> Self:
        return cls(trees_of_rows(splits), settings, cast(TreeParser | None, model))

    @classmethod
    def load(
        cls,
        folder: Path,
        settings: TreeSettings,
        seed: int,
        model: TaskModel | None = None,
        progress: Progress | None = None,
    ) -> Self:
        there = treebank_splits(folder)  # a trained model is scored on every split there is
        wanted = [split for split in SPLITS if split in there or (split == "train" and model is None)]
        if model is not None:
            wanted = [split for split in wanted if split != "train"]
        elif not settings.test:
            wanted = [split for split in wanted if split != "test"]
        if not set(wanted) & {"dev", "test"}:
            left_out = " besides test.conllu, which data.test=false leaves unread" if "test" in there else ""
            expected = "dev.conllu" if left_out else "dev.conllu or test.conllu"
            raise UserError(f"{folder}: found no file to score{left_out}; expected {expected}")
        data = read_treebank(folder, wanted, settings.split, progress)
        return cls(data, settings, cast(TreeParser | None, model))

    @classmethod
    def fingerprint(cls, folder: Path, training: bool = True, testing: bool = True, split: str | None = None) -> str:
        there = treebank_splits(folder)
        if training and "train" not in there:
            raise UserError(f"{folder}: found no training file; expected one such as train.conllu")
        return fingerprint(treebank_paths(folder, split))

    @cached_property
    def _types(self) -> WordTypes:
        """The distinct words of all splits."""
        return WordTypes(self.lexicon)

    @cached_property
    def _table(self) -> SentenceTable:
        """The training rows, made at first use: scoring needs none."""
        return self._tabulate(self._train)

    @cached_property
    def _tables(self) -> dict[str, SentenceTable]:
        return {split: self._tabulate(trees) for split, trees in self._splits.items()}

    def _tabulate(self, trees: Sequence[DependencySentence]) -> SentenceTable:
        table = SentenceTable(2)
        for tree in trees:
            numbers = map(self.labels.number, tree.relations)
            labels = [UNSEEN if number is None else number for number in numbers]
            table.add(self._types.add(tree.words), [tree.heads, labels])
        return table

    @cached_property
    def _hidden_share(self) -> Tensor:
        """The probability that training reads a word as unknown, by word number: `[words]`.

        It is a / (a + c) for a word that occurs c times (Kiperwasser and Goldberg, 2016): less than a times an epoch.
        """
        counts = Counter(self.lexicon.word(word) for tree in self._train for word in tree.words)
        occurs = torch.tensor([counts[number] for number in range(self.lexicon.word_numbers)])
        hidden = self._settings.unknown
        return hidden / (hidden + occurs * (1 - hidden))  # a = hidden / (1 - hidden): `hidden` itself where c is 1

    @property
    def train_rows(self) -> int:
        return len(self._train)

    def train_sizes(self) -> Tensor:
        return self._table.sizes

    def identity(self) -> dict[str, Any]:
        facts = {"split": self._split, "treebank": self._derived}
        known = {name: fact for name, fact in facts.items() if fact}
        return {"name": self._name, "fingerprint": self._fingerprint, "train_rows": self.train_rows, **known}

    def notes(self) -> list[str]:
        notes = []
        if self._left_out:
            most = self._settings.max_tokens or MAX_PARSED
            kept = f"{len(self._train):,} are trained on"
            notes.append(f"train: {self._left_out:,} sentences have more than {most} words and are left out; {kept}")
        for split, count in self._missing.items():
            notes.append(f"{split}: {count:,} rows of {self._split} have no tree in the corpus and are left out")
        for split, trees in self._splits.items():
            unseen = sum(any(relation not in self.labels for relation in tree.relations) for tree in trees)
            if unseen:
                of = f"{unseen} of {len(trees)} sentences have a relation"
                notes.append(f"{split}: {of} that no training sentence has; it counts as wrong")
        return notes

    def new_model(self, settings: Mapping[str, Any]) -> TreeParser:
        return TreeParser(settings, self.lexicon, self.labels, self.root_label)

    def batches(self, rows: Tensor) -> Iterator[TreeBatch]:
        for batch in self._table.batches(rows, TRAIN_EDGES):
            tokens, total = batch.tokens, len(self._types)
            if self._settings.unknown:
                hidden = torch.rand(tokens.shape) < self._hidden_share[self._types.words[tokens]]
                tokens = tokens + total * hidden  # a hidden word is another type with the same letters
            types, places = tokens.unique(return_inverse=True)
            is_hidden, types = types >= total, types % total
            words = self._types.words[types].masked_fill(is_hidden, UNKNOWN)
            heads, labels = batch.targets.unbind(-1)
            yield TreeBatch(words, self._types.letters[types], places, heads, labels)

    def weight(self, rows: Tensor) -> float:
        """Every word counts the same, whatever the length of its sentence."""
        return float(self._table.sizes[rows].sum())

    def loss(self, model: nn.Module, batch: TreeBatch, device: torch.device) -> Tensor:
        batch = batch.to(device)
        logits = model(batch.words, batch.letters, batch.places)
        return _parser(model).loss(logits, batch.heads, batch.labels)

    @torch.no_grad()
    def _score(self, split: str, model: nn.Module, device: torch.device, progress: Progress | None) -> dict[str, float]:
        """Labelled and unlabelled attachment, and exact match; see `scores.py`."""
        gold = self._splits[split]
        found = predict_trees(_parser(model), model, self._types, self._tables[split], device, progress)
        counts = TreeCounts()
        for tree, (heads, relations) in zip(gold, trees_of(found, [t.size for t in gold], self.labels), strict=True):
            counts.add(tree.heads, tree.relations, heads, relations)
        prefix = "valid " if split == "dev" else ""  # recipes may be chosen by names with "valid"
        scores = {"LAS": counts.las, "UAS": counts.uas, "EM": counts.exact}
        if counts.content_words:  # a treebank may have relations of its own
            scores |= {"CLAS": counts.clas, "EM content": counts.exact_content}
        return {f"{prefix}{name}": score for name, score in scores.items()}


def root_label(trees: Sequence[DependencySentence]) -> str | None:
    """The relation that all words below the root, and no others, have, if there is one."""
    below: set[str] = set()
    elsewhere: set[str] = set()
    for tree in trees:
        for head, relation in zip(tree.heads, tree.relations, strict=True):
            (elsewhere if head else below).add(relation)
    return below.pop() if len(below) == 1 and not below & elsewhere else None


def _parser(model: nn.Module) -> TreeParser:
    """The parser itself, if training has wrapped it."""
    return cast(TreeParser, getattr(model, "module", model))
