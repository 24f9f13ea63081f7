"""Calibration: how far confidence is from the share of right answers, and the temperature that brings them together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

BINS = 15
FEWEST_ROWS = 20  # fewer rows say too little about a temperature
COLDEST, HOTTEST = 0.05, 20.0
_FARTHEST = 1e30  # no logit is farther below the largest one of its row: keeps quotients finite
_POINTS, _STEPS = 25, 40  # of the grid over log T, and of the golden-section search between two of its points


def calibration_of(confidence: Floats, right: Flags, bins: int = BINS) -> dict[str, Any]:
    """The expected calibration error with bins of equal width, and the bins that have rows.

    Bin b holds confidences above b / bins, up to and including (b + 1) / bins. The error is the mean over rows of
    |mean confidence - share of right answers| of the row's bin.
    """
    number = np.clip(np.ceil(confidence * bins).astype(np.int64) - 1, 0, bins - 1)
    rows = np.bincount(number, minlength=bins)
    sums, hits = (np.bincount(number, weights=each, minlength=bins) for each in (confidence, right.astype(np.float64)))
    found = [
        {
            "low": each / bins,
            "high": (each + 1) / bins,
            "rows": int(rows[each]),
            "confidence": float(sums[each] / rows[each]),
            "accuracy": float(hits[each] / rows[each]),
        }
        for each in np.flatnonzero(rows).tolist()
    ]
    return {
        "ece": float(np.abs(sums - hits).sum() / len(confidence)),
        "confidence": float(confidence.mean()),
        "accuracy": float(right.mean()),
        "bins": found,
    }


def fit_temperature(logits: Tensor, targets: Tensor) -> float:
    """The temperature T from 0.05 to 20 for which logits / T fit the targets best; 1.0 for fewer than 20 rows.

    Minimises the negative log-likelihood of all rows plus log(T)^2 / 2. The second term weighs about as much as one
    row. It keeps T near 1 where rows say little, and away from 0 where all answers are right: rows without a mistake do
    not prove that there are none.

    Args:
        logits: `[rows, labels]`, of validation rows.
        targets: `[rows]`, numbers of labels, for a softmax; or `[rows, labels]`, bool or 0 and 1, for sigmoids. Rows
            with the target -1, a label that the model does not know, are left out, as are those whose target has the
            logit -inf: no temperature changes them.
    """
    values = finite_logits(logits, below=targets.ndim == 1)
    if targets.ndim == 1:
        numbers = label_numbers(targets, *values.shape)
        known = np.flatnonzero(numbers >= 0)
        known = known[np.isfinite(values[known, numbers[known]])]
        values, numbers = values[known], numbers[known]
    else:
        flags = label_flags(targets, *values.shape)
    if len(values) < FEWEST_ROWS:
        return 1.0
    loss = _softmax_loss(values, numbers) if targets.ndim == 1 else _sigmoid_loss(values, flags)

    def penalised(log_temperature: float) -> float:
        return loss(np.exp(log_temperature)) + log_temperature**2 / 2

    return float(np.clip(np.exp(_lowest(penalised, np.log(COLDEST), np.log(HOTTEST))), COLDEST, HOTTEST))


def _softmax_loss(values: Floats, numbers: Integers) -> Callable[[float], float]:
    with np.errstate(over="ignore"):
        below = np.maximum(values - values.max(-1, keepdims=True), -_FARTHEST)
    gold = below[np.arange(len(below)), numbers]
    return lambda temperature: float((np.log(np.exp(below / temperature).sum(-1)) - gold / temperature).sum())


def _sigmoid_loss(values: Floats, flags: Flags) -> Callable[[float], float]:
    wrong = np.clip(np.where(flags, -values, values), -_FARTHEST, _FARTHEST)
    sure, rest = np.maximum(wrong, 0).sum(), -np.abs(wrong)  # log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|))
    return lambda temperature: float(sure / temperature + np.log1p(np.exp(rest / temperature)).sum())


def _lowest(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function is lowest: the best point of a grid, then a golden-section search between its neighbours."""
    grid = np.linspace(low, high, _POINTS).tolist()
    best = min(range(_POINTS), key=lambda point: function(grid[point]))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, _POINTS - 1)]
    ratio = (np.sqrt(5.0) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(_STEPS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = function(right)
    return float((low + high) / 2)


def finite_logits(logits: Tensor, below: bool) -> Floats:
    """Logits `[rows, labels]` as float64, finite, or -inf where `below` and not all of a row are."""
    if logits.ndim != 2 or not logits.shape[1]:
        raise ValueError(f"logits: found the shape {list(logits.shape)}; expected [rows, labels], one label at least")
    values: Floats = logits.detach().cpu().to(torch.float64).numpy()
    fine = np.isfinite(values)
    if below:
        fine |= (values == -np.inf) & fine.any(-1, keepdims=True)
    require_fine("logits", values, fine, "finite numbers")
    return values


def label_numbers(targets: Tensor, rows: int, labels: int) -> Integers:
    """Targets `[rows]` as int64, from -1 to labels - 1."""
    if list(targets.shape) != [rows] or targets.is_floating_point() or targets.dtype == torch.bool:
        found = f"{targets.dtype} of the shape {list(targets.shape)}"
        raise ValueError(f"targets: found {found}; expected integers of the shape [{rows}]")
    numbers: Integers = targets.detach().cpu().to(torch.int64).numpy()
    require_fine("targets", numbers, (numbers >= -1) & (numbers < labels), f"numbers from -1 to {labels - 1}")
    return numbers


def label_flags(targets: Tensor, rows: int, labels: int, name: str = "targets") -> Flags:
    """Targets `[rows, labels]`, of 0 and 1 or bool, as bool."""
    if list(targets.shape) != [rows, labels]:
        raise ValueError(f"{name}: found the shape {list(targets.shape)}; expected [{rows}, {labels}]")
    values = targets.detach().cpu().to(torch.float64).numpy()
    flags: Flags = values == 1
    require_fine(name, values, flags | (values == 0), "0 and 1 only")
    return flags


def require_fine(name: str, values: npt.NDArray[Any], fine: Flags, expected: str) -> None:
    """Name the first row, counted from 0, that has a value which is not fine."""
    if not fine.all():
        place = tuple(np.argwhere(~fine)[0].tolist())
        raise ValueError(f"{name}: row {place[0]} (from 0) has {values[place]}; expected {expected}")
