"""Forests: no circles, and no better choice of parents without one."""

from __future__ import annotations

import subprocess
import sys
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from edge_transformer.nn.spanning import are_forests, best_forests


def leads_to_a_root(parents: list[int]) -> bool:
    """Walk up from every token; a forest lets nobody walk further than there are tokens."""
    for token in range(len(parents)):
        for _ in parents:
            token = parents[token]
        if parents[token] != token:
            return False
    return True


def total(scores: Tensor, parents: Tensor) -> float:
    return float(scores.gather(1, parents[:, None]).sum())


@given(st.integers(1, 5).flatmap(lambda n: st.lists(st.integers(0, n - 1), min_size=n, max_size=n)))
def test_are_forests(parents: list[int]) -> None:
    assert are_forests(torch.tensor([parents])).tolist() == [leads_to_a_root(parents)]


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4), st.integers(0, 10_000))
def test_nothing_without_circles_is_better(size: int, seed: int) -> None:
    scores = torch.randn(2, size, size, generator=torch.Generator().manual_seed(seed))
    scores -= 2 * torch.eye(size)  # roots are unlikely, so that there are circles to avoid
    found = best_forests(scores)
    for table, parents in zip(scores, found, strict=True):
        assert leads_to_a_root(parents.tolist())
        every = (list(choice) for choice in product(range(size), repeat=size))
        best = max(total(table, torch.tensor(choice)) for choice in every if leads_to_a_root(choice))
        assert total(table, parents) == pytest.approx(best, abs=1e-5)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40), st.integers(0, 10_000))
def test_long_sentences(size: int, seed: int) -> None:
    scores = torch.randn(3, size, size, generator=torch.Generator().manual_seed(seed))
    found = best_forests(scores)
    assert are_forests(found).all()
    alone = scores.argmax(-1)
    for table, best, parents in zip(scores, alone, found, strict=True):
        if leads_to_a_root(best.tolist()):
            assert torch.equal(parents, best)
        else:
            assert total(table, parents) < total(table, best)


def test_scores_must_be_finite() -> None:
    with pytest.raises(ValueError, match="finite"):
        best_forests(torch.tensor([[[0.0, torch.inf], [0.0, 0.0]]]))


def test_a_graph_model_answers_without_the_search() -> None:
    program = """
import sys
import edge_transformer as et
assert et.GraphParser.load("cogs-small").parse("A cat ran .").logical_form
sys.exit(any(name.startswith("ufal") for name in sys.modules))
"""
    subprocess.run([sys.executable, "-c", program], check=True)
