"""Searches: by validation rows alone, shared by processes, continued where they were cut off."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from edge_transformer.cli.experiments import sweep as command
from edge_transformer.data.relations.clutrr import write_clutrr
from edge_transformer.data.relations.generate import generate, generate_valid
from edge_transformer.errors import UserError
from edge_transformer.training import sweep as sweeping
from edge_transformer.training.sweep import Search, Sweep, counted
from edge_transformer.training.trainer import Trainer
from experiment_cases import COMMITTED_SWEEPS, name_of

pytestmark = pytest.mark.usefixtures("one_thread")
TINY = {
    "model.layers": 1,
    "model.min_layers": None,
    "train.epochs": 2,
    "train.batch_size": 30,
    "train.evaluate_every": 1,
    "data.held_out": 0.2,
}
SPACE = {
    "model.dim": [8, 12],
    "model.heads": {"low": 1, "high": 2},
    "train.lr": {"low": 1e-4, "high": 2e-3, "log": True},
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    train, tests = generate((2, 3), (2, 3), 60, seed=1, test_rows=5)
    write_clutrr(tmp_path / "families", train, tests, generate_valid((5,), 6, seed=1))
    values = {"task": "relations", "data": str(tmp_path / "families"), "preset": "clutrr/cpu", "trials": 2}
    (tmp_path / "search.yaml").write_text(yaml.safe_dump({**values, "set": TINY, "space": SPACE}))
    return tmp_path / "search.yaml"


def change(file: Path, **changes: Any) -> Sweep:
    file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), **changes}))
    return Sweep.read(file)


def search(file: Path) -> tuple[Search, list[str]]:
    told: list[str] = []
    found = Search(Sweep.read(file), file.parent / "runs")
    assert found.run(told.append)
    return found, told


def test_trials_are_runs_and_the_best_is_told(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match=r"study\.db: no such file; the search search has not begun"):
        command(file, show=True, runs=file.parent / "runs")
    command(file, runs=file.parent / "runs")
    told = capsys.readouterr().out
    for number in (0, 1):
        assert (file.parent / f"runs/search/trial-{number}/record.json").exists()
        assert f"trial {number}: model.dim=" in told
    command(file, show=True, runs=file.parent / "runs")
    shown = capsys.readouterr().out
    assert "search: 2 trials wanted; 2 complete\n" in shown
    best = Search(Sweep.read(file), file.parent / "runs").best()
    assert [trial.value for trial in best] == sorted((trial.value or 0.0 for trial in best), reverse=True)
    line = shown.splitlines()[-1].strip()
    assert line.startswith(f"edge-transformer train relations --data {file.parent / 'families'} --preset clutrr/cpu ")
    assert f"--set model.dim={best[0].params['model.dim']}" in line
    assert "data.test" not in line


def test_test_rows_are_never_touched(file: Path) -> None:
    def scores(found: Search) -> list[tuple[dict[str, Any], float | None]]:
        return [(trial.params, trial.value) for trial in found.best()]

    whole, _ = search(file)
    for number, damage in enumerate((lambda path: path.write_text("no story"), Path.unlink)):
        for path in (file.parent / "families").glob("*test.csv"):
            damage(path)
        shutil.rmtree(file.parent / "runs")
        damaged, told = search(file)
        assert scores(damaged) == scores(whole), (number, told)


def test_the_score_is_the_mean_of_validation_scores(file: Path) -> None:
    sweep = Sweep.read(file)
    scores = {"k=2": 0.0, "valid": 0.5, "valid k=5": 1.0, "validity": 0.0}
    assert sweep.score(scores) == 0.75
    assert change(file, objective=["valid k=5"]).score(scores) == 1.0
    with pytest.raises(UserError, match="needs validation rows: found the scores k=2; expected valid"):
        sweep.score({"k=2": 1.0})


def test_without_validation_rows_there_is_no_search(file: Path) -> None:
    for path in (file.parent / "families").glob("*valid.csv"):
        path.unlink()
    change(file, set={**TINY, "data.held_out": 0.0})
    with pytest.raises(UserError, match="a search needs validation rows"):
        search(file)


def test_a_stopped_trial_goes_on_from_its_checkpoint(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change(file, trials=1)
    take_step, steps = Trainer.take_step, [0]

    def stop(trainer: Trainer, rows: torch.Tensor) -> float:
        steps[0] += 1
        if steps[0] == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return take_step(trainer, rows)

    monkeypatch.setattr(Trainer, "take_step", stop)
    stopped = Search(Sweep.read(file), file.parent / "runs")
    assert not stopped.run(lambda line: None)
    done = steps[0]
    found, _ = search(file)
    assert steps[0] == 4, f"4 steps in all, {done} of them before the stop"
    [best] = found.best()
    assert (best.user_attrs["continues"], best.user_attrs["folder"]) == (0, "trial-0")
    assert len(best.intermediate_values) == 2
    assert found.counts() == {"complete": 1}


def test_the_trial_of_a_killed_process_is_continued_and_that_of_a_living_one_left_alone(file: Path) -> None:
    change(file, trials=1)
    killed = Search(Sweep.read(file), file.parent / "runs")
    chosen = killed._choose()
    assert chosen is not None
    trial, held = chosen
    other = Search(Sweep.read(file), file.parent / "runs")
    assert other._choose() is None, "the only trial is being worked on"
    held.release()  # as the end of a process does
    found, _ = search(file)
    [best] = found.best()
    assert best.params == trial.params
    assert best.user_attrs["continues"] == trial.number
    assert len(counted(found._study.trials)) == 1


def test_trials_that_fail_do_not_stop_the_search_and_use_up_no_trial(file: Path) -> None:
    with pytest.raises(UserError, match="dim=9 is not divisible by heads=2"):  # none of it could be run
        change(file, space={**SPACE, "model.dim": [9], "model.heads": [2]})
    change(file, space={**SPACE, "model.dim": [8], "model.heads": [2, 3]}, trials=6)
    found, told = search(file)
    counts = found.counts()
    assert counts["complete"] == 6 or counts["fail"] == 6  # but if as many fail, enough is enough
    assert counts["fail"] >= 1
    assert any("failed: model: dim=8 is not divisible by heads=3" in line for line in told)


def test_mistakes_in_a_sweep_file_name_the_file(file: Path) -> None:
    with pytest.raises(UserError, match=rf"{file}: model: unknown setting 'dmi'"):
        change(file, space={**SPACE, "model.dmi": [8]})
    with pytest.raises(UserError, match=rf"{file}: unknown task 'clutr'"):
        change(file, task="clutr")


def test_trials_behind_the_others_are_given_up(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = iter([0.9] * 10 + [0.1] * 2)  # five trials of two evaluations, with a score at the end of each
    sweep = change(file, prune=True, trials=6)
    last = [0.0]

    def score(self: Sweep, scores: Mapping[str, float]) -> float:
        if "loss" not in scores:  # an evaluation, not the record at the end
            last[0] = next(values)
        return last[0]

    monkeypatch.setattr(Sweep, "score", score)
    found, told = search(file)
    assert sweep.prune
    assert found.counts() == {"complete": 5, "pruned": 1}
    assert "pruned" in told[-1]


def test_another_search_under_the_same_name_is_refused(file: Path) -> None:
    Search(Sweep.read(file), file.parent / "runs")
    Search(change(file, trials=50), file.parent / "runs")  # more of the same
    with pytest.raises(UserError, match="holds another search; its seed is 1, this one's is 2"):
        Search(change(file, seed=2), file.parent / "runs")
    Search(change(file, seed=2, name="other"), file.parent / "runs")


def test_any_storage(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Search(change(file, storage=f"sqlite:///{tmp_path}/shared.db"), file.parent / "runs")
    assert (tmp_path / "shared.db").exists()
    monkeypatch.setenv("WHERE", str(tmp_path / "named.db"))
    Search(change(file, storage="sqlite:///$WHERE"), file.parent / "runs")
    assert (tmp_path / "named.db").exists()
    with pytest.raises(UserError, match=r"storage nonsense://me:\*\*\*@nohost/db: ") as refused:
        Search(change(file, storage="nonsense://me:secret@nohost/db"), file.parent / "runs")
    assert "secret" not in str(refused.value)
    with pytest.raises(UserError, match="storage nonsense"):
        Search(change(file, storage="nonsense"), file.parent / "runs")
    with pytest.raises(UserError, match="has no search unknown"):
        Search(
            change(file, storage=f"sqlite:///{tmp_path}/shared.db", name="unknown"), file.parent / "runs", create=False
        )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"objective": ["k=6"]}, "objective: found 'k=6'; expected validation scores"),
        ({"space": {}}, "space: found none"),
        ({"space": {"model.dim": 8}}, "space.model.dim: found 8; expected a list of values, or low and high"),
        ({"space": {"model.dim": []}}, "space.model.dim: found .*; expected at least one value"),
        ({"space": {"model.dim": {"low": 8}}}, "missing setting 'high'"),
        ({"space": {"model.dim": {"low": 8, "high": 8}}}, "expected low below high"),
        ({"space": {"train.lr": {"low": 0, "high": 8, "log": True}}}, "must be above 0"),
        ({"space": {"model.wings": [1, 2]}}, "unknown setting 'wings'"),
        ({"trials": 0}, "trials must be at least 1"),
        ({"name": "a/b"}, "expected a name for a folder"),
        ({"preset": "clutrr/none"}, "unknown preset"),
    ],
)
def test_nonsense_files_are_refused(file: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        change(file, **changes)


def test_without_optuna_the_extra_is_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(UserError, match=r"pip install '\.\[sweep\]' in a clone"):
        Search(Sweep.read(file), file.parent / "runs")


def test_ranges_of_whole_numbers_and_others(file: Path) -> None:
    space = {"a": {"low": 200, "high": 400, "step": 40}, "b": {"low": 1e-4, "high": 2e-3, "log": True}, "c": [4, 8]}
    found = sweeping._distributions(space)
    assert [type(kind).__name__ for kind in found.values()] == [
        *("IntDistribution", "FloatDistribution", "CategoricalDistribution")
    ]


@pytest.mark.parametrize("path", COMMITTED_SWEEPS, ids=name_of)
def test_committed_sweeps_can_be_read(path: Path) -> None:
    sweep = Sweep.read(path)
    for dim in range(200, 401, 40):
        for heads in sweep.space["model.heads"]:  # all of them go together
            sweep.run_config({"model.dim": dim, "model.heads": heads})
    assert sweep.run_config({}).settings["data"]["test"] is False
