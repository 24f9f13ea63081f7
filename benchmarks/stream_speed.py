"""Training rows streamed from disk: how many times faster they are loaded than trained on, and the memory they take.

Rows of random labelled graphs are written as parts, 01-train.jsonl and so on. Both times are CPU times of one thread,
in one process: loading is reading, checking and tabulating rows, and making batches
of them; training is the rest of a step, with the default settings for so many rows, and with a small model. Memory is
measured in processes of their own, with all rows and with a tenth of them.

    python benchmarks/stream_speed.py --rows 1000000 --json benchmarks/stream-speed.json
"""

from __future__ import annotations

import argparse
import json
import random
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from edge_transformer.api import planned_run
from edge_transformer.bench.memory import extra_peak
from edge_transformer.data.relations import folder as folders
from edge_transformer.data.relations.stream import BLOCK_ROWS, WINDOW_BLOCKS
from edge_transformer.io.files import replacing
from edge_transformer.tasks.relations.data import RelationData
from edge_transformer.training.config import Hardware, RunConfig
from edge_transformer.training.fit import fitted_run
from edge_transformer.training.trainer import Trainer

PARTS = 10
WINDOW = BLOCK_ROWS * WINDOW_BLOCKS
LABELS = 20
SMALL = {"model.dim": 32, "model.heads": 4, "model.layers": 4}  # a model that trains fast


def random_row(chance: random.Random) -> dict[str, Any]:
    """A chain of two to five edges with two more edges somewhere."""
    size = chance.randint(3, 6)
    edges = [[node, f"label {chance.randrange(LABELS)}", node + 1] for node in range(size - 1)]
    for _ in range(2):
        edges.append([chance.randrange(size), f"label {chance.randrange(LABELS)}", chance.randrange(size)])
    return {"edges": edges, "query": [0, size - 1], "target": edges[0][1]}


def write_rows(folder: Path, rows: int) -> int:
    """Write the training rows in parts, and some test rows; returns the bytes."""
    chance, written = random.Random(1), 0
    for part in range(PARTS):
        share = range(rows * part // PARTS, rows * (part + 1) // PARTS)
        text = "".join(json.dumps(random_row(chance)) + "\n" for _ in share)
        written += (folder / f"{part + 1:02}-train.jsonl").write_text(text)
    (folder / "test.jsonl").write_text("".join(json.dumps(random_row(chance)) + "\n" for _ in range(10)))
    return written


def read(folder: Path, changes: dict[str, Any]) -> tuple[RunConfig, RelationData]:
    """The run that `train` would start without a preset, and its streamed rows."""
    run = planned_run("relations", None, changes, seed=1)
    run, data, _ = fitted_run(run, run.load_data(folder))
    assert isinstance(data, RelationData)
    return run, data


def measure(folder: Path, changes: dict[str, Any], steps: int) -> dict[str, Any]:
    """Rows a CPU second of the first pass, of loading two windows of blocks, and of training on some of their rows."""
    started = time.process_time()
    run, data = read(folder, changes)
    first_pass = time.process_time() - started
    with tempfile.TemporaryDirectory() as out:
        trainer = Trainer(run, data, Path(out), Hardware(threads=1))
        batches = data.shuffled(run.train.batch_size, run.seed, 0)[: 2 * WINDOW // run.train.batch_size]
        loading = cpu_seconds(lambda: [list(data.batches(batch)) for batch in batches])
        few = batches[-steps:]  # of a window that is in memory now
        trainer.take_step(few[0])  # a warm-up
        both = cpu_seconds(lambda: [trainer.take_step(batch) for batch in few])
        training = both - cpu_seconds(lambda: [list(data.batches(batch)) for batch in few])
        trainer.release_folder()
    loaded, trained = (sum(map(len, each)) for each in (batches, few))
    return {
        "dim": run.settings["model"]["dim"],
        "layers": run.settings["model"]["layers"],
        "batch size": run.train.batch_size,
        "first pass, rows a second": data.train_rows / first_pass,
        "loading, rows a second": loaded / loading,
        "training, rows a second": trained / training,
        "times as fast": (loaded / loading) / (trained / training),
    }


def cpu_seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def load_all(folder: Path) -> None:
    """Read all rows as an epoch does, without training."""
    run, data = read(folder, {})
    for batch in data.shuffled(run.train.batch_size, run.seed, 0):
        for _ in data.batches(batch):
            pass


def peak_alone(folder: Path, parts: int) -> int | None:
    """The memory that reading an epoch of some parts takes, measured in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        some = Path(name)
        for path in [*sorted(folder.glob("*-train.jsonl"))[:parts], folder / "test.jsonl"]:
            (some / path.name).symlink_to(path.resolve())
        command = [sys.executable, __file__, "--only-memory", str(some)]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--steps", type=int, default=20, help="training steps of each model")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    parser.add_argument("--only-memory", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    folders.STREAM_ROWS = min(folders.STREAM_ROWS, arguments.rows // PARTS)  # fewer rows are streamed too
    if arguments.only_memory:
        folders.STREAM_ROWS = 1
        print(json.dumps(extra_peak(lambda: load_all(arguments.only_memory))))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found: dict[str, Any] = {
            "command": shlex.join(["python", *sys.argv]),
            "rows": arguments.rows,
            "bytes of the files": write_rows(folder, arguments.rows),
            "models": {
                what: measure(folder, changes, arguments.steps)
                for what, changes in (("the default settings", {}), ("a small model", SMALL))
            },
            "bytes of memory": {
                f"{arguments.rows * parts // PARTS:,} rows": peak_alone(folder, parts) for parts in (1, PARTS)
            },
        }
    print(json.dumps(found, indent=1))
    if arguments.json:
        with replacing(arguments.json) as path:
            path.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
