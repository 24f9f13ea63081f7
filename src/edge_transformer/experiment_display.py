"""How the runs of an experiment stand: one live table in a terminal, elsewhere a line for each event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from rich import box
from rich.live import Live
from rich.table import Table
from rich.text import Text

from .checkpoint import read_json
from .errors import UserError
from .progress import console
from .records import is_fraction
from .train import STATUS_FILE

if TYPE_CHECKING:
    from .experiment import Run

STYLES = {"running": "bold", "failed": "red", "finished": "green", "known": "dim", "waiting": "dim"}


class Standing(NamedTuple):
    """How far a run is; texts that are not known are empty."""

    epoch: str = ""
    steps: str = ""
    minutes: str = ""
    left: str = ""
    loss: str = ""
    scores: Mapping[str, float] = {}


class Display:
    """Tells what has changed since it was last asked to."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = runs
        self._states = {id(run): "waiting" for run in runs}

    def update(self) -> None:
        """A line for each run whose state is another one; nothing in a terminal, where the table shows it."""
        for run in self._runs:
            if run.state != self._states[id(run)]:
                self._states[id(run)] = run.state
                if not console.is_terminal:
                    console.print(event(run), highlight=False, markup=False, soft_wrap=True)


@contextmanager
def display(runs: Sequence[Run]) -> Iterator[Display]:
    """Show how runs stand for the time of a block, and leave the last table in the terminal when it ends."""
    shown = Display(runs)
    shown.update()
    if not console.is_terminal:
        yield shown
        return
    with Live(console=console, refresh_per_second=2, get_renderable=lambda: table(runs)):
        yield shown


def event(run: Run) -> str:
    """What has become of a run, in one line."""
    if run.state == "failed":
        return f"failed: {run.name}: {run.last_words}"
    if run.record is None:
        said = {"running": "started", "elsewhere": "running in another process"}
        return f"{said.get(run.state, run.state)}: {run.name}"
    standing = how_it_stands(run)
    scores = "".join(f" {name} {100 * value:.1f}" for name, value in standing.scores.items())
    return f"{run.state}: {run.name}: {standing.minutes} minutes, loss {standing.loss}{scores}"


def table(runs: Sequence[Run]) -> Table:
    """All runs, with a column for each score."""
    standings = [how_it_stands(run) for run in runs]
    scores = list(dict.fromkeys(name for standing in standings for name in standing.scores))
    done = sum(run.state in ("finished", "known") for run in runs)
    result = Table(title=f"{done} of {len(runs)} runs finished", title_justify="left", box=box.SIMPLE, padding=(0, 1))
    result.add_column("run", overflow="fold")
    for column in ("seed", "state", "epoch", "steps", "minutes", "left", "loss", *scores):
        result.add_column(column, justify="left" if column == "state" else "right", no_wrap=True)
    for run, standing in zip(runs, standings, strict=True):
        changes = "".join(f" {name}={value}" for name, value in run.config.overrides.items())
        numbers = [f"{100 * standing.scores[name]:.1f}" if name in standing.scores else "" for name in scores]
        name = Text(f"{run.config.preset}{changes} on {run.data}")
        if run.state == "failed":
            name.append(f"\n{run.last_words}")
        result.add_row(
            name, str(run.config.seed), run.state, *standing[:5], *numbers, style=STYLES.get(run.state, "none")
        )
    return result


def how_it_stands(run: Run) -> Standing:
    """The epoch, steps, minutes, minutes left, loss and scores of a run, as its folder or its record says."""
    train = run.config.train
    epochs = train.epochs if train.steps is None else None  # where steps count, nobody knows the epochs
    if run.record is not None:
        metrics = run.record.metrics
        scores = {name: value for name, value in metrics.items() if is_fraction(name)}
        loss = f"{metrics['loss']:.3f}" if "loss" in metrics else ""
        return Standing(f"{epochs}/{epochs}" if epochs else "", "100 %", f"{run.record.minutes:.1f}", "", loss, scores)
    if run.state == "failed":
        return Standing()
    try:
        status = read_json(run.folder / STATUS_FILE)
        last: dict[str, Any] = status["history"][-1] if status["history"] else {}
        done = status["step"] / status["steps"]
        left = f"{status['minutes'] * (1 - done) / done:.1f}" if done else ""
        return Standing(
            f"{int(epochs * done)}/{epochs}" if epochs else "",
            f"{100 * done:.0f} %",
            f"{status['minutes']:.1f}",
            left if run.state in ("running", "elsewhere") else "",
            f"{last['loss']:.3f}" if last else "",
            last.get("scores", {}),
        )
    except (UserError, KeyError, TypeError, ZeroDivisionError):  # not there yet, or of another version
        return Standing()
