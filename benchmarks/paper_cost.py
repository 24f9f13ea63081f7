"""What the paper's training on CFQ semantic parsing costs: the time and the multiply-adds of real steps, and of all.

A step takes a batch of the training pairs as training does. Its time is the CPU time of the process, with one thread.

    python benchmarks/paper_cost.py --data data/cfq/mcd1 --json benchmarks/paper-cost.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from edge_transformer.data.pairs.table import IGNORED
from edge_transformer.io.files import write_json
from edge_transformer.tasks.base import TaskData
from edge_transformer.training.config import Hardware, RunConfig
from edge_transformer.training.trainer import Trainer

PRESETS = ("cfq/paper", "cfq/paper-universal")


def multiply_adds(settings: dict[str, Any], shapes: Tensor) -> int:
    """Those of the layers of an encoder-decoder with edge states, forward, for pairs of these lengths, `[pairs, 2]`.

    A layer has 13 n²d² in products with weights and 3 n³d in the attention. The decoder's nodes are those of the source
    and one for each word to say. Embeddings and the output are left out, and that the last layer needs no source edges.
    """
    width, layers = settings["dim"], settings["layers"]
    source, target = shapes.double().unbind(1)

    def of_layer(nodes: Tensor) -> Tensor:
        return 13 * nodes**2 * width**2 + 3 * nodes**3 * width

    return int(layers * (of_layer(source) + of_layer(source + target)).sum())


def lengths(data: TaskData) -> Tensor:
    """The lengths of all training pairs, source and target: `[pairs, 2]`."""
    parts = []
    for batch in data.batches(torch.arange(data.train_rows)):
        whole = batch.source.new_full((len(batch.source),), batch.source.shape[1])
        source = whole if batch.source_mask is None else batch.source_mask.sum(1)
        parts.append(torch.stack([source, (batch.wanted != IGNORED).sum(1)], 1))
    return torch.cat(parts)


def measured(preset: str, data: Path, steps: int) -> dict[str, Any]:
    """One preset: the time of a few steps, and what all of them take."""
    run = RunConfig.from_preset("seq2seq", preset, {"data.test": False}, seed=1)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(run, run.load_data(data), folder, Hardware("cpu", threads=1))
        batches = trainer.data.shuffled(run.train.batch_size, run.seed, 0)
        trainer.take_step(batches[-1][:4])  # warm up
        seconds = []
        for rows in batches[:steps]:
            start = time.process_time()
            trainer.take_step(rows)
            seconds.append(time.process_time() - start)
            print(f"{preset}: a step of {len(rows)} pairs, {seconds[-1]:.1f} s of CPU time", flush=True)
        found: dict[str, Any] = {
            "pairs": trainer.data.train_rows,
            "pairs a step": run.train.batch_size,
            "steps": trainer.total_steps,
            "measured steps": steps,
            "seconds a step": statistics.mean(seconds),
            "days of one core": statistics.mean(seconds) * trainer.total_steps / 86400,
        }
        if trainer.model.has_edge_states:
            once = multiply_adds(run.settings["model"], lengths(trainer.data))
            # Backward takes twice the work of forward; a multiply-add is two operations.
            found["operations"] = 2 * 3 * once * run.train.epochs
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder of CFQ pairs")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found = {
        "command": f"python benchmarks/paper_cost.py --data {arguments.data} --json benchmarks/paper-cost.json",
        "presets": {preset: measured(preset, arguments.data, arguments.steps) for preset in PRESETS},
    }
    print(json.dumps(found, indent=1))
    if arguments.json:
        write_json(arguments.json, found)


if __name__ == "__main__":
    main()
