"""COGS as a task: what is read, how it is scored, and that runs can be resumed and scored again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from typer.testing import CliRunner

import two_processes
from agreement import assert_same_weights
from edge_transformer import load
from edge_transformer.cli.app import app
from edge_transformer.data.graphs.logical_forms import COLUMNS
from edge_transformer.data.graphs.rows import TokenGraph, write_token_graphs
from edge_transformer.errors import DataError, UserError
from edge_transformer.io.records import read_records
from edge_transformer.tasks.graphs.data import GraphData, GraphParser, GraphSettings
from edge_transformer.training.config import Hardware, RunConfig
from edge_transformer.training.trainer import Trainer
from official_data import benchmark

pytestmark = pytest.mark.usefixtures("one_thread")
OFFICIAL = benchmark("cogs")
CPU = torch.device("cpu")
NAMES, VERBS = ("Emma", "Liam", "Noah", "Mia"), {"ran": "run", "slept": "sleep", "smiled": "smile"}
TINY = {
    "model.dim": 16,
    "model.heads": 2,
    "model.layers": 2,
    "train.epochs": 4,
    "train.batch_size": 6,
    "train.warmup_steps": 2,
    "train.lr": 0.01,
    "train.evaluate_every": 2,
}


def short(name: str, past: str, category: str = "in_distribution") -> str:
    return f"{name} {past} .\t{VERBS[past]} . agent ( x _ 1 , {name} )\t{category}\n"


def long(name: str, other: str, past: str, category: str = "in_distribution") -> str:
    said = f"say . agent ( x _ 1 , {name} ) AND say . ccomp ( x _ 1 , x _ 4 )"
    form = f"{said} AND {VERBS[past]} . agent ( x _ 4 , {other} )"
    return f"{name} said that {other} {past} .\t{form}\t{category}\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files in the official form, small enough to train on at once."""
    made = tmp_path_factory.mktemp("cogs")
    rows = [short(name, verb) for name in NAMES for verb in VERBS]
    rows += [long(a, b, verb) for a in NAMES[:2] for b in NAMES[2:] for verb in VERBS]
    rows += ["Mia\tMia\tprimitive\n"]
    (made / "train.tsv").write_text("".join(rows))
    (made / "dev.tsv").write_text("".join(rows[:5]))
    (made / "test.tsv").write_text("".join(rows[3:9]))
    gen = [short("Mia", "ran", "prim_to_subj_proper"), short("Mia", "slept", "prim_to_subj_proper")]
    gen += [long("Noah", "Mia", "ran", "cp_recursion"), short("Emma", "ran", "something new")]
    (made / "gen.tsv").write_text("".join(gen))
    return made


def make_trainer(data: Path, out: Path, preset: str = "cogs/cpu", **changes: Any) -> Trainer:
    run = RunConfig.from_preset("graphs", preset, {**TINY, **changes}, seed=3)
    return Trainer(run, run.load_data(data), out, Hardware("cpu", threads=1), "a command")


# --- which rows -------------------------------------------------------------------------------------------------------


def test_what_is_read(folder: Path) -> None:
    told: list[int] = []
    data = GraphData.load(folder, GraphSettings(), 1, progress=told.append)
    assert sum(told) == 25 + 5 + 6 + 4 == data.train_rows + data.evaluation_rows()
    assert tuple(data.columns) == COLUMNS
    assert data.midway_rows() == 5
    assert list(data.columns["verb_name"]) == ["", "run", "say", "sleep", "smile"]
    assert data.identity() == {
        "name": folder.name,
        "fingerprint": GraphData.fingerprint(folder),
        "train_rows": 25,
        "corpus": "cogs",
    }


def test_other_files_of_the_official_folder_change_nothing(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / folder.name)
    for name in ("test_seqtag.jsonl", "notes.jsonl", "cases.json"):
        (tmp_path / folder.name / name).write_text('{"tokens": ["Emma"], "parent": [-1]}\n')
    data, more = (GraphData.load(each, GraphSettings(), 1) for each in (folder, tmp_path / folder.name))
    assert more.identity() == data.identity()
    assert list(more._splits) == ["dev", "test", "gen"]
    assert GraphData.fingerprint(tmp_path / folder.name) == GraphData.fingerprint(folder)
    write_token_graphs(tmp_path / folder.name / "train.jsonl", [TokenGraph(("Emma",), (0,), {})])
    with pytest.raises(DataError, match=r"test_seqtag\.jsonl:1"):  # a folder of your own, and a file to test on
        GraphData.load(tmp_path / folder.name, GraphSettings(), 1)


def test_gen_is_left_unread_on_demand(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "cogs")
    (tmp_path / "cogs/gen.tsv").write_text("no row at all")
    data = GraphData.load(tmp_path / "cogs", GraphSettings(gen=False), 1)
    model = data.new_model({"kind": "edge", "dim": 16, "heads": 2, "layers": 1}).eval()
    assert set(data.evaluate(model, CPU)) == {"dev", "dev logical form", "test", "test logical form"}
    for settings in (GraphSettings(), GraphSettings(test=True)):
        with pytest.raises(DataError, match=r"gen\.tsv:1"):
            GraphData.load(tmp_path / "cogs", settings, 1)
    (tmp_path / "cogs/test.tsv").write_text("nor here")
    without = GraphData.load(tmp_path / "cogs", GraphSettings(test=False), 1)
    assert set(without.evaluate(model, CPU)) == {"dev", "dev logical form"}
    (tmp_path / "cogs/gen.tsv").unlink()
    (tmp_path / "cogs/test.tsv").unlink()
    GraphData.load(tmp_path / "cogs", GraphSettings(test=False), 1)
    with pytest.raises(UserError, match=r"expected test\.tsv"):
        GraphData.load(tmp_path / "cogs", GraphSettings(gen=False), 1)


def test_a_trained_model_is_scored_on_what_there_is(folder: Path, tmp_path: Path) -> None:
    data = GraphData.load(folder, GraphSettings(), 1)
    model = data.new_model({"kind": "edge", "dim": 16, "heads": 2, "layers": 1}).eval()
    shutil.copy(folder / "gen.tsv", tmp_path)
    assert set(GraphData.load(tmp_path, GraphSettings(gen=False), 1, model)._splits) == {"gen"}
    assert set(GraphData.load(folder, GraphSettings(gen=False), 1, model)._splits) == {"dev", "test", "gen"}
    (tmp_path / "gen.tsv").unlink()
    forms = r"train\.jsonl and test\.jsonl, or the files of COGS: train\.tsv, dev\.tsv, test\.tsv, gen\.tsv$"
    for names in ([], ["notes.tsv", "notes.jsonl", "train.txt"]):  # whatever else is there
        for name in names:
            (tmp_path / name).touch()
        with pytest.raises(UserError, match=f"{tmp_path.name}: found no files of graphs; expected {forms}"):
            GraphData.load(tmp_path, GraphSettings(), 1, model)
        with pytest.raises(UserError, match=f"{tmp_path.name}: found no files of graphs; expected {forms}"):
            GraphData.fingerprint(tmp_path)
    with pytest.raises(UserError, match=f"nowhere: no such folder; expected one with {forms}"):
        GraphData.fingerprint(tmp_path / "nowhere")
    shutil.copy(folder / "gen.tsv", tmp_path)
    with pytest.raises(UserError, match=r"found no train\.tsv; expected a COGS folder with train\.tsv, dev\.tsv"):
        GraphData.fingerprint(tmp_path)


# --- score ------------------------------------------------------------------------------------------------------------


class Oracle(nn.Module):
    """Always right, but for the rows of gen whose number is in `wrong`: there, one column is changed at one token."""

    def __init__(self, data: GraphData, wrong: dict[int, tuple[int, int, int]]) -> None:
        super().__init__()
        self.answers: dict[tuple[int, ...], Tensor] = {}
        for split, table in data._tables.items():
            starts = table.sizes.cumsum(0) - table.sizes
            for row, (start, size) in enumerate(zip(starts.tolist(), table.sizes.tolist(), strict=True)):
                cells = table.targets[start : start + size].long().clone()
                if split == "gen" and row in wrong:
                    token, column, label = wrong[row]
                    cells[token, column] = label
                self.answers[tuple(table.tokens[start : start + size].tolist())] = cells
        self.sizes = [len(labels) for labels in data.columns.values()]

    def forward(self, tokens: Tensor) -> list[Tensor]:
        cells = torch.stack([self.answers[tuple(row)] for row in tokens.tolist()])  # (B, n, columns)
        sizes = [tokens.shape[1], *self.sizes]
        return [nn.functional.one_hot(cells[..., n], size).float() for n, size in enumerate(sizes)]


def test_scores_by_graph_form_category_and_kind(folder: Path) -> None:
    data = GraphData.load(folder, GraphSettings(), 1)
    told: list[int] = []
    scores = data.evaluate(Oracle(data, {}), CPU, told.append)
    assert sum(told) == data.evaluation_rows() == 15
    assert set(scores.values()) == {1.0}
    summary = ["dev", "dev logical form", "test", "test logical form"]
    gen = ["gen", "gen lexical", "gen structural", "gen logical form"]
    categories = ["gen/cp_recursion", "gen/prim_to_subj_proper", "gen/something new"]
    assert list(scores) == summary + gen + categories
    category = 1 + COLUMNS.index("category")
    # The full stop of the first row of gen as a noun: such a token has no form.
    noun = list(data.columns["category"]).index("PNOUN")
    scores = data.evaluate(Oracle(data, {1: (2, category, noun)}), CPU)
    assert {name: scores[name] for name in gen + categories} == {
        "gen": 0.75,
        "gen lexical": 0.5,
        "gen structural": 1.0,
        "gen logical form": 0.75,
        "gen/cp_recursion": 1.0,
        "gen/prim_to_subj_proper": 0.5,
        "gen/something new": 1.0,
    }
    # Another verb: a form, but a wrong one.
    verb = 1 + COLUMNS.index("verb_name")
    scores = data.evaluate(Oracle(data, {2: (4, verb, list(data.columns["verb_name"]).index("sleep"))}), CPU)
    assert (scores["gen"], scores["gen structural"], scores["gen logical form"]) == (0.75, 0.0, 0.75)
    # Midway only dev is looked at.
    assert data.evaluate_midway(Oracle(data, {}), CPU) == {"dev": 1.0, "dev logical form": 1.0}


def test_the_tree_constraint_changes_nothing_but_circles(folder: Path) -> None:
    data = GraphData.load(folder, GraphSettings(), 1)
    oracle = Oracle(data, {0: (1, 0, 0)})  # "Mia ran .": Mia below ran below Mia
    assert data.evaluate(oracle, CPU)["gen"] == 0.75
    oracle.tree = True  # type: ignore[assignment]
    found = data._predict("gen", oracle, CPU, None)
    assert found[:3, 0].tolist() in ([0, 0, 2], [1, 1, 2])
    assert torch.equal(found[3:], data._tables["gen"].targets[3:].long())


# --- runs -------------------------------------------------------------------------------------------------------------


class Killed(Exception):
    pass


@pytest.mark.parametrize("changes", [{}, {"train.batches": "random", "data.unknown": 0.5}], ids=["length", "random"])
def test_a_killed_run_ends_with_the_same_bits(
    changes: dict[str, Any], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = make_trainer(folder, tmp_path / "whole", **changes)
    record = whole.train()
    assert record is not None
    assert [set(entry["scores"]) for entry in whole.history[:-1]] == [{"dev", "dev logical form"}]
    assert {"dev", "test", "gen", "gen lexical", "gen/cp_recursion", "gen logical form", "loss"} <= set(record.metrics)
    cut = make_trainer(folder, tmp_path / "cut", **changes)

    def die() -> None:
        if cut.step == 7:
            raise Killed

    monkeypatch.setattr(cut, "_average_weights", die)
    with pytest.raises(Killed):
        cut.train(checkpoint_seconds=0)
    cut.release_folder()
    resumed = make_trainer(folder, tmp_path / "cut", **changes)
    assert resumed.step == 7
    again = resumed.train()
    assert again is not None
    assert again.metrics == record.metrics
    assert_same_weights(tmp_path / "whole", tmp_path / "cut")


def test_two_processes_take_the_same_step_as_one(folder: Path, tmp_path: Path) -> None:
    two_processes.assert_same_step("graphs", folder, {**TINY, "model.dropout": 0.0, "train.epochs": 1}, tmp_path)


def test_a_saved_model_parses(folder: Path, tmp_path: Path) -> None:
    changes: dict[str, Any] = {"train.epochs": 25, "train.evaluate_every": 25, "model.dropout": 0.0, "model.dim": 32}
    record = make_trainer(folder, tmp_path / "run", **changes).train()
    assert record is not None
    assert record.metrics["dev"] == 1.0
    model = load(tmp_path / "run")
    assert isinstance(model, GraphParser)
    known, odd = model.parse(["Emma ran.", "Zoe ran ."])
    assert known.logical_form == "run . agent ( x _ 1 , Emma )"
    assert (known.unknown, odd.unknown) == ((), ("Zoe",))
    [answer] = model.predict(["Emma said that Noah slept ."])
    assert answer["logical_form"].startswith("say . agent ( x _ 1 , Emma )")
    scores = GraphData.load(folder, GraphSettings(), 1, model).evaluate(model, CPU)
    assert scores == {name: score for name, score in record.metrics.items() if name != "loss"}
    for options in ([], ["--tree"], ["--tree", "--results", str(tmp_path / "results.jsonl")]):
        result = CliRunner().invoke(app, ["evaluate", str(tmp_path / "run"), *options])
        assert result.exit_code == 0, result.output
        assert "100.0" in result.output
    [as_trees] = read_records(tmp_path / "results.jsonl")
    assert as_trees.data["tested"] == f"{folder.name}, parents as trees"
    assert as_trees.key != record.key
    assert " --tree --results " in as_trees.command


def test_graphs_that_make_no_sense_have_no_form(folder: Path) -> None:
    model = GraphData.load(folder, GraphSettings(), 1).new_model({"kind": "edge", "dim": 16, "heads": 2, "layers": 1})
    labels: dict[str, tuple[str, ...]] = {**dict.fromkeys(COLUMNS, ("",)), "role": ("agent",)}
    assert model.logical_form(TokenGraph(("ran",), (0,), labels)) is None


def test_graphs_of_your_own(tmp_path: Path) -> None:
    graphs = [TokenGraph((a, b), (1, 1), {"kind": ("x", "y")}) for a in NAMES for b in VERBS]
    data = tmp_path / "mine"
    write_token_graphs(data / "train.jsonl", graphs)
    write_token_graphs(data / "test-easy.jsonl", graphs[:4])
    changes: dict[str, Any] = {"train.epochs": 30, "train.evaluate_every": 30}
    trainer = make_trainer(data, tmp_path / "run", "graphs/cpu", **changes)
    record = trainer.train()
    assert record is not None
    assert record.metrics["test-easy"] == 1.0  # without dev, the tests are looked at midway
    [answer] = load(tmp_path / "run").predict([["Emma", "ran"]])
    graph = {"tokens": ["Emma", "ran"], "parents": [1, -1], "labels": {"kind": ["x", "y"]}}
    assert answer == graph | {"logical_form": None, "unknown": []}
    again = GraphData.load(data, GraphSettings(), 1, trainer.model)
    assert set(again._splits) == {"test-easy"}
    assert GraphData.fingerprint(data) == record.data["fingerprint"]
    assert "corpus" not in record.data
    assert set(GraphData.load(data, GraphSettings(test=False), 1)._splits) == set()


# --- the official set -------------------------------------------------------------------------------------------------


def test_a_step_and_a_score_on_the_official_files(tmp_path: Path) -> None:
    if not OFFICIAL.is_dir():
        pytest.skip(f"needs the official COGS set in {OFFICIAL}")
    changes: dict[str, Any] = {"train.batch_size": 100, "data.gen": False}
    trainer = make_trainer(OFFICIAL, tmp_path / "run", **changes)
    assert len(trainer.data.train_sizes()) == 24_155
    losses = [trainer.take_step(rows) for rows in trainer._epoch(0)[:3]]
    assert all(0 < loss < 50 for loss in losses)
    sizes = [trainer.data.train_sizes()[rows] for rows in trainer._epoch(0)]
    assert sum(len(each.unique()) for each in sizes) < 1.6 * len(sizes)  # batches of nearly equal length
    assert trainer.data.notes() == [
        f"{split}: 1 of 3000 rows have a word that no training row has; it is read as unknown"
        for split in ("dev", "test")
    ]
    assert json.loads((tmp_path / "run/run.json").read_text())["data_identity"]["train_rows"] == 24_155
