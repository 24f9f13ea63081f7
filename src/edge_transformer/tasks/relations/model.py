"""Relational reasoning: infer the label of one queried edge of a labelled graph, as in CLUTRR."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from ...data.relations.rows import Story, graph_from_json, guess_note, read_graph_lines
from ...data.tensors import GraphTable, Vocab
from ...io.streams import answered, never
from ...nn.heads import QueryEdgeHead
from ...nn.inputs import NULL_LABEL, LabelledGraphInput
from ..base import TaskModel, answering, build_encoder, model_options, require_list

PREDICT_EDGES = 20_000  # edges computed at once outside training, to bound memory


def labelled_edges(story: Story, relations: Vocab) -> list[tuple[int, int, int]] | None:
    """The edges of a story as (from, to, label), where label 0 is null; None if a relation is unknown."""
    edges = []
    for (start, end), relation in zip(story.edges, story.relations, strict=True):
        number = relations.number(relation)
        if number is None:
            return None
        edges.append((start, end, number + 1))
    return edges


@dataclass(frozen=True)
class RelationOptions:
    """Settings of a relation model besides those of its encoder."""

    inverse_edges: bool = False  # inverse edges and self-edges have labels of their own


class RelationModel(TaskModel):
    """Labelled graph in, label of the query edge out."""

    task = "relations"
    Options = RelationOptions

    def __init__(self, settings: Mapping[str, Any], relations: Vocab, answers: Vocab) -> None:
        super().__init__()
        self.settings, self.relations, self.answers = dict(settings), relations, answers
        self.options = model_options(settings, RelationOptions)
        self.encoder = build_encoder(settings, RelationOptions)
        dim = self.encoder.config.dim
        self.input = LabelledGraphInput(len(relations), dim, inverse_edges=self.options.inverse_edges)
        self.head = QueryEdgeHead(self.encoder.read_dim, len(answers))

    def forward(self, labels: Tensor, query: Tensor) -> Tensor:
        """`[batch, n, n]` labels and `[batch, 2]` queries -> `[batch, answers]` logits."""
        edges, pairs = self.input(labels), query[:, None]
        return self.head.classify(self.encoder.read(edges, pairs, edge_mask=labels != NULL_LABEL)).squeeze(1)

    def description(self) -> dict[str, Any]:
        return {"model": self.settings, "relations": list(self.relations), "answers": list(self.answers)}

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Self:
        return cls(description["model"], Vocab(description["relations"]), Vocab(description["answers"]))

    def predict(self, inputs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Answer graphs, with probabilities, such as

        {"edges": [["Ann", "daughter", "Lil"], ["Lil", "brother", "Bob"]], "query": ["Ann", "Bob"]}

        An answer has a note if the question is about families but unlike those of CLUTRR: if no edges lead from the
        first node of the query to the second, or if its relation is given. Such an answer is a guess.
        """
        require_list(inputs, "question")
        return self._answer(
            [graph_from_json(value, f"input {number}", known=self.relations) for number, value in enumerate(inputs)]
        )

    def predict_lines(
        self, lines: Iterable[str], source: str, pausing: Callable[[], bool] = never
    ) -> Iterator[dict[str, Any]]:
        stories = read_graph_lines(lines, source, known=self.relations)
        return answered(stories, self._answer, lambda story: story.size**2, PREDICT_EDGES, pausing)

    @torch.no_grad()
    def _answer(self, stories: Sequence[Story]) -> list[dict[str, Any]]:
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
                        **({} if stories[row].id is None else {"id": stories[row].id}),
                        "query": [start, end],
                        "answer": ranked[0][1],
                        "probabilities": {answer: round(value, 6) for value, answer in ranked},
                    }
                    note = guess_note(stories[row])
                    if note:
                        results[row]["note"] = note
        return results
