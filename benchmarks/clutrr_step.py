"""A training step of clutrr/paper, this project against a plain padded einsum implementation of the same model.

Both take the same batches of the same rows with the same dropout, optimiser and clipping. The plain one is what one
would write from the paper: every batch padded to its largest graph, four projections, torch.einsum, PyTorch's dropout.
Steps alternate, so that both see the same machine; the ratio is that of the medians.

    python benchmarks/clutrr_step.py --data data/clutrr/data_db9b8f04 --threads 1
    python benchmarks/clutrr_step.py            # on generated families
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from edge_transformer.data.batching import shuffled_batches
from edge_transformer.data.clutrr import Story, write_clutrr
from edge_transformer.data.graphs import read_folder
from edge_transformer.data.kinship import generate
from edge_transformer.run import Hardware, RunConfig
from edge_transformer.tasks.clutrr import RelationData
from edge_transformer.train import Trainer


class PlainAttention(nn.Module):
    """Triangular attention with torch.einsum, masked for padding."""

    def __init__(self, dim: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v1, self.v2, self.o = (nn.Linear(dim, dim, bias=False) for _ in range(5))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v1, v2 = (part(x).unflatten(-1, (self.heads, -1)) for part in (self.q, self.k, self.v1, self.v2))
        scores = torch.einsum("bilhd,bljhd->biljh", q, k) / q.shape[-1] ** 0.5
        scores = scores.masked_fill(mask, -1e9)
        weights = self.dropout(scores.softmax(2))
        values = torch.einsum("bilhd,bljhd->biljhd", v1, v2)
        return self.o(torch.einsum("biljh,biljhd->bijhd", weights, values).flatten(-2))


class PlainModel(nn.Module):
    """The tied Edge Transformer with the released placement of norms, and its query head."""

    def __init__(self, dim: int, heads: int, layers: int, dropout: float, labels: int, answers: int) -> None:
        super().__init__()
        self.layers = layers
        self.embedding = nn.Embedding(labels, dim)
        self.attention = PlainAttention(dim, heads, dropout)
        self.ffn = nn.Sequential(nn.Linear(dim, 4 * dim), nn.ReLU(), nn.Dropout(dropout), nn.Linear(4 * dim, dim))
        self.norm1, self.norm2, self.dropout = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.Dropout(dropout)
        self.head = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, answers))

    def forward(self, labels: Tensor, real: Tensor, query: Tensor) -> Tensor:
        x = self.embedding(labels)
        mask = ~(real[:, :, None, None] & real[:, None, :, None] & real[:, None, None, :]).unsqueeze(-1)
        for _ in range(self.layers):
            x = self.norm1(x)
            x = x + self.dropout(self.attention(x, mask))
            x = self.norm2(x)
            x = x + self.dropout(self.ffn(x))
        return self.head(x[torch.arange(len(x)), query[:, 0], query[:, 1]])


def pad(stories: list[Story], data: RelationData) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """All rows as tensors, padded to the largest graph."""
    most = max(story.size for story in stories)
    labels = torch.zeros(len(stories), most, most, dtype=torch.long)
    for row, story in enumerate(stories):
        for (start, end), relation in zip(story.edges, story.relations, strict=True):
            labels[row, start, end] = 1 + (data.relations.number(relation) or 0)
    real = torch.arange(most) < torch.tensor([story.size for story in stories])[:, None]
    query = torch.tensor([story.query for story in stories])
    return labels, real, query, torch.tensor([data.answers.number(story.target) or 0 for story in stories])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="a CLUTRR folder; generated families without it")
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.data
        if folder is None:
            folder = Path(temporary) / "families"
            write_clutrr(folder, *generate((2, 3, 4), (2, 3), 15_000, seed=1))
        run = RunConfig.from_preset("clutrr", "clutrr/paper", {"data.held_out": 0.0}, seed=1)
        data = RelationData(read_folder(folder), run.data_settings, seed=1)
        trainer = Trainer(run, data, Path(temporary) / "run", Hardware("cpu", threads=arguments.threads))
        settings = run.settings["model"]
        plain = PlainModel(
            dim=settings["dim"],
            heads=settings["heads"],
            layers=settings["layers"],
            dropout=settings["dropout"],
            labels=len(data.relations) + 1,
            answers=len(data.answers),
        )
        optimizer = torch.optim.Adam(plain.parameters(), lr=1e-3)
        columns = pad(list(read_folder(folder).train), data)
        batches = shuffled_batches(data.train_rows, run.train.batch_size, seed=1, epoch=0)

        def plain_step(rows: Tensor) -> None:
            labels, real, query, target = (column[rows] for column in columns)
            optimizer.zero_grad()
            nn.functional.cross_entropy(plain(labels, real, query), target).backward()
            nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
            optimizer.step()

        def our_step(rows: Tensor) -> None:
            trainer.take_step(rows)

        times: dict[str, list[float]] = {"plain": [], "ours": []}
        steps: dict[str, Callable[[Tensor], None]] = {"plain": plain_step, "ours": our_step}
        for number in range(arguments.steps + 1):
            for name, step in steps.items():
                started = time.perf_counter()
                step(batches[number % len(batches)])
                if number:  # the first one of each is a warm-up
                    times[name].append(time.perf_counter() - started)
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, seconds in medians.items():
        print(f"{name:<6} {seconds:6.3f} s a step (of {run.train.batch_size} rows, {arguments.threads} thread)")
    print(f"ours / plain = {medians['ours'] / medians['plain']:.2f}")


if __name__ == "__main__":
    main()
