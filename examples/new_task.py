"""A task of your own, made outside the package: classify whole graphs.

`et.register_task` makes it known; then training, scoring, saving and loading work as for the package's own tasks. A row
is {"edges": [[0, 1], ...], "target": "cycle"}. Run it: python examples/new_task.py
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import edge_transformer as et
from edge_transformer.nn.heads import PooledHead
from edge_transformer.nn.inputs import LabelledGraphInput
from edge_transformer.tasks.base import Progress, TaskData, TaskModel, build_encoder

LABELS, NODES = ("cycle", "none"), 5


def tensor(row: Mapping[str, Any]) -> Tensor:
    labels = torch.zeros(1, NODES, NODES, dtype=torch.long)
    for start, end in row["edges"]:
        labels[0, start, end] = 1
    return labels


class GraphClassifier(TaskModel):
    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__()
        self.settings, self.encoder = dict(settings), build_encoder(settings)
        self.input = LabelledGraphInput(1, self.encoder.config.dim)
        self.head = PooledHead(self.encoder.config.dim, len(LABELS))

    def forward(self, labels: Tensor) -> Tensor:
        return self.head(self.encoder.encode(self.input(labels), edge_mask=labels != 0))

    def description(self) -> dict[str, Any]:
        return {"model": self.settings}

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Self:
        return cls(description["model"])

    @torch.no_grad()
    def predict(self, inputs: Sequence[Any]) -> list[dict[str, Any]]:
        return [{"answer": LABELS[int(self(tensor(row)).argmax())]} for row in inputs]


class GraphRows(TaskData):
    def __init__(self, splits: Mapping[str, Iterable[Any]]) -> None:
        self.splits = {name: list(rows) for name, rows in splits.items()}

    @classmethod
    def from_rows(cls, splits: Mapping[str, Iterable[Any]], settings: Any, seed: int, model: Any = None) -> Self:
        return cls(splits)

    @property
    def train_rows(self) -> int:
        return len(self.splits["train"])

    def new_model(self, settings: Mapping[str, Any]) -> GraphClassifier:
        return GraphClassifier(settings)

    def batches(self, rows: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        chosen = [self.splits["train"][row] for row in rows.tolist()]
        yield torch.cat(list(map(tensor, chosen))), torch.tensor([LABELS.index(row["target"]) for row in chosen])

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor], device: torch.device) -> Tensor:
        return F.cross_entropy(model(batch[0].to(device)), batch[1].to(device), reduction="sum")

    @torch.no_grad()
    def evaluate(self, model: nn.Module, device: torch.device, progress: Progress | None = None) -> dict[str, float]:
        scores = {}
        for split, rows in self.splits.items():
            if split != "train":
                answers = model(torch.cat(list(map(tensor, rows))).to(device)).argmax(-1).tolist()
                right = [LABELS[answer] == row["target"] for answer, row in zip(answers, rows, strict=True)]
                scores[split] = sum(right) / len(rows)
        return scores


et.register_task("graph labels", data=GraphRows, model=GraphClassifier)


def random_row(chance: random.Random) -> dict[str, Any]:
    """A graph, and whether it has a cycle of three edges."""
    edges = [[a, b] for a in range(NODES) for b in range(NODES) if a != b and chance.random() < 0.3]
    pairs = {(a, b) for a, b in edges}
    cycle = any((b, c) in pairs and (c, a) in pairs for a, b in pairs for c in range(NODES))
    return {"edges": edges, "target": LABELS[0] if cycle else LABELS[1]}


if __name__ == "__main__":
    chance = random.Random(1)
    rows = [random_row(chance) for _ in range(900)]
    settings = {"dim": 32, "heads": 4, "layers": 2, "epochs": 8, "batch_size": 50, "lr": 0.003}
    model = et.train("graph labels", {"train": rows[200:], "test": rows[:200]}, threads=1, **settings)
    print(model.record.metrics)
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        print(et.load(folder).predict([{"edges": [[0, 1], [1, 2], [2, 0]]}]))
