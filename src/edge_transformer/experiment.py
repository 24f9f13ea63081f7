"""Experiments: presets x seeds, several runs side by side, resumable, with one live table of all of them.

Every run is a process of its own with one thread, in a folder of its own. A finished run is added to the results file;
a run that the file already has is skipped, and one that was cut off goes on from its checkpoint.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.live import Live
from rich.table import Table

from .checkpoint import read_json
from .config import from_dict
from .errors import UserError
from .presets import read_yaml
from .progress import console
from .records import Key, Record, append_record, read_record, read_records, run_key
from .run import RunConfig
from .tasks import get_task
from .train import RECORD_FILE, STATUS_FILE


@dataclass(frozen=True)
class PlannedPreset:
    """One entry of an experiment's `runs`."""

    preset: str
    seeds: tuple[int, ...] | None = None  # instead of the experiment's
    data: str | None = None  # likewise
    set: dict = field(default_factory=dict)  # changes to the preset, such as {"data.train_k": [2, 3]}


@dataclass(frozen=True)
class Experiment:
    """An experiment file."""

    task: str
    data: str  # folder, seen from where the command runs
    results: str  # the .jsonl file that finished runs are added to
    seeds: tuple[int, ...]
    runs: tuple[PlannedPreset, ...]

    @classmethod
    def read(cls, path: str | Path) -> Experiment:
        """Read and check an experiment file."""
        experiment = from_dict(cls, read_yaml(Path(path)), str(path))
        get_task(experiment.task)
        if not experiment.runs:
            raise UserError(f"{path}: runs: found none; expected a list of presets")
        return experiment


@dataclass
class Run:
    """One run of an experiment, and how it stands."""

    config: RunConfig
    data: str
    folder: Path
    key: Key
    state: str = "waiting"  # "waiting" | "running" | "finished" | "failed" | "known": in the results before we started
    process: subprocess.Popen[bytes] | None = None
    record: Record | None = None

    @property
    def log(self) -> Path:
        """What the process printed."""
        return self.folder.with_name(self.folder.name + ".log")

    @property
    def last_words(self) -> str:
        """The last line that the process printed, which is its error where it failed."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else "nothing"

    @property
    def command(self) -> list[str]:
        return [*self.config.arguments(self.data), "--threads", "1", "--out", str(self.folder)]


def plan(experiment: Experiment, runs_folder: str | Path = "runs") -> list[Run]:
    """All runs of an experiment, those that the results already have marked as known."""
    results = Path(experiment.results)
    known = {record.key: record for record in (read_records(results) if results.exists() else [])}
    fingerprints: dict[str, str] = {}
    planned: list[tuple[int, Run]] = []
    for entry in experiment.runs:
        data = entry.data or experiment.data
        if data not in fingerprints:
            fingerprints[data] = get_task(experiment.task).data.fingerprint(Path(data))
        for turn, seed in enumerate(entry.seeds or experiment.seeds):
            config = RunConfig.from_preset(experiment.task, entry.preset, entry.set, seed)
            key = run_key(config.task, fingerprints[data], config.recorded_settings(), seed)
            run = Run(config, data, Path(runs_folder) / config.folder_name(data), key, record=known.get(key))
            if run.record:
                run.state = "known"
            planned.append((turn, run))
    # First seeds of all presets, then second ones: what there is of an unfinished experiment can be compared.
    return [run for _, run in sorted(planned, key=lambda turn_and_run: turn_and_run[0])]


def run_experiment(experiment: Experiment, jobs: int = 2, runs_folder: str | Path = "runs") -> list[Run]:
    """Do all runs that are not known yet, `jobs` at a time, and add each to the results when it finishes."""
    runs = plan(experiment, runs_folder)
    try:
        with (
            _stoppable(),
            Live(console=console, refresh_per_second=2, get_renderable=lambda: _table(runs), transient=True),
        ):
            while any(run.state in ("waiting", "running") for run in runs):
                for run in runs:
                    _advance(run, runs, jobs, Path(experiment.results))
                time.sleep(0.2)
    except BaseException:  # whatever ends us, no run is left behind
        _stop(runs)
        raise
    console.print(_table(runs))
    return runs


@contextmanager
def _stoppable() -> Iterator[None]:
    """Let SIGTERM end the block as Ctrl-C does, so that no run is left behind without its experiment."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    try:
        previous = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _advance(run: Run, runs: Sequence[Run], jobs: int, results: Path) -> None:
    if run.state == "waiting":
        if _has_finished(run):  # earlier, but it is not yet in the results
            _collect(run, results)
        elif sum(other.state == "running" for other in runs) < jobs:
            _start(run)
    elif run.state == "running" and run.process is not None and run.process.poll() is not None:
        if run.process.returncode == 0 and _has_finished(run):
            _collect(run, results)
        else:
            run.state = "failed"


def _has_finished(run: Run) -> bool:
    """Whether the folder of a run holds its record, and not that of a run before some preset or data file changed."""
    path = run.folder / RECORD_FILE
    return path.exists() and read_record(path).key == run.key


def _start(run: Run) -> None:
    run.folder.parent.mkdir(parents=True, exist_ok=True)
    with open(run.log, "ab") as log:
        run.process = subprocess.Popen(
            [sys.executable, "-m", "edge_transformer", *run.command],
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            start_new_session=True,  # Ctrl-C is for us; we then ask the runs to stop, once
        )
    run.state = "running"


def _collect(run: Run, results: Path) -> None:
    """Add the record that a finished run left in its folder to the results."""
    run.record = read_record(run.folder / RECORD_FILE)
    append_record(results, run.record)
    run.state = "finished"


def _stop(runs: Iterable[Run]) -> None:
    """Let running processes write their last checkpoint and end."""
    running = [run.process for run in runs if run.state == "running" and run.process is not None]
    for process in running:
        process.terminate()
    for process in running:
        process.wait()


def _table(runs: Sequence[Run]) -> Table:
    table = Table(title="experiment", title_justify="left")
    for column in ("preset", "changes", "seed", "state", "done", "minutes", "loss", "scores"):
        table.add_column(column, justify="right" if column in ("seed", "done", "minutes", "loss") else "left")
    for run in runs:
        changes = " ".join(f"{name}={value}" for name, value in run.config.overrides.items())
        table.add_row(run.config.preset, changes, str(run.config.seed), run.state, *_standing(run))
    return table


def _standing(run: Run) -> tuple[str, str, str, str]:
    """How far a run is, its minutes, loss and scores."""
    if run.record is not None:
        scores = {name: value for name, value in run.record.metrics.items() if name != "loss"}
        return "100 %", f"{run.record.minutes:.1f}", f"{run.record.metrics['loss']:.3f}", _scores(scores)
    if run.state == "failed":
        return "", "", "", run.last_words
    try:
        status = read_json(run.folder / STATUS_FILE)
    except UserError:
        return "", "", "", ""
    last: dict[str, Any] = status["history"][-1] if status["history"] else {}
    done = f"{status['step'] / status['steps']:.0%}".replace("%", " %")
    loss = f"{last['loss']:.3f}" if last else ""
    return done, f"{status['minutes']:.1f}", loss, _scores(last.get("scores", {}))


def _scores(scores: dict[str, float]) -> str:
    return " ".join(f"{name} {100 * value:.1f}" for name, value in scores.items())
