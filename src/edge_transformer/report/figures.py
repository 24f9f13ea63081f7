"""The figures of a table of results: curves where its scores depend on a size, else a dot for each model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..draw.charts import Dot, Points, draw_curves, draw_dots
from ..draw.style import Estimate, Look, model_look
from .tables import SIZED, ResultTable, Row, Score

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NEAR_ZERO = 0.05  # where no score is above it, a figure shows nothing


def figures_of(table: ResultTable) -> dict[str, Figure]:
    """The figures of a table by what they show: "" for models as the paper has them, "ablations" and "augmented".

    A model has one colour in all of them. Where all scores are near zero there is no figure.
    """
    ours = list(table.presets.values())
    if table.about.get("figures") is False:
        return {}
    if table.axis:
        families = _families([row for row in ours if _points(row)])
        return {what: _curves(table, what, rows) for what, rows in families.items() if rows and _tell(rows)}
    shown = [row for row in ours if table.about.get("headline") in row.scores]
    tells = len(shown) > 1 and any(row.scores[table.about["headline"]].mean > NEAR_ZERO for row in shown)
    return {"": _dots(table, shown)} if tells else {}


def _tell(rows: Sequence[Row]) -> bool:
    """Whether a curve leaves the bottom."""
    return any(mean > NEAR_ZERO for row in rows for mean, _ in _points(row).values())


def _families(ours: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows to be drawn together. Ablations and augmented data stand beside the presets that they belong to."""
    augmented = [row for row in ours if _is_augmented(row)]
    ablated = [row for row in ours if row.variant.startswith("edge-") and row not in augmented]
    whole = [row for row in ours if row not in augmented and row not in ablated]
    if not whole:
        return {"": list(ours)}
    beside = [row for row in whole if any(other.preset.startswith(f"{row.preset}-") for other in ablated)]
    edge = [row for row in whole if row.is_edge and not row.preset.endswith("/paper")]
    return {"": whole, "ablations": ablated and [*beside, *ablated], "augmented": augmented and [*augmented, *edge]}


def _is_augmented(row: Row) -> bool:
    return row.preset.split("/")[-1].startswith("best")


def _curves(table: ResultTable, what: str, rows: Sequence[Row]) -> Figure:
    names = [row.model for row in rows]
    series: dict[str, Points] = {}
    looks: dict[str, Look] = {}
    owners: dict[str, str] = {}  # whose colour the paper's points take: that of its own preset, or else the first
    for row in rows:
        label = f"{row.model}, {row.preset}" if names.count(row.model) > 1 else row.model
        series[label], looks[label] = _points(row), model_look(row.variant)
        if not _is_augmented(row) and (row.variant not in owners or row.preset.endswith("/paper")):
            owners[row.variant] = label
    own = {variant: row for variant, row in table.paper.items() if row.runs is not None}  # others are quoted
    reported = {owners[variant]: _points(row) for variant, row in own.items() if variant in owners}
    return draw_curves(
        series,
        reported,
        title=": ".join(filter(None, (table.title, what))),
        axis=table.about.get("axis", table.axis),
        score=table.about.get("score", "score"),
        trained=table.trained,
        dashed={label for label, row in zip(series, rows, strict=True) if not row.is_edge},
        looks=looks,
        paper_data=table.about.get("other_data", ""),
    )


def _points(row: Row) -> Points:
    sized = {metric: match for metric in row.scores if (match := SIZED.fullmatch(metric))}
    return {int(match[2]): _estimate(row.scores[metric]) for metric, match in sized.items()}


def _dots(table: ResultTable, rows: Sequence[Row]) -> Figure:
    """The headline of each preset, with the paper's value beside the first preset of its model."""
    headline = table.about["headline"]
    reported = {name: row.scores[headline] for name, row in table.paper.items() if headline in row.scores}
    quoted = {name for name, score in reported.items() if score.runs is None}  # paper.yaml: not the paper's own runs
    if all(row.variant != "edge" for row in rows):  # an untied recipe then stands for the paper's model
        reported |= {row.variant: reported["edge"] for row in rows if row.is_edge and "edge" in reported}
    dots = []
    for row in sorted(rows, key=_is_augmented):  # the paper has no augmentation
        paper = reported.pop(row.variant, None)
        detail = f"{row.preset}, {row.runs} seed{'s' * (row.runs != 1)}"
        beside = _estimate(paper) if paper else None
        score, look = _estimate(row.scores[headline]), model_look(row.variant)
        dots.append(Dot(row.model, detail, score, beside, look, is_quoted=row.variant in quoted))
    about = {"score": table.about.get("score", "score"), "paper_data": table.about.get("other_data", "")}
    return draw_dots(dots, title=table.title, **about)


def _estimate(score: Score) -> Estimate:
    return score.mean, score.error
