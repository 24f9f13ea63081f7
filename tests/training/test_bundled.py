"""The models that come with the package: there, small, on record, and as good as their records say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import edge_transformer as et
from edge_transformer.errors import UserError
from edge_transformer.io.records import read_record, read_records
from edge_transformer.tasks.base import BUNDLED, CONFIG_FILE, WEIGHTS_FILE, bundled_models, get_task
from edge_transformer.tasks.graphs.model import GraphParser
from official_data import benchmark

REPOSITORY = Path(__file__).parents[2]
DATA = {"relations": "clutrr/data_db9b8f04", "graphs": "cogs"}
MOST_BYTES = 3_000_000
QUESTION = {"edges": [["Ann", "son", "Bob"], ["Bob", "sister", "Eve"]], "query": ["Ann", "Eve"]}


@pytest.mark.parametrize("name", bundled_models())
def test_each_is_small_and_on_record(name: str) -> None:
    folder = BUNDLED / name
    assert {path.name for path in folder.iterdir()} == {CONFIG_FILE, WEIGHTS_FILE, "record.json"}
    assert sum(path.stat().st_size for path in folder.iterdir()) < MOST_BYTES
    record = read_record(folder / "record.json")
    recorded = read_records(REPOSITORY / "results/records")
    assert any(record.key == each.key and record.metrics == each.metrics for each in recorded)


@pytest.mark.parametrize("name", bundled_models())
def test_each_scores_what_its_record_says(name: str) -> None:
    model = et.load(name)
    task = get_task(model.task)
    record = read_record(BUNDLED / name / "record.json")
    assert model.record == record
    folder = benchmark(DATA[record.task])
    if not folder.is_dir():
        pytest.skip(f"needs the official data in {folder}")
    data = task.data.load(folder, task.data.Settings(), 0, model=model)
    scores = data.evaluate(model, torch.device("cpu"))
    for metric in scores.keys() & record.metrics.keys():
        assert scores[metric] == pytest.approx(record.metrics[metric], abs=0.002), metric
    assert scores.keys() & record.metrics.keys()


def test_a_family_question_is_answered_and_explained() -> None:
    model = et.load("clutrr-small")
    assert model.predict([QUESTION])[0]["answer"] == "daughter"
    told = et.explain(model, QUESTION).text()
    assert "Ann -daughter-> Eve" in told
    assert "Bob -sister-> Eve  (told)" in told


def test_a_sentence_is_parsed() -> None:
    model = et.load("cogs-small")
    assert isinstance(model, GraphParser)
    parse = model.parse("The boy ran .")
    assert parse.logical_form == "* boy ( x _ 1 ) ; run . agent ( x _ 2 , x _ 1 )"
    assert parse.unknown == ()


def test_a_folder_goes_before_a_bundled_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "clutrr-small"
    folder.mkdir()
    for name in (CONFIG_FILE, WEIGHTS_FILE):
        (folder / name).write_bytes((BUNDLED / "clutrr-small" / name).read_bytes())
    config = json.loads((folder / CONFIG_FILE).read_text())
    (folder / CONFIG_FILE).write_text(json.dumps({**config, "answers": [f"my {each}" for each in config["answers"]]}))
    assert et.load("clutrr-small").predict([QUESTION])[0]["answer"] == "my daughter"


def test_an_unknown_name_is_told_which_there_are() -> None:
    with pytest.raises(UserError, match=rf"huge: no such folder; .* or one of {', '.join(bundled_models())}"):
        et.load("huge")
