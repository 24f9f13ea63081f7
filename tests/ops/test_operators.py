"""Functions as operators of PyTorch: they run, trace and differentiate, and cost nothing that is not needed."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor

from attention_cases import EVERY_ENGINE, check_operator
from edge_transformer.ops.operators import operator, refuse_gradients


@pytest.fixture(scope="module")
def scaled() -> Any:
    """An operator with all that ours have. PyTorch knows a name once and for all, so it is made once."""

    @operator("test_scaled", device="cpu", fake=lambda x, factor: torch.empty_like(x))
    def scaled(x: Tensor, factor: float) -> Tensor:
        return x * factor

    def keep(ctx: Any, inputs: tuple[Tensor, float], output: Tensor) -> None:
        ctx.factor = inputs[1]

    torch.library.register_autograd(scaled, lambda ctx, dy: (scaled(dy, ctx.factor), None), setup_context=keep)
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


def test_gradients_are_refused_where_there_are_none() -> None:
    @operator("test_doubled", device="cpu", fake=torch.empty_like)
    def doubled(x: Tensor) -> Tensor:
        return 2 * x

    refuse_gradients(doubled)
    with pytest.raises(RuntimeError, match="edge_transformer::test_doubled has no gradient of its own"):
        doubled(torch.ones(2, requires_grad=True)).sum().backward()


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
