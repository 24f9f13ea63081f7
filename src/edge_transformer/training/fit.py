"""Settings fitted to the data, for runs that name no preset.

The rules are few and were judged on the problems of experiments/own-data; docs/your-own-data.md has the table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from ..errors import UserError
from ..io.progress import count_of
from ..tasks.base import DataFacts, TaskData
from .config import FITTED, RunConfig
from .fit_links import link_reasons, link_settings
from .trainer import Trainer

MINUTES = 10.0
LABELLED_GRAPHS = ("relations", "node-labels", "graph-labels")
TASKS = (*LABELLED_GRAPHS, "links")  # others have a preset TASK/cpu
FEW_ROWS, MANY_ROWS = 1000, 5000
FEW_AUGMENTED = 4.0  # longer rows made of each, where there are few
LEAST_STEPS = 2000
LEAST_EPOCHS = 12
EVALUATIONS = 25  # of the validation rows
MOST_EDGES = 10  # of an augmented row
LEAST_MODEL = {"dim": 64, "layers": 5}  # of labelled graphs: what memory must hold, whatever the facts
DISTANCES = 6  # for questions that name no pair, which are learned many times faster where pairs know how far they are


def first_run(task: str, overrides: Mapping[str, Any], seed: int) -> RunConfig:
    """The run as far as it is known before its data are read: settings of the data, and what the user has set."""
    if task not in TASKS:
        raise UserError(f"task {task!r}: has no settings that are fitted to data; expected a preset")
    values = {"task": task, "model": {"dim": 64, "heads": 4, "layers": 8}, "train": _train(1, 1, 1), "data": _DATA}
    return RunConfig.of(task, FITTED, values, overrides, seed)


def fitted_run(first: RunConfig, data: TaskData) -> tuple[RunConfig, TaskData, list[str]]:
    """The run with settings fitted to its data, the data with these settings, and the choices in three lines."""
    given = {name: value for name, value in first.overrides.items() if name.startswith("model.")}
    data.require_memory(LEAST_MODEL | {name.removeprefix("model."): value for name, value in given.items()})
    facts = data.facts()
    assert facts is not None, "the data of these tasks know their facts"
    if first.overrides.get("data.augmented") == 0:
        facts = replace(facts, composes=False)
    values = fitted_settings(first.task, facts, first.overrides)
    run = RunConfig.of(first.task, FITTED, values, first.overrides, first.seed)
    return run, data.with_settings(run.data_settings, run.seed), reasons(run, facts)


def fitted_settings(task: str, facts: DataFacts, given: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """Settings for data with these facts; some follow from others that the user has `given`, by dotted name."""
    if task == "links":
        return {"task": task, **link_settings(facts, given, MINUTES)}
    # Few rows from which longer ones can be made: the validation rows, no longer than those of training, are answered
    # long before longer questions are. So many longer rows are made, the model is large and every step is taken.
    few_stories = facts.composes and facts.rows < MANY_ROWS
    usual = min(50, facts.rows // 10) if few_stories else min(100, facts.rows // 30)
    batch = int(given.get("train.batch_size", max(16, usual)))
    augmented = float(given.get("data.augmented", FEW_AUGMENTED if few_stories else 1.0))
    rows = (1 + augmented) * facts.rows if few_stories else facts.rows
    epochs = int(given.get("train.epochs", max(LEAST_EPOCHS, math.ceil(LEAST_STEPS * batch / rows))))
    model: dict[str, Any] = {
        "kind": "edge",
        "dim": LEAST_MODEL["dim"] if facts.rows < MANY_ROWS and not few_stories else 128,
        "heads": 4,
        "layers": min(8, max(LEAST_MODEL["layers"], 2 * facts.longest)),
        "min_layers": 3,
        "dropout": 0.2,
        "attention_bias": False,
        "inverse_edges": True,
    }
    if task != "relations":
        model["distances"] = DISTANCES
    if task == "graph-labels":
        model |= {"pool": "mean-max", "dropout": 0.1}  # what is somewhere in the graph, and how much of it
    of_data = dict(_DATA)
    if facts.composes:
        longer = min(MOST_EDGES, 2 * facts.most_edges)
        of_data |= {"augmented": augmented, "augmented_k": longer, "augmented_returns": 0.4 if facts.genders else 0.0}
    train = _train(epochs, batch, max(1, epochs // EVALUATIONS))
    if few_stories:
        train["patience"] = None
    return {"task": task, "model": model, "train": train, "data": of_data}


def reasons(run: RunConfig, facts: DataFacts) -> list[str]:
    """What was chosen, why, and how to change it, in three lines; what the user has set stands without a reason."""
    if run.task == "links":
        return link_reasons(run, facts)
    model, train, of_data = run.settings["model"], run.train, run.settings["data"]

    def because(name: str, reason: str) -> str:
        return "" if name in run.overrides else f" {reason}"

    asked = "numbers as answers" if facts.numbers else count_of(facts.classes, "answer")
    augmented = of_data["augmented"]
    longer = {0: "", 1: ", as many longer rows made of them"}.get(
        augmented, f", {augmented:g} longer rows made of each"
    )
    up_to = f" (up to {of_data['augmented_k']} edges)" if augmented else ""
    held_out = count_of(facts.valid_rows, "validation row") if facts.valid_rows else "no validation rows"
    epoch = math.ceil(facts.rows * (1 + augmented) / train.batch_size)
    more = [", inverse edges"] * bool(model.get("inverse_edges")) + [", distances"] * bool(model.get("distances"))
    over = f"for questions over {count_of(facts.longest, 'edge')}"
    size = f"for {'fewer' if facts.rows < MANY_ROWS else 'more'} than {MANY_ROWS:,} rows"
    if facts.composes:
        size = "for answers that are made of edges"
    minutes = "" if train.minutes is None else f", at most {count_of(train.minutes, 'minute')} (--minutes)"
    ends = "; no rows say which weights are best: it keeps the last"
    if facts.valid_rows:
        ends = ", the best weights on validation rows" if train.keep == "best" else ", the last weights"
        if train.patience is not None:
            ends += "; it stops when they no longer improve (--set train.patience=...)"
    return [
        f"data: {count_of(facts.rows, 'training row')} of {facts.mean_size:.0f} nodes on average, "
        f"{count_of(facts.labels, 'label')}, {asked}{longer}{up_to}; {held_out}",
        f"model: dim {model['dim']}{because('model.dim', size)}, {count_of(model['layers'], 'layer')}"
        f"{because('model.layers', over)}{''.join(more)}, "
        f"dropout {model['dropout']} (--set model.dim=...)",
        f"training: up to {count_of(train.epochs, 'epoch')} of {count_of(epoch, 'batch')} of {train.batch_size}"
        f"{minutes}{ends}",
    ]


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
    right = bool(chosen) and chosen["score"] >= 0.995
    # Without patience validation rows are easier than those that count, and say nothing about time.
    if trainer.stopped_by == "minutes" and not (right and trainer.config.patience):
        done = trainer.total_steps / trainer.planned_steps
        minutes = trainer.config.minutes
        return f"limited by time: {done:.0%} of the planned steps in {minutes:g} minutes; try more (--minutes)"
    if not chosen or not history:
        return None
    loss = history[-1]["loss"]
    if right:
        return "limited by nothing that the validation rows show: it answers them right"
    if not trainer.stopped_by and trainer.best.waited(len(history)) <= 1:
        return "limited by time: it still got better when its epochs ended; try more (--set train.epochs=...)"
    if trainer.run.task not in LABELLED_GRAPHS:
        return None  # the loss of training asks for more than that of validation: they do not compare
    if loss < 0.5 * chosen["loss"]:
        return (
            "limited by data: it knows its training rows better than the validation rows "
            f"(loss {loss:.3f} and {chosen['loss']:.3f}); more rows would help"
        )
    return (
        "limited by the model: it does not know its training rows much better than the validation rows "
        f"(loss {loss:.3f} and {chosen['loss']:.3f}); try a larger one (--set model.dim=...), or tell more in the rows"
    )


def beside_baseline(scores: Mapping[str, float]) -> str | None:
    """What answering without looking would score, in a line; None where the scores do not say."""
    details: Mapping[str, Any] = next(iter(getattr(scores, "details", {}).values()), {})
    if (usual := details.get("baseline")) is not None:
        better = details["mae"] < usual["mae"]
        text = f"always answering the training mean, {usual['answer']:.4g}, has an MAE of {usual['mae']:.4g}"
    elif (share := details.get("majority")) is not None:
        several = details["kind"] == "several"
        score, low = details["exact_match" if several else "accuracy"], details["interval"][0]
        better = low > share or score == 1
        what, name = ("answers", "an exact match") if several else ("answer", "an accuracy")
        text = f"always giving the most frequent {what} of training has {name} of {100 * share:.1f}"
    else:
        return None
    return f"baseline: {text}" + ("" if better else "; the model is not clearly better")
