"""The bundled models: their list, and their recorded scores where their data are not at hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import command_line
from command_line import Result, refused, run, scores
from edge_transformer.io.records import read_record
from edge_transformer.tasks.base import BUNDLED, bundled_models, model_card

pytestmark = pytest.mark.usefixtures("one_thread")
families, trained = command_line.families, command_line.trained  # the fixtures


def test_every_bundled_model_is_listed_with_its_scores_and_size() -> None:
    shown = run("models", columns=200)
    listed = json.loads(run("models", "--json").out)
    assert [model["name"] for model in listed] == bundled_models()
    for model in listed:
        metrics = read_record(BUNDLED / model["name"] / "record.json").metrics
        assert model["scores"]
        assert model["scores"].items() <= metrics.items()
        assert "loss" not in model["scores"]
        assert model["bytes"] == (BUNDLED / model["name"] / "model.safetensors").stat().st_size
        assert model["what"].endswith(".")
        assert f"{100 * list(model['scores'].values())[-1]:.1f}" in shown.out
        assert f" {model['name']}\n" in shown.out  # the command that asks it


def test_one_model_shows_its_card_and_its_record() -> None:
    assert run("models", "cogs-small").out == model_card("cogs-small")
    assert json.loads(run("models", "cogs-small", "--json").out)["preset"] == "cogs/best"
    assert (
        refused("models", "huge")
        == "huge: no bundled model; expected one of cfq-small, clutrr-small, cogs-small, relatives-small"
    )


@pytest.mark.parametrize("name", bundled_models())
def test_a_bundled_model_without_data_shows_the_scores_of_its_record(name: str) -> None:
    metrics = read_record(BUNDLED / name / "record.json").metrics
    shown = run("evaluate", name, columns=1000)
    assert (shown.code, shown.err) == (0, "")
    assert "recorded scores" in shown.out.splitlines()[0]
    assert "nothing was scored now" in shown.out.splitlines()[0]
    assert all(f" {score} " in shown.out for score in metrics)
    assert f"evaluate {name} --data FOLDER" in shown.out
    plain = run("evaluate", name, "--json")
    assert json.loads(plain.out)["scores"] == metrics
    assert json.loads(plain.out)["recorded"] is True
    for option in (["--split", "mcd1"], ["--results", "r.jsonl"]):
        assert refused("evaluate", name, *option) == f"{name}: comes without its data; give the rows to score by --data"


def test_evaluate_prints_one_json_object(trained: tuple[Path, Result], families: Path) -> None:
    result = run("evaluate", str(trained[0]), "--data", str(families), "--json")
    assert result.code == 0
    [line] = result.out.splitlines()
    said = json.loads(line)
    assert (said["model"], said["data"], said["recorded"]) == (str(trained[0]), str(families), False)
    table = scores(run("evaluate", str(trained[0]), "--data", str(families)).out)
    assert {name: f"{100 * value:.1f}" for name, value in said["scores"].items()} == table
