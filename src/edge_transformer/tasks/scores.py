"""Scores of answers: one label a row, several labels a row, or a number a row; with what stands behind each score.

All functions take tensors of whole test sets. `details` holds plain numbers, lists and dicts, ready for JSON;
`draw/scores.py` shows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..errors import UserError
from ..io import html
from ..io.records import shown_scores
from .calibration import (
    Flags,
    Floats,
    Integers,
    calibration_of,
    finite_logits,
    label_flags,
    label_numbers,
    require_fine,
)

UNKNOWN = "(unknown)"  # in details, stands for all labels that the model does not know
_ANSWERS = {"one": "answer", "several": "answers"}  # by kind of details
_Z = 1.959963984540054  # 95 % of a normal distribution lie within so many standard deviations


class Scores(dict[str, float]):
    """Scores by name, in the order in which they are shown, and `details` behind them.

    Scores are fractions, from 0 to 1; those of numbers are in the units of the target. Equal to any dict of the same
    items.
    """

    def __init__(
        self, scores: Mapping[str, float] | Iterable[tuple[str, float]] = (), details: dict[str, Any] | None = None
    ) -> None:
        super().__init__(scores)
        self.details: dict[str, Any] = {} if details is None else details

    def _repr_html_(self) -> str:
        """A table for notebooks: fractions in percent, and below the score that has them its interval and baseline."""
        shown = shown_scores(self)
        details = self.details if "kind" in self.details else next(iter(self.details.values()), {})
        judged = "exact match" if details.get("kind") == "several" else next(iter(self), None)
        after = next((place for place, (name, _) in enumerate(shown, 1) if name == judged), len(shown))
        return html.table([*shown[:after], *_beside(details), *shown[after:]])


def _beside(details: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What one needs to judge a score: its interval, and what answering without looking would score."""
    if interval := details.get("interval"):
        low, high = (f"{100 * bound:.1f}" for bound in interval)
        yield "95 % interval", f"{low} to {high} %"
    if (share := details.get("majority")) is not None:
        yield f"always the most frequent training {_ANSWERS[details['kind']]}", f"{100 * share:.1f} %"
    if baseline := details.get("baseline"):
        yield f"MAE of always answering {baseline['answer']:.4g}, the training mean", f"{baseline['mae']:.4g}"


def label_scores(
    logits: Tensor,
    targets: Tensor,
    names: Sequence[str],
    groups: Sequence[str] | None = None,
    majority: int | None = None,
) -> Scores:
    """Score one label a row: "accuracy", then the accuracy of each group.

    Args:
        logits: `[rows, labels]`; -inf for a label that is no choice.
        targets: `[rows]`, numbers of labels; -1 for a label that the model does not know: every answer is wrong.
        names: of the labels.
        groups: one a row, in the order in which they are to be shown; "" for a row in no group.
        majority: the most frequent label in training.

    Details: "kind" ("one"), "rows", "accuracy", "interval" (95 %, Wilson), "majority" (the accuracy of always answering
    `majority`), "groups", "classes" (the labels that occur as target or answer), "macro_f1" (over these), "confusion"
    (rows: targets; columns: answers) and "calibration". All unknown labels together count as one class, `UNKNOWN`.
    """
    values = finite_logits(logits, below=True)
    rows, labels = values.shape
    _require_rows(rows)
    _require_names(names, labels)
    gold = label_numbers(targets, rows, labels)
    if majority is not None and not 0 <= majority < labels:
        raise ValueError(f"majority: found {majority}; expected a number from 0 to {labels - 1}")
    answers: Integers = values.argmax(-1)
    right: Flags = answers == gold

    occurring = np.union1d(answers, gold[gold >= 0])
    place = np.full(labels + 1, len(occurring))  # of labels in `occurring`; what is unknown comes last
    place[occurring] = np.arange(len(occurring))
    shown = [names[each] for each in occurring.tolist()] + [_unknown(names)] * bool((gold < 0).any())
    counts = np.zeros((len(shown), len(shown)), np.int64)
    np.add.at(counts, (place[gold], place[answers]), 1)
    classes = _classes(shown, counts.diagonal(), counts.sum(1), counts.sum(0))

    accuracy = float(right.mean())
    by_group = _shares("accuracy", right, _groups(groups, rows, ("accuracy",)))
    details = {
        "kind": "one",
        "rows": rows,
        "accuracy": accuracy,
        "interval": wilson(int(right.sum()), rows),
        "majority": None if majority is None else float((gold == majority).mean()),
        "groups": by_group,
        "classes": classes,
        "macro_f1": _macro_f1(classes),
        "confusion": {"labels": shown, "counts": counts.tolist()},
        "calibration": calibration_of(_confidence(values), right),
    }
    return Scores({"accuracy": accuracy} | {name: each["accuracy"] for name, each in by_group.items()}, details)


def several_scores(
    logits: Tensor,
    targets: Tensor,
    names: Sequence[str],
    groups: Sequence[str] | None = None,
    *,
    majority: Tensor | None = None,
    unknown: Tensor | None = None,
    threshold: float = 0.5,
) -> Scores:
    """Score any number of labels a row: "exact match", "micro F1", "macro F1", then the exact match of each group.

    A label is answered where its sigmoid is at least `threshold`. The two F1 scores are left out where they are
    undefined: where no label occurs as target or answer.

    Args:
        logits: `[rows, labels]`.
        targets: `[rows, labels]`, bool, or 0 and 1.
        names: of the labels.
        groups: one a row, in the order in which they are to be shown; "" for a row in no group.
        majority: `[labels]`, bool: the most frequent set of labels in training.
        unknown: `[rows]`, how many labels a row has that the model does not know; no answer to such a row matches.

    Details: as of `label_scores`, with "kind" "several", "exact_match" instead of "accuracy", "micro_f1" and
    "threshold", without "confusion". "calibration" is about all decisions, one a row and label.
    """
    values = finite_logits(logits, below=False)
    rows, labels = values.shape
    _require_rows(rows)
    _require_names(names, labels)
    if not 0 < threshold < 1:
        raise ValueError(f"threshold: found {threshold}; expected a number between 0 and 1")
    gold = label_flags(targets, rows, labels)
    missing = np.zeros(rows, np.int64) if unknown is None else _counts("unknown", unknown, rows)
    with np.errstate(over="ignore"):
        chances: Floats = 1 / (1 + np.exp(-values))
    answers: Flags = chances >= threshold
    agree: Flags = answers == gold
    right: Flags = agree.all(-1) & (missing == 0)

    hits, support, predicted = (answers & gold).sum(0), gold.sum(0), answers.sum(0)
    occurring = np.flatnonzero(support + predicted)
    shown = [names[each] for each in occurring.tolist()]
    classes = _classes(shown, hits[occurring], support[occurring], predicted[occurring])
    if missing.any():
        last = (np.array([each]) for each in (0, missing.sum(), 0))
        classes |= _classes([_unknown(names)], *last)
    both = int(support.sum() + missing.sum() + predicted.sum())
    micro_f1 = 2 * int(hits.sum()) / both if both else None

    exact = float(right.mean())
    by_group = _shares("exact_match", right, _groups(groups, rows, ("exact match", "micro F1", "macro F1")))
    usual = None
    if majority is not None:
        always = label_flags(majority[None], 1, labels, "majority")
        usual = float(((gold == always).all(-1) & (missing == 0)).mean())
    details = {
        "kind": "several",
        "rows": rows,
        "exact_match": exact,
        "interval": wilson(int(right.sum()), rows),
        "majority": usual,
        "groups": by_group,
        "classes": classes,
        "micro_f1": micro_f1,
        "macro_f1": _macro_f1(classes),
        "threshold": float(threshold),
        "calibration": calibration_of(np.where(answers, chances, 1 - chances).ravel(), agree.ravel()),
    }
    overall = {"exact match": exact, "micro F1": micro_f1, "macro F1": details["macro_f1"]}
    return Scores(_known(overall) | {name: each["exact_match"] for name, each in by_group.items()}, details)


def number_scores(
    values: Tensor,
    targets: Tensor,
    groups: Sequence[str] | None = None,
    mean_of_training: float | None = None,
) -> Scores:
    """Score one number a row: "MAE", "RMSE" and "R2", then each group's, as in "n=5 MAE"; errors in the target's units.

    R2 is 1 - sum of squared errors / sum of squared differences of targets from their mean. It is left out where the
    targets are all equal.

    Args:
        values: `[rows]`, the answers.
        targets: `[rows]`.
        groups: one a row, in the order in which they are to be shown; "" for a row in no group.
        mean_of_training: the mean of the targets in training.

    Details: "kind" ("number"), "rows", "mae", "rmse", "r2", "mean_error" (above 0 where answers are too large),
    "baseline" ("answer", "mae" and "rmse" of always answering `mean_of_training`) and "groups".
    """
    answers, gold = _numbers("values", values), _numbers("targets", targets)
    _require_rows(len(answers))
    if len(answers) != len(gold):
        raise ValueError(f"values and targets: found {len(answers)} and {len(gold)} rows; expected as many")
    if mean_of_training is not None and not np.isfinite(mean_of_training):
        raise ValueError(f"mean_of_training: found {mean_of_training}; expected a finite number")
    errors: Floats = answers - gold
    mae, rmse = float(np.abs(errors).mean()), _root_mean_square(errors)
    r2 = None
    if gold.min() < gold.max():
        spread = _root_mean_square(gold - gold.mean())
        r2 = 1 - (rmse / spread) ** 2 if spread and rmse / spread < 1e150 else None
    by_group = {
        name: {"rows": len(each), "mae": float(np.abs(errors[each]).mean()), "rmse": _root_mean_square(errors[each])}
        for name, each in _groups(groups, len(gold), ("MAE", "RMSE", "R2"))
    }
    baseline = None
    if mean_of_training is not None:
        usual = mean_of_training - gold
        baseline = {
            "answer": float(mean_of_training),
            "mae": float(np.abs(usual).mean()),
            "rmse": _root_mean_square(usual),
        }
    details = {
        "kind": "number",
        "rows": len(gold),
        "mae": mae,
        "rmse": rmse,
        "r2": r2,
        "mean_error": float(errors.mean()),
        "baseline": baseline,
        "groups": by_group,
    }
    overall = _known({"MAE": mae, "RMSE": rmse, "R2": r2})
    return Scores(overall | {f"{name} MAE": each["mae"] for name, each in by_group.items()}, details)


def wilson(right: int, rows: int) -> list[float]:
    """The 95 % interval of Wilson for a share: it stays within 0 and 1, and suits few rows and shares near 0 or 1."""
    share, square = right / rows, _Z**2 / rows
    middle = (share + square / 2) / (1 + square)
    half = _Z * float(np.sqrt(share * (1 - share) / rows + square / (4 * rows))) / (1 + square)
    return [max(0.0, middle - half) if right else 0.0, min(1.0, middle + half) if right < rows else 1.0]


def _confidence(values: Floats) -> Floats:
    """The probability of the most probable label."""
    with np.errstate(over="ignore"):
        confidence: Floats = 1 / np.exp(values - values.max(-1, keepdims=True)).sum(-1)
    return confidence


def _classes(
    names: Sequence[str], hits: npt.NDArray[Any], support: npt.NDArray[Any], predicted: npt.NDArray[Any]
) -> dict[str, dict[str, Any]]:
    """Precision, recall and F1 of labels; 0 where there is nothing to divide by."""
    return {
        name: {
            "precision": hit / answered if answered else 0.0,
            "recall": hit / asked if asked else 0.0,
            "f1": 2 * hit / (asked + answered) if asked + answered else 0.0,
            "support": asked,
            "predicted": answered,
        }
        for name, hit, asked, answered in zip(names, hits.tolist(), support.tolist(), predicted.tolist(), strict=True)
    }


def _macro_f1(classes: Mapping[str, Mapping[str, Any]]) -> float | None:
    return float(np.mean([each["f1"] for each in classes.values()])) if classes else None


def _known(scores: Mapping[str, float | None]) -> dict[str, float]:
    return {name: value for name, value in scores.items() if value is not None}


def _groups(groups: Sequence[str] | None, rows: int, taken: Sequence[str]) -> Iterator[tuple[str, Integers]]:
    """Groups in the order in which they first appear, with the numbers of their rows."""
    if groups is None:
        return
    if len(groups) != rows:
        raise ValueError(f"groups: found {len(groups)}; expected one for each of {rows} rows")
    members: dict[str, list[int]] = {}
    for row, name in enumerate(groups):
        if name:
            members.setdefault(name, []).append(row)
    for name in taken:
        if name in members:
            raise UserError(
                f"found a group of test rows with the name {name!r}; expected another name: it is a score's"
            )
    for name, numbers in members.items():
        yield name, np.array(numbers)


def _shares(score: str, right: Flags, groups: Iterable[tuple[str, Integers]]) -> dict[str, dict[str, Any]]:
    """The share of right answers of each group, under the name of a score, with its interval."""
    counts = {name: (int(right[each].sum()), len(each)) for name, each in groups}
    return {name: {"rows": n, score: hits / n, "interval": wilson(hits, n)} for name, (hits, n) in counts.items()}


def _unknown(names: Sequence[str]) -> str:
    """A name for what is unknown that no label has."""
    name = UNKNOWN
    while name in names:
        name = f"({name})"
    return name


def _root_mean_square(values: Floats) -> float:
    """Without overflow of squares."""
    largest = float(np.abs(values).max())
    return largest * float(np.sqrt(np.mean((values / largest) ** 2))) if largest else 0.0


def _numbers(name: str, values: Tensor) -> Floats:
    if values.ndim != 1:
        raise ValueError(f"{name}: found the shape {list(values.shape)}; expected [rows]")
    numbers: Floats = values.detach().cpu().to(torch.float64).numpy()
    require_fine(name, numbers, np.isfinite(numbers), "finite numbers")
    return numbers


def _counts(name: str, values: Tensor, rows: int) -> Integers:
    if list(values.shape) != [rows] or values.is_floating_point():
        found = f"{values.dtype} of the shape {list(values.shape)}"
        raise ValueError(f"{name}: found {found}; expected integers of the shape [{rows}]")
    numbers: Integers = values.detach().cpu().to(torch.int64).numpy()
    require_fine(name, numbers, numbers >= 0, "numbers from 0")
    return numbers


def _require_rows(rows: int) -> None:
    if not rows:
        raise ValueError("found no rows to score; expected one at least")


def _require_names(names: Sequence[str], labels: int) -> None:
    if len(names) != labels or len(set(names)) != labels:
        raise ValueError(
            f"names: found {len(names)}, {len(set(names))} of them different; expected one for each of {labels} labels"
        )
