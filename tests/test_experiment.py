"""Experiments: planning, skipping, resuming, collecting."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from edge_transformer import experiment_display
from edge_transformer.data.clutrr import write_clutrr
from edge_transformer.data.kinship import generate, generate_valid
from edge_transformer.errors import UserError
from edge_transformer.experiment import Experiment, TrainingSet, _advance, plan, run_experiment
from edge_transformer.files import lock
from edge_transformer.records import read_records
from edge_transformer.result_tables import result_tables

TINY = {
    "model.dim": 8,
    "model.heads": 2,
    "model.layers": 2,
    "model.min_layers": 1,
    "train.epochs": 2,
    "train.batch_size": 20,
}
REPOSITORY = Path(__file__).parents[1]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write_clutrr(tmp_path / "families", *generate((2, 3), (2, 3), 60, seed=1, test_rows=5))
    experiment = {
        "task": "clutrr",
        "data": str(tmp_path / "families"),
        "results": str(tmp_path / "results.jsonl"),
        "seeds": [1, 2],
        "runs": [
            {"preset": "clutrr/cpu", "set": TINY},
            {"preset": "clutrr/cpu-untied", "set": TINY, "seeds": [5]},
        ],
    }
    (tmp_path / "experiment.yaml").write_text(yaml.safe_dump(experiment))
    return tmp_path / "experiment.yaml"


def test_runs_are_done_recorded_and_then_known(file: Path, tmp_path: Path) -> None:
    experiment = Experiment.read(file)
    runs = run_experiment(experiment, runs_folder=tmp_path / "runs")
    assert [run.state for run in runs] == ["finished"] * 3, [run.last_words for run in runs if run.state == "failed"]
    records = read_records(experiment.results)
    assert sorted((record.preset, record.seed) for record in records) == [
        ("clutrr/cpu", 1),
        ("clutrr/cpu", 2),
        ("clutrr/cpu-untied", 5),
    ]
    assert all(record.threads == 1 for record in records)
    assert [run.state for run in run_experiment(experiment, runs_folder=tmp_path / "runs")] == ["known"] * 3
    assert len(read_records(experiment.results)) == 3
    # Other settings under the same preset name are another run.
    changed = yaml.safe_load(file.read_text())
    changed["runs"][0]["set"] = {**TINY, "model.dim": 16}
    file.write_text(yaml.safe_dump(changed))
    planned = plan(Experiment.read(file), tmp_path / "runs")
    assert [(run.config.preset, run.config.seed, run.state) for run in planned] == [
        ("clutrr/cpu", 1, "waiting"),
        ("clutrr/cpu-untied", 5, "known"),
        ("clutrr/cpu", 2, "waiting"),
    ]


def test_a_finished_run_that_nobody_recorded_is_collected(file: Path, tmp_path: Path) -> None:
    experiment = Experiment.read(file)
    run_experiment(experiment, runs_folder=tmp_path / "runs")
    Path(experiment.results).unlink()
    runs = run_experiment(experiment, runs_folder=tmp_path / "runs")
    assert [run.state for run in runs] == ["finished"] * 3
    assert all(run.process is None for run in runs)
    assert len(read_records(experiment.results)) == 3


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="finds the processes to kill in /proc")
def test_a_killed_experiment_goes_on(file: Path, tmp_path: Path) -> None:
    values = yaml.safe_load(file.read_text())
    for entry in values["runs"]:
        entry["set"] = {**TINY, "train.epochs": 60}
    file.write_text(yaml.safe_dump(values))
    command = [sys.executable, "-m", "edge_transformer", "experiment", str(file), "--runs", str(tmp_path / "runs")]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    wait_for(tmp_path / "runs", "*/run.json")
    process.kill()
    process.wait()
    for pid in processes_that_mention(str(tmp_path / "runs")):  # the power fails for all of them
        os.kill(pid, signal.SIGKILL)
    time.sleep(0.2)  # until the system has let go of the locks
    runs = run_experiment(Experiment.read(file), runs_folder=tmp_path / "runs")
    assert [run.state for run in runs] == ["finished"] * 3, [run.last_words for run in runs if run.state == "failed"]
    assert len(read_records(values["results"])) == 3


def test_runs_that_outlive_a_killed_experiment_are_waited_for(file: Path, tmp_path: Path) -> None:
    values = yaml.safe_load(file.read_text())
    values["runs"] = [{"preset": "clutrr/cpu", "seeds": [1], "set": {**TINY, "train.epochs": 40}}]
    file.write_text(yaml.safe_dump(values))
    experiment = Experiment.read(file)
    [run] = plan(experiment, tmp_path / "runs")
    run.folder.mkdir(parents=True)
    command = [sys.executable, "-m", "edge_transformer", *run.command]
    orphan = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    wait_for(tmp_path / "runs", "*/run.json")
    [done] = run_experiment(experiment, runs_folder=tmp_path / "runs")
    assert orphan.wait(timeout=60) == 0
    assert (done.state, done.process) == ("finished", None), done.last_words
    assert len(read_records(values["results"])) == 1


def test_a_run_that_another_process_gave_up_is_taken_over(file: Path, tmp_path: Path) -> None:
    [run] = [run for run in plan(Experiment.read(file), tmp_path / "runs") if run.config.seed == 5]
    held = lock(run.folder / "lock")
    assert held is not None
    _advance(run, [run], 1, tmp_path / "results.jsonl")
    assert (run.state, run.process) == ("elsewhere", None)
    held.close()
    _advance(run, [run], 0, tmp_path / "results.jsonl")
    assert run.state == "waiting"


def test_damaged_folders_fail_alone(file: Path, tmp_path: Path) -> None:
    first, second, _ = plan(Experiment.read(file), tmp_path / "runs")
    first.folder.mkdir(parents=True)
    (first.folder / "record.json").write_text("broken")
    for run in (first, second):
        _advance(run, [first, second], 0, tmp_path / "results.jsonl")
    assert (first.state, second.state) == ("failed", "waiting")
    assert "record.json:1" in first.last_words


@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signals_stop_the_runs_too(which: signal.Signals, file: Path, tmp_path: Path) -> None:
    values = yaml.safe_load(file.read_text())
    values["runs"] = [{"preset": "clutrr/cpu", "seeds": [1], "set": {**TINY, "train.epochs": 100_000}}]
    file.write_text(yaml.safe_dump(values))
    command = [sys.executable, "-m", "edge_transformer", "experiment", str(file), "--runs", str(tmp_path / "runs")]
    # Tests in the background may have been told to ignore the signal; what a person starts is not.
    process = subprocess.Popen(
        command,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(which, signal.SIG_DFL),
    )
    wait_for(tmp_path / "runs", "*/run.json")
    time.sleep(1)  # into the training itself
    process.send_signal(which)
    assert process.wait(timeout=60) == 130
    folder = next((tmp_path / "runs").glob("*/run.json")).parent
    assert lock(folder / "lock") is not None, "the run's process is still there"


def processes_that_mention(text: str) -> list[int]:
    lines = {path: path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")}
    return [int(path.parent.name) for path, line in lines.items() if text.encode() in line]


def wait_for(folder: Path, pattern: str) -> None:
    deadline = time.monotonic() + 120
    while not list(folder.glob(pattern)) and time.monotonic() < deadline:
        time.sleep(0.02)


def test_the_record_of_other_settings_is_not_collected(file: Path, tmp_path: Path) -> None:
    experiment = Experiment.read(file)
    runs = plan(experiment, tmp_path / "runs")
    run_experiment(experiment, runs_folder=tmp_path / "runs")
    records = {record.preset: record for record in read_records(experiment.results)}
    Path(experiment.results).unlink()
    other = dataclasses.replace(records["clutrr/cpu-untied"], settings={"model": {"dim": 9}})
    untied = next(run for run in runs if run.config.preset == "clutrr/cpu-untied")
    (untied.folder / "record.json").write_text(other.to_json())
    states = [run.state for run in run_experiment(experiment, runs_folder=tmp_path / "runs")]
    assert states == ["finished", "failed", "finished"]
    assert {record.preset for record in read_records(experiment.results)} == {"clutrr/cpu"}


def test_a_failing_run_does_not_stop_the_others(file: Path, tmp_path: Path) -> None:
    experiment = Experiment.read(file)
    first = plan(experiment, tmp_path / "runs")[0]
    first.folder.mkdir(parents=True)
    (first.folder / "something.txt").write_text("in the way")
    runs = run_experiment(experiment, runs_folder=tmp_path / "runs")
    assert [run.state for run in runs] == ["failed", "finished", "finished"]
    assert "not empty and not a run" in runs[0].last_words


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"runs": []}, "runs: found none"),
        ({"task": "cooking"}, "unknown task 'cooking'"),
        ({"seeds": "1"}, "seeds"),
        ({"speed": 3}, "unknown setting 'speed'"),
        ({"runs": [{"presets": "clutrr/cpu"}]}, "unknown setting 'presets'"),
        ({"data": None}, "found neither data nor training_sets"),
        ({"training_sets": [{"data": "x"}]}, "found both data and training_sets"),
        ({"generate": [{"rows": 3}]}, "missing setting 'out'"),
    ],
)
def test_nonsense_files_are_refused(file: Path, change: dict[str, object], message: str) -> None:
    file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), **change}))
    with pytest.raises(UserError, match=message):
        Experiment.read(file)


def test_several_training_sets_one_of_them_generated(file: Path, tmp_path: Path) -> None:
    values = yaml.safe_load(file.read_text())
    made = {"out": str(tmp_path / "made"), "train_k": [2, 3], "test_k": [2], "rows": 40, "test_rows": 3, "seed": 2}
    values["training_sets"] = [
        {"data": values.pop("data")},
        {"data": str(tmp_path / "families"), "set": {"data.train_k": [2]}},
        {"data": str(tmp_path / "made")},
    ]
    values |= {"generate": [made], "seeds": [1], "runs": [{"preset": "clutrr/cpu", "set": TINY}]}
    file.write_text(yaml.safe_dump(values))
    with pytest.raises(UserError, match="made: no such folder"):
        plan(Experiment.read(file), tmp_path / "runs")
    runs = run_experiment(Experiment.read(file), runs_folder=tmp_path / "runs")
    assert [run.state for run in runs] == ["finished"] * 3, [run.last_words for run in runs]
    found = {
        (record.data["name"], record.data["train_k"], record.data["train_rows"] < 60)
        for record in read_records(values["results"])
    }
    assert found == {("families", "2,3", False), ("families", "2", True), ("made", "2,3", True)}
    assert len(result_tables(read_records(values["results"]))) == 3, "one table for each training set"
    assert [run.state for run in run_experiment(Experiment.read(file), runs_folder=tmp_path / "runs")] == ["known"] * 3


def test_the_same_run_twice_is_refused(file: Path, tmp_path: Path) -> None:
    values = yaml.safe_load(file.read_text())
    values["runs"].append(values["runs"][0])
    file.write_text(yaml.safe_dump(values))
    with pytest.raises(UserError, match=r"two runs have the folder .*expected each run once"):
        plan(Experiment.read(file), tmp_path / "runs")


def test_other_validation_stories_make_another_run(file: Path, tmp_path: Path) -> None:
    values = yaml.safe_load(file.read_text())
    values["runs"] = [{"preset": "clutrr/cpu", "set": {**TINY, "data.valid": str(tmp_path / "valid")}, "seeds": [1]}]
    file.write_text(yaml.safe_dump(values))
    keys = []
    for seed in (1, 2):
        train, tests = generate((2,), (2,), 1, seed=1, test_rows=1)
        write_clutrr(tmp_path / "valid", train, tests, generate_valid((5,), 3, seed))
        keys.append(plan(Experiment.read(file), tmp_path / "runs")[0].key)
    assert keys[0] != keys[1]
    [run] = run_experiment(Experiment.read(file), runs_folder=tmp_path / "runs")
    assert run.record is not None, run.last_words
    assert set(run.record.metrics) == {"k=2", "k=3", "valid k=5", "loss"}
    assert run.record.key == keys[1]


# --- what is shown ----------------------------------------------------------------------------------------------------


def screen(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> io.StringIO:
    text = io.StringIO()
    shown = Console(file=text, force_terminal=terminal, width=200, color_system=None)
    monkeypatch.setattr(experiment_display, "console", shown)
    return text


def test_one_line_an_event_without_a_terminal(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = plan(Experiment.read(file), tmp_path / "runs")
    text = screen(monkeypatch, terminal=False)
    with experiment_display.display(runs) as shown:
        shown.update()
        assert text.getvalue() == "", "waiting is no event"
        runs[0].state = "running"
        shown.update()
        shown.update()
        runs[0].state, runs[0].problem = "failed", "no more disk"
        shown.update()
    assert [line.partition(":")[0] for line in text.getvalue().splitlines()] == ["started", "failed"]
    assert text.getvalue().endswith("on families, seed 1: no more disk\n")


def test_one_table_in_a_terminal(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = plan(Experiment.read(file), tmp_path / "runs")
    runs[0].state = "running"
    runs[0].folder.mkdir(parents=True)
    scores = {"k=2": 0.5, "k=3": 0.251}
    status = {"step": 3, "steps": 6, "minutes": 2.5, "history": [{"loss": 1.25, "scores": scores}]}
    (runs[0].folder / "status.json").write_text(json.dumps(status))
    (runs[1].folder).mkdir()
    (runs[1].folder / "status.json").write_text("{}")  # of some other version
    runs[2].state, runs[2].problem = "failed", "no more disk"
    standing = experiment_display.how_it_stands(runs[0])
    assert standing == ("1/2", "50 %", "2.5", "2.5", "1.250", scores)
    assert experiment_display.how_it_stands(runs[1]) == experiment_display.Standing()
    text = screen(monkeypatch, terminal=True)
    with experiment_display.display(runs) as shown:
        shown.update()
    last = text.getvalue()
    assert "0 of 3 runs finished" in last
    for column in ("run", "seed", "state", "epoch", "steps", "minutes", "left", "loss", "k=2", "k=3"):
        assert column in last
    for value in ("running", "1/2", "50 %", "1.250", "50.0", "25.1", "no more disk"):
        assert value in last
    assert "started" not in last


# --- the committed files ----------------------------------------------------------------------------------------------

FILES = sorted((REPOSITORY / "experiments").glob("*.yaml"))


def write_small_data(task: str, folder: Path) -> None:
    """A folder with a few rows such as the task reads."""
    if task == "clutrr":
        write_clutrr(folder, *generate((2, 3), (2,), 4, seed=1, test_rows=1))
        return
    row, ending = {
        "cogs": ("Emma ran .\trun . agent ( x _ 1 , Emma )\tin_distribution\n", "tsv"),
        "dependency": ("1\tEmma\t_\tPROPN\t_\t_\t2\tnsubj\t_\t_\n2\tran\t_\tVERB\t_\t_\t0\troot\t_\t_\n\n", "conllu"),
    }[task]
    folder.mkdir(parents=True)
    for split in ("train", "dev", "test", "gen"):
        (folder / f"{split}.{ending}").write_text(row)


@pytest.mark.parametrize("path", [path for path in FILES if "sweep" not in path.stem], ids=lambda path: path.name)
def test_committed_experiments_can_be_planned(path: Path, tmp_path: Path) -> None:
    experiment = Experiment.read(path)
    assert (REPOSITORY / experiment.results).parent == REPOSITORY / "results"
    # With small data in place of each folder, whether they are generated or not, every run is sound.
    small = {}
    for name in {entry.data for entry in experiment.all_training_sets}:
        small[name] = str(tmp_path / "data" / name)
        write_small_data(experiment.task, Path(small[name]))
    valid = tmp_path / "valid"
    valid.mkdir()
    question = {
        "edges": [["Ann", "son", "Bob"], ["Bob", "sister", "Eve"]],
        "query": ["Ann", "Eve"],
        "answer": "daughter",
    }
    (valid / "valid.jsonl").write_text(json.dumps(question))
    sets = tuple(
        TrainingSet(
            small[entry.data], {**entry.set, **({"data.valid": str(valid)} if "data.valid" in entry.set else {})}
        )
        for entry in experiment.all_training_sets
    )
    experiment = dataclasses.replace(experiment, data=None, training_sets=sets, results=str(tmp_path / "none.jsonl"))
    assert all(run.state == "waiting" for run in plan(experiment, tmp_path / "runs"))
