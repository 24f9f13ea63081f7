"""Labelled graphs in, labels or numbers out: for pairs of nodes as in CLUTRR, for each node, or for the whole graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from ...data.relations.fields import graph_from_json
from ...data.relations.rows import Story, guess_note
from ...data.relations.schema import Schema
from ...data.relations.sources import rows_of
from ...data.relations.table import GraphBatch, GraphTable
from ...data.tensors import Vocab
from ...errors import DataError, UserError
from ...io.process import free_memory
from ...io.settings import require_choice
from ...io.streams import answered, never, read_json_lines
from ...nn.heads import POOLS, PooledHead, QueryEdgeHead
from ...nn.inputs import NULL_LABEL, LabelledGraphInput
from ...nn.plain import require_steps
from ..base import TaskModel, answering, build_encoder, model_options, require_list

PREDICT_EDGES = 20_000  # edges computed at once outside training, to bound memory
SEVERAL_THRESHOLD = 0.5  # of several labels, those more probable than this are the answer


@dataclass(frozen=True)
class RelationOptions:
    """Settings of a model of labelled graphs besides those of its encoder."""

    inverse_edges: bool = False  # inverse edges and self-edges have labels of their own
    distances: int = 0  # pairs know how many edges apart they are, up to this number; 0: they do not

    def __post_init__(self) -> None:
        if self.distances < 0:
            raise ValueError(f"distances must not be negative, but is {self.distances}")


@dataclass(frozen=True)
class GraphLabelOptions(RelationOptions):
    """Settings of a model of labels of whole graphs besides those of its encoder."""

    pool: str = "attention"  # how the states of all pairs become one: "mean" | "attention" | "max" | "mean-max"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice(self, "pool", POOLS)


class LabelledGraphModel(TaskModel):
    """What the models of labelled graphs share; `asks` says what they answer for."""

    Options: ClassVar[type[RelationOptions]] = RelationOptions
    asks: ClassVar[str] = "pairs"  # of data.relations.fields: "pairs", "nodes" or "graph"

    def __init__(self, settings: Mapping[str, Any], schema: Schema, temperature: float = 1.0) -> None:
        super().__init__()
        self.settings, self.schema, self.temperature = dict(settings), schema, temperature
        self.options = model_options(settings, self.Options)
        self.encoder = build_encoder(settings, self.Options)
        nodes, edges = (
            0 if scale is None else len(scale.mean) for scale in (schema.node_features, schema.edge_features)
        )
        self.input = LabelledGraphInput(
            schema.labels,
            self.encoder.config.dim,
            inverse_edges=self.options.inverse_edges,
            distances=self.options.distances,
            relations=len(schema.relations),
            node_features=nodes,
            edge_features=edges,
        )
        self.head: QueryEdgeHead | PooledHead
        if isinstance(self.options, GraphLabelOptions):
            self.head = PooledHead(self.encoder.config.dim, schema.outputs, pool=self.options.pool)
        else:
            self.head = QueryEdgeHead(self.encoder.read_dim, schema.outputs)

    @property
    def relations(self) -> Vocab:
        """The relations that the training rows have."""
        return self.schema.relations

    @property
    def answers(self) -> Vocab:
        """The labels to choose from."""
        return self.schema.answers

    def forward(
        self,
        labels: Tensor,
        query: Tensor | None = None,
        node_features: Tensor | None = None,
        edge_features: Tensor | None = None,
    ) -> Tensor:
        """`[batch, n, n]` or `[batch, n, n, m]` labels and `[batch, 2]` pairs of nodes -> `[batch, answers]` logits.

        With `[batch, P, 2]` pairs the logits are `[batch, P, answers]`. Models of whole graphs read no pairs.
        """
        edges = self.input(labels, node_features, edge_features)
        edge_mask = labels != NULL_LABEL
        edge_mask = edge_mask if labels.dim() == 3 else edge_mask.any(-1)
        if isinstance(self.head, PooledHead):
            logits = self.head(self.encoder.encode(edges, edge_mask=edge_mask))
            return logits if query is None or query.dim() == 2 else logits[:, None]
        require_steps(self.head, QueryEdgeHead, "its classifier")
        assert query is not None
        pairs = query[:, None] if query.dim() == 2 else query
        logits = self.head.classify(self.encoder.read(edges, pairs, edge_mask=edge_mask))
        return logits.squeeze(1) if query.dim() == 2 else logits

    def description(self) -> dict[str, Any]:
        calibrated = {} if self.temperature == 1.0 else {"temperature": self.temperature}
        return {"model": self.settings, **self.schema.to_json(), **calibrated}

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Self:
        temperature = float(description.get("temperature", 1.0))
        if not temperature > 0:
            raise UserError(f"temperature: found {temperature}; expected a number above 0")
        return cls(description["model"], Schema.from_json(description), temperature)

    # --- answers ------------------------------------------------------------------------------------------------------

    def predict(self, inputs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Answer rows, in their order, with probabilities; see `docs/formats.md` for what a row may have."""
        if not isinstance(inputs, Mapping) or isinstance(inputs.get("edges"), list | tuple):  # else frames of pandas
            require_list(inputs, "question")
        rows = enumerate(rows_of(inputs, self.task))
        return self._answer([self._story(value, f"input {number}") for number, value in rows])

    def predict_lines(
        self, lines: Iterable[str], source: str, pausing: Callable[[], bool] = never
    ) -> Iterator[dict[str, Any]]:
        stories = (self._story(value, source, line) for line, value in read_json_lines(lines, source))
        return answered(stories, self._answer, lambda story: story.size**2, PREDICT_EDGES, pausing)

    def _story(self, value: Any, source: str, line: int | None = None) -> Story:
        """Read a question; refuse what no training row said, and graphs that memory cannot hold."""
        story = graph_from_json(value, source, line, known=self.relations, asks=self.asks)
        unknown = self.schema.unknown(story)
        if unknown is not None:
            raise DataError(source, line, *unknown)
        require_memory(story.size, self.settings)
        return story

    @torch.no_grad()
    def logits(self, table: GraphTable, progress: Callable[[int], None] | None = None) -> list[Tensor]:
        """The logits of every row of a table, each `[questions, outputs]`."""
        device = next(self.parameters()).device
        found: list[Tensor] = [torch.empty(0)] * len(table)
        with answering(self):
            for batch in table.batches(max_edges=PREDICT_EDGES):
                logits = batch_logits(self, batch.to(device)).float().cpu()  # (G, P, outputs)
                for row, graph in zip(batch.rows.tolist(), batch.row_graph.tolist(), strict=True):
                    found[row] = logits[graph]
                if progress:
                    progress(len(batch.rows))
        return found

    def _answer(self, stories: Sequence[Story]) -> list[dict[str, Any]]:
        table = GraphTable(self.schema)
        for story in stories:
            table.add(story)
        return [
            self._result(story, self._answers(logits[: len(story.questions)]))
            for story, logits in zip(stories, self.logits(table), strict=True)
        ]

    def _answers(self, logits: Tensor) -> list[dict[str, Any]]:
        """An answer for each question: `[questions, outputs]` logits."""
        if self.schema.kind == "number":
            assert self.schema.number is not None
            (mean,), (deviation,) = self.schema.number.mean, self.schema.number.deviation
            return [{"answer": mean + deviation * value} for value in logits[:, 0].tolist()]
        logits = logits / self.temperature
        if self.schema.kind == "several":
            return [
                {
                    "answer": [name for value, name in ranked if value > SEVERAL_THRESHOLD],
                    "probabilities": {name: round(value, 6) for value, name in ranked},
                }
                for ranked in map(self._ranked, logits.sigmoid().tolist())
            ]
        return [
            {"answer": ranked[0][1], "probabilities": {name: round(value, 6) for value, name in ranked}}
            for ranked in map(self._ranked, logits.softmax(-1).tolist())
        ]

    def _ranked(self, values: Sequence[float]) -> list[tuple[float, str]]:
        return sorted(zip(values, self.answers, strict=True), reverse=True)

    def _result(self, story: Story, answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
        named = {} if story.id is None else {"id": story.id}
        if self.asks == "graph":
            return named | answers[0]
        asked = [[story.names[node] for node in pair] for pair, _ in story.questions]
        if self.asks == "nodes":
            return named | {"answers": {start: answer for (start, _), answer in zip(asked, answers, strict=True)}}
        if story.more:
            return named | {"answers": [{"query": pair} | one for pair, one in zip(asked, answers, strict=True)]}
        note = guess_note(story) if story.is_plain else None
        return named | {"query": asked[0]} | answers[0] | ({"note": note} if note else {})


class RelationModel(LabelledGraphModel):
    """Labelled graph in, label of the queried pairs out.

    `predict` takes graphs such as

    {"edges": [["Ann", "daughter", "Lil"], ["Lil", "brother", "Bob"]], "query": ["Ann", "Bob"]}

    An answer has a note if the question is about families but unlike those of CLUTRR: if no edges lead from the
    first node of the query to the second, or if its relation is given. Such an answer is a guess.
    """

    task = "relations"


class NodeLabelModel(LabelledGraphModel):
    """Labelled graph in, a label for each node out."""

    task, asks = "node-labels", "nodes"


class GraphLabelModel(LabelledGraphModel):
    """Labelled graph in, a label for the whole graph out."""

    Options = GraphLabelOptions
    task, asks = "graph-labels", "graph"


def batch_logits(model: torch.nn.Module, batch: GraphBatch) -> Tensor:
    """The logits of a batch: `[graphs, questions, outputs]`."""
    features = (
        {} if batch.node_features is None else {"node_features": batch.node_features},
        {} if batch.edge_features is None else {"edge_features": batch.edge_features},
    )
    if batch.pairs.shape[1] == 1:  # the usual case keeps its shape
        return model(batch.labels, batch.pairs[:, 0], **features[0], **features[1])[:, None]
    return model(batch.labels, batch.pairs, **features[0], **features[1])


STATES = 14  # vectors a pair that a layer computes at once, or keeps for its backward pass


def require_memory(nodes: int, settings: Mapping[str, Any], training: bool = False) -> None:
    """Refuse a graph whose states would not fit into the free memory, before anything is computed."""
    dim, layers = int(settings.get("dim", 64)), int(settings.get("layers", 1))
    vectors = STATES * (layers if training else 1)
    needed, free = nodes**2 * dim * 4 * vectors, free_memory()
    if free is not None and needed > free:
        most = int((free / (dim * 4 * vectors)) ** 0.5)
        raise UserError(
            f"a graph of {nodes:,} nodes needs about {needed / 1e9:.1f} GB at dim {dim}"
            f"{f' and {layers} layers' if training else ''}; found {free / 1e9:.1f} GB of free memory, enough for "
            f"about {most:,} nodes; expected smaller graphs, a smaller model.dim or more memory"
        )
