"""Results that are computed again in the backward pass: the same gradients, and nothing kept or leaked."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import Tensor, nn

from edge_transformer.nn.layer import kept_as_rule


def gradients(again: bool, calls: list[int] | None = None) -> list[Tensor]:
    torch.manual_seed(0)
    norm, linear = nn.LayerNorm(6), nn.Linear(6, 3)
    x = torch.randn(2, 4, 6, requires_grad=True)
    normed = norm(x)

    def compute() -> Tensor:
        if calls is not None:
            calls.append(1)
        return norm(x)

    if again:
        with kept_as_rule(normed, compute):
            out = linear(normed).sin()
    else:
        out = linear(normed).sin()
    (out.square().sum() + normed.sum()).backward()
    found = [x.grad, *(weight.grad for weight in (*norm.parameters(), *linear.parameters()))]
    return [gradient for gradient in found if gradient is not None]


def test_the_same_gradients() -> None:
    calls: list[int] = []
    found, expected = gradients(True, calls), gradients(False)
    assert len(found) == 5
    assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))
    assert calls  # so that it was not kept


def test_the_result_is_gone_before_the_backward_pass() -> None:
    norm, linear = nn.LayerNorm(6), nn.Linear(6, 3)
    x = torch.randn(5, 6, requires_grad=True)
    gc.disable()  # what is left must go by itself, not when Python happens to look for circles
    try:
        normed = norm(x)
        numbers = weakref.ref(normed.untyped_storage())
        with kept_as_rule(normed, lambda: norm(x)):
            out = linear(normed)
        del normed
        assert numbers() is None
        out.sum().backward()
        result = weakref.ref(out)
        del out
        assert result() is None
    finally:
        gc.enable()
    assert x.grad is not None


def test_other_tensors_in_its_place_are_kept() -> None:
    x = torch.randn(4, 4, dtype=torch.float64, requires_grad=True)
    result = x.exp()
    with kept_as_rule(result, lambda: x.exp()):
        first_row, turned = result[0].sin(), result.T.sin()
    found = torch.autograd.grad(first_row.sum() + turned.square().sum(), x)[0]
    expected = torch.autograd.grad(x.exp()[0].sin().sum() + x.exp().T.sin().square().sum(), x)[0]
    torch.testing.assert_close(found, expected)


def test_only_contiguous_results() -> None:
    with (
        pytest.raises(ValueError, match="must be contiguous"),
        kept_as_rule(torch.randn(3, 4).T, lambda: torch.ones(1)),
    ):
        pass
