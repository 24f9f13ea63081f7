"""Rows of every task that can be learned by heart, and a task that is made outside the package."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from edge_transformer.nn.encoder import Encoder
from edge_transformer.nn.heads import PooledHead
from edge_transformer.tasks.base import TaskData, TaskModel, build_encoder

TINY: dict[str, Any] = {"dim": 16, "heads": 2, "layers": 2, "epochs": 2, "batch_size": 4, "dropout": 0.0}


class Case(NamedTuple):
    """A task, rows of it, some of them broken, and the settings that a tiny model needs."""

    rows: list[dict[str, Any]]
    broken: dict[str, Any]
    what_is_wrong: str  # of the broken row
    settings: dict[str, Any]

    def questions(self) -> list[dict[str, Any]]:
        """Rows without their answers."""
        answers = ("target", "tail", "parents", "labels", "heads", "relations", "size")
        return [{name: value for name, value in row.items() if name not in answers} for row in self.rows]


def _families() -> list[dict[str, Any]]:
    told = [("son", "sister", "daughter"), ("daughter", "brother", "son"), ("wife", "son", "son")]
    return [{"edges": [["a", r1, "b"], ["b", r2, "c"]], "query": ["a", "c"], "target": t} for r1, r2, t in told * 4]


def _staff() -> list[dict[str, Any]]:
    trees = [(("a", "b"), ("a", "c")), (("c", "b"), ("b", "a")), (("b", "a"),)]
    rows = []
    for edges in trees * 4:
        bosses = {start for start, _ in edges}
        nodes = sorted({node for edge in edges for node in edge})
        target = {node: "boss" if node in bosses else "staff" for node in nodes}
        rows.append({"edges": [[start, "leads", end] for start, end in edges], "target": target})
    return rows


def _molecules() -> list[dict[str, Any]]:
    kinds = [("C", "O", "double", 1.5), ("C", "C", "single", 1.0), ("O", "O", "single", 0.5)]
    return [
        {"nodes": {"1": a, "2": [b, "end"]}, "edges": [["1", bond, "2", [length]]], "target": length}
        for a, b, bond, length in kinds * 4
    ]


def _graphs() -> list[dict[str, Any]]:
    sentences = [("Ann", "ran"), ("Bob", "slept"), ("Eve", "ran")]
    labels = {"role": ["agent", ""], "kind": ["N", "V"]}
    return [{"tokens": list(words), "parents": [1, -1], "labels": labels} for words in sentences * 4]


def _trees() -> list[dict[str, Any]]:
    tree = {"heads": [2, 0, 2], "relations": ["nsubj", "root", "punct"]}
    return [{"tokens": [name, "ran", "."], **tree} for name in ("Ann", "Bob", "Eve") * 4]


def _pairs() -> list[dict[str, Any]]:
    pairs = [("jump", "JUMP"), ("jump twice", "JUMP JUMP"), ("look", "LOOK"), ("look twice", "LOOK LOOK")]
    return [{"source": source, "target": target} for source, target in pairs * 3]


def _links() -> list[dict[str, Any]]:
    names = "abcdef"
    facts = [(names[i], "next", names[(i + 1) % 6]) for i in range(6)]
    facts += [(tail, "before", head) for head, _, tail in facts]
    return [{"head": head, "relation": relation, "tail": tail} for head, relation, tail in facts]


class RingData(TaskData):
    """Which of two kinds of graph: a ring, or a path."""

    def __init__(self, splits: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        self.splits = splits

    @classmethod
    def from_rows(
        cls, splits: Mapping[str, Iterable[Any]], settings: Any, seed: int, model: TaskModel | None = None
    ) -> Self:
        return cls({split: list(rows) for split, rows in splits.items()})

    @property
    def train_rows(self) -> int:
        return len(self.splits["train"])

    def new_model(self, settings: Mapping[str, Any]) -> RingModel:
        return RingModel(settings)

    def batches(self, rows: Tensor) -> Iterator[Mapping[str, Any]]:
        return (self.splits["train"][row] for row in rows.tolist())

    def loss(self, model: nn.Module, batch: Mapping[str, Any], device: torch.device) -> Tensor:
        logits = model(ring_edges(batch)[None])
        return nn.functional.cross_entropy(logits, torch.tensor([int(batch["target"] == "ring")]), reduction="sum")

    def evaluate(self, model: nn.Module, device: torch.device, progress: Any = None) -> dict[str, float]:
        answers = {split: model.predict(rows) for split, rows in self.splits.items() if split != "train"}  # type: ignore[operator]
        return {
            split: sum(answer["answer"] == row["target"] for answer, row in zip(found, self.splits[split], strict=True))
            / len(found)
            for split, found in answers.items()
        }


def ring_edges(row: Mapping[str, Any]) -> Tensor:
    """Which pairs of nodes have an edge: `[n, n]`."""
    if not isinstance(row.get("edges"), list):
        raise ValueError(f"found {row.get('edges')!r}; expected a list of edges")
    size = 1 + max(node for edge in row["edges"] for node in edge)
    edges = torch.zeros(size, size, dtype=torch.long)
    for start, end in row["edges"]:
        edges[start, end] = 1
    return edges


@dataclass(frozen=True)
class RingOptions:
    """Settings of its own."""

    classes: int = 2


class RingModel(TaskModel):
    """A graph in, its kind out."""

    Options = RingOptions

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__()
        self.settings = dict(settings)
        self.encoder: Encoder = build_encoder(settings, RingOptions)
        self.input = nn.Embedding(2, self.encoder.config.dim)
        self.head = PooledHead(self.encoder.config.dim, settings["classes"])

    def forward(self, edges: Tensor) -> Tensor:
        return self.head(self.encoder.encode(self.input(edges)))

    def description(self) -> dict[str, Any]:
        return {"model": self.settings}

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Self:
        return cls(description["model"])

    @torch.no_grad()
    def predict(self, inputs: Sequence[Any]) -> list[dict[str, Any]]:
        return [{"answer": ("path", "ring")[int(self(ring_edges(row)[None]).argmax())]} for row in inputs]


def _rings() -> list[dict[str, Any]]:
    paths = [[[node, node + 1] for node in range(size - 1)] for size in (3, 4, 5)]
    rings = [[*path, [len(path), 0]] for path in paths]
    kinds = [(path, "path") for path in paths] + [(ring, "ring") for ring in rings]
    return [{"edges": edges, "target": target} for edges, target in kinds * 2]


CASES = {
    "relations": Case(
        _families(),
        {"edges": [["a", "son"]], "query": ["a", "b"], "target": "x"},
        r'\["a", "son"\]',
        {**TINY, "min_layers": None, "augmented": 0.0},
    ),
    "node-labels": Case(
        _staff(),
        {"edges": [["a", "leads", "b"]], "target": {"c": "boss"}},
        r'nodes that some edge or "nodes" mentions: a, b',
        {**TINY, "min_layers": None},
    ),
    "graph-labels": Case(
        _molecules(),
        {"nodes": {"a": 3, "b": "C"}, "edges": [["a", "single", "b", float("nan")]], "target": "x"},
        "features that are numbers",
        {**TINY, "min_layers": None},
    ),
    "graphs": Case(_graphs(), {"tokens": ["a"], "parents": [7], "labels": {}}, "token 0 with parent 7", TINY),
    "trees": Case(_trees(), {"tokens": ["a"], "heads": [1], "relations": ["x"]}, "word 1", TINY),
    "seq2seq": Case(_pairs(), {"source": "jump"}, '"target": a text', TINY),
    "links": Case(_links(), {"head": "a", "relation": "next"}, '"tail": a text', {**TINY, "valid_share": 0.0}),
    "rings": Case(_rings(), {"edges": 3, "target": "ring"}, "expected a list of edges", {**TINY, "lr": 0.01}),
}
