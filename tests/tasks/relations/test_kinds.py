"""Every kind of question and answer, from rows to scores: trained, saved, loaded, scored by the API and the command."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

import edge_transformer as et
from command_line import run
from edge_transformer.tasks.relations import data as task_data
from edge_transformer.tasks.relations import model as task_model
from edge_transformer.tasks.relations.data import GraphLabelData, RelationData, RelationSettings
from relation_cases import CPU, MODEL

pytestmark = pytest.mark.usefixtures("one_thread")
SMALL: dict[str, Any] = {"dim": 16, "heads": 2, "layers": 2, "epochs": 2, "progress": False}


def path(chance: random.Random) -> tuple[list[str], list[list[Any]]]:
    names = chance.sample("ABCDEFGH", chance.randint(3, 5))
    return names, [[a, chance.choice("rs"), b] for a, b in pairwise(names)]


def one_label(chance: random.Random) -> dict[str, Any]:
    names, edges = path(chance)
    return {"edges": edges, "query": [names[0], names[-1]], "target": edges[0][1]}


def several_labels(chance: random.Random) -> dict[str, Any]:
    names, edges = path(chance)
    edges[0][1] = ["r", "s"]
    told = {"nodes": {names[0]: {"labels": ["x", "y"], "features": [2.0]}, names[1]: [3.0]}, "edges": edges}
    asked = [[names[0], names[1]], [names[1], names[2]]]
    return {**told, "absent": [[names[2], "r", names[0]]], "query": asked, "target": [["r", "s"], [edges[1][1]]]}


def number(chance: random.Random) -> dict[str, Any]:
    names, edges = path(chance)
    return {"edges": [[*edge, [1.5]] for edge in edges], "query": names[:2], "target": 1000.0 + 10 * len(names)}


def all_pairs(chance: random.Random) -> dict[str, Any]:
    _, edges = path(chance)
    return {"edges": edges, "query": "all", "target": [[b, label, a] for a, label, b in edges]}


def all_numbers(chance: random.Random) -> dict[str, Any]:
    names, edges = path(chance)
    return {"edges": edges, "query": "all", "target": [[names[0], 100.0 * len(names), names[2]]]}


def node_labels(chance: random.Random) -> dict[str, Any]:
    names, edges = path(chance)
    return {"edges": edges, "target": {name: "end" if name == names[-1] else "inside" for name in names}}


def node_numbers(chance: random.Random) -> dict[str, Any]:
    names, edges = path(chance)
    return {"edges": edges, "target": {name: 100 * place for place, name in enumerate(names)}}


def graph_label(chance: random.Random) -> dict[str, Any]:
    names, edges = path(chance)
    return {"edges": edges, "target": "long" if len(names) > 3 else "short"}


def graph_labels(chance: random.Random) -> dict[str, Any]:
    names, edges = path(chance)
    return {"edges": edges, "target": sorted({label for _, label, _ in edges} | {f"of {len(names)}"})}


def graph_number(chance: random.Random) -> dict[str, Any]:
    names, edges = path(chance)
    return {"nodes": dict.fromkeys(names, "atom"), "edges": edges, "target": -250.0 * len(names)}


CASES = [
    ("relations", one_label, "accuracy"),
    ("relations", several_labels, "micro F1"),
    ("relations", number, "MAE"),
    ("relations", all_pairs, "micro F1"),
    ("relations", all_numbers, "MAE"),
    ("node-labels", node_labels, "accuracy"),
    ("node-labels", node_numbers, "MAE"),
    ("graph-labels", graph_label, "accuracy"),
    ("graph-labels", graph_labels, "micro F1"),
    ("graph-labels", graph_number, "MAE"),
]


@pytest.mark.parametrize(("task", "make", "first"), CASES)
def test_from_rows_to_scores(task: str, make: Any, first: str, tmp_path: Path) -> None:
    chance = random.Random(1)
    train, test = ([make(chance) for _ in range(count)] for count in (40, 10))
    for split, rows in (("train", train), ("test", test)):
        (tmp_path / f"{split}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    model = et.train(task, tmp_path, out=tmp_path / "run", **SMALL)
    metrics = model.record.metrics
    assert next(iter(metrics)) == first
    assert sum(name.startswith("n=") for name in metrics) == 3
    assert sum(name.startswith("valid") for name in metrics) == 1

    questions = [{name: value for name, value in row.items() if name != "target"} for row in test]
    loaded = et.load(tmp_path / "run")
    answers = loaded.predict(questions)
    assert answers == model.predict(questions)
    units = [one["answer"] for row in answers for one in parts(row)]
    if first == "MAE":  # in the units of the targets
        assert max(map(abs, units)) > 50
    scores = et.evaluate(loaded, {"test": test}, progress=False)
    assert scores == {name: pytest.approx(metrics[name]) for name in scores}

    found = json.loads(run("evaluate", str(tmp_path / "run"), "--json").out)
    assert found["scores"][first] == pytest.approx(metrics[first])
    details = found["details"]["test"]
    if first == "MAE":
        assert details["baseline"]["mae"] >= 0
    else:
        assert details["majority"] is not None
        assert len(details["interval"]) == 2
        assert details["classes"]
        assert 0 <= details["calibration"]["ece"] <= 1
    assert first in run("evaluate", str(tmp_path / "run")).out


def parts(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """The answers to the questions of a row."""
    answers = answer.get("answers", [answer])
    return list(answers.values()) if isinstance(answers, dict) else answers


def test_no_label_told_and_none_answered_is_right() -> None:
    rows = [{"edges": [["a", "r", "b"]], "target": []}] * 3
    train = [{"edges": [["a", "r", "b"], ["b", "s", "c"]], "target": ["x"]}, *rows]
    data = GraphLabelData.from_rows({"train": train, "test": rows}, RelationSettings(), 1)
    torch.manual_seed(1)
    model = data.new_model(MODEL)
    with torch.no_grad():
        model.get_parameter("head.classifier.bias").fill_(-100.0)
    scores = data.evaluate(model.eval(), CPU)
    assert list(scores) == ["micro F1", "exact match", "n=2"]
    assert set(scores.values()) == {1.0}


def test_large_graphs_are_computed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(1)
    data = RelationData.from_rows({"train": [one_label(chance) for _ in range(20)]}, RelationSettings(), 1)
    torch.manual_seed(1)
    model, rows = data.new_model(MODEL), torch.arange(20)
    whole = list(data.batches(rows))
    monkeypatch.setattr(task_data, "TRAIN_EDGES", 30)
    split = list(data.batches(rows))
    assert len(split) > len(whole)
    assert max(batch.labels.shape[0] * batch.labels.shape[1] ** 2 for batch in split) <= 32
    assert sorted(row for batch in split for row in batch.rows.tolist()) == rows.tolist()
    losses = [sum(data.loss(model, batch, CPU).item() for batch in batches) for batches in (whole, split)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_graphs_that_memory_cannot_hold_are_refused_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"edges": [["a", "r", "b"]], "query": ["a", "b"], "target": "x"}
    large = {**small, "nodes": [f"n{place}" for place in range(300)] + ["a", "b"]}
    told = r"a graph of 302 nodes needs about 0\.\d GB at dim 16.*; found 0\.0 GB of free memory, enough for about \d+ "
    monkeypatch.setattr(task_model, "free_memory", lambda: 10_000_000)
    for splits in ({"train": [small, large]}, {"train": [small], "test": [large]}):
        with pytest.raises(et.UserError, match=told):
            et.train("relations", splits, **SMALL)
    model = et.train("relations", {"train": [small]}, **SMALL)
    for use in (lambda: et.evaluate(model, {"test": [large]}), lambda: model.predict([large | {"target": None}])):
        with pytest.raises(et.UserError, match=told):
            use()


def test_memory_is_checked_before_any_path_search(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = {"edges": [[f"n{place}", "r", f"n{place + 1}"] for place in range(300)], "target": "x"}
    searched: list[int] = []
    monkeypatch.setattr(task_data.RelationData, "facts", lambda self: searched.append(1))
    monkeypatch.setattr("edge_transformer.training.trainer.launch", lambda hardware: searched.append(2))
    monkeypatch.setattr(task_model, "free_memory", lambda: 10_000_000)
    for preset in (None, "relations/cpu"):
        with pytest.raises(
            et.UserError, match=r"a graph of 301 nodes needs about \d\.\d GB at dim \d+ and \d layers; "
        ):
            et.train("relations", [{**chain, "query": ["n0", "n300"]}] * 6, preset=preset, progress=False)
    assert not searched
