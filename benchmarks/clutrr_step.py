"""A training step of clutrr/paper, this project against a plain padded einsum implementation of the same model.

Both take the same batches of the same rows with the same dropout, optimiser and clipping; the ratio is that of the
medians.

    python benchmarks/clutrr_step.py --data data/clutrr/data_db9b8f04 --threads 1
    python benchmarks/clutrr_step.py            # on generated families
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn

from edge_transformer.data.relations.clutrr import write_clutrr
from edge_transformer.data.relations.folder import read_folder
from edge_transformer.data.relations.generate import generate
from edge_transformer.data.relations.rows import Story
from edge_transformer.data.tensors import shuffled_batches
from edge_transformer.tasks.relations.data import RelationData
from edge_transformer.training.config import Hardware, RunConfig
from edge_transformer.training.trainer import Trainer
from plain import alternate, plain_encoder, show, take_plain_step


class PlainModel(nn.Module):
    """The plain encoder with labels in and its query head."""

    def __init__(self, settings: dict[str, object], labels: int, answers: int) -> None:
        super().__init__()
        self.encoder = plain_encoder(settings)
        dim = self.encoder.norm1.normalized_shape[0]
        self.embedding = nn.Embedding(labels, dim)
        self.head = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, answers))

    def forward(self, labels: Tensor, real: Tensor, query: Tensor) -> Tensor:
        x = self.encoder(self.embedding(labels), real)
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
    return labels, real, query, torch.tensor([data.answers.number(str(story.target)) or 0 for story in stories])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="a CLUTRR folder; generated families without it")
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.data
        if folder is None:
            folder = Path(temporary) / "families"
            write_clutrr(folder, *generate((2, 3, 4), (2, 3), 15_000, seed=1))
        run = RunConfig.from_preset("relations", "clutrr/paper", {"data.held_out": 0.0}, seed=1)
        data = RelationData(read_folder(folder), run.data_settings, seed=1)
        trainer = Trainer(run, data, Path(temporary) / "run", Hardware("cpu", threads=arguments.threads))
        plain = PlainModel(run.settings["model"], len(data.relations) + 1, len(data.answers))
        optimizer = torch.optim.Adam(plain.parameters(), lr=1e-3)
        columns = pad(list(read_folder(folder).train), data)

        def plain_step(rows: Tensor) -> None:
            labels, real, query, target = (column[rows] for column in columns)
            most = int(real.sum(1).max())  # each batch is padded to its own largest graph
            labels, real = labels[:, :most, :most], real[:, :most]
            take_plain_step(plain, optimizer, nn.functional.cross_entropy(plain(labels, real, query), target))

        batches = shuffled_batches(data.train_rows, run.train.batch_size, seed=1, epoch=0)
        medians = alternate({"plain": plain_step, "ours": trainer.take_step}, batches, arguments.steps)
    show(medians, run.train.batch_size, arguments.threads, arguments.json)


if __name__ == "__main__":
    main()
