"""Records of finished runs that never were."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edge_transformer.io.records import Record

VERSIONS = {"torch": "2.13.0", "edge-transformer": "0.1.0"}
OFFICIAL = "d3af2724bb7e63b5"  # the fingerprint of CLUTRR's official stories
STORIES = {"corpus": "clutrr", "name": "official", "fingerprint": OFFICIAL, "train_k": "2,3,4", "train_rows": 12064}
COGS: dict[str, Any] = {"task": "graphs", "data": {"name": "cogs", "fingerprint": "5", "corpus": "cogs"}}
DERIVED: dict[str, Any] = {
    "task": "trees",
    "data": {"name": "cfq-dependencies", "fingerprint": "3", "treebank": "cfq-dependencies"},
}


def run(seed: int, metrics: dict[str, float], **fields: Any) -> Record:
    """A finished run that never was."""
    preset = fields.get("preset", "clutrr/cpu")
    values: dict[str, Any] = {
        "task": "relations",
        "data": STORIES,
        "model": "edge",
        "preset": preset,
        "overrides": {},
        "minutes": 10.0 * seed,
        "threads": 1,
        "versions": VERSIONS,
        "command": f"edge-transformer train relations --preset {preset} --seed {seed}",
        "finished": "2025-03-01T12:00:00+00:00",
    }
    return Record(seed=seed, metrics=metrics, **{**values, **fields})


def runs(values: Sequence[float], metric: str = "k=10", **fields: Any) -> list[Record]:
    return [run(seed, {metric: value}, **fields) for seed, value in enumerate(values, start=1)]
