"""Progress of the runs of an experiment: a live table in a terminal, elsewhere a line for each event.

The table has a line for each run and fits the terminal: running ones come first, and it counts those it leaves out.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ..errors import UserError
from ..io.progress import console
from ..io.records import is_fraction
from ..io.streams import read_json
from .folder import STATUS_FILE
from .presets import yaml_value

if TYPE_CHECKING:
    from .experiment import Run

# The states of a run, in the order in which they are shown if there is no room for all.
STYLES = {
    "running": "bold",
    "elsewhere": "none",
    "failed": "red",
    "finished": "green",
    "known": "dim",
    "waiting": "dim",
}
GAP = 2  # columns between two columns
LEAST_NAME = 10  # columns of a run's name, however narrow the terminal


class Standing(NamedTuple):
    """The progress of a run; unknown texts are empty."""

    epoch: str = ""
    done: str = ""
    minutes: str = ""
    left: str = ""
    loss: str = ""
    scores: Mapping[str, float] = {}


class Column(NamedTuple):
    """A column of the table, with a cell for each shown run."""

    title: str
    cells: list[str]

    @property
    def width(self) -> int:
        return max(map(cell_len, (self.title, *self.cells)))


class Display:
    """Reports changes since the last update."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = runs
        self._states = {id(run): "waiting" for run in runs}

    def update(self) -> None:
        """Print a line for each run whose state has changed, unless a terminal shows the table."""
        for run in self._runs:
            if run.state != self._states[id(run)]:
                self._states[id(run)] = run.state
                if not console.is_terminal:
                    console.print(event(run), highlight=False, markup=False, soft_wrap=True)


@contextmanager
def display(runs: Sequence[Run]) -> Iterator[Display]:
    """Show the progress of runs during a block; the last table lists all runs that have begun."""
    shown = Display(runs)
    shown.update()
    if not console.is_terminal or not runs:
        yield shown
        return
    ended = False

    def now() -> RenderableType:
        return table(runs, console.width, None if ended else console.height)

    with Live(console=console, refresh_per_second=2, get_renderable=now):
        try:
            yield shown
        finally:
            ended = True


def event(run: Run) -> str:
    """The state of a run, in one line."""
    if run.state == "failed":
        return f"failed: {run.name}: {run.last_words}"
    if run.record is None:
        said = {"running": "started", "elsewhere": "running in another process"}
        return f"{said.get(run.state, run.state)}: {run.name}"
    standing = how_it_stands(run)
    scores = "".join(f" {name} {100 * value:.1f}" for name, value in standing.scores.items())
    return f"{run.state}: {run.name}: {standing.minutes} minutes, loss {standing.loss}{scores}"


def table(runs: Sequence[Run], width: int, height: int | None) -> Group:
    """The progress of runs in at most `width` columns and `height` lines; without a height, all but waiting runs."""
    shared, names = short_names(runs)
    title = [line for text in (shared, _progress(runs)) for line in textwrap.wrap(text, width, break_on_hyphens=False)]
    if height is None:
        chosen = [number for number, run in enumerate(runs) if run.state != "waiting"]
    else:
        chosen = _most_telling(runs, height - len(title) - 3)  # less the header, the line "not shown", the prompt
    shown = [(names[number], runs[number]) for number in chosen]
    rows = [(name, run) for name, run in shown if run.state != "failed"]
    parts: list[RenderableType] = [Text(line, style="italic") for line in title]
    if rows:
        parts.append(_grid(rows, width, with_seeds=not _have_one_seed(runs)))
    for name, run in shown:
        if run.state == "failed":
            reason = f"failed: {name}, seed {run.config.seed}: {' '.join(run.last_words.split())}"
            parts.append(Text(reason, style=STYLES["failed"], no_wrap=True, overflow="ellipsis"))
    left_out = Counter(run.state for number, run in enumerate(runs) if number not in chosen)
    if left_out:
        parts.append(Text(f"not shown: {', '.join(_counts(left_out))}", style="dim", no_wrap=True))
    return Group(*parts)


def short_names(runs: Sequence[Run]) -> tuple[str, list[str]]:
    """What all or most runs share, a seed included, and a name for each: its preset and its own settings."""
    changes = [{name: yaml_value(value) for name, value in run.config.overrides.items()} for run in runs]
    usual = {name: _usual([own.get(name) for own in changes]) for name in changes[0]}
    in_all = {name: value for name, value in usual.items() if value and all(own[name] == value for own in changes)}
    in_most = {name: value for name, value in usual.items() if value and name not in in_all}
    own_changes = [{name: value for name, value in own.items() if usual.get(name) != value} for own in changes]
    brief = _unless_ambiguous({name: name.rpartition(".")[2] for own in own_changes for name in own})
    paths = _unless_ambiguous(
        {value: Path(value).name for own in own_changes for value in own.values() if "/" in value}
    )
    folders = _unless_ambiguous({run.data: Path(run.data).name for run in runs})
    groups = {run.config.preset.rpartition("/")[0] for run in runs}
    group = groups.pop() if len(groups) == 1 else ""
    names = []
    for run, own in zip(runs, own_changes, strict=True):
        listed = "".join(f" {brief[name]}={paths.get(value, value)}" for name, value in own.items())
        where = f" on {folders[run.data]}" if len(folders) > 1 else ""
        names.append(f"{run.config.preset.removeprefix(f'{group}/')}{listed}{where}")
    shared = (group or runs[0].config.task) + (f" on {runs[0].data}" if len(folders) == 1 else "")
    common = [f"{name}={value}" for name, value in in_all.items()]
    if _have_one_seed(runs):
        common.append(f"seed {runs[0].config.seed}")
    if in_most:
        common.append(f"unless named {' '.join(f'{name}={value}' for name, value in in_most.items())}")
    return ", ".join([shared, *common]), names


def _usual(values: Sequence[str | None]) -> str | None:
    """The value that more than half have, where all have one."""
    value, count = Counter(values).most_common(1)[0]
    return value if None not in values and 2 * count > len(values) else None


def _unless_ambiguous(short: dict[str, str]) -> dict[str, str]:
    """Short forms of texts, or the texts themselves if two short forms are equal."""
    return short if len(set(short.values())) == len(short) else {text: text for text in short}


def _have_one_seed(runs: Sequence[Run]) -> bool:
    return len({run.config.seed for run in runs}) == 1


def _progress(runs: Sequence[Run]) -> str:
    """The number of runs in each state."""
    states = Counter(run.state for run in runs)
    finished = states.pop("finished", 0) + states.pop("known", 0)
    return ", ".join([f"{finished} of {len(runs)} runs finished", *_counts(states)])


def _counts(states: Counter[str]) -> list[str]:
    return [f"{states[state]} {state}" for state in STYLES if states[state]]


def _most_telling(runs: Sequence[Run], room: int) -> list[int]:
    """The numbers of the runs to show: running ones first, then the last to end and the next to begin."""
    states = list(STYLES)

    def rank(number: int) -> tuple[int, int]:
        state = runs[number].state
        return states.index(state), number if state == "waiting" else -number

    return sorted(sorted(range(len(runs)), key=rank)[: max(0, room)])


def _grid(rows: Sequence[tuple[str, Run]], width: int, with_seeds: bool) -> Table:
    """A line for each run, with the columns that fit."""
    runs = [run for _, run in rows]
    standings = [how_it_stands(run) for run in runs]
    state = Column("state", [run.state for run in runs])
    seed = Column("seed", [str(run.config.seed) for run in runs])
    fixed = [seed, state] if with_seeds else [state]
    name = Column("run", [name for name, _ in rows])
    room = width - sum(column.width + GAP for column in fixed)
    name_width = max(LEAST_NAME, min(name.width, room))
    room -= name_width

    running = [standing for run, standing in zip(runs, standings, strict=True) if run.record is None]
    scores = {score: _score_column(score, standings) for score in _scores(standings)}
    best_first = [scores[score] for score in _most_useful(list(scores))]
    watched = [scores[score] for score in _most_useful(_scores(running))]
    facts = {
        "epoch": Column("epoch", [standing.epoch for standing in standings]),
        "done": Column("done", [standing.done for standing in standings]),
        "minutes": Column("minutes", [standing.minutes for standing in standings]),
        "left": Column("min left", [standing.left for standing in standings]),
        "loss": Column("loss", [standing.loss for standing in standings]),
    }
    chosen: list[Column] = []
    first = [facts["done"], facts["left"], *best_first[:1], *watched[:1], *best_first[:3]]
    for column in [*first, facts["minutes"], facts["loss"], *best_first, facts["epoch"]]:
        if column not in chosen and column.width + GAP <= room and any(column.cells):
            chosen.append(column)
            room -= column.width + GAP

    result = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False)
    result.add_column(name.title, width=name_width, no_wrap=True, overflow="ellipsis")
    columns = [*fixed, *(column for column in (*facts.values(), *scores.values()) if column in chosen)]
    for column in columns:
        result.add_column(
            column.title, width=column.width, no_wrap=True, justify="left" if column is state else "right"
        )
    for run, *cells in zip(runs, name.cells, *(column.cells for column in columns), strict=True):
        result.add_row(*map(Text, cells), style=STYLES[run.state])
    return result


def _scores(standings: Sequence[Standing]) -> list[str]:
    """The names of all scores but those of the parts of a test file, such as gen/cp_recursion."""
    return list(dict.fromkeys(name for standing in standings for name in standing.scores if "/" not in name))


def _most_useful(scores: Sequence[str]) -> list[str]:
    """The whole, then the last scores, of the hardest rows; parts such as "gen lexical" of "gen" after all others."""
    whole = [score for score in scores if score == "accuracy"]
    details = [score for score in scores if any(score.startswith(f"{other} ") for other in scores)]
    return whole + [score for score in reversed(scores) if score not in (*whole, *details)] + details[::-1]


def _score_column(score: str, standings: Sequence[Standing]) -> Column:
    return Column(
        score,
        [f"{100 * standing.scores[score]:.1f}" if score in standing.scores else "" for standing in standings],
    )


def how_it_stands(run: Run) -> Standing:
    """Read the progress of a run from its record or its folder."""
    train = run.config.train
    epochs = train.epochs if train.steps is None else None  # unknown if steps end the run
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
    except (UserError, KeyError, TypeError, ZeroDivisionError):  # missing, or of another version
        return Standing()
