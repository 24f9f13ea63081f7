"""Experiments: planning, skipping, resuming, collecting."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

import command_line
from edge_transformer.data.relations.clutrr import write_clutrr
from edge_transformer.data.relations.generate import generate, generate_valid
from edge_transformer.errors import UserError
from edge_transformer.io.files import lock
from edge_transformer.io.records import read_records
from edge_transformer.report.tables import result_tables
from edge_transformer.training.experiment import Experiment, _advance, plan, run_experiment
from experiment_cases import (
    ALL_FILES,
    COMMITTED_FILES,
    REPOSITORY,
    TINY,
    name_of,
    plan_committed,
    write_tiny_experiment,
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_tiny_experiment(tmp_path)


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


def test_other_data_than_those_that_are_meant_are_refused(file: Path, tmp_path: Path) -> None:
    values = yaml.safe_load(file.read_text())
    data = values.pop("data")
    file.write_text(yaml.safe_dump({**values, "training_sets": [{"data": data, "fingerprint": "0123"}]}))
    with pytest.raises(UserError, match=r"families: found data with the fingerprint (\w+); expected 0123") as caught:
        run_experiment(Experiment.read(file), runs_folder=tmp_path / "runs")
    [right] = re.findall(r"fingerprint (\w+);", str(caught.value))
    file.write_text(yaml.safe_dump({**values, "training_sets": [{"data": data, "fingerprint": right}]}))
    assert len(plan(Experiment.read(file), tmp_path / "runs")) == 3


def test_a_finished_run_that_nobody_recorded_is_collected(file: Path, tmp_path: Path) -> None:
    experiment = Experiment.read(file)
    run_experiment(experiment, runs_folder=tmp_path / "runs")
    Path(experiment.results).unlink()
    runs = run_experiment(experiment, runs_folder=tmp_path / "runs")
    assert [run.state for run in runs] == ["finished"] * 3
    assert all(run.process is None for run in runs)
    assert len(read_records(experiment.results)) == 3


def test_another_file_of_records_knows_nothing(file: Path, tmp_path: Path) -> None:
    experiment = Experiment.read(file)
    run_experiment(experiment, runs_folder=tmp_path / "runs")
    before, again = Path(experiment.results), tmp_path / "again" / "records.jsonl"
    arguments = ["--runs", str(tmp_path / "others"), "--results", str(again)]
    assert command_line.run("experiment", str(file), *arguments).code == 0
    found, expected = ({record.key: record.metrics for record in read_records(path)} for path in (again, before))
    assert found == expected
    with pytest.raises(UserError, match=r"records\.txt; expected a \.jsonl file"):
        Experiment.read(file, tmp_path / "records.txt")


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
    wait_until(lambda: not processes_that_mention(str(tmp_path / "runs")))
    time.sleep(0.2)  # until the system has let go of their locks
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
    held.release()
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


def begin_endless(file: Path, runs_folder: Path, which: signal.Signals) -> subprocess.Popen[str]:
    """A process that does an experiment with one run without end, once training has begun."""
    values = yaml.safe_load(file.read_text())
    values["runs"] = [{"preset": "clutrr/cpu", "seeds": [1], "set": {**TINY, "train.epochs": 100_000}}]
    file.write_text(yaml.safe_dump(values))
    command = [sys.executable, "-m", "edge_transformer", "experiment", str(file), "--runs", str(runs_folder)]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        # Tests in the background may have been told to ignore the signal; what a person starts is not.
        preexec_fn=lambda: signal.signal(which, signal.SIG_DFL),
    )
    wait_for(runs_folder, "*/status.json")
    return process


def is_free(runs_folder: Path) -> bool:
    """Whether no process is training in the only folder any more."""
    [description] = runs_folder.glob("*/run.json")
    return lock(description.parent / "lock") is not None


@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signals_stop_the_runs_too(which: signal.Signals, file: Path, tmp_path: Path) -> None:
    process = begin_endless(file, tmp_path / "runs", which)
    process.send_signal(which)
    if which != signal.SIGINT:
        process.send_signal(which)  # as timeout and terminals do
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    started, *others = said.splitlines()
    assert started.startswith("started: clutrr/cpu ")
    assert others == [
        "stopping 1 run; it writes its checkpoint … (Ctrl-C again ends at once)",
        "stopped; the same command resumes it",
    ]
    assert is_free(tmp_path / "runs")
    assert len(list((tmp_path / "runs").glob("*/checkpoint.safetensors"))) == 1


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="finds the process of the run in /proc")
def test_a_second_interrupt_ends_at_once(file: Path, tmp_path: Path) -> None:
    process = begin_endless(file, tmp_path / "runs", signal.SIGINT)
    [run] = [pid for pid in processes_that_mention(str(tmp_path / "runs")) if pid != process.pid]
    os.kill(run, signal.SIGSTOP)  # it takes its time
    process.send_signal(signal.SIGINT)
    time.sleep(1)
    assert process.poll() is None, "it waits for the run"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Traceback" not in said
    assert said.endswith("\nstopped; the same command resumes it\n")
    assert is_free(tmp_path / "runs")


def processes_that_mention(text: str) -> list[int]:
    lines = {path: path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")}
    return [int(path.parent.name) for path, line in lines.items() if text.encode() in line]


def wait_for(folder: Path, pattern: str) -> None:
    wait_until(lambda: bool(list(folder.glob(pattern))))


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not is_so() and time.monotonic() < deadline:
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
        ({"task": "cooking"}, "experiment.yaml: unknown task 'cooking'"),
        ({"results": "results"}, "results: found results; expected a .jsonl file"),
        ({"seeds": "1"}, "seeds"),
        ({"speed": 3}, "unknown setting 'speed'"),
        ({"runs": [{"preset": "clutrr/cpu"}, {"presets": "x"}]}, r"yaml\.runs, entry 2: unknown setting 'presets'"),
        ({"seeds": []}, r"yaml\.runs, entry 1 \(clutrr/cpu\): found no seeds"),
        ({"data": None}, "found neither data nor training_sets"),
        ({"training_sets": [{"data": "x"}]}, "found both data and training_sets"),
        ({"generate": [{"rows": 3}]}, "missing setting 'out'"),
    ],
)
def test_nonsense_files_are_refused(file: Path, change: dict[str, object], message: str) -> None:
    file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), **change}))
    with pytest.raises(UserError, match=message):
        Experiment.read(file)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model.dim": 15, "model.heads": 8}, "model: dim=15 is not divisible by heads=8"),
        ({"train.epochs": 0}, "train: epochs must be at least 1, but is 0"),
        ({"dim": 8}, "setting dim: found no section"),
    ],
)
@pytest.mark.parametrize("whose", ["entry", "training set"])
def test_wrong_settings_are_refused_with_their_place(
    whose: str, changes: dict[str, object], message: str, file: Path
) -> None:
    values = yaml.safe_load(file.read_text())
    values["runs"] = [{"preset": "clutrr/cpu"}, {"preset": "clutrr/cpu-untied"}]
    place = f"{file}.runs, entry 2 (clutrr/cpu-untied): "
    if whose == "entry":
        values["runs"][1]["set"] = changes
    else:
        values["training_sets"] = [{"data": values["data"]}, {"data": values.pop("data"), "set": changes}]
        place = f"{file}.runs, entry 1 (clutrr/cpu), training_sets, entry 2: "
    file.write_text(yaml.safe_dump(values))
    with pytest.raises(UserError) as refused:
        Experiment.read(file)
    assert str(refused.value).startswith(place + message)


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
    assert set(run.record.metrics) == {"accuracy", "k=2", "k=3", "valid", "valid k=5", "loss"}
    assert run.record.key == keys[1]


# --- the committed files ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", COMMITTED_FILES, ids=name_of)
def test_committed_experiments_can_be_planned(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = Experiment.read(path)
    assert (REPOSITORY / experiment.results).parent == REPOSITORY / "results/records"
    assert all(run.state == "waiting" for run in plan_committed(path, tmp_path, monkeypatch))


@pytest.mark.parametrize("path", ALL_FILES, ids=name_of)
def test_committed_experiments_say_what_of_the_paper_they_are(path: Path) -> None:
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert bool(re.search(r"(?:Figure|Table) \d", first)) != first.startswith("# Beyond the paper: ")
