"""Timed actions on knowledge graphs."""

from __future__ import annotations

import torch

from edge_transformer.bench.cases import ONE, make_cases
from edge_transformer.bench.links import PASS, links_action, links_data, links_floor, links_pass
from edge_transformer.bench.sizes import Configuration, Size
from edge_transformer.bench.timing import Watch
from edge_transformer.bench.work import STEP

TINY = Configuration("tiny", Size(1, 9, 8, 2), 2)


def test_every_action_marks_its_time() -> None:
    for make, mark in ((links_action, STEP), (links_floor, STEP), (links_pass, PASS)):
        watch = Watch()
        make(TINY)(watch)
        assert list(watch.marks) == [mark]
        assert watch.marks[mark] > 0


def test_the_step_reaches_all_weights_and_the_pass_is_computed_anew() -> None:
    data, model = links_data(TINY)
    assert (len(model.entities), data.train_rows) == (9, len({tuple(fact) for fact in data.known.facts.tolist()}))
    data.loss(model.train(), torch.arange(20), torch.device("cpu")).backward()
    assert all(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in model.parameters())
    before = model.eval().whole()[0]
    assert model.whole()[0] is before
    model._states = None
    assert model.whole()[0] is not before
    assert before.shape == (9, 9, 8)


def test_a_pass_of_the_large_graph_is_expected_to_fit_into_8_gb() -> None:
    """It keeps nothing for a backward pass; with what a step keeps, it would be skipped on most machines."""
    for part, name in (("links-pass", ONE), ("links-memory", PASS)):
        [case] = make_cases([part])
        assert 1594**2 * 32 * 4 < case.expected_bytes(name) < 8e9
