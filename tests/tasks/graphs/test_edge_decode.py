"""Predicted graphs keep the constraints, and are the best that do, found by trying all."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import Tensor

from edge_transformer.errors import UserError
from edge_transformer.tasks.graphs.decode import (
    Constraints,
    constrained,
    constrained_own,
    label_groups,
    label_scores,
)
from edge_transformer.tasks.graphs.edge_heads import LabelForm

pytestmark = pytest.mark.usefixtures("one_thread")
SIZE = 3
PAIRS = [(head, dependent) for head in range(SIZE) for dependent in range(SIZE) if head != dependent]


def random_scores(seed: int, labels: int = 2) -> Tensor:
    torch.manual_seed(seed)
    return torch.randn(1, SIZE, SIZE, labels)


def edges_of(scores: Tensor) -> set[tuple[int, int]]:
    return {(head, dependent) for _, head, dependent, _ in (scores > 0).nonzero().tolist()}


def has_cycle(edges: set[tuple[int, int]]) -> bool:
    reach = {(head, dependent) for head, dependent in edges}
    for _ in range(SIZE):
        reach |= {(a, d) for (a, b), (c, d) in product(reach, reach) if b == c}
    return any(a == b for a, b in reach)


def one_head(edges: set[tuple[int, int]]) -> bool:
    return len({dependent for _, dependent in edges}) == len(edges)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("name", ["", "one-head", "forest"])
def test_the_best_graph_of_all_that_are_allowed(name: str, seed: int) -> None:
    scores = random_scores(seed)
    found = edges_of(constrained(scores, Constraints(heads=name)))
    gains = {pair: float(scores[0][pair].clamp(min=0).sum()) for pair in PAIRS}

    def allowed(edges: set[tuple[int, int]]) -> bool:
        return not name or (one_head(edges) and (name == "one-head" or not has_cycle(edges)))

    graphs = [{pair for pair, taken in zip(PAIRS, flags, strict=True) if taken} for flags in product((0, 1), repeat=6)]
    best = max(sum(gains[pair] for pair in edges) for edges in graphs if allowed(edges))
    assert allowed(found)
    assert sum(gains[pair] for pair in found) == pytest.approx(best)


@pytest.mark.parametrize("seed", range(20))
def test_acyclic_graphs_lose_only_edges_that_close_a_cycle(seed: int) -> None:
    scores = random_scores(seed)
    free, found = edges_of(constrained(scores, Constraints())), edges_of(constrained(scores, Constraints("acyclic")))
    assert found <= free
    assert not has_cycle(found)
    assert all(has_cycle(found | {edge}) for edge in free - found)


def test_one_label_of_a_group() -> None:
    labels = ("gender:f", "gender:m", "friend")
    groups = label_groups(("gender:*", "none:*"), labels)
    scores = torch.tensor([1.0, 2.0, 0.5]).expand(1, 2, 2, 3)
    found = (constrained(scores, Constraints(groups=groups)) > 0).nonzero().tolist()
    assert found == [[0, 0, 1, 1], [0, 0, 1, 2], [0, 1, 0, 1], [0, 1, 0, 2]]
    assert label_groups((), labels) is None


@pytest.mark.parametrize("several", [False, True])
def test_one_root(several: bool) -> None:
    scores = torch.tensor([[[-3.0, 1.0], [-1.0, 2.0], [-2.0, -1.0]]])  # root, past
    found = (constrained_own(scores, Constraints(root=0), several) > 0).nonzero()[:, 1:].tolist()
    assert found == ([[0, 1], [1, 0], [1, 1]] if several else [[0, 1], [1, 0]])


@pytest.mark.parametrize("threshold", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("form", [LabelForm(a, b) for a in (False, True) for b in (False, True)], ids=str)
def test_what_is_there_by_its_probability(form: LabelForm, threshold: float) -> None:
    torch.manual_seed(1)
    logits = 2 * torch.randn(40, form.apart + 3)
    found = label_scores(logits, form, threshold) > 0
    for row, chosen in zip(logits, found.tolist(), strict=True):
        if not form.apart:
            expected = (row.sigmoid() > threshold).tolist()
        else:
            of_labels = row[1:]
            best = int(of_labels.argmax())
            odds = row[0] if form.factored or form.several else of_labels[best] - row[0]
            there = bool(odds.sigmoid() > threshold)
            expected = [there and (label == best or (form.several and of_labels[label] > 0)) for label in range(3)]
        assert chosen == expected


def test_scores_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(UserError, match="did training diverge"):
        label_scores(torch.tensor([[float("nan"), 0.0]]), LabelForm(True))
