"""Settings of links fitted to the graph: how many facts and nodes there are decides about depth, steps and members."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..io.progress import count_of
from ..tasks.base import DataFacts
from .config import RunConfig

WHOLE = 500  # nodes of the largest graph whose training steps see all of it
NEIGHBOURHOOD = 160  # room for an answer and 50 sampled ones, with two nodes around each
LEAST_STEPS = 1000
RANKED = 1500  # nodes of the largest graph, as `model.whole` has it, on which answers are ranked among all nodes
SAMPLED, SCORED = 50, 100  # above that: wrong answers to rank among, and validation facts that are scored midway


def link_settings(facts: DataFacts, given: Mapping[str, Any], minutes: float) -> dict[str, Any]:
    """Settings for a graph with these facts; some follow from others that the user has `given`, by dotted name."""
    nodes, dense = facts.mean_size, _is_dense(facts)
    model: dict[str, Any] = {
        "kind": "edge",
        "dim": 32,
        "heads": 4,
        "layers": 1 if dense else 3,
        "norm": "pre",
        "dropout": 0.3 if dense else 0.2,
    }
    if dense:
        model |= {"entities": True, "members": 8}
    elif nodes > WHOLE:
        model["nodes"] = NEIGHBOURHOOD
    usual = 32 if dense else 64
    batch = int(given.get("train.batch_size", max(1, min(usual, facts.rows // 10))))
    steps = 250 if dense else LEAST_STEPS
    epochs = int(given.get("train.epochs", max(1, math.ceil(steps * batch / max(1, facts.rows)))))
    train = {
        "epochs": epochs,
        "batch_size": batch,
        "optimizer": "adamw",
        "lr": 0.003 if dense else 0.004,
        "weight_decay": 0.01,
        "warmup_steps": 50 if dense else 100,
        "average": 0.99,
        "evaluate_every": max(1, epochs if dense else epochs // 14),
        "minutes": minutes,
        "keep": "last" if dense else "best",
    }
    of_data: dict[str, Any] = {"hidden": 0.9, "relation_loss": 0.5}
    if model.get("nodes") and nodes > int(given.get("model.whole", RANKED)):
        of_data |= {"negatives": SAMPLED, "scored": SCORED}  # all nodes of one question are thousands of passes
    return {"model": model, "train": train, "data": of_data}


def _is_dense(facts: DataFacts) -> bool:
    """Whether pairs have more than one fact on average: then networks learn nodes by heart, and many are better."""
    return facts.rows > facts.mean_size**2


def link_reasons(run: RunConfig, facts: DataFacts) -> list[str]:
    """What was chosen, why, and how to change it, in three lines; what the user has set stands without a reason."""
    model, train = run.settings["model"], run.train

    def because(name: str, reason: str) -> str:
        return "" if name in run.overrides else f" {reason}"

    nodes, dense = round(facts.mean_size), _is_dense(facts)
    told = f"{count_of(facts.rows, 'fact')} of {count_of(nodes, 'node')} and {count_of(facts.labels, 'relation')}"
    held_out = count_of(facts.valid_rows, "validation fact") if facts.valid_rows else "no validation facts"
    size = f"for {'more' if dense else 'fewer'} facts than pairs of nodes"
    seen = "the whole graph at once"
    if model.get("nodes") and model["nodes"] < nodes:
        seen = f"neighbourhoods of {model['nodes']} nodes{because('model.nodes', f'for more than {WHOLE} nodes')}"
    knows = "embeddings of its nodes" if model.get("entities") else "no names, so it answers on other graphs too"
    networks = f", the mean of {model['members']} networks" if model.get("members", 1) > 1 else ""
    steps = count_of(train.epochs * math.ceil(facts.rows / train.batch_size), "step")
    minutes = "" if train.minutes is None else f", at most {count_of(train.minutes, 'minute')} (--minutes)"
    keeps = "the best weights on validation facts" if facts.valid_rows and train.keep == "best" else "the last weights"
    negatives = run.settings["data"]["negatives"]
    ranked = f"; answers are ranked among {negatives} sampled ones (--set data.negatives=0: all)" if negatives else ""
    return [
        f"data: {told}; {held_out}",
        f"model: {seen}, dim {model['dim']}, {count_of(model['layers'], 'layer')}{because('model.layers', size)}, "
        f"{knows}{networks} (--set model.dim=...)",
        f"training: up to {steps} of {train.batch_size} facts{minutes}; it keeps {keeps}{ranked}",
    ]
