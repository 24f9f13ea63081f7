"""Experiments: planning, skipping, resuming, collecting."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from edge_transformer.data.clutrr import write_clutrr
from edge_transformer.data.kinship import generate
from edge_transformer.errors import UserError
from edge_transformer.experiment import Experiment, plan, run_experiment
from edge_transformer.files import lock
from edge_transformer.records import read_records

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


def test_sigterm_stops_the_runs_too(file: Path, tmp_path: Path) -> None:
    values = yaml.safe_load(file.read_text())
    values["runs"] = [{"preset": "clutrr/cpu", "seeds": [1], "set": {**TINY, "train.epochs": 100_000}}]
    file.write_text(yaml.safe_dump(values))
    command = [sys.executable, "-m", "edge_transformer", "experiment", str(file), "--runs", str(tmp_path / "runs")]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    wait_for(tmp_path / "runs", "*/run.json")
    time.sleep(1)  # into the training itself
    process.terminate()
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
    ],
)
def test_nonsense_files_are_refused(file: Path, change: dict[str, object], message: str) -> None:
    file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), **change}))
    with pytest.raises(UserError, match=message):
        Experiment.read(file)


@pytest.mark.parametrize("path", sorted((REPOSITORY / "experiments").glob("*.yaml")), ids=lambda path: path.name)
def test_committed_experiments_can_be_read(path: Path) -> None:
    experiment = Experiment.read(path)
    assert (REPOSITORY / experiment.results).parent == REPOSITORY / "results"
