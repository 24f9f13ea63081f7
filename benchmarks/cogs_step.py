"""A training step of cogs/paper, this project against a plain padded einsum implementation of the same model.

Both take the same random batches of the same sentences with the same dropout, optimiser and clipping; the ratio is
that of the medians.

    python benchmarks/cogs_step.py --data data/cogs --threads 1
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from edge_transformer.data.graphs.cogs import read_cogs
from edge_transformer.data.tensors import shuffled_batches
from edge_transformer.nn.inputs import TokenSequenceInput
from edge_transformer.tasks.graphs.data import GraphData, word_numbers
from edge_transformer.training.config import Hardware, RunConfig
from edge_transformer.training.trainer import Trainer
from plain import alternate, plain_encoder, show, take_plain_step

IGNORED = -100  # targets of padding, which cross_entropy leaves out


class PlainParser(nn.Module):
    """The plain encoder with tokens in, a parent and a label of each column out."""

    def __init__(self, settings: dict[str, object], tokens: int, columns: list[int], max_distance: int) -> None:
        super().__init__()
        self.encoder = plain_encoder(settings)
        dim = self.encoder.norm1.normalized_shape[0]
        self.input = TokenSequenceInput(tokens, dim, max_distance)
        self.parent = nn.Linear(dim, 1)
        self.labels = nn.ModuleList(nn.Linear(dim, labels) for labels in columns)

    def forward(self, tokens: Tensor, real: Tensor) -> list[Tensor]:
        edges = self.encoder(self.input(tokens), real)
        parents = self.parent(edges).squeeze(-1).masked_fill(~real[:, None, :], -torch.inf)
        nodes = edges.diagonal(dim1=1, dim2=2).transpose(1, 2)
        return [parents, *(label(nodes) for label in self.labels)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data/cogs"), help="the folder with COGS's train.tsv")
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    run = RunConfig.from_preset("graphs", "cogs/paper", {"data.test": False, "data.gen": False}, seed=1)
    data = GraphData.load(arguments.data, run.data_settings, seed=1)
    graphs = [row.graph() for row in read_cogs(arguments.data, ["train"]).splits["train"]]
    columns = list(data.columns.values())
    words = pad_sequence([torch.tensor(word_numbers(data.tokens, graph.tokens)) for graph in graphs], True, 0)
    targets = [pad_sequence([torch.tensor(graph.parents) for graph in graphs], True, IGNORED)]
    for name, labels in data.columns.items():
        rows = [torch.tensor([labels.number(label) or 0 for label in graph.labels[name]]) for graph in graphs]
        targets.append(pad_sequence(rows, True, IGNORED))
    settings = run.settings["model"]
    plain = PlainParser(settings, len(data.tokens) + 1, [len(labels) for labels in columns], settings["max_distance"])
    optimizer = torch.optim.AdamW(plain.parameters(), lr=5e-4, weight_decay=0.01)

    def plain_step(rows: Tensor) -> None:
        longest = int((targets[0][rows] != IGNORED).sum(1).max())  # each batch is padded to its own longest sentence
        real = targets[0][rows, :longest] != IGNORED
        logits = plain(words[rows, :longest], real)
        losses = [
            nn.functional.cross_entropy(each.flatten(0, 1), target[rows, :longest].flatten(), ignore_index=IGNORED)
            for each, target in zip(logits, targets, strict=True)
        ]
        take_plain_step(plain, optimizer, torch.stack(losses).sum())

    with tempfile.TemporaryDirectory() as temporary:
        trainer = Trainer(run, data, Path(temporary) / "run", Hardware("cpu", threads=arguments.threads))
        batches = shuffled_batches(data.train_rows, run.train.batch_size, seed=1, epoch=0)
        medians = alternate({"plain": plain_step, "ours": trainer.take_step}, batches, arguments.steps)
    show(medians, run.train.batch_size, arguments.threads, arguments.json)


if __name__ == "__main__":
    main()
