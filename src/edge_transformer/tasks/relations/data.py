"""Relational reasoning: rows of relations as tensors, the training loss and the scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self, cast

import torch
from torch import Tensor, nn

from ...data.relations.augment import augmented_stories
from ...data.relations.folder import graph_files, read_folder, read_valid, valid_files
from ...data.relations.rows import RelationRows, Story, is_of_families
from ...data.tensors import GraphBatch, GraphTable, Vocab
from ...errors import UserError
from ...io.files import fingerprint
from ...io.settings import require_fraction, require_positive
from ..base import Progress, TaskData, TaskModel, in_full
from .model import PREDICT_EDGES, RelationModel, labelled_edges

MOST_AUGMENTED = 100


@dataclass(frozen=True)
class RelationSettings:
    """The `data:` section of a preset."""

    train_k: tuple[int, ...] | None = None  # train on stories of these lengths only; null for all
    held_out: float = 0.0  # share of the training rows that is held out and scored; the seed chooses them
    valid: str | None = None  # folder with more validation files to score
    test: bool = True  # False leaves the test files unread, for runs that choose recipes
    augmented: float = 0.0  # augmented rows, longer stories, per training row (data/relations/augment.py)
    augmented_k: int = 8  # the most relations of an augmented story
    augmented_returns: float = 0.0  # share of augmentation steps that return to a person of the story
    merge_equal: bool = True  # compute equal graphs of a training batch once, with one dropout mask

    def __post_init__(self) -> None:
        require_fraction(self, "held_out", "augmented_returns")
        require_positive(self, "augmented_k")
        if not 0 <= self.augmented <= MOST_AUGMENTED:
            raise ValueError(f"augmented must be from 0 to {MOST_AUGMENTED}, but is {self.augmented}")


class RelationData(TaskData):
    """Stories as tensors, and how a model is trained and scored on them."""

    Settings = RelationSettings

    def __init__(
        self,
        data: RelationRows,
        settings: RelationSettings,
        seed: int,
        model: RelationModel | None = None,
        valid_fingerprint: str = "",
    ) -> None:
        self._data, self._settings, self._valid_fingerprint = data, settings, valid_fingerprint
        stories = [story for story in data.train if settings.train_k is None or story.k in settings.train_k]
        if not stories and model is None:
            raise UserError(
                f"data.train_k = {list(settings.train_k or ())}: no training story has one of these lengths"
            )
        order = torch.randperm(len(stories), generator=torch.Generator().manual_seed(seed)).tolist()
        held_out = set(order[: round(settings.held_out * len(stories))])
        self._train = [story for number, story in enumerate(stories) if number not in held_out]
        if not self._train and model is None:
            raise UserError(f"data.held_out = {settings.held_out}: leaves none of {len(stories)} rows to train on")
        self._splits: dict[str, Sequence[Story]] = {f"k={k}": tests for k, tests in data.tests.items()}
        if held_out:
            self._splits["valid"] = [stories[number] for number in sorted(held_out)]
        for k in sorted({story.k for story in data.valid}):
            self._splits[f"valid k={k}"] = [story for story in data.valid if story.k == k]
        if model is None:
            self.relations = Vocab.of(relation for story in self._train for relation in story.relations)
            self.answers = Vocab.of(story.target for story in self._train)
        else:
            self.relations, self.answers = model.relations, model.answers
        self._tables = {name: self._tabulate(stories) for name, stories in self._splits.items()}
        self._asked = 0 if model else round(settings.augmented * len(self._train))
        how = settings.augmented_k, seed, settings.augmented_returns
        self._augmented = augmented_stories(self._train, self._asked, *how) if self._asked else []

    @classmethod
    def from_rows(
        cls, splits: Mapping[str, Sequence[Any]], settings: Any, seed: int, model: TaskModel | None = None
    ) -> Self:
        data = RelationRows.of_rows(splits)
        return cls(data, settings, seed, cast(RelationModel | None, model))

    @classmethod
    def load(
        cls,
        folder: Path,
        settings: RelationSettings,
        seed: int,
        model: TaskModel | None = None,
        progress: Progress | None = None,
    ) -> Self:
        training = model is None or settings.held_out > 0
        testing = settings.test or model is not None  # a trained model is scored on every split there is
        data, valid_fingerprint = read_folder(folder, progress, training, testing), ""
        # Training needs the validation folder; scoring a trained model can do without it.
        if settings.valid and (model is None or Path(settings.valid).is_dir()):
            valid_fingerprint, stories = read_valid(settings.valid, progress)
            data = replace(data, valid=(*data.valid, *stories))
        return cls(data, settings, seed, cast(RelationModel | None, model), valid_fingerprint)

    @classmethod
    def fingerprint(cls, folder: Path, training: bool = True, testing: bool = True, split: str | None = None) -> str:
        return fingerprint(path for paths in graph_files(folder, training, testing).values() for path in paths)

    @classmethod
    def valid_fingerprint(cls, settings: RelationSettings) -> str:
        return fingerprint(valid_files(settings.valid)) if settings.valid else ""

    @cached_property
    def _table(self) -> GraphTable:
        """The training rows, made at first use: scoring needs none."""
        return self._tabulate([*self._train, *self._augmented])

    def _tabulate(self, stories: Sequence[Story]) -> GraphTable:
        """Stories as tensors, without those with a relation or an answer outside the vocabularies."""
        table = GraphTable(len(self.answers))
        for story in stories:
            edges, answer = labelled_edges(story, self.relations), self.answers.number(story.target)
            if edges is not None and answer is not None:
                table.add(story.size, edges, story.query, answer)
        return table

    @property
    def train_rows(self) -> int:
        return len(self._train) + len(self._augmented)

    def identity(self) -> dict[str, Any]:
        lengths = sorted({story.k for story in self._train})
        return {
            "name": self._data.name,
            "fingerprint": self._data.fingerprint,
            "train_k": ",".join(map(str, lengths)),
            "train_rows": self.train_rows,
            "held_out": self._settings.held_out,
            **({"corpus": self._data.corpus} if self._data.corpus and is_of_families(self.relations) else {}),
            **(
                {"augmented_rows": len(self._augmented), "augmented_k": self._settings.augmented_k}
                if self._augmented
                else {}
            ),
            **({"valid_fingerprint": self._valid_fingerprint} if self._valid_fingerprint else {}),
        }

    def notes(self) -> list[str]:
        notes = []
        if self._settings.valid and not self._valid_fingerprint:
            notes.append(f"{self._settings.valid}: no such folder; its validation stories are not scored")
        if 2 * len(self._augmented) < self._asked:
            notes.append(
                f"data.augmented asks for {self._asked} stories of up to {self._settings.augmented_k} relations; "
                f"{len(self._augmented)} could be made"
            )
        if self._asked and self._settings.augmented_returns and not any(story.genders for story in self._train):
            notes.append("data.augmented_returns changes nothing: no training row has genders")
        for name, stories in self._splits.items():
            lost = len(stories) - len(self._tables[name])
            if lost:
                notes.append(
                    f"{name}: {lost} of {len(stories)} rows have a relation or answer that no training row has; "
                    "they count as wrong"
                )
        return notes

    def new_model(self, settings: Mapping[str, Any]) -> RelationModel:
        return RelationModel(settings, self.relations, self.answers)

    def batches(self, rows: Tensor) -> Iterator[GraphBatch]:
        return self._table.batches(rows, merge_equal=self._settings.merge_equal)

    def loss(self, model: nn.Module, batch: GraphBatch, device: torch.device) -> Tensor:
        batch = batch.to(device)
        logits = in_full(model(batch.labels, batch.query))  # (graphs, answers)
        # A graph may stand for several rows, even with different answers; each row counts once.
        return -(batch.counts * logits.log_softmax(-1)).sum()

    def evaluation_rows(self) -> int:
        return sum(len(table) for table in self._tables.values())

    @torch.no_grad()
    def evaluate(self, model: nn.Module, device: torch.device, progress: Progress | None = None) -> dict[str, float]:
        scores = {}
        for name, table in self._tables.items():
            right = 0.0
            for batch in table.batches(max_edges=PREDICT_EDGES):
                answers = model(batch.labels.to(device), batch.query.to(device)).argmax(-1).cpu()
                right += batch.counts.gather(1, answers[:, None]).sum().item()
                if progress:
                    progress(len(batch.rows))
            scores[name] = right / len(self._splits[name])
        return scores
