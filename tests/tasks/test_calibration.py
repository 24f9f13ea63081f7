"""Calibration errors are those of the definition, and the fitted temperature lowers them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from edge_transformer.tasks.calibration import calibration_of, fit_temperature
from edge_transformer.tasks.scores import label_scores, several_scores


def one_label(temperature: float, rows: int = 2000, labels: int = 5, seed: int = 1) -> tuple[Tensor, Tensor]:
    """Logits that are calibrated if divided by a temperature, and targets."""
    random = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(rows, labels, generator=random)
    return logits * temperature, torch.multinomial(logits.softmax(-1), 1, generator=random).squeeze(1)


def several_labels(temperature: float, rows: int = 2000, labels: int = 5, seed: int = 1) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(rows, labels, generator=random) - 1
    return logits * temperature, torch.rand(rows, labels, generator=random) < logits.sigmoid()


def ece(logits: Tensor, targets: Tensor) -> float:
    score = label_scores if targets.ndim == 1 else several_scores
    return float(score(logits, targets, [str(label) for label in range(logits.shape[1])]).details["calibration"]["ece"])


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1) | st.integers(0, 15).map(lambda n: n / 15), st.booleans()), min_size=1))
def test_the_error_is_that_of_the_definition(pairs: list[tuple[float, bool]]) -> None:
    confidence, right = np.array([each for each, _ in pairs]), np.array([each for _, each in pairs])
    found = calibration_of(confidence, right)
    expected = 0.0
    for each in found["bins"]:
        inside = [hit for chance, hit in pairs if each["low"] < chance <= each["high"] or chance == each["low"] == 0]
        assert each["rows"] >= 1
        assert abs(len(inside) - each["rows"]) <= sum(chance in (each["low"], each["high"]) for chance, _ in pairs)
        expected += each["rows"] * abs(each["confidence"] - each["accuracy"]) / len(pairs)
    assert sum(each["rows"] for each in found["bins"]) == len(pairs)
    assert found["ece"] == pytest.approx(expected)
    assert 0 <= found["ece"] <= 1
    assert found["confidence"] == pytest.approx(confidence.mean())
    assert found["accuracy"] == pytest.approx(right.mean())


def test_a_worked_example() -> None:
    found = calibration_of(np.array([0.9, 0.9, 0.3, 1.0]), np.array([True, False, False, True]))
    assert [each["rows"] for each in found["bins"]] == [1, 2, 1]
    assert found["ece"] == pytest.approx((0.3 + 2 * 0.4 + 0) / 4)


@pytest.mark.parametrize("make", [one_label, several_labels])
@pytest.mark.parametrize("temperature", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_temperature_is_found_and_lowers_the_error_on_other_rows(
    make: Callable[..., tuple[Tensor, Tensor]], temperature: float, seed: int
) -> None:
    logits, targets = make(temperature, seed=seed)
    found = fit_temperature(logits, targets)
    assert found == pytest.approx(temperature, rel=0.1)
    assert fit_temperature(logits, targets) == found
    others, gold = make(temperature, seed=seed + 100)
    assert ece(others / found, gold) <= ece(others, gold) + (0.01 if temperature == 1 else 0)
    if temperature != 1:
        assert ece(logits / found, targets) < 0.5 * ece(logits, targets)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(20, 60), st.integers(1, 4), st.floats(1e-6, 1e30), st.booleans())
def test_it_is_the_best_temperature_within_bounds(
    seed: int, rows: int, labels: int, scale: float, several: bool
) -> None:
    logits, targets = (several_labels if several else one_label)(1.0, rows, labels, seed)
    logits = scale * logits.double()

    def loss(temperature: float) -> float:
        if several:
            fit = torch.nn.functional.binary_cross_entropy_with_logits
            nll = fit(logits / temperature, targets.double(), reduction="sum")
        else:
            nll = torch.nn.functional.cross_entropy(logits / temperature, targets, reduction="sum")
        return nll.item() + math.log(temperature) ** 2 / 2

    found = fit_temperature(logits, targets)
    assert 0.05 <= found <= 20
    for other in np.geomspace(0.05, 20, 50):
        assert loss(found) <= loss(other) * (1 + 1e-9) + 1e-9


def test_too_few_rows_leave_the_temperature_at_1() -> None:
    logits, targets = one_label(3.0, rows=30)
    assert fit_temperature(logits, targets) != 1
    targets[:11] = -1  # unknown labels do not count
    assert fit_temperature(logits, targets) == 1
    assert fit_temperature(logits[:0], targets[:0]) == 1
    assert fit_temperature(*several_labels(3.0, rows=19)) == 1


def test_rows_without_a_mistake_do_not_make_sure_of_everything() -> None:
    logits = torch.tensor([[2.0, 0.0, 0.0]]).repeat(100, 1)
    found = fit_temperature(logits, torch.zeros(100, dtype=torch.long))
    confidence = (torch.tensor([2.0, 0.0, 0.0]) / found).softmax(-1)[0].item()
    assert 0.1 < found < 1
    assert 0.95 < confidence < 0.9999
    assert 0.05 < fit_temperature(4 * logits - 4, logits > 1) < 1
    assert fit_temperature(logits * 1e6, torch.zeros(100, dtype=torch.long)) == pytest.approx(1.0, abs=1e-6)


def test_rows_that_say_nothing() -> None:
    targets = torch.arange(40) % 2
    assert fit_temperature(torch.zeros(40, 2), targets) == pytest.approx(1.0, abs=1e-6)
    assert fit_temperature(torch.zeros(40, 1), torch.zeros(40, dtype=torch.long)) == pytest.approx(1.0, abs=1e-6)
    wrong = torch.tensor([[0.0, 9.0]]).repeat(40, 1)
    assert 5 < fit_temperature(wrong, torch.zeros(40, dtype=torch.long)) <= 20
    assert fit_temperature(1e9 * wrong, torch.zeros(40, dtype=torch.long)) == pytest.approx(20.0)


def test_labels_that_are_no_choice() -> None:
    logits, targets = one_label(3.0, rows=200)
    more = torch.cat([logits, torch.full((200, 1), -math.inf)], dim=1)
    assert fit_temperature(more, targets) == pytest.approx(fit_temperature(logits, targets))
    impossible = torch.cat([targets[:100], torch.full((100,), 5)])
    assert fit_temperature(more, impossible) == pytest.approx(fit_temperature(logits[:100], targets[:100]))


def test_what_is_no_number_is_refused() -> None:
    logits, targets = one_label(1.0, rows=30)
    logits[4, 2] = math.nan
    with pytest.raises(ValueError, match=r"row 4 \(from 0\) has nan"):
        fit_temperature(logits, targets)
    with pytest.raises(ValueError, match="targets: found the shape"):
        fit_temperature(torch.zeros(30, 2), torch.zeros(30, 3))
