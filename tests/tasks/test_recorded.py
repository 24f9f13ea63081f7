"""Cards of models in notebooks: task, kind, size, data and main score, whatever the model has gone through."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

import edge_transformer as et
from edge_transformer.data.relations.schema import Schema
from edge_transformer.data.tensors import Vocab
from edge_transformer.tasks.base import RECORD_FILE, TaskModel
from edge_transformer.tasks.recorded import RecordedModel
from edge_transformer.tasks.relations.model import RelationModel
from record_cases import run

HOSTILE = "<script>alert(1)</script>\"'&"


def small_model(**settings: Any) -> RelationModel:
    shape = {"kind": "edge", "dim": 8, "heads": 2, "layers": 3, **settings}
    return RelationModel(shape, Schema(Vocab(["near"]), Vocab(["near", "far"])))


def card(model: RecordedModel) -> tuple[str, dict[str, str]]:
    """The title and the rows of a card."""
    page = ElementTree.fromstring(model._repr_html_())
    rows = {row[0].text or "": row[1].text or "" for row in page.iter("tr")}
    return page.findtext("caption") or "", rows


def test_the_card_of_a_bundled_model() -> None:
    title, rows = card(et.load("cogs-small"))
    assert title == "GraphParser cogs-small"
    assert list(rows) == ["task", "kind", "size", "data", "score", "trained"]
    assert rows["task"] == "graphs"
    assert rows["kind"] == "edge, 3 layers, 64 wide, 4 heads"
    assert rows["size"].endswith(" MB")
    assert rows["data"] == "cogs, 36,128 training rows"
    assert rows["score"] == "dev 100.0 %, test 100.0 %, gen 96.8 %"
    assert rows["trained"] == "106.6 minutes, seed 1"


def test_a_model_without_a_record() -> None:
    model = small_model()
    title, rows = card(model)
    assert title == "RelationModel"
    weights = sum(weight.numel() for weight in model.parameters())
    assert rows["size"] == f"{weights:,} weights, {4 * weights / 1e3:.1f} kB"
    assert rows["data"].startswith("no record")


@pytest.mark.parametrize(
    ("metrics", "shown"),
    [
        ({"accuracy": 0.975, "k=2": 1.0, "loss": 0.1}, "accuracy 97.5 %"),
        ({"exact match": 0.5, "micro F1": 0.7}, "exact match 50.0 %"),
        ({"MAE": 1.25, "RMSE": 2.5}, "MAE 1.25"),
        ({"valid LAS": 0.9, "loss": 0.1}, "valid LAS 90.0 %"),
        ({"loss": 0.1}, "none"),
    ],
)
def test_the_main_score(metrics: dict[str, float], shown: str) -> None:
    model = small_model()
    model.record = run(1, metrics)
    assert card(model)[1]["score"] == shown


def test_names_are_escaped(tmp_path: Path) -> None:
    model = small_model()
    model.task, model.folder = HOSTILE, tmp_path / "<b>"
    model.settings["layers"] = HOSTILE
    model.record = replace(run(1, {"<script>": 0.5}), data={"name": HOSTILE, "fingerprint": "0"})
    assert "<script" not in model._repr_html_()
    title, rows = card(model)
    assert title == "RelationModel <b>"
    assert rows["task"] == rows["data"] == HOSTILE
    assert HOSTILE in rows["kind"]
    assert rows["score"] == "<script> 50.0 %"


def test_a_broken_record_is_told(tmp_path: Path) -> None:
    (tmp_path / RECORD_FILE).write_text("{")
    model = small_model()
    model.folder = tmp_path
    assert RECORD_FILE in card(model)[1]["record"]


def test_models_of_other_tasks() -> None:
    class Other(TaskModel):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(2, 2)

        def description(self) -> dict[str, Any]:
            return {}

        from_description = classmethod(lambda cls, description: cls())
        predict = lambda self, inputs: []  # noqa: E731

    title, rows = card(Other())
    assert title == "Other"
    assert (rows["task"], rows["kind"], rows["size"]) == ("none", "own", "6 weights, 0.0 kB")
