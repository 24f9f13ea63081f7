"""The engine of plain PyTorch: block by block it must be what it is in one piece."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from attention_cases import (
    ALL_CASES,
    NAMES,
    NO_OFFSETS,
    Case,
    check_operator,
    every_case,
    exact_outcome,
    outcome,
    present,
    random_parts,
    worst,
)
from edge_transformer.ops import plain
from edge_transformer.ops.blocked import BLOCKED, blocked_backward, blocked_forward
from edge_transformer.ops.einsum import EINSUM
from edge_transformer.ops.engine import Options

SEED = torch.tensor([20211228])


@pytest.fixture(params=[1, 2, 5], ids=lambda rows: f"{rows} rows")
def rows_at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Blocks of so many rows, for graphs as in these tests: three of 5 nodes, 2 heads of 3."""
    monkeypatch.setattr(plain, "_NUMBERS_AT_ONCE", request.param * 3 * 5 * 5 * 2 * 3)
    return request.param


@every_case
def test_blocks_give_what_the_equations_give(rows_at_once: int, case: Case) -> None:
    parts, options = random_parts(3, 5, 2, 3, value=case.value), case.options(3, 5)
    rows = list(plain._rows(parts[0]))
    assert [node for block in rows for node in range(5)[block]] == list(range(5))
    assert len(rows) == -(-5 // rows_at_once)
    found = outcome(BLOCKED.attend, parts, options)
    for one, exact in zip(found, exact_outcome(parts, options), strict=True):
        assert worst(one, exact) < 1e-12


@every_case
def test_gradients_of_blocks_with_dropout_by_finite_differences(monkeypatch: pytest.MonkeyPatch, case: Case) -> None:
    monkeypatch.setattr(plain, "_NUMBERS_AT_ONCE", 1)
    parts = random_parts(2, 3, 1, 2, value=case.value)
    arguments = case.options(2, 3).arguments()[:3]

    def attend(q: Tensor, k: Tensor, v1: Tensor, v2: Tensor | None = None) -> Tensor:
        return blocked_forward(q, k, v1, v2, *NO_OFFSETS, *arguments, 0.4, SEED)

    assert torch.autograd.gradcheck(attend, present(parts))


@pytest.mark.parametrize("autocast", [False, True], ids=["", "autocast"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("case", ALL_CASES[::3], ids=str)
def test_16_bits_are_computed_in_32(
    monkeypatch: pytest.MonkeyPatch, case: Case, dtype: torch.dtype, autocast: bool
) -> None:
    n, head_dim = 24, 16
    monkeypatch.setattr(plain, "_NUMBERS_AT_ONCE", 5 * 2 * n * n * head_dim)  # sums over 5 blocks
    q, k, v1, v2 = random_parts(2, n, 1, head_dim, value=case.value)
    parts = (4 * q).to(dtype), k.to(dtype), v1.to(dtype), None if v2 is None else v2.to(dtype)
    options = case.options(2, n)
    exact = exact_outcome(parts, options)
    rough = outcome(EINSUM.attend, parts, options, dtype=dtype)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        found = outcome(BLOCKED.attend, parts, options, dtype=dtype)
    for name, one, other, right in zip(NAMES[: len(exact)], found, rough, exact, strict=True):
        assert one.dtype == dtype
        assert worst(one, right) <= 2 * worst(other, right), name
        # A number is rounded to 16 bits once, at the end.
        once = torch.finfo(dtype).eps / 2
        torch.testing.assert_close(one.double(), right, rtol=1.01 * once, atol=1e-5 * right.abs().max().item())


class Watch(TorchDispatchMode):
    """Notes how many numbers the largest new tensor has."""

    largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if isinstance(made, Tensor):
            self.largest = max(self.largest, made.untyped_storage().nbytes() // made.element_size())
        return made


@every_case
def test_no_tensor_is_larger_than_those_of_the_edges(monkeypatch: pytest.MonkeyPatch, case: Case) -> None:
    n, head_dim = 12, 8
    watch = Watch()
    monkeypatch.setattr(plain, "_NUMBERS_AT_ONCE", 1)
    monkeypatch.setattr(plain, "without_autocast", lambda device: watch)  # it encloses all of the computation
    parts, options = random_parts(1, n, 1, head_dim, value=case.value), case.options(1, n)
    outcome(BLOCKED.attend, parts, options)
    assert watch.largest == n * n * head_dim


def test_blocks_are_dropped_independently(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "_NUMBERS_AT_ONCE", 1)
    n = 16
    torch.manual_seed(0)
    q = torch.zeros(2, n, n, 2, n)
    v1 = torch.eye(n)[None, None, :, None, :].expand(q.shape)
    kept = BLOCKED.attend(q, q, v1, None, Options(dropout_p=0.5)) != 0  # (B, i, j, h, l)
    for step in (1, 2, 3):
        same = (kept[:, step:] == kept[:, :-step]).double()
        assert abs(same.mean().item() - 0.5) < 5 * 0.5 * same.numel() ** -0.5


# --- as operators of PyTorch ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("case", "dropout_p"),
    [(Case(), 0.0), (Case(masked=True, causal=True), 0.3), (Case(masked=True, key="ij", value="left"), 0.3)],
    ids=str,
)
def test_operators(case: Case, dropout_p: float, dtype: torch.dtype) -> None:
    leaves = random_parts(2, 3, 2, 4, value=case.value, dtype=dtype)
    parts = [None if part is None else part.detach() for part in leaves]
    turned = [None if part is None else part.transpose(1, 2) for part in parts]
    dout = torch.randn(2, 3, 3, 2, 4).to(dtype)
    choice = (*NO_OFFSETS, *case.options(2, 3).arguments()[:3], dropout_p, SEED if dropout_p else None)
    cases: list[tuple[Any, tuple[Any, ...]]] = [
        (blocked_forward, (*leaves, *choice)),
        (blocked_forward, (*turned, *choice)),
        (blocked_backward, (dout, *parts, *choice)),
        (blocked_backward, (dout.transpose(1, 2), *turned, *choice)),
    ]
    for operator, arguments in cases:
        check_operator(operator, *arguments)


class Twice(torch.nn.Module):
    """Some attention with other things around it."""

    def __init__(self, dropout_p: float) -> None:
        super().__init__()
        self.dropout_p = dropout_p

    def forward(self, q: Tensor, k: Tensor, v1: Tensor, v2: Tensor) -> Tensor:
        inner = BLOCKED.attend(q, k, v1, v2, Options(dropout_p=self.dropout_p))
        return BLOCKED.attend(inner, k, inner.sin(), None, Options(None, 1, "ij", self.dropout_p)).square()


@pytest.mark.parametrize("dropout_p", [0.0, 0.5])
def test_under_torch_compile(dropout_p: float) -> None:
    parts, model = random_parts(2, 4, 2, 3), Twice(dropout_p)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    torch.manual_seed(7)
    expected = model(*parts)
    torch.manual_seed(7)
    found = compiled(*parts)
    assert worst(found, expected) < 1e-12
    gradients = torch.autograd.grad(expected.sum(), parts)
    for one, other in zip(torch.autograd.grad(found.sum(), parts), gradients, strict=True):
        assert worst(one, other) < 1e-12


@pytest.mark.parametrize("dropout_p", [0.0, 0.5])
def test_export(dropout_p: float) -> None:
    parts, model = random_parts(2, 4, 2, 3, dtype=torch.float32), Twice(dropout_p)
    exported = torch.export.export(model, parts).module()
    torch.manual_seed(7)
    expected = model(*parts)
    torch.manual_seed(7)
    assert worst(exported(*parts), expected) < 1e-6


def test_shapes_without_numbers() -> None:
    q, k, v1, v2 = (part.detach().to("meta", torch.bfloat16) for part in random_parts(2, 4, 2, 3))
    out = BLOCKED.attend(q, k, v1, v2, Options(dropout_p=0.5))
    assert (out.shape, out.dtype, out.device.type) == (q.shape, torch.bfloat16, "meta")


def test_gradient_checkpointing() -> None:
    parts = random_parts(2, 5, 2, 3)

    def attend(q: Tensor, k: Tensor, v1: Tensor, v2: Tensor) -> Tensor:
        return BLOCKED.attend(q, k, v1, v2, Options(dropout_p=0.5))

    torch.manual_seed(7)
    expected = torch.autograd.grad(attend(*parts).square().sum(), parts)
    torch.manual_seed(7)
    found = torch.autograd.grad(checkpoint(attend, *parts, use_reentrant=False).square().sum(), parts)
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
