"""Functions as operators of PyTorch: they run, trace and differentiate, and cost nothing that is not needed."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

from attention_cases import EVERY_ENGINE, check_operator
from edge_transformer.ops.operators import derive, operator, vectorize


@pytest.fixture(scope="module")
def scaled() -> Any:
    """An operator with all that ours have. PyTorch knows a name once and for all, so it is made once."""

    @operator("test_scaled", device="cpu", fake=lambda x, factor: torch.empty_like(x))
    def scaled(x: Tensor, factor: float) -> Tensor:
        return x * factor

    derive(scaled, lambda x, factor: x * factor)
    vectorize(scaled)
    return scaled


def test_an_operator_runs_and_passes_pytorchs_checks(scaled: Any) -> None:
    x = torch.randn(3, requires_grad=True)
    assert torch.equal(scaled(x, 2.0), 2 * x)
    (gradient,) = torch.autograd.grad(scaled(x, 2.0).sum(), x)
    assert torch.equal(gradient, torch.full((3,), 2.0))
    check_operator(scaled, x, 2.0)


def test_other_devices_are_refused(scaled: Any) -> None:
    with pytest.raises(NotImplementedError, match="test_scaled"):
        scaled(torch.ones(2).to_sparse(), 2.0)


def test_plain_code_is_run_for_derivatives_alone(scaled: Any) -> None:
    calls = []

    def plain(x: Tensor) -> Tensor:
        calls.append(tuple(x.shape))
        return 2 * x

    @operator("test_doubled", device="cpu", fake=torch.empty_like)
    def doubled(x: Tensor) -> Tensor:
        return 2 * x

    derive(doubled, plain)
    x = torch.ones(3, requires_grad=True)
    y = doubled(x)
    with forward_ad.dual_level():
        doubled(x)
    assert calls == []
    assert torch.autograd.grad(y.sum(), x)[0].tolist() == [2, 2, 2]
    assert calls == [(3,)]
    with forward_ad.dual_level():
        assert forward_ad.unpack_dual(doubled(forward_ad.make_dual(x, torch.ones(3)))).tangent.tolist() == [2, 2, 2]
    assert calls == [(3,), (3,)]


@pytest.mark.parametrize("engine", EVERY_ENGINE)
def test_a_first_run_imports_no_compiler(engine: str) -> None:
    program = f"""
import sys, torch
from edge_transformer.ops.attention import triangular_attention
from edge_transformer.ops.dropout import add_dropout
parts = [torch.randn(1, 3, 3, 2, 4, requires_grad=True) for _ in range(4)]
out = triangular_attention(*parts, engine={engine!r})
add_dropout(out, out, 0.5).sum().backward()
print(*sorted({{"torch._dynamo", "torch._inductor", "triton", "sympy"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
