"""The engine of plain PyTorch: block by block it must be what it is in one piece."""

from __future__ import annotations

import pytest
import torch
from attention_cases import ALL_OPTIONS, Options, exact_outcome, outcome, present, random_parts, worst
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from edge_transformer.attention import blocked
from edge_transformer.attention.blocked import blocked_attention


@pytest.fixture(params=[1, 2, 5], ids=lambda rows: f"{rows} rows")
def rows_at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Blocks of so many rows, for graphs as in these tests: three of 5 nodes, 2 heads of 3."""
    monkeypatch.setattr(blocked, "_NUMBERS_AT_ONCE", request.param * 3 * 5 * 5 * 2 * 3)
    return request.param


@pytest.mark.parametrize("options", ALL_OPTIONS, ids=str)
def test_blocks_give_what_the_equations_give(rows_at_once: int, options: Options) -> None:
    parts, arguments = random_parts(3, 5, 2, 3, value=options.value), options.arguments(3, 5)
    rows = list(blocked._Blocks(parts[0], parts[1], *arguments, 0.0, 0).rows())
    assert [node for block in rows for node in range(5)[block]] == list(range(5))
    assert len(rows) == -(-5 // rows_at_once)
    found = outcome(blocked_attention, parts, *arguments, dtype=torch.float64)
    for one, exact in zip(found, exact_outcome(parts, *arguments), strict=True):
        assert worst(one, exact) < 1e-12


@pytest.mark.parametrize("options", ALL_OPTIONS, ids=str)
def test_gradients_with_dropout_by_finite_differences(monkeypatch: pytest.MonkeyPatch, options: Options) -> None:
    monkeypatch.setattr(blocked, "_NUMBERS_AT_ONCE", 1)
    parts = random_parts(2, 3, 1, 2, value=options.value)
    arguments = options.arguments(2, 3)

    def attend(q: Tensor, k: Tensor, v1: Tensor, v2: Tensor | None = None) -> Tensor:
        torch.manual_seed(3)
        return blocked_attention(q, k, v1, v2, *arguments, 0.4)

    assert torch.autograd.gradcheck(attend, present(parts))


def test_blocks_are_dropped_independently(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocked, "_NUMBERS_AT_ONCE", 1)
    n = 16
    torch.manual_seed(0)
    q = torch.zeros(2, n, n, 2, n)
    v1 = torch.eye(n)[None, None, :, None, :].expand(q.shape)
    kept = blocked_attention(q, q, v1, None, None, None, "lj", 0.5) != 0  # (B, i, j, h, l)
    for step in (1, 2, 3):
        same = (kept[:, step:] == kept[:, :-step]).double()
        assert abs(same.mean().item() - 0.5) < 5 * 0.5 * same.numel() ** -0.5


def test_gradient_checkpointing() -> None:
    parts = random_parts(2, 5, 2, 3)

    def attend(q: Tensor, k: Tensor, v1: Tensor, v2: Tensor) -> Tensor:
        return blocked_attention(q, k, v1, v2, None, None, "lj", 0.5)

    torch.manual_seed(7)
    expected = torch.autograd.grad(attend(*parts).square().sum(), parts)
    torch.manual_seed(7)
    found = torch.autograd.grad(checkpoint(attend, *parts, use_reentrant=False).square().sum(), parts)
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
