"""Labelled graphs as training and scoring need them: splits, tables, loss and scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...data.relations.augment import augmented_stories, composes
from ...data.relations.fields import relation_rows
from ...data.relations.folder import graph_files, read_folder, read_valid, valid_files
from ...data.relations.rows import RelationRows, Story, is_of_families
from ...data.relations.schema import Schema
from ...data.relations.stream import MOST_VALID, STREAM_ROWS, StreamedStories
from ...data.relations.table import NOT_ASKED, GraphBatch, GraphTable
from ...data.tensors import Vocab
from ...errors import UserError
from ...io.files import fingerprint
from ...io.settings import require_fraction, require_positive
from ..base import DataFacts, Progress, TaskData, TaskModel, in_full
from ..calibration import fit_temperature
from ..scores import Scores, label_scores, number_scores, several_scores
from .model import (
    PREDICT_EDGES,
    GraphLabelModel,
    LabelledGraphModel,
    NodeLabelModel,
    RelationModel,
    batch_logits,
    require_memory,
)

MOST_AUGMENTED = 100
TRAIN_EDGES = 50_000  # pairs of nodes computed at once in training; a step adds up the losses of its parts
FEWEST_VALID = 30  # rows of a validation part that is split off
MOST_GROUPS = 10  # groups of sizes in scores
TEST, VALID = "test", "valid"


@dataclass(frozen=True)
class RelationSettings:
    """The `data:` section of a preset."""

    train_k: tuple[int, ...] | None = None  # train on stories of these lengths only; null for all
    held_out: float = 0.0  # share of the training rows that is held out and scored; the seed chooses them
    valid_share: float = 0.0  # without validation rows: the share of training rows held out, whole graphs at a time
    valid: str | None = None  # folder with more validation files to score
    test: bool = True  # False leaves the test files unread, for runs that choose recipes
    augmented: float = 0.0  # augmented rows, longer stories, per training row (data/relations/augment.py)
    augmented_k: int = 8  # the most relations of an augmented story
    augmented_returns: float = 0.0  # share of augmentation steps that return to a person of the story
    merge_equal: bool = True  # compute equal graphs of a training batch once, with one dropout mask

    def __post_init__(self) -> None:
        require_fraction(self, "held_out", "valid_share", "augmented_returns")
        require_positive(self, "augmented_k")
        if not 0 <= self.augmented <= MOST_AUGMENTED:
            raise ValueError(f"augmented must be from 0 to {MOST_AUGMENTED}, but is {self.augmented}")


class RelationData(TaskData):
    """Labelled graphs as tensors, and how a model is trained and scored on them."""

    Settings = RelationSettings
    Model: ClassVar[type[LabelledGraphModel]] = RelationModel

    def __init__(
        self,
        data: RelationRows,
        settings: RelationSettings,
        seed: int,
        model: LabelledGraphModel | None = None,
        valid_fingerprint: str = "",
    ) -> None:
        self._data, self._settings, self._valid_fingerprint = data, settings, valid_fingerprint
        self._windows: dict[tuple[int, ...], tuple[GraphTable, Tensor]] = {}  # of streamed rows, those read last
        self._streamed = data.train if isinstance(data.train, StreamedStories) else None
        stories = self._chosen(data.train)
        if not stories and self._streamed is None and model is None:
            raise UserError(
                f"data.train_k = {list(settings.train_k or ())}: no training story has one of these lengths"
            )
        held_out = self._held_out(stories, seed)
        self._train = [story for number, story in enumerate(stories) if number not in held_out]
        if not self._train and self._streamed is None and model is None:
            raise UserError(f"data.held_out = {settings.held_out}: leaves none of {len(stories)} rows to train on")
        self._splits: dict[str, Sequence[Story]] = {}
        if data.tests:
            self._splits[TEST] = [story for of_k in data.tests.values() for story in of_k]
        split_off = [stories[number] for number in sorted(held_out)]
        split_off += self._streamed.held_out if self._streamed else []
        if split_off or data.valid:
            self._splits[VALID] = split_off or data.valid
        if held_out and data.valid:
            self._splits["valid files"] = data.valid
        if held_out and model is None:
            Schema.of(stories)  # refuses rows of different kinds by their numbers before some were held out
        learned = Schema.of(self._train) if self._streamed is None else self._streamed.schema
        self.schema = learned if model is None else model.schema
        for name, rows in self._splits.items():
            self.schema.require_kind(rows, name)
        # Scores by length, as of CLUTRR, or else by number of nodes.
        self._by_length = self.Model.asks == "pairs" and is_of_families(self.schema.relations)
        for name, rows in self._splits.items():
            self._splits[name] = sorted(rows, key=lambda story: story.k if self._by_length else story.size)
        if model is not None:
            self._require_memory_to_score(model.settings)
        self._split_off = self._splits.get(VALID) if split_off else None
        self._tables = {name: self._tabulate(rows) for name, rows in self._splits.items()}
        self._asked = 0 if model else round(settings.augmented * len(self._train))
        how = settings.augmented_k, seed, settings.augmented_returns
        if self._asked and not all(story.is_plain for story in self._train):
            raise UserError(
                "data.augmented: found rows with more than one relation an edge and one query a row; expected 0"
            )
        self._augmented = augmented_stories(self._train, self._asked, *how) if self._asked else []

    def _chosen(self, train: Sequence[Story] | StreamedStories) -> list[Story]:
        """The training rows in memory that the settings ask for; none if they are streamed."""
        lengths = self._settings.train_k
        if not isinstance(train, StreamedStories):
            return [story for story in train if lengths is None or story.k in lengths]
        for name in ("train_k", "held_out", "augmented"):
            if getattr(self._settings, name):
                rows = f"{len(train):,} training rows, which are streamed"
                raise UserError(f"data.{name}: found {rows}; expected it only where there are at most {STREAM_ROWS:,}")
        return []

    def _held_out(self, stories: Sequence[Story], seed: int) -> set[int]:
        """The numbers of the rows that are not trained on but scored."""
        settings = self._settings
        generator = torch.Generator().manual_seed(seed)
        if settings.valid_share == 0.0 or settings.held_out or self._data.valid:
            order = torch.randperm(len(stories), generator=generator).tolist()
            return set(order[: round(settings.held_out * len(stories))])
        wanted = min(max(round(settings.valid_share * len(stories)), FEWEST_VALID), MOST_VALID, len(stories) // 5)
        rows_of: dict[object, list[int]] = {}
        for number, story in enumerate(stories):
            rows_of.setdefault(story.graph, []).append(number)
        of_graphs = list(rows_of.values())
        held_out: set[int] = set()
        for place in torch.randperm(len(of_graphs), generator=generator).tolist():
            if len(held_out) + len(of_graphs[place]) <= wanted:
                held_out.update(of_graphs[place])
        return held_out

    @classmethod
    def from_rows(
        cls, splits: Mapping[str, Sequence[Any]], settings: Any, seed: int, model: TaskModel | None = None
    ) -> Self:
        return cls(relation_rows(splits, cls.Model.asks), settings, seed, cast(LabelledGraphModel | None, model))

    @classmethod
    def load(
        cls,
        folder: Path,
        settings: RelationSettings,
        seed: int,
        model: TaskModel | None = None,
        progress: Progress | None = None,
    ) -> Self:
        training = model is None or settings.held_out > 0 or settings.valid_share > 0
        testing = settings.test or model is not None  # a trained model is scored on every split there is
        share = settings.valid_share if model is None else 0.0
        data = read_folder(folder, progress, training, testing, cls.Model.asks, share)
        valid_fingerprint = ""
        # Training needs the validation folder; scoring a trained model can do without it.
        if settings.valid and (model is None or Path(settings.valid).is_dir()):
            valid_fingerprint, stories = read_valid(settings.valid, progress, cls.Model.asks)
            data = replace(data, valid=(*data.valid, *stories))
        return cls(data, settings, seed, cast(LabelledGraphModel | None, model), valid_fingerprint)

    @classmethod
    def fingerprint(cls, folder: Path, training: bool = True, testing: bool = True, split: str | None = None) -> str:
        return fingerprint(path for paths in graph_files(folder, training, testing).values() for path in paths)

    @classmethod
    def valid_fingerprint(cls, settings: RelationSettings) -> str:
        return fingerprint(valid_files(settings.valid)) if settings.valid else ""

    @cached_property
    def _table(self) -> GraphTable:
        """The training rows, made at first use: scoring needs none."""
        return self._tabulate([*self._train, *self._augmented])[0]

    def _window(self, window: tuple[int, ...]) -> tuple[GraphTable, Tensor]:
        """The rows of some blocks of streamed rows, and where those of each block begin."""
        if window not in self._windows:
            assert self._streamed is not None
            while len(self._windows) > 1:  # a batch has rows of two windows at the most
                del self._windows[next(iter(self._windows))]
            starts: list[int] = []
            stories: list[Story] = []
            for block in window:
                starts.append(len(stories))
                stories += self._streamed.stories(block)
            self._windows[window] = self._tabulate(stories)[0], torch.tensor(starts)
        return self._windows[window]

    def _tabulate(self, stories: Sequence[Story]) -> tuple[GraphTable, list[int]]:
        """Stories as tensors, and the numbers of those that the table has: the others say what no training row said."""
        table = GraphTable(self.schema)
        return table, [number for number, story in enumerate(stories) if table.add(story)]

    @property
    def relations(self) -> Vocab:
        return self.schema.relations

    @property
    def answers(self) -> Vocab:
        return self.schema.answers

    @property
    def train_rows(self) -> int:
        return len(self._streamed) if self._streamed else len(self._train) + len(self._augmented)

    def identity(self) -> dict[str, Any]:
        lengths = sorted(self._streamed.lengths if self._streamed else {story.k for story in self._train})
        told = self._by_length or self._settings.train_k is not None  # else it would vary with the rows split off
        return {
            "name": self._data.name,
            "fingerprint": self._data.fingerprint,
            **({"train_k": ",".join(map(str, lengths))} if told else {}),
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

    def facts(self) -> DataFacts:
        sample = self._streamed.sample if self._streamed else self._train
        return DataFacts(
            rows=len(self._streamed or self._train),
            valid_rows=len(self._splits.get(VALID, ())),
            mean_size=sum(story.size for story in sample) / len(sample),
            longest=max(longest_path(story) for story in sample[:: max(1, len(sample) // 500)]),
            labels=self.schema.labels,
            classes=self.schema.outputs,
            most_edges=max(story.k for story in sample),
            composes=self._streamed is None and self.Model.asks == "pairs" and composes(self._train),
            genders=any(story.genders for story in sample),
            numbers=self.schema.kind == "number",
        )

    def with_settings(self, settings: RelationSettings, seed: int) -> Self:
        if settings == self._settings:
            return self
        again = type(self)(self._data, settings, seed, valid_fingerprint=self._valid_fingerprint)
        again.folder, again.given, again.about = self.folder, self.given, self.about
        return again

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
            numbers = self._tables[name][1]
            lost = len(stories) - len(numbers) + sum(not _can_be_right(self.schema, stories[n]) for n in numbers)
            if lost:
                notes.append(
                    f"{name}: {lost} of {len(stories)} rows have a relation, label or answer that no training row has; "
                    "they count as wrong"
                )
        return notes

    def new_model(self, settings: Mapping[str, Any]) -> LabelledGraphModel:
        self.require_memory(settings)
        return self.Model(settings, self.schema)

    def require_memory(self, settings: Mapping[str, Any]) -> None:
        largest = self._streamed.largest if self._streamed else max(story.size for story in self._train)
        require_memory(largest, settings, training=True)
        self._require_memory_to_score(settings)

    def _require_memory_to_score(self, settings: Mapping[str, Any]) -> None:
        """Refuse rows to score that are too large, before any time is spent."""
        sizes = [story.size for rows in self._splits.values() for story in rows]
        require_memory(max(sizes, default=1), settings)

    def shuffled(self, batch_size: int, seed: int, epoch: int) -> list[Tensor]:
        if self._streamed is None:
            return super().shuffled(batch_size, seed, epoch)
        self._window_of = {block: window for window in self._streamed.windows(seed, epoch) for block in window}
        return self._streamed.shuffled(batch_size, seed, epoch)

    def batches(self, rows: Tensor) -> Iterator[GraphBatch]:
        if self._streamed is None:
            yield from self._table.batches(rows, TRAIN_EDGES, merge_equal=self._settings.merge_equal)
            return
        blocks = torch.searchsorted(torch.tensor(self._streamed.starts), rows, right=True) - 1
        for window in dict.fromkeys(self._window_of[block] for block in blocks.unique().tolist()):
            table, starts = self._window(window)
            inside = torch.isin(blocks, torch.tensor(window))
            of_block = blocks[inside]
            place = starts[torch.searchsorted(torch.tensor(window), of_block)]
            within = rows[inside] - torch.tensor(self._streamed.starts)[of_block] + place
            yield from table.batches(within, TRAIN_EDGES, merge_equal=self._settings.merge_equal)

    def loss(self, model: nn.Module, batch: GraphBatch, device: torch.device) -> Tensor:
        """Each row counts once: the mean over its questions."""
        return row_losses(self.schema, model, batch.to(device)).sum()

    # --- scores -------------------------------------------------------------------------------------------------------

    def evaluation_rows(self) -> int:
        return sum(len(table) for table, _ in self._tables.values())

    def evaluate(self, model: nn.Module, device: torch.device, progress: Progress | None = None) -> Scores:
        """Scores of the test rows first, overall and by size; then those of the validation rows."""
        scores = Scores()
        for name in self._splits:
            found = self._score(name, model, device, progress)
            scores.details[name] = found.details
            for score, value in found.items():
                if name == TEST:
                    scores[score] = value
                elif score == next(iter(found)):
                    scores[name if self.schema.kind != "number" else f"{name} {score}"] = value
                elif self._data.valid and "=" in score and self._splits[name] is not self._split_off:
                    scores[f"{name} {score}"] = value
        return scores

    def midway_rows(self) -> int:
        return len(self._tables[VALID][0]) if VALID in self._tables else 0

    def evaluate_midway(
        self, model: nn.Module, device: torch.device, progress: Progress | None = None
    ) -> dict[str, float]:
        """The scores of the validation rows alone: nobody should choose by the scores of test."""
        if VALID not in self._splits:
            return {}
        found = self._score(VALID, model, device, progress)
        name, value = next(iter(found.items()))
        return {
            VALID if self.schema.kind != "number" else f"{VALID} {name}": value,
            "valid loss": found.details["loss"],
        }

    def choice(self, scores: Mapping[str, float]) -> tuple[float, float] | None:
        if VALID not in self._splits:
            return None
        asked = sum(len(story.questions) for story in self._splits[VALID])
        if self.schema.kind == "number":
            return -next(value for name, value in scores.items() if name.startswith(VALID)), 0.0
        share = scores[VALID]
        return share, (max(share * (1 - share), 1 / (asked + 2)) / asked) ** 0.5

    @torch.no_grad()
    def calibrate(self, model: TaskModel, device: torch.device) -> None:
        """Fit the temperature of the model's probabilities on the validation rows."""
        if VALID in self._splits and self.schema.kind != "number":
            assert isinstance(model, LabelledGraphModel)
            logits, targets = self._answers(VALID, model, device, None)[:2]
            known = targets >= 0 if self.schema.kind == "one" else torch.ones(len(targets), dtype=torch.bool)
            model.temperature = round(fit_temperature(logits[known], targets[known]), 4)

    def _answers(
        self, split: str, model: nn.Module, device: torch.device, progress: Progress | None
    ) -> tuple[Tensor, Tensor, list[str], float]:
        """Logits, targets and group of every question of a split, and the mean loss of a row."""
        stories, (table, numbers) = self._splits[split], self._tables[split]
        counts = [len(story.questions) for story in stories]
        first = [0]
        for count in counts:
            first.append(first[-1] + count)
        logits = torch.zeros(first[-1], self.schema.outputs)
        targets = torch.full((first[-1],), NOT_ASKED)
        if self.schema.kind == "several":
            targets = torch.zeros(first[-1], len(self.answers), dtype=torch.bool)
        elif self.schema.kind == "number":
            assert self.schema.number is not None
            flat = [target for story in stories for _, target in story.questions]
            targets = torch.tensor(
                [float("nan") if isinstance(t, str | tuple) else t for t in flat], dtype=torch.float64
            )
        total, starts = 0.0, torch.tensor(first)[torch.tensor(numbers, dtype=torch.long)]
        for batch in table.batches(max_edges=PREDICT_EDGES):
            batch = batch.to(device)
            found = in_full(batch_logits(model, batch))
            total += row_losses(self.schema, model, batch, found).sum().item()
            asked = torch.tensor([counts[numbers[row]] for row in batch.rows.tolist()])
            column = torch.arange(batch.pairs.shape[1])
            inside = column < asked[:, None]  # (R, P)
            places = (starts[batch.rows.cpu()][:, None] + column)[inside]
            logits[places] = found[batch.row_graph].cpu()[inside].to(logits.dtype)
            if self.schema.kind != "number":
                targets[places] = batch.targets.cpu()[inside].to(targets.dtype)
            if progress:
                progress(len(batch.rows))
        names = group_names(stories, self._by_length)
        groups = [name for name, count in zip(names, counts, strict=True) for _ in range(count)]
        return logits, targets, groups, total / max(1, len(table))

    @torch.no_grad()
    def _score(self, split: str, model: nn.Module, device: torch.device, progress: Progress | None) -> Scores:
        logits, targets, groups, loss = self._answers(split, model, device, progress)
        if self.schema.kind == "number":
            assert self.schema.number is not None
            (mean,), (deviation,) = self.schema.number.mean, self.schema.number.deviation
            known = ~targets.isnan()
            kept = [group for group, is_known in zip(groups, known.tolist(), strict=True) if is_known]
            scores = number_scores((mean + deviation * logits[:, 0].double())[known], targets[known], kept, mean)
        else:
            logits, usual = logits / getattr(model, "temperature", 1.0), self.schema.usual
            if self.schema.kind == "several":
                labels = [cast(tuple[str, ...], t) for story in self._splits[split] for _, t in story.questions]
                unknown = torch.tensor([sum(label not in self.answers for label in of_one) for of_one in labels])
                most = None if usual is None else torch.tensor([name in usual for name in self.answers])
                names = list(self.answers)
                scores = several_scores(logits, targets, names, groups, majority=most, unknown=unknown)
                # Where most pairs have no label, exact match says little. No label told and none answered is right.
                scores = Scores({"micro F1": scores.pop("micro F1", 1.0), **scores}, details=scores.details)
            else:
                majority = self.answers.number(str(usual))
                scores = label_scores(logits, targets, list(self.answers), groups, majority=majority)
        scores.details["loss"] = loss
        return scores


class NodeLabelData(RelationData):
    """The same for labels of nodes."""

    Model = NodeLabelModel


class GraphLabelData(RelationData):
    """The same for labels of whole graphs."""

    Model = GraphLabelModel


def row_losses(schema: Schema, model: nn.Module, batch: GraphBatch, logits: Tensor | None = None) -> Tensor:
    """The loss of each row: the mean over its questions; a row without an answer that can be learned has none."""
    logits = in_full(batch_logits(model, batch)) if logits is None else logits
    found = logits[batch.row_graph]  # (R, P, outputs)
    if schema.kind == "one":
        losses = F.cross_entropy(found.transpose(1, 2), batch.targets, ignore_index=NOT_ASKED, reduction="none")
    elif schema.kind == "several":
        losses = F.binary_cross_entropy_with_logits(found, batch.targets.to(found.dtype), reduction="none").sum(-1)
    else:
        losses = (found[..., 0] - batch.targets) ** 2
    losses = losses * batch.asked  # (R, P)
    return losses.sum(1) / batch.asked.sum(1).clamp(min=1)


def group_names(stories: Sequence[Story], by_length: bool) -> list[str]:
    """The group of each row in scores: its number of relations k, or its number of nodes n."""
    letter, values = ("k", [story.k for story in stories]) if by_length else ("n", [story.size for story in stories])
    distinct = sorted(set(values))
    if len(distinct) <= MOST_GROUPS or by_length:
        return [f"{letter}={value}" for value in values]
    ordered = sorted(values)
    cuts = sorted({ordered[len(ordered) * part // 6] for part in range(1, 6)})  # the largest size of each group
    edges = [distinct[0] - 1, *(cut for cut in cuts if cut < distinct[-1]), distinct[-1]]
    names = {}
    for low, high in pairwise(edges):
        for value in range(low + 1, high + 1):
            names[value] = f"{letter}={low + 1}" if low + 1 == high else f"{letter}={low + 1}-{high}"
    return [names[value] for value in values]


def longest_path(story: Story) -> int:
    """How many edges, in any direction, the questions of a row have between their nodes at the most."""
    around: dict[int, set[int]] = {}
    for start, end in story.edges:
        around.setdefault(start, set()).add(end)
        around.setdefault(end, set()).add(start)
    longest = 1
    for (start, end), _ in story.questions[:8]:
        distance, reached, front = 0, {start}, {start}
        while front and end not in reached:
            front = {other for node in front for other in around.get(node, ())} - reached
            reached |= front
            distance += 1
        longest = max(longest, distance if end in reached else 1)
    return longest


def _can_be_right(schema: Schema, story: Story) -> bool:
    return all(schema.answer(target) is not None for _, target in story.questions)
