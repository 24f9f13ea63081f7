"""Chances of links: fitted on held-out facts, against scikit-learn, and for relations that a node does not have."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import edge_transformer as et
from edge_transformer.data.links.graph import HEAD, TAIL, fact_numbers
from edge_transformer.tasks.links.chances import _logistic, chances, fit_chances, mean_logs, mean_logs_between
from link_cases import link_model
from links_of_rules import HELD_OUT, transitive

pytestmark = pytest.mark.usefixtures("one_thread")
ENOUGH = 3  # times the held-out facts, so that they are enough to fit on


def test_the_logistic_function_is_that_of_scikit_learn() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model", reason="needs scikit-learn")
    random = np.random.default_rng(0)
    positive, negative = random.normal(-1.0, 1.0, 2000), random.normal(-3.0, 1.5, 4000)
    found = _logistic(positive, negative, weight=5.0)
    values, targets = np.concatenate([positive, negative])[:, None], np.repeat([1, 0], [2000, 4000])
    expected = linear_model.LogisticRegression(C=math.inf).fit(
        values, targets, sample_weight=np.where(targets, 1.0, 5.0)
    )
    assert found.slope == pytest.approx(expected.coef_[0, 0], abs=2e-3)
    assert found.shift == pytest.approx(expected.intercept_[0], abs=5e-3)


def test_separable_scores_give_finite_chances() -> None:
    found = _logistic(np.full(30, -0.1), np.full(3000, -9.0), weight=1.0)
    assert math.isfinite(found.slope)
    assert found.slope > 0
    few = _logistic(np.full(20, -5.0), np.full(20, -5.0), weight=1e6)
    assert math.isfinite(few.shift)


def test_fitted_chances_add_up_to_the_number_of_held_out_facts() -> None:
    model = transitive()
    held_out = fact_numbers(HELD_OUT * ENOUGH, model.entities, model.relations)
    before = chances(model, mean_logs(model, 0))
    assert torch.allclose(before, mean_logs(model, 0).exp())  # without a fit: the geometric mean
    model.link_scale = fit_chances(model, held_out)
    assert model.link_scale is not None
    after = chances(model, mean_logs(model, 0))
    lacking = torch.ones_like(after, dtype=torch.bool).fill_diagonal_(False)
    told = model.known.facts[model.known.facts[:, 1] == 0]
    lacking[told[:, HEAD], told[:, TAIL]] = False
    asked = torch.zeros_like(lacking)
    asked[held_out[:, HEAD], held_out[:, TAIL]] = True
    expected = float(ENOUGH * after[asked].sum() + after[lacking & ~asked].sum())
    assert expected == pytest.approx(len(held_out), abs=0.5)  # as the likeliest logistic function has it
    assert float(after[asked].min()) > float(before[asked].max())


def test_few_held_out_facts_fit_nothing() -> None:
    model = transitive()
    assert fit_chances(model, fact_numbers(HELD_OUT, model.entities, model.relations)) is None


def test_chances_of_some_pairs_are_those_of_all_links() -> None:
    model = transitive()
    pairs = torch.tensor([[0, 5], [5, 0], [3, 9]])
    for relation in range(len(model.relations)):
        of_all = mean_logs(model, relation)[pairs[:, 0], pairs[:, 1]]
        assert torch.allclose(mean_logs_between(model, pairs)[:, relation], of_all, atol=1e-5)


def test_calibrated_models_are_saved_with_what_was_fitted(tmp_path: Path) -> None:
    model = link_model()
    model.link_scale = fit_chances(model, model.known.facts.repeat(4, 1))
    model.temperature = 2.0
    model.save(tmp_path / "model")
    again = et.LinkModel.load(tmp_path / "model")
    assert again.link_scale == model.link_scale is not None
    assert again.missing(top=3) == model.missing(top=3)


def test_training_calibrates_on_validation_facts() -> None:
    day = [
        [f"day {n}", name, f"day {(n + step) % 24}"] for n in range(24) for name, step in (("next", 1), ("before", -1))
    ]
    valid = [[f"day {n}", "later", f"day {(n + 2) % 24}"] for n in range(24)]
    facts = [*day, *([f"day {n}", "later", f"day {(n + 2) % 24}"] for n in range(0, 24, 6))]
    model = et.train("links", {"train": facts, "valid": valid}, dim=8, layers=1, epochs=1, progress=False)
    assert model.link_scale is not None
    assert model.temperature != 1.0
    model = et.train("links", {"train": facts, "valid": valid[:2]}, dim=8, layers=1, epochs=1, progress=False)
    assert (model.link_scale, model.temperature) == (None, 1.0)
