"""Settings fitted to the data, for runs that name no preset.

The rules are few and were judged on the problems of experiments/own-data; docs/your-own-data.md has the table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..errors import UserError
from ..tasks.base import DataFacts, TaskData
from .config import FITTED, RunConfig
from .trainer import Trainer

MINUTES = 10.0
TASKS = ("relations", "node-labels", "graph-labels")  # others have a preset TASK/cpu
FEW_ROWS, MANY_ROWS = 1000, 5000
LEAST_STEPS = 2000
LEAST_EPOCHS = 12
EVALUATIONS = 25  # of the validation rows
MOST_EDGES = 10  # of an augmented row


def first_run(task: str, overrides: Mapping[str, Any], seed: int) -> RunConfig:
    """The run as far as it is known before its data are read: settings of the data, and what the user has set."""
    if task not in TASKS:
        raise UserError(f"task {task!r}: has no settings that are fitted to data; expected a preset")
    values = {"task": task, "model": {"dim": 64, "heads": 4, "layers": 8}, "train": _train(1, 1, 1), "data": _DATA}
    return RunConfig.of(task, FITTED, values, overrides, seed)


def fitted_run(first: RunConfig, data: TaskData) -> tuple[RunConfig, TaskData, list[str]]:
    """The run with settings fitted to its data, the data with these settings, and the choices in three lines."""
    facts = data.facts()
    assert facts is not None, "the data of these tasks know their facts"
    if first.overrides.get("data.augmented") == 0:
        facts = replace(facts, composes=False)
    values, reasons = fitted_settings(first.task, facts)
    run = RunConfig.of(first.task, FITTED, values, first.overrides, first.seed)
    return run, data.with_settings(run.data_settings, run.seed), reasons


def fitted_settings(task: str, facts: DataFacts) -> tuple[dict[str, Any], list[str]]:
    """Settings for data with these facts, and the reasons, in three lines."""
    small = facts.rows < MANY_ROWS
    dim = 64 if small else 128
    layers = min(8, max(5, 2 * facts.longest))
    batch = min(100, max(16, facts.rows // 30))
    epochs = max(LEAST_EPOCHS, math.ceil(LEAST_STEPS * batch / facts.rows))
    epoch = math.ceil(facts.rows * (2 if facts.composes else 1) / batch)  # augmented rows count too
    model = {
        "kind": "edge",
        "dim": dim,
        "heads": 4,
        "layers": layers,
        "min_layers": 3,
        "dropout": 0.2,
        "attention_bias": False,
        "inverse_edges": True,
    }
    train = _train(epochs, batch, max(1, epochs // EVALUATIONS))
    of_data = dict(_DATA)
    longer = min(MOST_EDGES, 2 * facts.most_edges)
    if facts.composes:
        of_data |= {"augmented": 1.0, "augmented_k": longer, "augmented_returns": 0.4 if facts.genders else 0.0}
    more = f", as many longer rows made of them (up to {longer} edges)" if facts.composes else ""
    held_out = f"; {facts.valid_rows:,} validation rows" if facts.valid_rows else "; no validation rows"
    reasons = [
        f"data: {facts.rows:,} training rows of {facts.mean_size:.0f} nodes on average, {facts.labels} labels, "
        f"{facts.classes} answers{more}{held_out}",
        f"model: dim {dim} for {'fewer' if small else 'more'} than {MANY_ROWS:,} rows, {layers} layers for questions "
        f"over {facts.longest} edge{'s' * (facts.longest != 1)}, inverse edges, dropout 0.2 (--set model.dim=...)",
        f"training: up to {epochs} epochs of {epoch} batches of {batch}, at most {MINUTES:g} minutes (--minutes), the "
        f"best weights on validation rows; it stops when they no longer improve (--set train.patience=...)",
    ]
    return {"task": task, "model": model, "train": train, "data": of_data}, reasons


_DATA = {"valid_share": 0.1}


def _train(epochs: int, batch_size: int, evaluate_every: int) -> dict[str, Any]:
    return {
        "epochs": epochs,
        "batch_size": batch_size,
        "lr": 0.001,
        "warmup_steps": 100,
        "average": 0.995,
        "evaluate_every": evaluate_every,
        "minutes": MINUTES,
        "patience": 8,
        "keep": "best",
    }


def what_limited(trainer: Trainer) -> str | None:
    """What kept a finished run from a better score: time, data or the model; None where nobody can say."""
    chosen, history = trainer.best.chosen, trainer.history
    if not chosen or not history:
        return None
    score, loss = chosen["score"], history[-1]["loss"]
    if trainer.stopped_by == "minutes":
        done = trainer.total_steps / trainer.planned_steps
        minutes = trainer.config.minutes
        return f"limited by time: {done:.0%} of the planned steps in {minutes:g} minutes; try more (--minutes)"
    if score >= 0.995:
        return "limited by nothing that the validation rows show: it answers them right"
    if loss < 0.5 * chosen["loss"]:
        return (
            "limited by data: it knows its training rows better than the validation rows "
            f"(loss {loss:.3f} and {chosen['loss']:.3f}); more rows would help"
        )
    return (
        "limited by the model: it does not know its training rows much better than the validation rows "
        f"(loss {loss:.3f} and {chosen['loss']:.3f}); try a larger one (--set model.dim=...), or tell more in the rows"
    )
