"""Sequence to sequence: questions and queries (CFQ), commands and actions (SCAN), or any other pairs of texts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...data.jsonl import IN_MEMORY, numbered, rows_fingerprint
from ...data.pairs.folder import CFQ, has_training_rows, pair_files, pair_paths
from ...data.pairs.rows import Pair, pair_from_json
from ...data.pairs.sparql import same_query
from ...data.pairs.table import BY_EDGES, BY_NODES, IGNORED, Cost, PairBatch, PairTable
from ...data.tensors import Vocab
from ...errors import DataError, UserError
from ...io.files import fingerprint, write_text
from ...io.settings import require_fraction, require_positive
from ..base import Progress, TaskData, TaskModel, in_full, share_of_process, sum_over_processes
from .model import END, UNKNOWN, Translator, source_numbers, word_numbers
from .questions import MAX_WORDS

TRAIN_WORDS = 512  # the most words of a training pair, both sides together, to bound memory
HELD_OUT = "held-out"
NOTHING_TO_SCORE = "found nothing to score; expected rows of dev or test, or data.held_out above 0"


@dataclass(frozen=True)
class Seq2SeqSettings:
    """The `data:` section of a preset. Lengths count words, without the end of the sequence."""

    split: str | None = None  # name of a split, such as mcd1, if the folder has several
    query: str | None = None  # the query field of CFQ's dataset.json; by default the one with M0, M1, ...
    max_target: int | None = None  # leave out training pairs with a longer target
    train_rows: int | None = None  # train on a sample of this many pairs; the seed chooses them
    held_out: int = 0  # number of training pairs that are held out and scored
    lower_case: bool = False  # lower-case both sides
    source_end: bool = False  # sources end with the end of a sequence too, as in the released code
    one_vocabulary: bool = True  # one vocabulary and one table of embeddings for both sides
    unknown: float = 0.0  # in training, probability that a source word of a single pair is read as unknown
    test: bool = True  # False leaves the test rows unread, for runs that choose recipes
    test_max_target: int | None = None  # leave out dev and test pairs with a longer target
    test_rows: int | None = None  # score a sample of this many pairs of dev, and of test; the same for all seeds
    midway_rows: int = 200  # pairs of dev, and held-out pairs, that are scored during training

    def __post_init__(self) -> None:
        require_fraction(self, "unknown")
        require_positive(self, "midway_rows")
        for name in ("max_target", "train_rows", "test_max_target", "test_rows"):
            if getattr(self, name) is not None:
                require_positive(self, name)
        if self.held_out < 0:
            raise ValueError(f"held_out must not be negative, but is {self.held_out}")


class Seq2SeqData(TaskData):
    """Pairs as tensors, and how a model is trained and scored on them."""

    Settings: ClassVar[type] = Seq2SeqSettings
    reading_settings = ("query",)

    def __init__(
        self,
        identity: Mapping[str, Any],
        splits: Mapping[str, Sequence[Pair]],
        settings: Seq2SeqSettings,
        seed: int,
        model: Translator | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        """`identity` names the data; `splits` has the pairs to use; `notes` are remarks from reading them."""
        self._identity, self._settings = dict(identity), settings
        self._notes = list(notes)
        self._answers: dict[str, list[_Answer]] = {}  # of the last evaluation, by split
        self._cost: Cost = BY_EDGES  # of a batch, for the model in training
        self._lower_case = settings.lower_case if model is None else model.lower_case
        self._source_end = settings.source_end if model is None else model.source_end
        self._train: list[Pair] = []
        self._splits: dict[str, list[Pair]] = {}
        if "train" in splits:
            self._train, held_out = self._divide(splits["train"], seed)
            self._splits |= {HELD_OUT: held_out} if held_out else {}
        for split in ("dev", "test"):
            if splits.get(split):
                self._splits[split] = self._choose(split, splits[split])
            elif split in splits:  # a split file may list no rows for it
                self._notes.append(f"{split}: there are no rows")
        if not self._splits and model is not None:
            raise UserError(NOTHING_TO_SCORE)
        self.source: Vocab
        self.target: Vocab | None
        if model is None:
            sources = {word for pair in self._train for word in self._cased(pair.source)}
            targets = {word for pair in self._train for word in self._cased(pair.target)}
            one = settings.one_vocabulary
            self.source, self.target = (
                Vocab.of(sources | targets if one else sources),
                None if one else Vocab.of(targets),
            )
            self._only_targets = frozenset(targets - sources) if one else frozenset()
        else:
            self.source, self.target = model.source, None if model.one_vocabulary else model.target
            self._only_targets = model.only_targets
            self._check_room(model)

    @classmethod
    def from_rows(
        cls, splits: Mapping[str, Sequence[Any]], settings: Any, seed: int, model: TaskModel | None = None
    ) -> Self:
        pairs = {
            split: [pair_from_json(row, source) for source, row in numbered(split, values)]
            for split, values in splits.items()
        }
        identity = {"name": IN_MEMORY, "fingerprint": rows_fingerprint(splits)}
        return cls(identity, pairs, settings, seed, cast(Translator | None, model))

    @classmethod
    def load(
        cls,
        folder: Path,
        settings: Seq2SeqSettings,
        seed: int,
        model: TaskModel | None = None,
        progress: Progress | None = None,
    ) -> Self:
        files = pair_files(folder, settings.split)
        wanted: list[str] = [part for part in ("dev", "test") if part in files.by_split]
        if model is None:
            if "train" not in files.by_split:
                raise UserError(f"{folder}: found {', '.join(files.by_split)}; expected a training file as well")
            wanted = ["train", *(part for part in wanted if part != "test" or settings.test)]
        elif settings.held_out:
            wanted = ["train", *wanted]
        if wanted in ([], ["train"]) and not settings.held_out:
            raise UserError(f"{folder}: found nothing to score; expected dev or test rows, or data.held_out above 0")
        notes: list[str] = []
        # A model trained on the queries of one field can be scored on files without fields.
        query = settings.query if model is None or files.dataset else None
        splits = files.read(wanted, progress, query, notes.append)
        if model is None and not splits["train"]:
            raise UserError(f"{files.by_split['train']}: found no training rows; expected some")
        corpus = files.corpus(pair.target for pairs in splits.values() for pair in pairs)
        identity = {
            "name": Path(folder).resolve().name,
            "fingerprint": fingerprint(pair_paths(folder, settings.split)),
            "corpus": corpus,
            "split": files.split,
        }
        loaded = cls(identity, splits, settings, seed, cast(Translator | None, model), notes)
        if not loaded._splits:  # a split file may name no rows of dev and test
            raise UserError(NOTHING_TO_SCORE)
        return loaded

    @classmethod
    def fingerprint(cls, folder: Path, training: bool = True, testing: bool = True, split: str | None = None) -> str:
        if training and not has_training_rows(folder):
            raise UserError(f"{folder}: found no training file; expected one such as train.tsv")
        return fingerprint(pair_paths(folder, split))

    # --- which rows -----------------------------------------------------------------------------------------------

    def _divide(self, pairs: Sequence[Pair], seed: int) -> tuple[list[Pair], list[Pair]]:
        """Divide the training pairs into those to train on and held-out ones."""
        most = min(self._settings.max_target or MAX_WORDS, MAX_WORDS)
        short = list(pairs)
        for what, limit, words_of in (
            ("targets of more than {} words", most, lambda pair: len(pair.target)),
            ("sources of more than {} words", MAX_WORDS, lambda pair: len(pair.source)),
            ("more than {} words on both sides", TRAIN_WORDS, lambda pair: len(pair.source) + len(pair.target)),
        ):
            before, short = len(short), [pair for pair in short if words_of(pair) <= limit]
            if len(short) < before:
                count = f"{before - len(short):,} of {len(pairs):,} pairs"
                self._notes.append(f"train: {count} have {what.format(limit)} and are left out")
        held_out = self._settings.held_out
        order = torch.randperm(len(short), generator=torch.Generator().manual_seed(seed))
        held = [short[row] for row in order[:held_out].sort().values.tolist()]
        known = {self._texts(pair) for pair in held}
        left = [row for row in order[held_out:].tolist() if not known or self._texts(short[row]) not in known]
        copies = max(0, len(short) - held_out) - len(left)
        if copies:
            self._notes.append(f"train: {copies:,} more copies of pairs that are held out are left out")
        wanted = self._settings.train_rows or max(1, len(left))
        if len(held) < held_out or wanted > len(left):
            found = f"{len(short):,} of {len(pairs):,} training pairs with targets of at most {most} words"
            found += f", {copies:,} of them copies of pairs to hold out" if copies else ""
            raise UserError(f"found {found}; expected {wanted:,} to train on and {held_out:,} to hold out")
        if held_out or wanted < len(short):
            self._notes.append(f"train: {wanted:,} pairs are trained on, {held_out:,} others held out")
        return [short[row] for row in sorted(left[:wanted])], held

    def _choose(self, split: str, pairs: Sequence[Pair]) -> list[Pair]:
        """Choose the pairs of a split to score."""
        settings, chosen = self._settings, list(pairs)
        if settings.test_max_target is not None:
            chosen = [pair for pair in pairs if len(pair.target) <= settings.test_max_target]
        for pair in chosen:
            if len(pair.source) > MAX_WORDS:
                raise DataError(pair.path, pair.line, f"a source of {len(pair.source)} words", f"at most {MAX_WORDS}")
            if len(pair.target) > MAX_WORDS:
                expected = f"at most {MAX_WORDS}, or data.test_max_target to leave it out"
                raise DataError(pair.path, pair.line, f"a target of {len(pair.target)} words", expected)
        if settings.test_rows is not None and settings.test_rows < len(chosen):
            chosen = [chosen[row] for row in _sample(len(chosen), settings.test_rows)]
        if not chosen:
            raise UserError(f"{split}: found no pair to score; expected data.test_max_target to leave some")
        if len(chosen) < len(pairs):
            self._notes.append(f"{split}: {len(chosen):,} of {len(pairs):,} pairs are scored")
        return chosen

    def _check_room(self, model: Translator) -> None:
        """Refuse, before training, rows whose scoring would need too much memory."""
        for split, pairs in self._splits.items():
            setting = "data.max_target" if split == HELD_OUT else "data.test_max_target"
            for pair in pairs:
                memory = model.excessive_memory(len(pair.source), len(pair.target))
                if memory:
                    words = f"a source of {len(pair.source)} words with a target of {len(pair.target)}"
                    expected = f"a smaller model, or {setting} to leave the pair out"
                    raise DataError(pair.path, pair.line, f"{words}: {memory}", expected)

    def _texts(self, pair: Pair) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return self._cased(pair.source), self._cased(pair.target)

    def _cased(self, words: Sequence[str]) -> tuple[str, ...]:
        return tuple(word.lower() for word in words) if self._lower_case else tuple(words)

    def _numbers(self, pair: Pair) -> tuple[list[int], list[int]]:
        source, target = self._texts(pair)
        return source_numbers(self.source, source, self._source_end), word_numbers(self.target or self.source, target)

    # --- training -------------------------------------------------------------------------------------------------

    @cached_property
    def _table(self) -> PairTable:
        """The training pairs, made at first use: scoring needs none."""
        return PairTable([self._numbers(pair) for pair in self._train], END)

    @cached_property
    def _is_rare(self) -> Tensor:
        """For each word number, whether only one training source has it: bool `[words]`."""
        counts = Counter(word for pair in self._train for word in set(self._cased(pair.source)))
        return torch.tensor([False, False, *(counts[word] == 1 for word in self.source)])

    @property
    def train_rows(self) -> int:
        return len(self._train)

    def train_sizes(self) -> Tensor:
        return self._table.sizes

    def train_shapes(self) -> Tensor:
        return self._table.shapes

    def identity(self) -> dict[str, Any]:
        return {**self._identity, "train_rows": self.train_rows, **self._scored_rows()}

    def _scored_rows(self) -> dict[str, str]:
        """Which rows of dev and test are scored, if not all."""
        longest, rows = self._settings.test_max_target, self._settings.test_rows
        parts = [] if longest is None else [f"targets of at most {longest} words"]
        parts += [] if rows is None else [f"a sample of {rows} rows"]
        return {"scored": ", ".join(parts)} if parts else {}

    def notes(self) -> list[str]:
        notes = list(self._notes)
        trained = {self._texts(pair) for pair in self._train}
        for split, pairs in self._splits.items():
            known = sum(self._texts(pair) in trained for pair in pairs)
            if known:
                notes.append(f"{split}: {known:,} of {len(pairs):,} pairs are training pairs too")
            numbers = [self._numbers(pair) for pair in pairs]
            for side, place, what in (("source", 0, "it is read as unknown"), ("target", 1, "they count as wrong")):
                count = sum(UNKNOWN in pair[place] for pair in numbers)
                if count:
                    of = f"{count:,} of {len(pairs):,} {side}s have a word that no training pair has"
                    notes.append(f"{split}: {of}; {what}")
        return notes

    def new_model(self, settings: Mapping[str, Any]) -> Translator:
        longest = max(len(pair.target) for pair in self._train)
        model = Translator(
            settings,
            self.source,
            self.target,
            lower_case=self._lower_case,
            source_end=self._source_end,
            longest=longest,
            only_targets=self._only_targets,
        )
        self._check_room(model)
        self._cost = BY_EDGES if model.has_edge_states else BY_NODES
        return model

    def batches(self, rows: Tensor) -> Iterator[PairBatch]:
        for batch in self._table.batches(rows, self._cost):
            if self._settings.unknown:
                hidden = self._is_rare[batch.source] & (torch.rand(batch.source.shape) < self._settings.unknown)
                batch = replace(batch, source=batch.source.masked_fill(hidden, UNKNOWN))
            yield batch

    def weight(self, rows: Tensor) -> float:
        """The loss is a mean over the words of the targets, including their ends."""
        return float(self._table.target_sizes[rows].sum())

    def loss(self, model: nn.Module, batch: PairBatch, device: torch.device) -> Tensor:
        batch = batch.to(device)
        logits = in_full(model(batch.source, batch.target, batch.source_mask))  # (B, T, words)
        return F.cross_entropy(logits.flatten(0, 1), batch.wanted.flatten(), ignore_index=IGNORED, reduction="sum")

    # --- scores ---------------------------------------------------------------------------------------------------

    def evaluation_rows(self) -> int:
        return sum(len(share_of_process(pairs)) for pairs in self._splits.values())

    def evaluate(self, model: nn.Module, device: torch.device, progress: Progress | None = None) -> dict[str, float]:
        self._answers = {split: self._ask(pairs, model, progress) for split, pairs in self._splits.items()}
        return self._scores(self._answers, device)

    def write_predictions(self, path: Path) -> None:
        """Write the predictions of the last evaluation, in distributed runs those of this process, as JSON lines."""
        rows = ({"split": split, **each.to_json()} for split, answers in self._answers.items() for each in answers)
        write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))

    @cached_property
    def _midway(self) -> dict[str, list[Pair]]:
        """A few pairs of every split but test (of test, if there is no other): decoding is slow."""
        splits = {split: pairs for split, pairs in self._splits.items() if split != "test"} or self._splits
        few = self._settings.midway_rows
        return {split: [pairs[row] for row in _sample(len(pairs), few)] for split, pairs in splits.items()}

    def midway_rows(self) -> int:
        return sum(len(share_of_process(pairs)) for pairs in self._midway.values())

    def evaluate_midway(
        self, model: nn.Module, device: torch.device, progress: Progress | None = None
    ) -> dict[str, float]:
        answers = {split: self._ask(pairs, model, progress) for split, pairs in self._midway.items()}
        return self._scores(answers, device)

    def _ask(self, pairs: Sequence[Pair], model: nn.Module, progress: Progress | None) -> list[_Answer]:
        """Decode the sources, in distributed runs the share of this process, and compare with the targets."""
        translator = cast(Translator, getattr(model, "module", model))  # training wraps it
        pairs = share_of_process(pairs)
        numbers = [self._numbers(pair) for pair in pairs]
        # An output longer than the target is wrong: decoding can stop there.
        limits = [len(target) for _, target in numbers]
        found = translator.decode([source for source, _ in numbers], limits, progress=progress)
        answers = []
        for pair, (_, target), [said] in zip(pairs, numbers, found, strict=True):
            # Rows decoded together share the largest limit; cut each at its own, so that scores do not depend on it.
            words, gold = translator.target_words(said.tokens[: len(target)]), self._cased(pair.target)
            finished = said.finished and len(said.tokens) <= len(target)
            exact = finished and said.tokens == tuple(target)
            same = exact or (finished and same_query(words, gold)) if self._has_queries else None
            answers.append(_Answer(pair.source, gold, words, finished, exact, same))
        return answers

    @property
    def _has_queries(self) -> bool:
        return self._identity.get("corpus") == CFQ

    def _scores(self, answers: Mapping[str, Sequence[_Answer]], device: torch.device) -> dict[str, float]:
        """Exact match of the targets; of queries also by meaning (`same_query`)."""
        scores: dict[str, float] = {}
        for split, rows in answers.items():
            # Reports rely on these names: plain EM is of test rows, and recipes are chosen by names with "valid".
            prefix = {"test": "", "dev": "valid "}.get(split, f"{split} ")
            right, same = sum(row.exact for row in rows), sum(bool(row.same_query) for row in rows)
            count, right, same = sum_over_processes([len(rows), right, same], device)
            scores[f"{prefix}EM"] = right / count
            if self._has_queries:
                scores[f"{prefix}query EM"] = same / count
        return scores


@dataclass(frozen=True)
class _Answer:
    """A decoded source, and whether the output is right."""

    source: tuple[str, ...]
    gold: tuple[str, ...]
    said: tuple[str, ...]  # cut at the length of the gold target
    finished: bool
    exact: bool
    same_query: bool | None  # None if targets are not queries

    def to_json(self) -> dict[str, Any]:
        return {
            "source": " ".join(self.source),
            "gold": " ".join(self.gold),
            "said": " ".join(self.said),
            "finished": self.finished,
            "exact": self.exact,
            **({} if self.same_query is None else {"same_query": self.same_query}),
        }


def _sample(count: int, wanted: int) -> list[int]:
    """Draw up to `wanted` of `count` rows, the same for all seeds."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(0))
    return order[:wanted].sort().values.tolist()
