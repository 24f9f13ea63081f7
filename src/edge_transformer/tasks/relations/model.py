"""Relational reasoning: infer the label of one queried edge of a labelled graph, as in CLUTRR."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self, cast

import torch
from torch import Tensor, nn

from ...data.batching import GraphBatch, GraphTable
from ...data.relations.augment import spliced_stories
from ...data.relations.clutrr import ClutrrData, Story
from ...data.relations.jsonl import graph_files, graph_from_json, read_folder, read_graph_lines, read_valid, valid_files
from ...data.relations.scope import guess_note, is_of_families
from ...data.vocab import Vocab
from ...errors import DataError, UserError
from ...io.files import fingerprint
from ...io.settings import require_fraction, require_positive
from ...nn.encoder import EdgeTransformer, Encoder
from ...nn.heads import QueryEdgeHead
from ...nn.inputs import NULL_LABEL, LabelledGraphInput
from ..base import Progress, TaskData, TaskModel, answering, build_encoder, in_full, model_options

MOST_SPLICED = 100
PREDICT_EDGES = 20_000  # edges computed at once outside training: bounds memory, whatever the sizes


@dataclass(frozen=True)
class RelationSettings:
    """Which rows of the training files are trained on, and how."""

    train_k: tuple[int, ...] | None = None  # only stories of these lengths; None for all
    held_out: float = 0.0  # this share of the training rows, drawn by the seed, is scored instead of trained on
    valid: str | None = None  # folder whose validation files are scored too, beside those of the data's own folder
    test: bool = True  # False leaves the test files unread, for runs that recipes are chosen by
    spliced: float = 0.0  # so many rows more for each row, longer ones, made by data/splicing.py
    spliced_k: int = 8  # the largest number of relations in them
    spliced_returns: float = 0.0  # the share of steps in making them that come back to somebody (data/returning.py)
    merge_equal: bool = True  # rows of a training batch with the same graph are computed once, with one dropout mask

    def __post_init__(self) -> None:
        require_fraction(self, "held_out", "spliced_returns")
        require_positive(self, "spliced_k")
        if not 0 <= self.spliced <= MOST_SPLICED:
            raise ValueError(f"spliced must be from 0 to {MOST_SPLICED}, but is {self.spliced}")


def labelled_edges(story: Story, relations: Vocab) -> list[tuple[int, int, int]] | None:
    """The edges of a story as (from, to, label), label 0 being the null label; None where a relation is not known."""
    edges = []
    for (start, end), relation in zip(story.edges, story.relations, strict=True):
        number = relations.number(relation)
        if number is None:
            return None
        edges.append((start, end, number + 1))
    return edges


@dataclass(frozen=True)
class RelationOptions:
    """What a model of relations may do besides what its encoder does."""

    inverse_edges: bool = False  # the way back along an edge has a label of its own, and so have self-edges
    layer_loss: bool = False  # in training, every layer from `min_layers` on must have the answer, not only the last

    def check(self, encoder: Encoder) -> None:
        if self.layer_loss and not isinstance(encoder, EdgeTransformer):
            raise UserError("model.layer_loss: only the Edge Transformer (model.kind: edge) can be read at every layer")


class RelationModel(TaskModel):
    """Labelled graph in, label of the query edge out."""

    Options = RelationOptions

    def __init__(self, settings: Mapping[str, Any], relations: Vocab, answers: Vocab) -> None:
        super().__init__()
        self.settings, self.relations, self.answers = dict(settings), relations, answers
        self.options = model_options(settings, RelationOptions)
        self.encoder = build_encoder(settings, RelationOptions)
        self.options.check(self.encoder)
        dim = self.encoder.config.dim
        self.input = LabelledGraphInput(len(relations), dim, inverse_edges=self.options.inverse_edges)
        self.head = QueryEdgeHead(self.encoder.read_dim, len(answers))

    def forward(self, labels: Tensor, query: Tensor, for_loss: bool = False) -> Tensor:
        """`[batch, n, n]` labels and `[batch, 2]` queries -> `[batch, answers]` logits.

        `for_loss` gives all that the loss is computed from, `[depths, batch, answers]`: see `layer_loss`.
        """
        edges, pairs = self.input(labels), query[:, None]
        if for_loss and self.options.layer_loss:
            assert isinstance(self.encoder, EdgeTransformer)
            return self.head.classify(self.encoder.read_each(edges, pairs)).squeeze(2)
        logits = self.head.classify(self.encoder.read(edges, pairs, edge_mask=labels != NULL_LABEL)).squeeze(1)
        return logits[None] if for_loss else logits

    def description(self) -> dict[str, Any]:
        return {"model": self.settings, "relations": list(self.relations), "answers": list(self.answers)}

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Self:
        return cls(description["model"], Vocab(description["relations"]), Vocab(description["answers"]))

    def predict(self, inputs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Answers with probabilities for graphs such as

        {"edges": [["Ann", "daughter", "Lil"], ["Lil", "brother", "Bob"]], "query": ["Ann", "Bob"]}

        with a note where relations are those of families and the question is none that CLUTRR asks, as where no edges
        lead from the first of the query to the second, or its relation is told: however sure a model of CLUTRR is
        there, it was never asked such a thing.
        """
        if isinstance(inputs, Mapping):
            raise UserError("found one question; expected a list of them")
        return self._answer(
            [graph_from_json(value, f"input {number}", known=self.relations) for number, value in enumerate(inputs)]
        )

    def predict_lines(
        self, lines: Iterable[str], source: str, pausing: Callable[[], bool] = lambda: False
    ) -> Iterator[dict[str, Any]]:
        waiting: list[Story] = []
        edges = 0
        try:
            for story in read_graph_lines(lines, source, known=self.relations):
                waiting.append(story)
                edges += story.size**2
                if edges > PREDICT_EDGES or pausing():
                    yield from self._answer(waiting)
                    waiting, edges = [], 0
        except DataError:  # the lines before the broken one were good questions
            yield from self._answer(waiting)
            raise
        yield from self._answer(waiting)

    @torch.no_grad()
    def _answer(self, stories: Sequence[Story]) -> list[dict[str, Any]]:
        if not stories:
            return []
        table = GraphTable(len(self.answers))
        for story in stories:
            edges = labelled_edges(story, self.relations)
            assert edges is not None, "the readers refuse unknown relations"
            table.add(story.size, edges, story.query, answer=0)
        device = next(self.parameters()).device
        results: list[dict[str, Any]] = [{} for _ in stories]
        with answering(self):
            for batch in table.batches(max_edges=PREDICT_EDGES):
                logits = self(batch.labels.to(device), batch.query.to(device))
                probabilities = logits.float().softmax(-1).cpu()[batch.row_graph]
                for row, values in zip(batch.rows.tolist(), probabilities.tolist(), strict=True):
                    ranked = sorted(zip(values, self.answers, strict=True), reverse=True)
                    start, end = (stories[row].names[node] for node in stories[row].query)
                    results[row] = {
                        "query": [start, end],
                        "answer": ranked[0][1],
                        "probabilities": {answer: round(value, 6) for value, answer in ranked},
                    }
                    note = guess_note(stories[row])
                    if note:
                        results[row]["note"] = note
        return results


class RelationData(TaskData):
    """Stories as tensors, and how a model is trained and scored on them."""

    Settings = RelationSettings

    def __init__(
        self,
        data: ClutrrData,
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
        self._splices = 0 if model else round(settings.spliced * len(self._train))
        how = settings.spliced_k, seed, settings.spliced_returns
        self._spliced = spliced_stories(self._train, self._splices, *how) if self._splices else []

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
        testing = settings.test or model is not None  # who asks for the scores of a trained model means those of tests
        data, valid_fingerprint = read_folder(folder, progress, training, testing), ""
        # A trained model can be scored on what there is; its training needs all that was asked for.
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
        """The training rows, made when the first of them are asked for: who only scores needs none."""
        return self._tabulate([*self._train, *self._spliced])

    def _tabulate(self, stories: Sequence[Story]) -> GraphTable:
        """Stories as tensors, without those that have a relation or an answer outside the vocabularies."""
        table = GraphTable(len(self.answers))
        for story in stories:
            edges, answer = labelled_edges(story, self.relations), self.answers.number(story.target)
            if edges is not None and answer is not None:
                table.add(story.size, edges, story.query, answer)
        return table

    @property
    def train_rows(self) -> int:
        return len(self._train) + len(self._spliced)

    def identity(self) -> dict[str, Any]:
        lengths = sorted({story.k for story in self._train})
        return {
            "name": self._data.name,
            "fingerprint": self._data.fingerprint,
            "train_k": ",".join(map(str, lengths)),
            "train_rows": self.train_rows,
            "held_out": self._settings.held_out,
            **({} if is_of_families(self.relations) else {"corpus": "relations"}),
            **({"spliced_rows": len(self._spliced), "spliced_k": self._settings.spliced_k} if self._spliced else {}),
            **({"valid_fingerprint": self._valid_fingerprint} if self._valid_fingerprint else {}),
        }

    def notes(self) -> list[str]:
        notes = []
        if self._settings.valid and not self._valid_fingerprint:
            notes.append(f"{self._settings.valid}: no such folder; its validation stories are not scored")
        if 2 * len(self._spliced) < self._splices:
            notes.append(
                f"data.spliced asks for {self._splices} longer stories of up to {self._settings.spliced_k} relations; "
                f"{len(self._spliced)} could be made"
            )
        if self._splices and self._settings.spliced_returns and not any(story.genders for story in self._train):
            notes.append("data.spliced_returns changes nothing: no training row has genders, which ways back depend on")
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

    def weight(self, rows: Tensor) -> float:
        return float(len(rows))

    def loss(self, model: nn.Module, batch: GraphBatch, device: torch.device) -> Tensor:
        batch = batch.to(device)
        logits = in_full(model(batch.labels, batch.query, for_loss=True))  # (depths, graphs, answers)
        # The same graph may stand for several rows, even with different answers: each counts once.
        return -(batch.counts * logits.log_softmax(-1)).sum((1, 2)).mean()

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
