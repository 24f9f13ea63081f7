"""Search for hyper-parameters with Optuna: trials of one preset, each a run of its own, judged on validation rows only.

Test files are not read. The study is in a database, so that several processes can share it: a SQLite file on one
machine, another Optuna storage on many. A trial that was stopped or killed is enqueued again and resumes from its
checkpoint, except one of a machine that broke down: no other machine can detect that.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import statistics
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import BaseFileLock, FileLock

from ..data.relations.generate import GeneratedData
from ..errors import UserError
from ..io.files import lock
from ..io.records import canonical_json, is_validation, joint_fingerprint
from ..io.settings import from_dict, require_positive
from ..tasks.base import get_task
from .config import Hardware, RunConfig
from .presets import read_yaml
from .trainer import Trainer

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

DEFINITION = "edge-transformer search"  # attribute of a study: what it searches
CONTINUES = "continues"  # attribute of a trial: the number of the interrupted trial that it resumes
FOLDER = "folder"


class NoValidation(UserError):
    """The data have no validation rows."""


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`; integers if both ends are."""

    low: float
    high: float
    step: float | None = None
    log: bool = False

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"found low {self.low:g} and high {self.high:g}; expected low below high")
        if self.log and (self.low <= 0 or self.step is not None):
            raise ValueError("a range with log must be above 0 and has no step")


@dataclass(frozen=True)
class Sweep:
    """A sweep file."""

    name: str
    task: str
    data: str  # folder, relative to the working directory
    preset: str
    space: dict  # setting -> list of values, or {low, high, step, log}
    trials: int
    seed: int = 1
    set: dict = field(default_factory=dict)  # changes to the preset, for all trials
    objective: tuple[str, ...] = ()  # validation scores whose mean is maximised; all by default
    prune: bool = False  # stop trials whose score is below the median of others at the same epoch
    storage: str | None = None  # Optuna storage, with $NAME for environment variables; by default a SQLite file
    generate: tuple[GeneratedData, ...] = ()  # made first, if missing

    def __post_init__(self) -> None:
        require_positive(self, "trials")
        if Path(self.name).name != self.name:
            raise ValueError(f"name: found {self.name!r}; expected a name for a folder")
        if not self.space:
            raise ValueError("space: found none; expected settings with lists of values or ranges")
        for name in self.objective:
            if not is_validation(name):
                raise ValueError(f"objective: found {name!r}; expected validation scores, such as valid or valid k=6")

    @classmethod
    def read(cls, path: str | Path) -> Sweep:
        """Read and check a sweep file."""
        sweep = from_dict(cls, {"name": Path(path).stem, **read_yaml(Path(path))}, str(path))
        example = {name: _example(values, f"{path}: space.{name}") for name, values in sweep.space.items()}
        try:
            get_task(sweep.task)
            sweep.run_config(example)
        except UserError as error:
            raise UserError(f"{path}: {error}") from error
        return sweep

    def run_config(self, found: Mapping[str, Any], testing: bool = False) -> RunConfig:
        """The run with the values of a trial; without `testing` it does not read test files."""
        changes = {**self.set, **found} | ({} if testing else {"data.test": False})
        return RunConfig.from_preset(self.task, self.preset, changes, self.seed)

    def command(self, found: Mapping[str, Any]) -> str:
        """The command that trains and tests the values of a trial."""
        return shlex.join(["edge-transformer", *self.run_config(found, testing=True).arguments(self.data)])

    def score(self, scores: Mapping[str, float]) -> float:
        """The objective of a trial: the mean of validation scores only."""
        names = self.objective or tuple(name for name in scores if is_validation(name))
        missing = [name for name in names if name not in scores]
        if missing or not names:
            found = ", ".join(scores) or "none"
            raise NoValidation(
                f"a search needs validation rows: found the scores {found}; expected {', '.join(missing) or 'valid'}. "
                "Hold out training rows (set: {data.held_out: 0.2}) or name a folder (set: {data.valid: DIR})"
            )
        return statistics.fmean(scores[name] for name in names)


def _example(values: Any, where: str) -> Any:
    """Check a list or range, and return one of its values."""
    if isinstance(values, list):
        if not values or any(isinstance(value, list | dict) for value in values):
            raise UserError(f"{where}: found {values!r}; expected at least one value, and plain ones")
        return values[0]
    if not isinstance(values, dict):
        raise UserError(f"{where}: found {values!r}; expected a list of values, or low and high")
    low = from_dict(Range, values, where).low
    return int(low) if _is_whole(values) else low


def _is_whole(values: Mapping[str, Any]) -> bool:
    return all(isinstance(values[name], int) for name in ("low", "high", "step") if values.get(name) is not None)


def _distributions(space: Mapping[str, Any]) -> dict[str, BaseDistribution]:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    found: dict[str, BaseDistribution] = {}
    for name, values in space.items():
        if isinstance(values, list):
            found[name] = CategoricalDistribution(values)
        elif _is_whole(values):
            step = values.get("step") or 1
            found[name] = IntDistribution(values["low"], values["high"], log=values.get("log", False), step=step)
        else:
            found[name] = FloatDistribution(**values)
    return found


class Search:
    """A sweep and its study, which several processes may share."""

    def __init__(self, sweep: Sweep, runs_folder: str | Path = "runs", create: bool = True) -> None:
        self.sweep, self.folder = sweep, Path(runs_folder) / sweep.name
        self._study = self._open(create)

    def _open(self, create: bool) -> Study:
        optuna = _optuna()
        database = self.folder / "study.db"
        storage = os.path.expandvars(self.sweep.storage or f"sqlite:///{database}")
        if create:
            self.folder.mkdir(parents=True, exist_ok=True)
        elif not self.sweep.storage and not database.exists():
            raise UserError(f"{database}: no such file; the search {self.sweep.name} has not begun")
        pruner = optuna.pruners.MedianPruner(n_startup_trials=5) if self.sweep.prune else optuna.pruners.NopPruner()
        try:
            if create:
                with self._alone():
                    study: Study = optuna.create_study(
                        study_name=self.sweep.name,
                        storage=storage,
                        direction="maximize",
                        pruner=pruner,
                        load_if_exists=True,
                    )
                    self._claim(study)
                return study
            return optuna.load_study(study_name=self.sweep.name, storage=storage)
        except UserError:
            raise
        except KeyError as error:
            raise UserError(_discreet(f"{storage}: has no search {self.sweep.name}; it has not begun")) from error
        except Exception as error:  # of any database
            raise UserError(_discreet(f"storage {storage}: {' '.join(str(error).split())}")) from error

    def _claim(self, study: Study) -> None:
        """Store the definition of a new study; refuse a study with another one."""
        sweep, data = self.sweep, get_task(self.sweep.task).data
        settings = sweep.run_config({})
        split = getattr(settings.data_settings, "split", None)
        fingerprint = joint_fingerprint(
            data.fingerprint(Path(sweep.data), testing=False, split=split),
            data.valid_fingerprint(settings.data_settings),
        )
        mine = {
            "task": sweep.task,
            "data": fingerprint,
            "preset": sweep.preset,
            "settings": settings.settings,
            "space": sweep.space,
            "objective": list(sweep.objective),
            "seed": sweep.seed,
        }
        theirs = study.user_attrs.get(DEFINITION)
        if theirs is None:
            study.set_user_attr(DEFINITION, mine)
            return
        for name, value in mine.items():
            if canonical_json(theirs.get(name)) != canonical_json(value):
                raise UserError(
                    f"{self.folder}: holds another search; its {name} is {theirs.get(name)!r}, "
                    f"this one's is {value!r}. Choose another `name`, or delete the folder"
                )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other processes of this machine from choosing a trial during a block."""
        with FileLock(self.folder / "choosing.lock"):
            yield

    # --- trials ---------------------------------------------------------------------------------------------------

    def run(self, tell: Callable[[str], None], threads: int = 1) -> bool:
        """Run trials until there are enough; False if Ctrl-C stopped one, which is then enqueued again."""
        while True:
            chosen = self._choose()
            if chosen is None:
                return True
            trial, held = chosen
            with held:
                try:
                    if not self._do(trial, tell, threads):
                        return False
                finally:
                    self._put_back(trial.number)  # if it did not end

    def _choose(self) -> tuple[Trial, BaseFileLock] | None:
        """The next trial and its lock; None if there are enough trials."""
        optuna = _optuna()
        with self._alone():
            for trial in self._study.trials:
                if trial.state.name == "RUNNING" and self._is_abandoned(trial):
                    self._put_back(trial.number)
            trials = self._study.trials
            waiting = any(trial.state.name == "WAITING" for trial in trials)
            if not waiting and self._are_enough(counted(trials)):
                return None
            # Each trial and machine has its own seed: with equal seeds, processes would try the same values. No lock
            # keeps several machines from choosing at the same moment.
            machine = zlib.crc32(platform.node().encode()) if self.sweep.storage else 0
            seed = (self.sweep.seed * 1_000_003 + len(trials) + machine) % 2**32
            self._study.sampler = optuna.samplers.TPESampler(seed=seed)
            chosen = self._study.ask(_distributions(self.sweep.space))
            if FOLDER not in chosen.user_attrs:
                chosen.set_user_attr(FOLDER, f"trial-{chosen.number}")
            held = lock(self._lock_file(chosen.number))
            assert held is not None, "a new trial has a new number"
            return chosen, held

    def _are_enough(self, trials: Sequence[FrozenTrial]) -> bool:
        """Whether there are enough trials. Failed ones do not count, unless as many fail as were asked for."""
        failed = sum(trial.state.name == "FAIL" for trial in trials)
        return max(len(trials) - failed, failed) >= self.sweep.trials

    def _is_abandoned(self, trial: FrozenTrial) -> bool:
        """Whether a trial was started on this machine by a process that has ended."""
        if not self._lock_file(trial.number).exists():
            return False  # on another machine
        held = lock(self._lock_file(trial.number))
        if held is not None:
            held.release()
        return held is not None

    def _lock_file(self, number: int) -> Path:
        return self.folder / f"trial-{number}.lock"

    def _put_back(self, number: int) -> None:
        """Enqueue an interrupted trial again, as a new one with the same values."""
        trial = next(trial for trial in self._study.trials if trial.number == number)
        if trial.state.name != "RUNNING":
            return
        self._study.tell(number, state=_optuna().trial.TrialState.FAIL)
        folder = trial.user_attrs.get(FOLDER, f"trial-{number}")
        self._study.enqueue_trial(trial.params, user_attrs={CONTINUES: number, FOLDER: folder})

    def _do(self, trial: Trial, tell: Callable[[str], None], threads: int) -> bool:
        """Train and score one trial; False if it was stopped."""
        optuna = _optuna()
        state = optuna.trial.TrialState
        tell(f"trial {trial.number}: {_listed(trial.params)}")

        def judge(entry: Mapping[str, Any]) -> None:
            trial.report(self.sweep.score(entry["scores"]), entry["epoch"])
            if self.sweep.prune and trial.should_prune():
                raise optuna.TrialPruned

        trainer = None
        try:
            config = self.sweep.run_config(trial.params)
            data = config.load_data(self.sweep.data)
            folder = self.folder / str(trial.user_attrs[FOLDER])
            command = shlex.join(["edge-transformer", *config.arguments(self.sweep.data)])
            trainer = Trainer(config, data, folder, Hardware(threads=threads), command)
            for entry in trainer.history:  # of the interrupted trial
                judge(entry)
            record = trainer.train(after_evaluation=judge)
            if record is None:
                tell(f"trial {trial.number}: stopped; the same command resumes it")
                return False
            score = self.sweep.score(record.metrics)
            self._study.tell(trial, score)
            tell(f"trial {trial.number}: {100 * score:.2f}")
        except optuna.TrialPruned:
            self._study.tell(trial, state=state.PRUNED)
            tell(f"trial {trial.number}: pruned, as it is behind the others")
        except NoValidation:  # all other trials would fail too
            raise
        except UserError as error:  # incompatible values, or training diverged
            self._study.tell(trial, state=state.FAIL)
            tell(f"trial {trial.number}: failed: {error}")
        finally:
            if trainer is not None:
                trainer.release_folder()
        return True

    # --- what came out --------------------------------------------------------------------------------------------

    def best(self, number: int = 10) -> list[FrozenTrial]:
        """The best finished trials, best first."""
        finished = [trial for trial in self._study.trials if trial.state.name == "COMPLETE"]
        return sorted(finished, key=lambda trial: (-(trial.value or 0.0), trial.number))[:number]

    def counts(self) -> dict[str, int]:
        """The number of trials in each state."""
        states = [trial.state.name.lower() for trial in counted(self._study.trials)]
        return {state: states.count(state) for state in sorted(set(states))}


def counted(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Trials without those that others resume."""
    continued = {trial.user_attrs.get(CONTINUES) for trial in trials}
    return [trial for trial in trials if trial.number not in continued]


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _discreet(message: str) -> str:
    """Mask the password of an address in a message."""
    return re.sub(r"(://[^:/@\s]*:)[^@\s]*@", r"\1***@", message)


def _optuna() -> Any:
    """Import Optuna, which is optional."""
    try:
        import optuna
    except ImportError as error:
        raise UserError("a search needs Optuna: pip install '.[sweep]' in a clone") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
