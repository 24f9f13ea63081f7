"""Dropout fused with its neighbours: the same as PyTorch's own operations but for which numbers are dropped."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from attention_cases import check_operator, needs_kernels
from edge_transformer.ops import dropout, native
from edge_transformer.ops.dropout import DROPOUT_BLOCK, add_dropout, relu_dropout_, relu_dropout_backward_

SEED = torch.tensor([20211228])
P = 0.3


@pytest.fixture(autouse=True)
def same_numbers_every_time() -> None:
    torch.manual_seed(0)


@pytest.fixture(params=[pytest.param("kernel", marks=needs_kernels), "PyTorch"])
def code(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every test that asks for it runs with the compiled kernel and without."""
    if request.param == "PyTorch":
        monkeypatch.setattr(native, "_LOADED", "no compiled kernels: told so")
    return request.param


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Never zero, so that a zero in the output means dropped."""
    x = torch.randn(shape, dtype=dtype)
    return x + x.sign()


def kept_numbers(y: Tensor, without: Tensor | float = 0.0) -> Tensor:
    """Which numbers were kept, from an output and what it would be had all been dropped."""
    return y.detach() != without


def dropped(x: Tensor, p: float) -> Tensor:
    return add_dropout(torch.zeros_like(x), x, p)


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "usual": lambda x: x,
    "transposed": lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
    "every other": lambda x: x.repeat_interleave(2, 1)[:, ::2],
    "one row for all": lambda x: x[:1].expand(x.shape),
}
layouts = pytest.mark.parametrize("layout", LAYOUTS)
precisions = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


# --- values and gradients ---------------------------------------------------------------------------------------------


@needs_kernels
@precisions
@pytest.mark.parametrize("length", [0, 1, 4095, 4096, 4097, 12288, 12289])
def test_relu_dropout_in_place(dtype: torch.dtype, length: int) -> None:
    """The kernel takes 4096 numbers at a time."""
    x = numbers(length, dtype=dtype)
    y = x.clone()
    relu_dropout_(y, P, int(SEED))
    kept = kept_numbers(y)
    assert length < 100 or 0.6 < kept[x > 0].double().mean() < 0.8
    torch.testing.assert_close(y, x.relu() * kept / (1 - P))
    for start in range(DROPOUT_BLOCK, length, DROPOUT_BLOCK):  # blocks may be computed on their own
        block = x[start : start + DROPOUT_BLOCK].clone()
        relu_dropout_(block, P, int(SEED) + start // DROPOUT_BLOCK)
        assert torch.equal(block, y[start : start + DROPOUT_BLOCK])
    upstream = torch.randn_like(y)
    gradient = upstream.clone()
    relu_dropout_backward_(gradient, y, P)
    torch.testing.assert_close(gradient, upstream * kept * (x > 0) / (1 - P))


@precisions
@layouts
def test_add_dropout(code: str, dtype: torch.dtype, layout: str) -> None:
    x, residual = numbers(40, 30, dtype=dtype).requires_grad_(), numbers(40, 30, dtype=dtype).requires_grad_()
    for given, beside in ((LAYOUTS[layout](x), residual), (x, LAYOUTS[layout](residual))):
        y = add_dropout(beside, given, P)
        kept = kept_numbers(y, beside)
        assert 0.5 < kept.double().mean() < 0.9
        expected = beside + given * kept / (1 - P)
        torch.testing.assert_close(y, expected)
        upstream = torch.randn_like(y)
        found, right = (torch.autograd.grad(out, (x, residual), upstream) for out in (y, expected))
        torch.testing.assert_close(found, right)


@layouts
@pytest.mark.parametrize("length", [1, 8, 5000])
def test_layouts_of_the_incoming_gradient(code: str, layout: str, length: int) -> None:
    x = numbers(length, 20).requires_grad_()
    upstream = LAYOUTS[layout](torch.randn(length, 20))
    y = add_dropout(torch.zeros_like(x), x, P)
    (gradient,) = torch.autograd.grad(y, x, upstream)
    torch.testing.assert_close(gradient, upstream * kept_numbers(y) / (1 - P))


def test_a_sum_of_outputs_as_loss(code: str) -> None:
    """The gradient is then one number, expanded: no memory of its own to read from."""
    x = torch.ones(3_000_000, requires_grad=True)
    y = add_dropout(torch.zeros_like(x), x, 0.5)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(gradient, y)  # both are 2 where kept


@needs_kernels
def test_relu_at_zero() -> None:
    y = torch.tensor([0.0, -0.0, -1.0, 1.0]).repeat(100)
    relu_dropout_(y, P, int(SEED))
    gradients = torch.ones_like(y)
    relu_dropout_backward_(gradients, y, P)
    at_zero, at_minus_zero, below, above = gradients.view(100, 4).unbind(1)
    for gradient in (at_zero, at_minus_zero, below):
        assert (gradient == 0).all()
    assert set(above.tolist()) == {0.0, torch.tensor(1 / (1 - P)).item()}
    assert (y.view(100, 4)[:, :3] == 0).all()


def test_not_a_number_is_not_hidden(code: str) -> None:
    x = torch.full((50,), torch.nan)
    assert add_dropout(torch.zeros(50), x, P).isnan().any()
    if code == "kernel":
        relu_dropout_(x, P, int(SEED))
        assert x.isnan().any()


@needs_kernels
def test_gradients_by_finite_differences() -> None:
    x, residual = (numbers(4, 5, dtype=torch.float64).requires_grad_() for _ in range(2))
    assert torch.autograd.gradcheck(lambda residual, x: dropout._add_dropout(residual, x, P, SEED), (residual, x))


def test_sizes_beside_a_block(code: str) -> None:
    for length in (0, 1, 4095, 4096, 4097, 12288, 12289):
        y = dropped(torch.ones(length), P)
        torch.testing.assert_close(y, kept_numbers(y) / (1 - P))
        assert length < 100 or 0.6 < kept_numbers(y).double().mean() < 0.8


# --- which numbers are dropped ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.01, 0.2, 0.5, 0.95])
def test_how_many_are_dropped(code: str, p: float) -> None:
    kept = kept_numbers(dropped(torch.ones(300, 500), p))
    deviation = (p * (1 - p) / kept.numel()) ** 0.5
    assert abs(kept.double().mean().item() - (1 - p)) < 5 * deviation
    centred = (kept.double() - (1 - p)) / (p * (1 - p)) ** 0.5
    for step in (1, 2, 500, 4096):
        together = (centred.flatten()[step:] * centred.flatten()[:-step]).mean().item()
        assert abs(together) < 5 * kept.numel() ** -0.5


def test_the_seed_decides(code: str) -> None:
    x = torch.ones(100)
    torch.manual_seed(3)
    first, second = (dropped(x, 0.5) for _ in range(2))
    assert not torch.equal(first, second)
    torch.manual_seed(3)
    assert torch.equal(dropped(x, 0.5), first)


# --- where the kernel cannot help -------------------------------------------------------------------------------------


def test_half_precision(code: str) -> None:
    x = numbers(200).bfloat16()
    y = dropped(x, 0.5)
    assert y.dtype == torch.bfloat16
    assert ((y == 0) | (y == 2 * x)).all()
    assert 0 < (y == 0).sum() < 200


@pytest.mark.parametrize(
    ("residual", "shape", "dtype"),
    [
        (torch.zeros(30), (40, 30), torch.float32),
        (torch.zeros(40, 1), (40, 30), torch.float32),
        (torch.zeros(40, 30, dtype=torch.float64), (40, 30), torch.float64),
        (torch.zeros(40, 30, dtype=torch.bfloat16), (40, 30), torch.float32),
    ],
    ids=["fewer dimensions", "broadcast", "wider numbers", "narrower numbers"],
)
def test_a_residual_unlike_the_update(code: str, residual: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    y = add_dropout(residual, torch.ones(40, 30), 0.5)
    assert y.shape == shape
    assert y.dtype == dtype
    assert set(y.unique().tolist()) == {0.0, 2.0}


@needs_kernels
def test_the_kernel_is_used_where_it_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(F, "dropout", lambda *arguments: pytest.fail("PyTorch's dropout was called"))
    add_dropout(torch.ones(3), torch.ones(3), P)


# --- as operators of PyTorch ------------------------------------------------------------------------------------------


def test_threads_change_nothing() -> None:
    x, before = numbers(3, 150_000), torch.get_num_threads()
    results = []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            torch.manual_seed(1)
            leaf = x.clone().requires_grad_()
            y = add_dropout(x, leaf, 0.3)
            y.backward(x)
            results.append((y.detach(), leaf.grad))
    finally:
        torch.set_num_threads(before)
    for alone, together in zip(*results, strict=True):
        assert alone is not None
        assert together is not None
        assert torch.equal(alone, together)


@needs_kernels
@layouts
def test_operators(layout: str) -> None:
    x, residual = (LAYOUTS[layout](numbers(4, 6)) for _ in range(2))
    check_operator(dropout.scale_dropout, x, P, SEED)
    x, residual = x.detach().requires_grad_(), residual.detach().requires_grad_()
    check_operator(dropout._add_dropout, residual, x, P, SEED)


def test_gradient_checkpointing(code: str) -> None:
    x, residual = numbers(20).requires_grad_(), numbers(20)

    def run(x: Tensor) -> Tensor:
        return add_dropout(residual, dropped(x, P).square(), P)

    torch.manual_seed(7)
    expected = run(x)
    torch.manual_seed(7)
    found = checkpoint(run, x, use_reentrant=False)
    assert torch.equal(found, expected)
    assert torch.equal(*(torch.autograd.grad(out.sum(), x)[0] for out in (found, expected)))
