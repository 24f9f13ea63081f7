"""Experiments that are small enough to be planned and done in tests."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from edge_transformer.data.relations.clutrr import write_clutrr
from edge_transformer.data.relations.generate import generate
from edge_transformer.training.experiment import Experiment, Run, plan

REPOSITORY = Path(__file__).parents[2]
EXPERIMENTS = REPOSITORY / "experiments"
ALL_FILES = sorted(EXPERIMENTS.rglob("*.yaml"))
COMMITTED_FILES = [path for path in ALL_FILES if "runs" in yaml.safe_load(path.read_text())]
COMMITTED_SWEEPS = [path for path in ALL_FILES if path not in COMMITTED_FILES]
TINY = {
    "model.dim": 8,
    "model.heads": 2,
    "model.layers": 2,
    "model.min_layers": 1,
    "train.epochs": 2,
    "train.batch_size": 20,
}


def write_tiny_experiment(folder: Path) -> Path:
    """An experiment file with three short runs, and its data."""
    write_clutrr(folder / "families", *generate((2, 3), (2, 3), 60, seed=1, test_rows=5))
    experiment = {
        "task": "relations",
        "data": str(folder / "families"),
        "results": str(folder / "results.jsonl"),
        "seeds": [1, 2],
        "runs": [
            {"preset": "clutrr/cpu", "set": TINY},
            {"preset": "clutrr/cpu-untied", "set": TINY, "seeds": [5]},
        ],
    }
    path = folder / "experiment.yaml"
    path.write_text(yaml.safe_dump(experiment))
    return path


def name_of(path: Path) -> str:
    """A committed file as tests and documents name it, such as "clutrr/main.yaml"."""
    return path.relative_to(EXPERIMENTS).as_posix()


def plan_committed(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Run]:
    """The runs of a committed file as in an empty folder, with small data wherever it names some."""
    monkeypatch.chdir(folder)
    experiment = Experiment.read(path)
    changes = [*(each.set for each in experiment.all_training_sets), *(run.set for run in experiment.runs)]
    elsewhere = {str(each["data.elsewhere"]) for each in changes if "data.elsewhere" in each}
    for name in elsewhere | {training_set.data for training_set in experiment.all_training_sets}:
        _write_small_data(experiment.task, Path(name))
    question = {
        "edges": [["Ann", "son", "Bob"], ["Bob", "sister", "Eve"]],
        "query": ["Ann", "Eve"],
        "answer": "daughter",
    }
    for training_set in experiment.all_training_sets:
        if "data.valid" in training_set.set:
            Path(training_set.set["data.valid"]).mkdir(parents=True)
            (Path(training_set.set["data.valid"]) / "valid.jsonl").write_text(json.dumps(question))
    small = tuple(replace(training_set, fingerprint=None) for training_set in experiment.all_training_sets)
    return plan(replace(experiment, data=None, training_sets=small))


_FORM_OF = {  # where it is not that of the task
    ("graphs", "cogs"): "cogs",
    ("graphs", "slog"): "slog",
    ("graphs", "slog-held-out"): "slog",
    ("graphs", "EWT"): "enhanced",
}


def _write_small_data(task: str, folder: Path) -> None:
    """A folder with a few rows such as the task reads."""
    if task == "relations":
        write_clutrr(folder, *generate((2, 3), (2,), 4, seed=1, test_rows=1))
        return
    if folder.name == "countries":
        folder.mkdir(parents=True)
        for name in ("countries_S1", "countries_S2", "countries_S3"):
            (folder / f"{name}.tsv").write_text("Peru\tlocatedIn\tamericas\nChad\tlocatedIn\tafrica\n")
        for name, text in (("regions", "americas\nafrica\n"), ("dev", "Peru\n"), ("test", "Chad\n")):
            (folder / f"{name}.txt").write_text(text)
        return
    molecule = {"nodes": {"a": "C", "b": "O"}, "edges": [["a", "double", "b"]], "target": "active"}
    graph = {"tokens": ["Emma", "ran"], "parents": [1, -1], "labels": {"role": ["agent", ""]}}
    row, ending = {
        "graph-labels": (json.dumps(molecule) + "\n", "jsonl"),
        "links": ("Ann\tmother\tEve\n", "tsv"),
        "graphs": (json.dumps(graph) + "\n", "jsonl"),
        "slog": ("Who ran ?\trun . agent ( x _ 1 , ? )\twh_Q_simple_trans\n", "tsv"),
        "enhanced": ("1\tran\t_\tVERB\t_\t_\t0\troot\t0:root\t_\n\n", "conllu"),
        "cogs": ("Emma ran .\trun . agent ( x _ 1 , Emma )\tin_distribution\n", "tsv"),
        "seq2seq": ("jump twice\tJUMP JUMP\n", "tsv"),
        "trees": ("1\tEmma\t_\tPROPN\t_\t_\t2\tnsubj\t_\t_\n2\tran\t_\tVERB\t_\t_\t0\troot\t_\t_\n\n", "conllu"),
    }[_FORM_OF.get((task, folder.name), task)]
    folder.mkdir(parents=True)
    for split in ("train", "dev", "test", "gen"):
        (folder / f"{split}.{ending}").write_text(row)
