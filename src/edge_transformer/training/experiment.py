"""Experiments: presets x training sets x seeds, several runs side by side, resumable.

Each run is a process with one thread, in its own folder. A finished run is added to the results file, and skipped from
then on; an interrupted run resumes from its checkpoint; a failed run does not stop the others. If runs outlive a killed
experiment, the next start waits for them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path

from ..data.relations.generate import GeneratedData
from ..errors import UserError
from ..io.files import lock
from ..io.process import collected_signals
from ..io.progress import bar, console
from ..io.records import Key, Record, append_record, joint_fingerprint, read_record, read_records, run_key
from ..io.settings import from_dict
from ..tasks.base import RECORD_FILE, get_task
from .config import FITTED, RunConfig
from .display import display
from .fit import first_run, fitted_run
from .folder import LOCK_FILE
from .presets import read_yaml, yaml_value


@dataclass(frozen=True)
class PlannedPreset:
    """One entry of an experiment's `runs`."""

    preset: str = FITTED  # by default settings are fitted to the data, as those of `train` without a preset
    seeds: tuple[int, ...] | None = None  # instead of the experiment's
    set: dict = field(default_factory=dict)  # changes to the preset, such as {"model.dim": 64}


@dataclass(frozen=True)
class TrainingSet:
    """One entry of an experiment's `training_sets`; each preset runs on each of them."""

    data: str  # folder, relative to the working directory
    fingerprint: str | None = None  # the expected one, for data that commands make; others are refused
    set: dict = field(default_factory=dict)  # changes to all presets, such as {"data.train_k": [2, 3]}


@dataclass(frozen=True)
class Experiment:
    """An experiment file."""

    task: str
    results: str  # the .jsonl file of finished runs
    seeds: tuple[int, ...]
    runs: tuple[PlannedPreset, ...]
    data: str | None = None  # short for a single training set
    training_sets: tuple[TrainingSet, ...] = ()
    generate: tuple[GeneratedData, ...] = ()  # made first, if missing

    @classmethod
    def read(cls, path: str | Path, results: str | Path | None = None) -> Experiment:
        """Read and check an experiment file. `results` replaces the file of records that it names."""
        experiment = from_dict(cls, read_yaml(Path(path)), str(path))
        if results is not None:
            experiment = replace(experiment, results=str(results))
        try:
            get_task(experiment.task)
        except UserError as error:
            raise UserError(f"{path}: {error}") from error
        if not experiment.results.endswith(".jsonl"):  # before the first run, not after it
            raise UserError(f"{path}: results: found {experiment.results}; expected a .jsonl file")
        if not experiment.runs:
            raise UserError(f"{path}: runs: found none; expected a list of presets")
        if (experiment.data is None) == (not experiment.training_sets):
            found = "neither data nor training_sets" if experiment.data is None else "both data and training_sets"
            raise UserError(f"{path}: found {found}; expected one of them")
        experiment._check_runs(path)
        return experiment

    def _check_runs(self, path: str | Path) -> None:
        """Check that every entry makes valid runs; errors name the entry."""
        for number, entry in enumerate(self.runs, 1):
            where = f"{path}.runs, entry {number} ({entry.preset})"
            if not self.seeds_of(entry):
                raise UserError(f"{where}: found no seeds; expected some here, or for the whole experiment")
            for set_number, training_set in enumerate(self.all_training_sets, 1):
                try:
                    self._first_config(training_set, entry, seed=1)
                except UserError as error:
                    with_set = f", training_sets, entry {set_number}" if training_set.set else ""
                    raise UserError(f"{where}{with_set}: {error}") from error

    @property
    def all_training_sets(self) -> tuple[TrainingSet, ...]:
        return self.training_sets if self.data is None else (TrainingSet(self.data),)

    def seeds_of(self, entry: PlannedPreset) -> tuple[int, ...]:
        return entry.seeds or self.seeds

    def run_config(self, training_set: TrainingSet, entry: PlannedPreset, seed: int) -> RunConfig:
        """One run: a preset with the changes of its training set, then its own. Reads data to fit settings to them."""
        first = self._first_config(training_set, entry, seed)
        return first if entry.preset != FITTED else fitted_run(first, first.load_data(training_set.data))[0]

    def _first_config(self, training_set: TrainingSet, entry: PlannedPreset, seed: int) -> RunConfig:
        """The same as far as it is known before data are read."""
        overrides = {**training_set.set, **entry.set}
        if entry.preset == FITTED:
            return first_run(self.task, overrides, seed)
        return RunConfig.from_preset(self.task, entry.preset, overrides, seed)


@dataclass
class Run:
    """One run of an experiment, and its state."""

    config: RunConfig
    data: str
    folder: Path
    key: Key
    # "waiting" | "running" | "elsewhere": in another process | "finished" | "failed" | "known": finished before
    state: str = "waiting"
    process: subprocess.Popen[bytes] | None = None
    record: Record | None = None
    problem: str = ""  # why it failed, if its process could not say

    @property
    def name(self) -> str:
        changes = "".join(f" {name}={yaml_value(value)}" for name, value in self.config.overrides.items())
        return f"{self.config.preset}{changes} on {Path(self.data).name}, seed {self.config.seed}"

    @property
    def log(self) -> Path:
        """The output of the process."""
        return self.folder.with_name(self.folder.name + ".log")

    @property
    def last_words(self) -> str:
        """Why the run failed: the known problem, or the last line of its output."""
        if self.problem:
            return self.problem
        try:
            lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return lines[-1] if lines else "nothing"

    @property
    def command(self) -> list[str]:
        return [*self.config.arguments(self.data), "--threads", "1", "--out", str(self.folder)]


def plan(experiment: Experiment, runs_folder: str | Path = "runs") -> list[Run]:
    """All runs of an experiment; those already in the results are marked as known."""
    results = Path(experiment.results)
    known = {record.key: record for record in (read_records(results) if results.exists() else [])}
    task = get_task(experiment.task).data
    planned: list[tuple[int, Run]] = []
    for training_set in experiment.all_training_sets:
        fingerprint = cache(partial(task.fingerprint, Path(training_set.data)))
        for entry in experiment.runs:
            for turn, seed in enumerate(experiment.seeds_of(entry)):
                config = experiment.run_config(training_set, entry, seed)
                hashed = fingerprint(split=getattr(config.data_settings, "split", None))
                if training_set.fingerprint not in (None, hashed):
                    raise UserError(
                        f"{training_set.data}: found data with the fingerprint {hashed}; "
                        f"expected {training_set.fingerprint}, which the experiment is meant for"
                    )
                hashed = joint_fingerprint(hashed, task.valid_fingerprint(config.data_settings))
                key = run_key(config.task, hashed, config.recorded_settings(), seed)
                folder = Path(runs_folder) / config.folder_name(training_set.data)
                run = Run(config, training_set.data, folder, key, record=known.get(key))
                if run.record:
                    run.state = "known"
                planned.append((turn, run))
    # First seeds of all presets, then second ones, so that an unfinished experiment can be compared.
    runs = [run for _, run in sorted(planned, key=lambda turn_and_run: turn_and_run[0])]
    folders: dict[Path, Run] = {}
    for run in runs:
        first = folders.setdefault(run.folder, run)
        if first is not run:
            raise UserError(
                f"two runs have the folder {run.folder}: {first.name} ({first.data}), and {run.name} ({run.data}); "
                "expected each run once, and data folders of different names"
            )
    return runs


def run_experiment(experiment: Experiment, jobs: int = 2, runs_folder: str | Path = "runs") -> list[Run]:
    """Run what the results lack, `jobs` at a time, and add each run to the results when it finishes.

    After Ctrl-C, SIGTERM or SIGHUP the runs write their checkpoints; then this raises KeyboardInterrupt.
    """
    generate_missing(experiment.generate)
    runs = plan(experiment, runs_folder)
    with collected_signals(TO_STOP) as received:
        try:
            with display(runs) as shown:
                while _is_unfinished(runs) and not received:
                    for run in runs:
                        _advance(run, runs, jobs, Path(experiment.results))
                    shown.update()
                    time.sleep(0.2)
        finally:  # leave no run behind
            _stop(runs, received)
    if _is_unfinished(runs):
        raise KeyboardInterrupt
    return runs


def generate_missing(wanted: Iterable[GeneratedData]) -> None:
    """Generate the missing data of an experiment or sweep file."""
    for data in wanted:
        with bar(f"generating {Path(data.out).name}", data.stories) as generating:
            made = data.ensure(generating.advance)
        if made:
            console.print(f"generated {data.stories:,} stories in {data.out}", highlight=False, markup=False)


TO_STOP = (signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))


def _is_unfinished(runs: Iterable[Run]) -> bool:
    return any(run.state in ("waiting", "running", "elsewhere") for run in runs)


def _advance(run: Run, runs: Sequence[Run], jobs: int, results: Path) -> None:
    """Take the next step of a run. An error in one run does not stop the others."""
    try:
        if run.state in ("waiting", "elsewhere"):
            _begin(run, runs, jobs, results)
        elif run.state == "running" and run.process is not None and run.process.poll() is not None:
            if run.process.returncode == 0 and _has_finished(run):
                _collect(run, results)
            else:
                run.state = "failed"
    except (UserError, OSError) as error:
        run.state, run.problem = "failed", str(error)


def _begin(run: Run, runs: Sequence[Run], jobs: int, results: Path) -> None:
    if _has_finished(run):  # earlier, but not yet in the results
        _collect(run, results)
    elif _is_locked(run):  # left by a killed experiment, or started by hand
        run.state = "elsewhere"
    else:
        run.state = "waiting"
        if sum(other.state in ("running", "elsewhere") for other in runs) < jobs:
            _start(run)


def _has_finished(run: Run) -> bool:
    """Whether the folder of a run holds its record, not one from before a change of preset or data."""
    path = run.folder / RECORD_FILE
    return path.exists() and read_record(path).key == run.key


def _is_locked(run: Run) -> bool:
    """Whether another process is training in the folder of a run."""
    if not (run.folder / LOCK_FILE).exists():
        return False
    held = lock(run.folder / LOCK_FILE)
    if held is not None:
        held.release()
    return held is None


def _start(run: Run) -> None:
    run.folder.parent.mkdir(parents=True, exist_ok=True)
    with open(run.log, "ab") as log:
        run.process = subprocess.Popen(
            [sys.executable, "-m", "edge_transformer", *run.command],
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            start_new_session=True,  # Ctrl-C reaches only us; `_stop` then stops the runs once
        )
    run.state = "running"


def _collect(run: Run, results: Path) -> None:
    """Add the record of a finished run to the results."""
    run.record = read_record(run.folder / RECORD_FILE)
    append_record(results, run.record)
    run.state = "finished"


def _stop(runs: Iterable[Run], received: Sequence[int]) -> None:
    """Let running processes write their last checkpoint and end; another Ctrl-C, but not SIGTERM, kills them."""
    running = [run.process for run in runs if run.state == "running" and run.process is not None]
    if not running:
        return
    for process in running:
        process.terminate()
    asked = received.count(signal.SIGINT)
    what = (
        "1 run; it writes its checkpoint" if len(running) == 1 else f"{len(running)} runs; they write their checkpoints"
    )
    with suppress(OSError):  # the terminal may be gone
        console.print(f"stopping {what} … (Ctrl-C again ends at once)", highlight=False, soft_wrap=True)
    while any(process.poll() is None for process in running):
        if received.count(signal.SIGINT) > asked:
            for process in running:
                process.kill()
        time.sleep(0.05)
