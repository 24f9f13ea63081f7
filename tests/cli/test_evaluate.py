"""Scoring a trained model: which rows are taken, what is refused, what is printed and recorded."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import command_line
from command_line import SETTINGS, SMALL, Result, refused, run, scores
from edge_transformer.io.records import read_record, read_records

NOTE = "note: test: 1 of 24 rows have a relation, label or answer that no training row has; they count as wrong\n"
pytestmark = pytest.mark.usefixtures("one_thread")
families, trained = command_line.families, command_line.trained  # the fixtures


def test_evaluate_says_what_training_said(trained: tuple[Path, Result], families: Path) -> None:
    folder, result = trained
    again = run("evaluate", str(folder), "--data", str(families), "--threads", "1")
    assert (again.code, again.err) == (0, NOTE)
    assert scores(again.out) == {name: value for name, value in scores(result.out).items() if name != "loss"}
    assert f"{folder} on {families}\n" in again.out


def test_evaluate_remembers_the_data_of_training(
    trained: tuple[Path, Result], families: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the path holds wherever one stands
    again = run("evaluate", str(trained[0]))
    assert (again.code, again.err) == (0, NOTE)
    assert f"{trained[0]} on {families}\n" in again.out
    assert scores(again.out) == {name: value for name, value in scores(trained[1].out).items() if name != "loss"}


def test_a_relative_data_folder_is_remembered_as_an_absolute_one(
    families: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(families, tmp_path / "here" / "families")
    monkeypatch.chdir(tmp_path / "here")
    assert run("train", "relations", "--data", "families", "--out", "run", *SETTINGS).code == 0
    monkeypatch.chdir(tmp_path)
    assert f"here/run on {tmp_path}/here/families\n" in run("evaluate", "here/run").out


def test_evaluate_scores_the_rows_held_out_of_training(families: Path, tmp_path: Path) -> None:
    folder, copy, other = tmp_path / "run", tmp_path / "copy", tmp_path / "other"
    arguments = ["--data", str(families), "--out", str(folder), *SETTINGS, "--set", "data.held_out=0.5", "--seed", "4"]
    said = scores(run("train", "relations", *arguments).out)
    del said["loss"]
    assert set(said) == {"accuracy", "k=2", "k=3", "k=4", "valid"}
    assert scores(run("evaluate", str(folder)).out) == said
    shutil.copytree(families, copy)
    assert scores(run("evaluate", str(folder), "--data", str(copy)).out) == said  # the same files are the same data
    run(*SMALL, "--out", str(other), "--seed", "2")
    assert set(scores(run("evaluate", str(folder), "--data", str(other)).out)) == {"accuracy", "k=2", "k=3", "k=4"}


def test_evaluate_records_scores_on_other_data(trained: tuple[Path, Result], families: Path, tmp_path: Path) -> None:
    folder, other, results = trained[0], tmp_path / "other", tmp_path / "results.jsonl"
    run(*SMALL, "--out", str(other), "--seed", "2")
    said = scores(run("evaluate", str(folder), "--data", str(other), "--results", str(results)).out)
    own = read_record(folder / "record.json")
    (record,) = read_records(results)
    assert {name: f"{100 * value:.1f}" for name, value in record.metrics.items()} == said
    assert record.data.items() > own.data.items()
    assert record.data["tested"] == "other"
    assert record.key != own.key
    assert (record.settings, record.cpu_minutes) == (own.settings, own.cpu_minutes)
    message = refused("evaluate", str(folder), "--results", str(results))
    assert message == f"--results: {families} is what {folder} was trained on; its record has these scores already"
    assert len(read_records(results)) == 1


def test_evaluate_says_that_the_data_have_changed(trained: tuple[Path, Result], families: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(trained[0], folder)
    changed = tmp_path / "families"
    shutil.copytree(families, changed)
    (changed / "1.4_test.csv").unlink()
    values = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**values, "data_folder": str(changed)}))
    result = run("evaluate", str(folder))
    assert f"note: the files in {changed} have changed since training\n" in result.err
    assert set(scores(result.out)) == {"accuracy", "k=2", "k=3"}


def test_evaluate_asks_for_data_that_it_cannot_find(trained: tuple[Path, Result], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(trained[0], folder)
    values = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**values, "data_folder": str(tmp_path / "gone")}))
    message = refused("evaluate", str(folder), "--predictions", "said.jsonl")
    assert message == f"--predictions: found a RelationModel in {folder}; expected a model that translates"
    message = refused("evaluate", str(folder))
    assert message == f"{tmp_path}/gone: no such folder, but {folder} was trained on it; give the folder of the data"
    del values["data_folder"]  # as runs on rows in memory have it
    (folder / "run.json").write_text(json.dumps(values))
    message = "run: found no run.json that names a data folder; give the rows to score, or a folder of them (--data)"
    assert refused("evaluate", str(folder)) == message
    (folder / "run.json").unlink()
    assert refused("evaluate", str(folder)) == message
    (folder / "run.json").write_text("{}")
    assert refused("evaluate", str(folder)).startswith(f"{folder}/run.json: does not describe a run")


def test_evaluate_needs_test_files_only(trained: tuple[Path, Result], families: Path, tmp_path: Path) -> None:
    (tmp_path / "csv").mkdir()
    for k in (2, 4):
        shutil.copy(families / f"1.{k}_test.csv", tmp_path / "csv")
    whole = scores(trained[1].out)
    few = scores(run("evaluate", str(trained[0]), "--data", str(tmp_path / "csv")).out)
    lengths = ("k=2", "k=4")
    assert {name: few[name] for name in lengths} == {name: whole[name] for name in lengths}
    shares = [float(few[name]) for name in lengths]
    assert min(shares) <= float(few["accuracy"]) <= max(shares)
    (tmp_path / "jsonl").mkdir()
    row = {"edges": [["Ann", "son", "Bob"], ["Bob", "sister", "Eve"]], "query": ["Ann", "Eve"], "target": "daughter"}
    (tmp_path / "jsonl" / "test.jsonl").write_text(json.dumps(row))
    assert set(scores(run("evaluate", str(trained[0]), "--data", str(tmp_path / "jsonl")).out)) == {"accuracy", "k=2"}
    for folder in ("csv", "jsonl"):
        message = refused("train", "relations", "--data", str(tmp_path / folder), "--out", str(tmp_path / "run"))
        assert message.startswith(f"{tmp_path}/{folder}: found neither *train.jsonl nor *train.csv; expected")
    message = refused("evaluate", str(trained[0]), "--data", str(tmp_path))
    assert message == f"{tmp_path}: found neither *test.jsonl nor *test.csv; expected one of them"


def test_evaluate_notes_rows_that_count_as_wrong(trained: tuple[Path, Result], tmp_path: Path) -> None:
    line = json.dumps({"edges": [["a", "boss", "b"]], "query": ["a", "b"], "target": "clerk"}) + "\n"
    for name in ("train.jsonl", "test.jsonl"):
        (tmp_path / name).write_text(line)
    result = run("evaluate", str(trained[0]), "--data", str(tmp_path))
    assert result.code == 0
    assert "note: test: 1 of 1 rows have a relation, label or answer that no training row has" in result.err
    assert scores(result.out) == {"accuracy": "0.0", "k=1": "0.0"}
