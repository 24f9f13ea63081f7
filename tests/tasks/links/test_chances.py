"""Chances of links: fitted on held-out facts, against scikit-learn, and for relations that a node does not have."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import edge_transformer as et
from edge_transformer.data.links.graph import HEAD, TAIL, fact_numbers
from edge_transformer.tasks.links.chances import _logistic, chances, chances_between, fit_chances, link_logs
from link_cases import RING, link_model, network_of
from links_of_rules import HELD_OUT, transitive

pytestmark = pytest.mark.usefixtures("one_thread")
ENOUGH = 3  # times the held-out facts, so that they are enough to fit on


def test_the_logistic_function_is_that_of_scikit_learn() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model", reason="needs scikit-learn")
    random = np.random.default_rng(0)
    positive, negative = random.normal((-1.0, -0.5), 1.0, (2000, 2)), random.normal((-3.0, -2.0), 1.5, (4000, 2))
    found = _logistic(positive, negative, weight=5.0)
    values, targets = np.concatenate([positive, negative]), np.repeat([1, 0], [2000, 4000])
    expected = linear_model.LogisticRegression(C=math.inf, tol=1e-8).fit(
        values, targets, sample_weight=np.where(targets, 1.0, 5.0)
    )
    assert found == pytest.approx([*expected.coef_[0], expected.intercept_[0]], abs=5e-3)


def test_separable_scores_give_finite_chances_and_no_slope_is_negative() -> None:
    assert all(map(math.isfinite, _logistic(np.full((30, 2), -0.1), np.full((3000, 2), -9.0), weight=1.0)))
    assert all(map(math.isfinite, _logistic(np.full((20, 2), -5.0), np.full((20, 2), -5.0), weight=1e6)))
    random = np.random.default_rng(0)
    wrong_way = np.stack([random.normal(-1, 1, 500), random.normal(-3, 1, 500)], axis=1)  # the second is misleading
    found = _logistic(wrong_way, wrong_way[:, ::-1], weight=1.0)
    assert found[0] > 0
    assert found[1] == 0


def logs_of(model: et.LinkModel, relation: int) -> torch.Tensor:
    return next(link_logs(model, [relation]))[1]


def test_logs_are_those_of_plain_softmaxes() -> None:
    model = link_model(entities=True, members=2)
    model.temperature = 1.3
    n, relations = len(model.entities), len(model.relations)
    scores = torch.stack([model.relation_scores(relation) for relation in range(relations)])  # (r, heads, tails)
    between = scores.log_softmax(0)
    for relation, logs in link_logs(model, range(relations)):
        of = torch.full((n,), relation)
        forth = (model.scores(torch.arange(n), of, True) / 1.3).log_softmax(1)
        back = (model.scores(torch.arange(n), of, False) / 1.3).log_softmax(1).T
        assert torch.allclose(logs[..., 0], (forth + back) / 2, atol=1e-5)
        assert torch.allclose(logs[..., 1], between[relation], atol=1e-5)
    for head, tail in ((0, 5), (5, 0), (3, 3)):
        assert torch.allclose(model.relations_between(head, tail), between[:, head, tail], atol=1e-5)


def test_fitted_chances_add_up_to_the_number_of_held_out_facts() -> None:
    model = transitive()
    held_out = fact_numbers(HELD_OUT * ENOUGH, model.entities, model.relations)
    ends, relation = logs_of(model, 0).unbind(-1)
    before = chances(model, logs_of(model, 0))
    assert torch.allclose(before, (2 * ends + relation).div(3).exp())  # without a fit: the geometric mean
    model.link_scale = fit_chances(model, held_out)
    assert model.link_scale is not None
    after = chances(model, logs_of(model, 0))
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


@pytest.mark.parametrize("nodes", [0, 40], ids=["whole", "neighbourhoods"])
def test_chances_between_two_nodes_are_those_of_all_links(nodes: int) -> None:
    model = link_model(nodes=nodes, whole=0) if nodes else link_model()
    whole = link_model()
    for head, tail in ((0, 5), (5, 0), (3, 7)):
        found = chances_between(model, head, tail)
        of_all = [chances(whole, logs)[head, tail] for _, logs in link_logs(whole, range(len(whole.relations)))]
        assert torch.allclose(found, torch.stack(of_all), atol=1e-5)


def test_chances_of_relations_on_a_large_graph_take_one_neighbourhood() -> None:
    model = link_model([*RING, ["p7", "next", "p8"], ["p8", "next", "p9"]], nodes=8, whole=0)
    passes: list[int] = []
    network_of(model).register_forward_hook(lambda *_: passes.append(1))
    assert not model.sees_whole_graph()
    found = chances_between(model, 0, 5)
    assert passes == [1]
    assert float(found.sum()) == pytest.approx(1.0)


def test_relations_that_a_node_does_not_have_are_not_probable() -> None:
    """A softmax over tails is sure even if none is right; how likely the relation is between the two is not."""
    steps = (("next", 1), ("before", -1))
    days = [[f"day {n}", name, f"day {(n + step) % 20}"] for n in range(20) for name, step in steps]
    sun = [["sun", "shines on", f"day {n}"] for n in range(0, 20, 2)]
    valid = [["sun", "shines on", f"day {n}"] for n in range(1, 20, 2)] + days[::4]
    train = [fact for fact in (*days, *sun) if fact not in valid]
    model = et.train("links", {"train": train, "valid": valid}, dim=16, layers=2, epochs=40, lr=0.01, progress=False)
    assert model.link_scale is not None
    of_days = model.predict([{"head": "day 3", "relation": "shines on"}], top=1)[0]["candidates"][0]["probability"]
    missing = {
        (link["head"], link["relation"], link["tail"]): link["probability"] for link in model.missing(top=10_000)
    }
    wrong = [chance for (head, relation, _), chance in missing.items() if relation == "shines on" and head != "sun"]
    right = [missing[head, relation, tail] for head, relation, tail in valid]
    assert sum(right) / len(right) > 10 * max(wrong)
    assert max(wrong) < of_days


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
