"""The compiled engine: against the float64 equations, at every size and layout, with dropout, as PyTorch operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from attention_cases import (
    LAYOUTS,
    NAMES,
    NO_OFFSETS,
    Case,
    Parts,
    check_operator,
    every_case,
    exact_outcome,
    needs_kernels,
    outcome,
    present,
    random_mask,
    random_parts,
    usable_vector_codes,
    vector_code,
    worst,
)
from edge_transformer.ops import native
from edge_transformer.ops.einsum import EINSUM
from edge_transformer.ops.engine import Options
from edge_transformer.ops.native import (
    NATIVE,
    packed_backward,
    packed_forward,
    separate_backward,
    separate_forward,
)

pytestmark = needs_kernels
SEED = torch.tensor([20211228])


@pytest.fixture(autouse=True)
def same_numbers_every_time() -> None:
    torch.manual_seed(0)


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    """Sets the number of threads, for one test only."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of threads that each call of the library was given."""
    counts: list[int] = []

    class Watched(native.Problem):
        def __init__(self, **fields: Any) -> None:
            super().__init__(**fields)
            counts.append(self.threads)

    monkeypatch.setattr(native, "Problem", Watched)
    return counts


def seeded(options: Options) -> tuple[Any, ...]:
    """Options as operators take them, with the seed of these tests."""
    *choice, dropout_p, _ = options.arguments()
    return *choice, dropout_p, SEED if dropout_p else None


def assert_right(parts: Parts, options: Options) -> None:
    """Output and gradients in float64 are those of the equations, but for rounding."""
    exact = exact_outcome(parts, options)
    numbers = parts[0].shape[1] * parts[0].shape[-1]  # in a sum
    double = outcome(NATIVE.attend, parts, options)
    for name, found, right in zip(NAMES[: len(exact)], double, exact, strict=True):
        assert worst(found, right) <= 1e-13 * numbers * max(1.0, right.abs().max().item()), name


# --- the right numbers ------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data())
def test_random_masks_and_sizes(data: st.DataObject) -> None:
    batch, n, heads, head_dim = (data.draw(st.integers(1, most)) for most in (3, 18, 3, 20))
    value, key = data.draw(st.sampled_from(["product", "left"])), data.draw(st.sampled_from(["lj", "ij"]))
    rows = st.lists(st.booleans(), min_size=n, max_size=n)
    node_mask = data.draw(st.none() | st.lists(rows, min_size=batch, max_size=batch).map(torch.tensor))
    causal_from = data.draw(st.none() | st.integers(0, n))
    assert_right(random_parts(batch, n, heads, head_dim, value=value), Options(node_mask, causal_from, key))


def test_scores_beyond_the_range_of_exp() -> None:
    q, k, v1, v2 = random_parts(1, 5, 1, 4, dtype=torch.float32)
    found = NATIVE.attend(q * 1e4, k * 1e4, v1, v2, Options())
    scores = torch.einsum("bilhd,bljhd->bijlh", q, k)
    best = torch.einsum("bijlh,bilhd,bljhd->bijhd", (scores == scores.amax(3, keepdim=True)).float(), v1, v2)
    torch.testing.assert_close(found, best)


@pytest.mark.parametrize("shape", [(0, 3, 3, 2, 4), (2, 0, 0, 2, 4)], ids=str)
def test_nothing_to_do(shape: tuple[int, ...]) -> None:
    q = torch.randn(shape, requires_grad=True)
    out, _ = separate_forward(q, q, q, q, *NO_OFFSETS, None, -1, False, 0.0, None)
    (gradient,) = torch.autograd.grad(out.sum(), q)
    assert out.shape == gradient.shape == shape


def test_out_of_memory_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v1, v2 = random_parts(1, 2, 1, 2)
    monkeypatch.setattr(native, "library", lambda: SimpleNamespace(edge_transformer_forward=lambda problem: 1))
    with pytest.raises(MemoryError, match="triangular attention ran out of memory"):
        NATIVE.attend(q, k, v1, v2, Options())


# --- layouts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("head_dim", [1, 6])
def test_layouts_of_inputs(layout: str, head_dim: int) -> None:
    node_mask = random_mask(3, 5).T.contiguous().T  # not contiguous either
    for place in range(4):  # one part at a time: the others keep the usual layout

        def attend(*arguments: Any, engine: Any = NATIVE, place: int = place) -> Tensor:
            *parts, options = arguments
            parts[place] = LAYOUTS[layout](parts[place])
            return engine.attend(*parts, options)

        parts, options = random_parts(3, 5, 2, head_dim), Options(node_mask, 2)
        found = outcome(attend, parts, options)
        for one, exact in zip(found, outcome(partial(attend, engine=EINSUM), parts, options), strict=True):
            assert worst(one, exact) < 1e-12


def test_the_layouts_are_what_they_say() -> None:
    x = torch.randn(3, 5, 5, 2, 6)
    strides = {LAYOUTS[layout](x).stride() for layout in LAYOUTS if layout != "starts in the middle"}
    assert len(strides) == len(LAYOUTS) - 1
    assert x.stride() not in strides
    assert all(LAYOUTS[layout](x).shape == x.shape for layout in LAYOUTS)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("head_dim", [1, 6])
def test_layouts_of_the_incoming_gradient(layout: str, head_dim: int) -> None:
    parts = random_parts(3, 5, 2, head_dim)
    incoming = LAYOUTS[layout](torch.randn(3, 5, 5, 2, head_dim, dtype=torch.float64))
    out = NATIVE.attend(*parts, Options())
    found = torch.autograd.grad(out, parts, incoming)
    expected = torch.autograd.grad(EINSUM.attend(*parts, Options()), parts, incoming)
    assert all(worst(one, other) < 1e-12 for one, other in zip(found, expected, strict=True))


def test_one_tensor_in_every_place() -> None:
    x = torch.randn(2, 4, 4, 2, 3, dtype=torch.float64, requires_grad=True)
    found = torch.autograd.grad(NATIVE.attend(x, x, x, x, Options()).square().sum(), x)
    expected = torch.autograd.grad(EINSUM.attend(x, x, x, x, Options()).square().sum(), x)
    assert worst(found[0], expected[0]) < 1e-12


def test_some_parts_without_gradients() -> None:
    q, k, v1, v2 = random_parts(1, 4, 1, 3)
    out = NATIVE.attend(q.detach(), k, v1.detach(), v2, Options())
    exact = EINSUM.attend(q, k, v1, v2, Options())
    for part in (k, v2):
        (found,) = torch.autograd.grad(out.sum(), part, retain_graph=True)
        (expected,) = torch.autograd.grad(exact.sum(), part, retain_graph=True)
        assert worst(found, expected) < 1e-12


@every_case
def test_packed_and_separate_parts_give_the_same_bits(case: Case) -> None:
    separate = random_parts(2, 5, 2, 3, value=case.value)
    packed = torch.stack([part.detach() for part in present(separate)], dim=3).requires_grad_()
    choice = seeded(case.options(2, 5, dropout_p=0.3))
    out, lse = separate_forward(*separate, *NO_OFFSETS, *choice)
    packed_out, packed_lse = packed_forward(packed, *NO_OFFSETS, *choice)
    assert torch.equal(out, packed_out)
    assert torch.equal(lse, packed_lse)
    expected = torch.autograd.grad(out.sum(), present(separate))
    (found,) = torch.autograd.grad(packed_out.sum(), packed)
    assert torch.equal(found, torch.stack(expected, dim=3))


def test_packed_parts_with_gaps() -> None:
    wide = torch.randn(2, 4, 4, 8, 2, 3, dtype=torch.float64, requires_grad=True)
    found = NATIVE.attend_packed(wide[:, :, :, ::2], Options())
    q, k, v1, v2 = wide[:, :, :, ::2].unbind(3)
    expected = EINSUM.attend(q, k, v1, v2, Options())
    assert worst(found, expected) < 1e-12
    (gradient,) = torch.autograd.grad(found.square().sum(), wide)
    (right,) = torch.autograd.grad(expected.square().sum(), wide)
    assert worst(gradient, right) < 1e-12


# --- dropout ----------------------------------------------------------------------------------------------------------


def dropout_factors(batch: int, n: int, heads: int, p: float, seed: Tensor, dtype: torch.dtype) -> Tensor:
    """What the kernel multiplies each attention weight with, `[batch, i, l, j, head]`.

    With equal scores every weight is 1/n, and with the unit vector l as value of pivot l the output shows each of them.
    """
    q = torch.zeros(batch, n, n, heads, n, dtype=dtype)
    v1 = torch.eye(n, dtype=dtype)[None, None, :, None, :].expand(q.shape)
    out, _ = separate_forward(q, q, v1, None, *NO_OFFSETS, None, -1, False, p, seed)
    return out.permute(0, 1, 4, 2, 3) * n


def attend_with_factors(q: Tensor, k: Tensor, v1: Tensor, v2: Tensor, mask: Tensor, factors: Tensor | float) -> Tensor:
    """The equations with given dropout, independent of any engine."""
    scores = torch.einsum("bilhd,bljhd->biljh", q, k) * q.shape[-1] ** -0.5
    scores = scores.masked_fill(~mask[:, None, :, None, None], -torch.inf)
    out = torch.einsum("biljh,bilhd,bljhd->bijhd", scores.softmax(2) * factors, v1, v2)
    return out * (mask[:, :, None] & mask[:, None, :])[..., None, None]


@pytest.mark.parametrize("size", [(7, 5), (29, 90)], ids=str)  # the second in several tiles
def test_dropout_is_the_same_in_forward_and_backward(size: tuple[int, int]) -> None:
    n, head_dim = size
    parts = random_parts(2, n, 2, head_dim)
    mask = torch.ones(2, n, dtype=torch.bool)
    mask[1, 4:] = False
    factors = dropout_factors(2, n, 2, 0.4, SEED, torch.float64)
    assert 0 < (factors == 0).double().mean() < 1
    out, _ = separate_forward(*parts, *NO_OFFSETS, mask, -1, False, 0.4, SEED)
    exact = attend_with_factors(*parts, mask, factors)
    assert worst(out, exact) < 1e-12
    found = torch.autograd.grad(out.square().sum(), parts)
    expected = torch.autograd.grad(exact.square().sum(), parts)
    assert all(worst(one, other) < 1e-11 for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize("p", [0.01, 0.1, 0.5, 0.9])
def test_dropped_and_kept_weights(p: float) -> None:
    factors = dropout_factors(4, 16, 4, p, SEED, torch.float64)
    kept = factors != 0
    torch.testing.assert_close(factors[kept], torch.full_like(factors[kept], 1 / (1 - p)))
    assert abs(kept.double().mean().item() - (1 - p)) < 5 * (p * (1 - p) / kept.numel()) ** 0.5


def test_dropped_weights_are_independent_of_their_neighbours() -> None:
    p = 0.3
    kept = (dropout_factors(8, 16, 4, p, SEED, torch.float32) != 0).double()
    centred = (kept - (1 - p)) / (p * (1 - p)) ** 0.5
    for dimension in range(5):  # batch, i, l, j, head
        length = centred.shape[dimension]
        counts = kept.sum(dimension)
        variance = length * p * (1 - p)
        assert abs(counts.var().item() / variance - 1) < 5 * (2 / counts.numel()) ** 0.5
        for step in (1, 2, 3):
            near, far = centred.narrow(dimension, 0, length - step), centred.narrow(dimension, step, length - step)
            assert abs((near * far).mean().item()) < 5 * near.numel() ** -0.5
    transposed = (centred * centred.transpose(1, 3)).mean().item()  # the edges (i, j) and (j, i)
    assert abs(transposed - 1 / 16) < 5 * centred.numel() ** -0.5  # a sixteenth lies on the diagonal


def test_seeds_give_other_masks_and_a_seed_always_the_same() -> None:
    first = dropout_factors(1, 16, 2, 0.5, SEED, torch.float32)
    assert torch.equal(dropout_factors(1, 16, 2, 0.5, SEED, torch.float32), first)
    for seed in (SEED + 1, SEED + 2**32, torch.tensor([0])):
        other = dropout_factors(1, 16, 2, 0.5, seed, torch.float32)
        assert abs(((first != 0) == (other != 0)).double().mean().item() - 0.5) < 5 * 0.5 * first.numel() ** -0.5


def test_the_mask_depends_on_neither_precision_nor_vector_code() -> None:
    double = dropout_factors(2, 11, 2, 0.5, SEED, torch.float64) != 0
    for code in usable_vector_codes():
        with vector_code(code):
            assert torch.equal(dropout_factors(2, 11, 2, 0.5, SEED, torch.float32) != 0, double)


# --- threads ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dropout_p", [0.0, 0.4])
@pytest.mark.parametrize("heads", [1, 3])
def test_threads_change_no_bit(
    threads: Callable[[int], None],
    used: list[int],
    monkeypatch: pytest.MonkeyPatch,
    dropout_p: float,
    heads: int,
) -> None:
    monkeypatch.setattr(native, "SMALLEST_SHARE", 1)  # also share out what is not worth it
    parts = random_parts(2, 6, heads, 5)

    def attend(*arguments: Any) -> Tensor:
        *parts, options = arguments
        return separate_forward(*parts, *NO_OFFSETS, *seeded(options))[0]

    results = []
    for count in (1, 2, 5):
        threads(count)
        options = Options(random_mask(2, 6), 3, dropout_p=dropout_p)
        results.append(outcome(attend, parts, options, dtype=torch.float32))
    assert used == [1, 1, 2, 2, 5, 5]  # forward and backward; more than there are (batch, head) pairs do no harm
    for result in results[1:]:
        assert all(torch.equal(one, other) for one, other in zip(result, results[0], strict=True))


def test_small_work_gets_one_thread(threads: Callable[[int], None], used: list[int]) -> None:
    threads(2)
    for n in (3, 24):
        q, k, v1, v2 = random_parts(2, n, 1, 16, dtype=torch.float32)
        NATIVE.attend(q, k, v1, v2, Options())
    assert used == [0, 2]


# --- as operators of PyTorch ------------------------------------------------------------------------------------------


def operator_arguments(case: Case, dropout_p: float) -> tuple[Parts, tuple[Any, ...]]:
    choice = seeded(case.options(2, 3, dropout_p=dropout_p))
    return random_parts(2, 3, 2, 4, value=case.value, dtype=torch.float32), choice


OPERATOR_CASES = [
    (Case(), 0.0),
    (Case(masked=True, causal=True), 0.3),
    (Case(masked=True, key="ij", value="left"), 0.3),
]
operator_cases = pytest.mark.parametrize(("case", "dropout_p"), OPERATOR_CASES, ids=lambda value: str(value))


@operator_cases
def test_separate_operators(case: Case, dropout_p: float) -> None:
    leaves, choice = operator_arguments(case, dropout_p)
    check_operator(separate_forward, *leaves, *NO_OFFSETS, *choice)
    parts = [None if part is None else part.detach() for part in leaves]
    out, lse = separate_forward(*parts, *NO_OFFSETS, *choice)
    check_operator(separate_backward, torch.randn_like(out), *parts, *NO_OFFSETS, out, lse, *choice)
    turned = [None if part is None else part.transpose(1, 2) for part in parts]
    check_operator(separate_forward, *turned, *NO_OFFSETS, *choice)
    check_operator(separate_backward, torch.randn_like(out).transpose(1, 2), *turned, *NO_OFFSETS, out, lse, *choice)


@operator_cases
def test_packed_operators(case: Case, dropout_p: float) -> None:
    separate, choice = operator_arguments(case, dropout_p)
    packed = torch.stack([part.detach() for part in present(separate)], dim=3)
    check_operator(packed_forward, packed.clone().requires_grad_(), *NO_OFFSETS, *choice)
    out, lse = packed_forward(packed, *NO_OFFSETS, *choice)
    check_operator(packed_backward, torch.randn_like(out), packed, *NO_OFFSETS, out, lse, *choice)
    turned = packed.transpose(1, 2)
    check_operator(packed_forward, turned, *NO_OFFSETS, *choice)
    check_operator(packed_backward, torch.randn_like(out).transpose(1, 2), turned, *NO_OFFSETS, out, lse, *choice)


@pytest.mark.parametrize("dropout_p", [0.0, 0.5])
def test_gradient_checkpointing(dropout_p: float) -> None:
    parts = random_parts(2, 5, 2, 3, dtype=torch.float32)

    def attend(q: Tensor, k: Tensor, v1: Tensor, v2: Tensor) -> Tensor:
        return NATIVE.attend(q, k, v1, v2, Options(dropout_p=dropout_p)).square()

    torch.manual_seed(7)
    expected = attend(*parts)
    gradients = torch.autograd.grad(expected.sum(), parts)
    torch.manual_seed(7)
    found = checkpoint(attend, *parts, use_reentrant=False)
    assert torch.equal(found, expected)
    torch.manual_seed(8)  # what was drawn in between must not matter
    again = torch.autograd.grad(found.sum(), parts)
    assert all(torch.equal(one, other) for one, other in zip(again, gradients, strict=True))


def test_padding_does_not_change_what_is_dropped_elsewhere() -> None:
    n = 6
    zeros, ones = torch.zeros(1, n, n, 1, n), torch.ones(1, n, n, 1, n)
    pivots = torch.eye(n).expand(1, n, n, n)[:, :, :, None]  # feature l of v1_il is 1: the output shows every weight
    node_mask = torch.tensor([[True, False, True, True, False, True]])
    kept = []
    for mask in (None, node_mask):
        torch.manual_seed(3)
        kept.append(
            NATIVE.attend(zeros, zeros, pivots, ones, Options(mask, dropout_p=0.4))[0, :, :, 0] > 0
        )  # (i, j, l)
    real = node_mask[0].nonzero()[:, 0]
    among_real = [choice[real][:, real][:, :, real] for choice in kept]
    assert torch.equal(*among_real)
    assert 0 < among_real[0].float().mean() < 1
