"""A task of your own, made outside the package: classify whole graphs, {"edges": [[0, 1], ...], "target": "cycle"}."""

import torch

import edge_transformer as et
from edge_transformer.nn.heads import PooledHead
from edge_transformer.nn.inputs import LabelledGraphInput
from edge_transformer.tasks.base import answering, build_encoder

LABELS, NODES = ("cycle", "none"), 5


class GraphClassifier(et.TaskModel):
    def __init__(self, settings):
        super().__init__()
        self.settings, self.encoder = dict(settings), build_encoder(settings)
        self.input = LabelledGraphInput(1, self.encoder.config.dim)
        self.head = PooledHead(self.encoder.config.dim, len(LABELS))

    def forward(self, rows):
        labels = torch.zeros(len(rows), NODES, NODES, dtype=torch.long, device=self.input.embedding.weight.device)
        for number, (start, end) in ((number, edge) for number, row in enumerate(rows) for edge in row["edges"]):
            labels[number, start, end] = 1
        return self.head(self.encoder.encode(self.input(labels), edge_mask=labels != 0))

    def description(self):
        return {"model": self.settings}

    @classmethod
    def from_description(cls, description):
        return cls(description["model"])

    @torch.no_grad()
    def predict(self, inputs):
        with answering(self):  # in eval mode
            return [{"answer": LABELS[number]} for number in self(inputs).argmax(-1).tolist()]


class GraphRows(et.TaskData):
    def __init__(self, splits):
        self.splits = splits

    @classmethod
    def from_rows(cls, splits, settings, seed, model=None):
        return cls(splits)

    train_rows = property(lambda self: len(self.splits["train"]))

    def new_model(self, settings):
        return GraphClassifier(settings)

    def batches(self, rows):
        yield [self.splits["train"][row] for row in rows.tolist()]

    def loss(self, model, batch, device):
        targets = torch.tensor([LABELS.index(row["target"]) for row in batch], device=device)
        return torch.nn.functional.cross_entropy(model(batch), targets, reduction="sum")

    def evaluate(self, model, device, progress=None):
        rows = self.splits.get("test", [])
        right = [found["answer"] == row["target"] for found, row in zip(model.predict(rows), rows, strict=True)]
        return {"accuracy": sum(right) / len(right)} if rows else {}


et.register_task("graph labels", data=GraphRows, model=GraphClassifier)


def random_row():  # a graph, and whether it has a cycle of three edges
    edges = (torch.rand(NODES, NODES) < 0.3).float().fill_diagonal_(0)
    cycle = (edges @ edges @ edges).trace() > 0
    return {"edges": edges.nonzero().tolist(), "target": LABELS[0 if cycle else 1]}


if __name__ == "__main__":
    torch.manual_seed(1)
    rows = [random_row() for _ in range(900)]
    settings = {"dim": 32, "heads": 4, "layers": 2, "epochs": 8, "batch_size": 50, "lr": 0.003, "threads": 1}
    model = et.train("graph labels", {"train": rows[200:], "test": rows[:200]}, **settings)
    print(model.record.metrics, model.predict([{"edges": [[0, 1], [1, 2], [2, 0]]}]))
