"""Functions as operators of PyTorch: they run, trace and differentiate, and cost nothing that is not needed."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor

from edge_transformer.ops.operators import Operator, operator


@pytest.fixture(scope="module")
def scaled() -> Operator:
    """An operator with all that ours have. PyTorch knows a name once and for all, so it is made once."""

    @operator("test_scaled", device="cpu")
    def scaled(x: Tensor, factor: float) -> Tensor:
        """x times the factor."""
        return x * factor

    @scaled.register_fake
    def _(x: Tensor, factor: float) -> Tensor:
        return torch.empty_like(x)

    def keep(ctx: Any, inputs: tuple[Tensor, float], output: Tensor) -> None:
        ctx.factor = inputs[1]

    scaled.register_autograd(lambda ctx, dy: (scaled(dy, ctx.factor), None), setup_context=keep)
    return scaled


def test_an_operator_runs_and_passes_pytorchs_checks(scaled: Operator) -> None:
    x = torch.randn(3, requires_grad=True)
    assert torch.equal(scaled(x, 2.0), 2 * x)
    (gradient,) = torch.autograd.grad(scaled(x, 2.0).sum(), x)
    assert torch.equal(gradient, torch.full((3,), 2.0))
    assert scaled.__doc__ == "x times the factor."
    results = torch.library.opcheck(scaled.overload, (x, 2.0))
    assert set(results.values()) == {"SUCCESS"}


def test_other_devices_are_refused(scaled: Operator) -> None:
    with pytest.raises(NotImplementedError, match="test_scaled"):
        torch.ops.edge_transformer.test_scaled(torch.ones(2).to_sparse(), 2.0)


@pytest.mark.parametrize("engine", ["native", "blocked"])
def test_a_first_run_imports_no_compiler(engine: str) -> None:
    program = f"""
import sys, torch
from edge_transformer.attention import resolve_engine, triangular_attention
from edge_transformer.dropout import add_dropout
parts = [torch.randn(1, 3, 3, 2, 4, requires_grad=True) for _ in range(4)]
out = triangular_attention(*parts, engine={engine!r})
add_dropout(out, out, 0.5, True).sum().backward()
print(*sorted({{"torch._dynamo", "torch._inductor", "triton", "sympy"}} & set(sys.modules)))
"""
    if engine == "native":
        from edge_transformer.ops.kernels import unavailable

        if unavailable():
            pytest.skip(str(unavailable()))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
