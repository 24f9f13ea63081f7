"""Our models of links beside PyKEEN's, which peers.py trains: the table of docs/links.md and its figure.

    python experiments/links/compare.py   # writes docs/images/link-peers.svg; `python docs/generate.py` the table

Runs count that were given at least our CPU minutes; they may have ended early.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parents[2]
SETS = {"nations": "Nations", "kinship": "Kinship", "umls": "UMLS"}
OURS = {"nations": "links/nations", "kinship": "links/cpu", "umls": "links/cpu"}
NAMES = ("Edge Transformer", "TransE", "DistMult", "ComplEx", "RotatE", "ConvE", "TuckER")
SCORES = ("MRR", "Hits@1", "Hits@10")
ENOUGH = 0.95  # of our CPU minutes, that a run of a peer must have been given


@dataclass(frozen=True)
class Compared:
    """One model on one set."""

    name: str
    minutes: tuple[float, ...]  # of CPU, until the weights that are scored
    budget: float  # the mean of all CPU minutes
    scores: dict[str, tuple[float, ...]]  # of each run

    def mean(self, score: str) -> float:
        return 100 * statistics.fmean(self.scores[score])

    def error(self, score: str) -> float | None:
        """The standard error, in points."""
        values = self.scores[score]
        return 100 * statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else None

    def shown(self, score: str) -> str:
        error = self.error(score)
        return f"{self.mean(score):.1f}" + ("" if error is None else f" ± {error:.1f}")


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def compared() -> dict[str, list[Compared]]:
    """The models of each set where peers are measured: ours first, then the others, the best first."""
    found: dict[str, list[Compared]] = {}
    records, peers = read(ROOT / "results/records/links.jsonl"), read(ROOT / "benchmarks/link-peers.jsonl")
    for name in SETS:
        ours = {
            each["seed"]: each
            for each in records
            if each["data"]["name"] == name and each["preset"] == OURS[name] and not each["overrides"]
        }.values()
        if not ours:
            continue
        spent = [float(each["cpu_minutes"]) for each in ours]
        mine = _of("Edge Transformer", [each["metrics"] for each in ours], spent, spent)
        runs = [each for each in peers if each["data"]["name"] == name and each["minutes"] >= ENOUGH * mine.budget]
        others = [
            _of(model, *zip(*((each["test"], each["best_at"], each["cpu_minutes"]) for each in of), strict=True))
            for model in dict.fromkeys(each["model"] for each in runs)
            if (of := [each for each in runs if each["model"] == model])
        ]
        if others:
            found[name] = [mine, *sorted(others, key=lambda each: -each.mean("MRR"))]
    return found


def _of(name: str, metrics: Iterable[dict[str, float]], minutes: Sequence[float], spent: Sequence[float]) -> Compared:
    metrics = list(metrics)
    scores = {score: tuple(each[score] for each in metrics) for score in SCORES}
    return Compared(name, tuple(minutes), statistics.fmean(spent), scores)


def markdown() -> str:
    """The table."""
    lines = ["| set | model | seeds | MRR | ours minus its MRR | Hits@1 | Hits@10 | CPU minutes |"]
    lines.append("| --- | --- | --: | --: | --: | --: | --: | --: |")
    for name, models in compared().items():
        ours = models[0]
        for number, each in enumerate(models):
            cells = [each.name, str(len(each.minutes)), each.shown("MRR"), _difference(ours, each) if number else ""]
            cells += [each.shown("Hits@1"), each.shown("Hits@10"), f"{each.budget:.2g}"]
            lines.append(f"| {' | '.join(['' if number else SETS[name], *cells])} |")
    return "\n".join(lines) + "\n"


def _difference(ours: Compared, other: Compared) -> str:
    """In points, with the joint standard error."""
    one, two = ours.error("MRR"), other.error("MRR")
    error = "" if one is None or two is None else f" ± {(one**2 + two**2) ** 0.5:.1f}"
    return f"{ours.mean('MRR') - other.mean('MRR'):+.1f}{error}"


def figure() -> Figure:
    """MRR on test facts against the CPU minutes until the weights that are scored, a panel for each set."""
    import matplotlib
    from matplotlib.figure import Figure

    from edge_transformer.draw.style import GREY, STYLE

    sets = compared()
    with matplotlib.rc_context(STYLE):
        drawn = Figure(figsize=(1.4 + 3.9 * len(sets), 4.0))
        for axes, (name, models) in zip(drawn.subplots(1, len(sets), squeeze=False)[0], sets.items(), strict=True):
            _panel(axes, models)
            axes.set_title(SETS[name], loc="left", fontsize=11.5, fontweight="bold", pad=10)
            axes.set_xlabel("CPU minutes until the weights that are scored", color=GREY)
        drawn.axes[0].set_ylabel("filtered MRR, test facts", color=GREY)
        marks = {  # of all panels, each model once
            name: mark for axes in drawn.axes for mark, name in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        shown = [name for name in NAMES if name in marks]
        drawn.legend(
            [marks[name] for name in shown],
            shown,
            loc="lower center",
            ncol=2 * len(sets) + 1,
            frameon=False,
            fontsize=9,
        )
        drawn.tight_layout(w_pad=2.5, rect=(0, 0.03 + 0.14 / len(sets), 1, 1))
    return drawn


def _panel(axes: Axes, models: Sequence[Compared]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    from edge_transformer.draw.style import COLOURS, MARKERS, in_percent, lowest, plain_axes

    low = lowest([(each.mean("MRR") / 100, (each.error("MRR") or 0) / 100) for each in models])
    axes.set_xscale("log")
    axes.set_ylim(low, 100 + 0.03 * (100 - low))
    in_percent(axes.yaxis, low)
    for each in models:
        place = NAMES.index(each.name)
        at, value, ours = statistics.fmean(each.minutes), each.mean("MRR"), place == 0
        marks = {"color": COLOURS[place], "marker": MARKERS[place], "markersize": 8 if ours else 6}
        axes.errorbar(at, value, yerr=each.error("MRR") or 0, linestyle="none", label=each.name, capsize=3, **marks)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    plain_axes(axes, values="y")


if __name__ == "__main__":
    from edge_transformer.draw.style import write_figure

    write_figure(figure(), ROOT / "docs/images/link-peers.svg")
