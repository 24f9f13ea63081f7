"""What a table of results says, in words: where we differ from the paper, and where models differ from each other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ..io.markdown import code_words, escape
from ..training.presets import base_of
from .tables import ABOVE, BELOW, FEW_SEEDS, ResultTable, Row, Score, our_error


def paper_statements(table: ResultTable) -> list[str]:
    """One line for each of our rows that the paper has numbers for."""
    lines = []
    for row in table.rows:
        paper = next((other for other in table.rows if other.is_paper and other.model == row.model), None)
        if row.is_paper or paper is None or paper.options:  # the paper's numbers may be of other data than ours
            continue
        shared = [metric for metric in table.metrics if metric in row.marks]
        compared = [metric for metric in shared if _is_decidable(row.scores[metric], paper.scores[metric])]
        if not compared:
            found = f"{_differences(shared, row, paper)} to the paper, which gives no errors" if shared else ""
            lines.append(f"{_name(row)}: {found or 'nothing to compare'}.")
            continue
        parts = []
        for mark, word in ((ABOVE, "above the paper"), (BELOW, "below the paper")):
            marked = [metric for metric in compared if row.marks[metric] == mark]
            if marked:
                parts.append(f"{word} at {_differences(marked, row, paper)}")
        rest = [metric for metric in compared if not row.marks[metric]]
        if rest:
            parts.append(f"{'no' if not parts else 'elsewhere no'} difference that both errors do not explain")
        if row.runs == 1:
            parts.append("from 1 seed, which has no standard error of its own, so the paper's spread stands for it")
        lines.append(f"{_name(row)}: {'; '.join(parts)}.")
    return lines


def _is_decidable(ours: Score, paper: Score) -> bool:
    return paper.error is not None and our_error(ours, paper) is not None


def model_statements(table: ResultTable) -> list[str]:
    """One line for each rival and ablation: where the Edge Transformer is ahead of it, and where behind.

    Compared are rows that belong together: presets such as clutrr/cpu and clutrr/cpu-rat, and clutrr/best with what it
    is based on, with the same options.
    """
    ours = [row for row in table.rows if not row.is_paper]
    papers = {row.model: row for row in table.rows if row.is_paper}
    lines = []
    for edge in (row for row in ours if row.kind == "edge"):  # whole, or untied where a recipe is
        for rival in (row for row in ours if row.model != edge.model):
            if rival.preset.startswith(f"{edge.preset}-") and rival.options == edge.options:
                lines.append(_against(edge, rival, table.metrics) + _gap_of_paper(papers, edge, rival, table.metrics))
    for best in (row for row in ours if row.preset.endswith("/best")):
        for base in (row for row in ours if row.preset == base_of(best.preset) and row.options == best.options):
            lines.append(_against(best, base, table.metrics))
    return lines


def _against(edge: Row, rival: Row, metrics: Sequence[str]) -> str:
    names = f"{_name(edge)} against {_name(rival)}"
    shared = [metric for metric in metrics if metric in edge.scores and metric in rival.scores]
    errors = {metric: joint_error(edge.scores[metric], rival.scores[metric]) for metric in shared}
    if not any(error is not None for error in errors.values()):
        return f"{names}: not told apart, as 1 seed has no standard error."
    # Where all seeds of both agree, as they do on few test rows, they say nothing about the error.
    known = {metric: error for metric, error in errors.items() if error}
    told: dict[str, list[str]] = {"ahead": [], "ahead by a little": [], "behind": [], "behind by a little": []}
    for metric, error in known.items():
        difference = edge.scores[metric].mean - rival.scores[metric].mean
        if abs(difference) > error + 1e-12:  # equal numbers differ by a rounding error
            little = "" if abs(difference) > 2 * error + 1e-12 else " by a little"
            told[("ahead" if difference > 0 else "behind") + little].append(metric)
    parts = [f"{word} at {_differences(found, edge, rival, known)}" for word, found in told.items() if found]
    rest = [metric for metric in shared if not any(metric in found for found in told.values())]
    if rest:
        parts.append(f"not told apart at {', '.join(map(escape, rest))}")
    return f"{names}: {'; '.join(parts)}."


def _gap_of_paper(papers: Mapping[str, Row], edge: Row, rival: Row, metrics: Sequence[str]) -> str:
    """The same difference in the paper, where it has both models: gaps can be compared where numbers cannot."""
    if edge.model not in papers or rival.model not in papers:
        return ""
    one, other = papers[edge.model], papers[rival.model]
    shared = [metric for metric in metrics if metric in one.scores and metric in other.scores]
    if not shared:
        return ""
    return f" In the paper{f', {escape(one.options)}' if one.options else ''}: {_differences(shared, one, other)}."


def joint_error(one: Score, other: Score) -> float | None:
    """The standard error of the difference of two means; None where one of them has none."""
    if one.error is None or other.error is None:
        return None
    return math.hypot(one.error, other.error)


def _differences(metrics: Sequence[str], one: Row, other: Row, errors: Mapping[str, float] | None = None) -> str:
    shown = []
    for metric in metrics:
        error = f" ± {100 * errors[metric]:.1f}" if errors else ""
        shown.append(f"{escape(metric)} ({100 * (one.scores[metric].mean - other.scores[metric].mean):+.1f}{error})")
    return ", ".join(shown)


def _name(row: Row) -> str:
    seeds = f"{row.runs} seed{'s' * (row.runs != 1)}"
    return f"{escape(row.model)}, {code_words(row.preset, row.options)} ({seeds})"


COMPARED = f"""\
The lists below the tables say the same in words, differences in points. They also compare our models with each other,
where the presets belong together, such as `clutrr/cpu` and `clutrr/cpu-rat`: the difference of their means ± its
standard error, √(one standard error² + the other²). Ahead or behind means by more than twice that error, "by a little"
by more than once. Standard errors from 2 to {FEW_SEEDS - 1} seeds are hardly known
themselves, so there this is a hint and no proof; with 1 seed nothing is said, nor where all seeds of both models
agree. The paper's own differences follow ours where it has both models."""
