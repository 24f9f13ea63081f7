"""The figures of a table of results: curves where its scores depend on a size, else a dot for each model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..draw.curves import Points, draw_curves
from ..draw.dots import Dot, draw_dots
from ..draw.style import Estimate
from .tables import SIZED, ResultTable, Row, Score, model_title, one_a_preset

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def figures_of(table: ResultTable) -> dict[str, Figure]:
    """The figures of a table and what they are called: "" for the one that stands for all of it."""
    ours = one_a_preset(row for row in table.rows if not row.is_paper)
    if table.axis:
        return _curves(table, ours)
    shown = [row for row in ours if table.headline in row.scores]
    return {"": _dots(table, shown)} if len(shown) > 1 else {}


def _curves(table: ResultTable, ours: Sequence[Row]) -> dict[str, Figure]:
    """Ablations have a figure of their own, "ablations", with the presets that they are made from."""
    ablated = [row for row in ours if row.model.startswith(f"{model_title('edge', ())}, ")]
    whole = [row for row in ours if row not in ablated]
    beside = [row for row in whole if any(other.preset.startswith(f"{row.preset}-") for other in ablated)]
    chosen = {"": whole or ablated, "ablations": [*beside, *ablated] if whole else []}
    return {what: _curves_of(table, rows) for what, rows in chosen.items() if rows and (not what or ablated)}


def _curves_of(table: ResultTable, rows: Sequence[Row]) -> Figure:
    names = [row.model for row in rows]
    series: dict[str, Points] = {}
    owners: dict[str, str] = {}  # whose colour the paper's points of a model take: that of its own preset, or the first
    for row in rows:
        label = f"{row.model}, {row.preset}" if names.count(row.model) > 1 else row.model
        series[label] = _points(row)
        if row.model not in owners or row.preset.endswith("/paper"):
            owners[row.model] = label
    paper = {owners[row.model]: _points(row) for row in table.rows if row.is_paper and row.model in owners}
    ours = model_title("edge", ())
    rivals = {label for label, row in zip(series, rows, strict=True) if not row.model.startswith(ours)}
    about = {"title": table.title, "axis": table.axis, "score": table.score}
    return draw_curves(series, paper, trained=table.trained, dashed=rivals, **about)


def _points(row: Row) -> Points:
    sized = {metric: match for metric in row.scores if (match := SIZED.fullmatch(metric))}
    return {int(match[2]): _estimate(row.scores[metric]) for metric, match in sized.items()}


def _dots(table: ResultTable, rows: Sequence[Row]) -> Figure:
    """The headline of each preset, with the paper's value beside the first preset of its model."""
    papers = {row.model: row for row in table.rows if row.is_paper and table.headline in row.scores}
    data = next((row.options for row in papers.values()), "")
    dots = []
    for row in sorted(rows, key=_is_best):  # what goes beyond the paper has no claim to its value where others are
        paper = papers.pop(row.model, None)
        detail = ", ".join(filter(None, (row.preset, row.options, f"{row.runs} seed{'s' * (row.runs != 1)}")))
        mean = _estimate(row.scores[table.headline])
        beside = _estimate(paper.scores[table.headline]) if paper else None
        dots.append(Dot(row.model, detail, mean, beside, is_rival=not row.model.startswith(model_title("edge", ()))))
    return draw_dots(dots, title=table.title, score=table.score, paper_data=data)


def _is_best(row: Row) -> bool:
    return row.preset.split("/")[-1].startswith("best")


def _estimate(score: Score) -> Estimate:
    return score.mean, score.error
