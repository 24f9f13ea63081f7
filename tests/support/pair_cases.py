"""Twenty pairs of commands and actions, and tiny runs on them, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edge_transformer.training.config import Hardware, RunConfig
from edge_transformer.training.trainer import Trainer

TINY: dict[str, Any] = {
    "model.dim": 32,
    "model.heads": 2,
    "model.layers": 2,
    "model.dropout": 0.0,
    "train.batch_size": 10,
    "train.warmup_steps": 5,
    "train.lr": 0.01,
    "train.evaluate_every": 100,
    "data.unknown": 0.0,
}
VERBS = ("jump", "run", "look", "walk")
TIMES = {"": 1, " twice": 2, " thrice": 3, " left": 1, " left twice": 2}
ROWS = [
    (f"{verb}{times}", " ".join([f"{'TURN ' if 'left' in times else ''}{verb.upper()}"] * count))
    for verb in VERBS
    for times, count in TIMES.items()
]


def write(folder: Path, **splits: list[tuple[str, str]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for split, rows in splits.items():
        (folder / f"{split}.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in rows), encoding="utf-8")
    return folder


def make_trainer(data: Path, out: Path, **changes: Any) -> Trainer:
    run = RunConfig.from_preset("seq2seq", "seq2seq/cpu", {**TINY, **changes}, seed=3)
    return Trainer(run, run.load_data(data), out, Hardware("cpu", threads=1), "a command")
