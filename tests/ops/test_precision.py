"""16-bit numbers: converted by the native engine, and avoided where a CPU has no arithmetic for them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import edge_transformer as et
from attention_cases import (
    ALL_CASES,
    Case,
    check_operator,
    exact_outcome,
    needs_kernels,
    outcome,
    present,
    random_parts,
    worst,
)
from edge_transformer.nn import EdgeTransformerLayer, TriangularAttention
from edge_transformer.ops import precision
from edge_transformer.ops.attention import grouped_triangular_attention, triangular_attention
from edge_transformer.ops.engine import Options
from edge_transformer.ops.memory import NativeMemory, PlainMemory
from edge_transformer.ops.native import NATIVE, groups_forward, packed_backward, packed_forward

HALVES = [torch.bfloat16, torch.float16]
halves = pytest.mark.parametrize("dtype", HALVES, ids=str)
CONFIG = et.EdgeTransformerConfig(dim=16, heads=2, layers=2, dropout=0.2)


@pytest.fixture(autouse=True)
def same_numbers_every_time() -> None:
    torch.manual_seed(0)


# --- conversion in the native engine ----------------------------------------------------------------------------------


@needs_kernels
@halves
@pytest.mark.parametrize("case", ALL_CASES[::3], ids=str)
def test_the_native_engine_computes_16_bits_in_32(case: Case, dtype: torch.dtype) -> None:
    n = 12
    q, k, v1, v2 = random_parts(2, n, 2, 8, value=case.value)
    parts = q.to(dtype), k.to(dtype), v1.to(dtype), None if v2 is None else v2.to(dtype)
    options = case.options(2, n)
    exact, found = exact_outcome(parts, options), outcome(NATIVE.attend, parts, options, dtype=dtype)
    assert all(one.dtype == dtype for one in found)
    # The output is rounded once; it is rounded before the backward pass, which reads it.
    torch.testing.assert_close(found[0].double(), exact[0], rtol=torch.finfo(dtype).eps, atol=1e-6)
    for one, right in zip(found, exact, strict=True):
        assert worst(one, right) <= 3 * torch.finfo(dtype).eps * max(1.0, right.abs().max().item())


@needs_kernels
@halves
def test_packed_and_grouped_16_bits_give_what_separate_ones_give(dtype: torch.dtype) -> None:
    separate = present(random_parts(2, 4, 2, 3, dtype=dtype))
    packed = torch.stack([part.detach() for part in separate], 3).requires_grad_()
    out = triangular_attention(*separate, engine="native")
    gradient = torch.stack(torch.autograd.grad(out.sum(), separate), 3)
    groups = grouped_triangular_attention(packed.flatten(0, 2), [(2, 4)], engine="native").view_as(out)
    for found in (NATIVE.attend_packed(packed, Options()), groups):
        assert torch.equal(found, out)
        assert torch.equal(torch.autograd.grad(found.sum(), packed)[0], gradient)


@needs_kernels
@halves
def test_operators_on_16_bits(dtype: torch.dtype) -> None:
    parts, choice = torch.randn(1, 3, 3, 4, 2, 4).to(dtype), (None, None, None, -1, False, 0.3, torch.tensor([5]))
    check_operator(packed_forward, parts.clone().requires_grad_(), *choice)
    out, kept = packed_forward(parts, *choice)
    assert (out.dtype, kept.dtype) == (dtype, torch.float32)
    check_operator(packed_backward, out, parts, None, None, out, kept, *choice[2:])
    check_operator(groups_forward, parts.flatten(0, 2), [1, 3], *choice[4:])


@needs_kernels
@halves
def test_kernels_that_convert_nothing_are_not_given_16_bits(dtype: torch.dtype) -> None:
    parts = torch.randn(1, 3, 3, 4, 2, 4)
    assert isinstance(NATIVE.memory(parts, "lj", 5), NativeMemory)
    assert isinstance(NATIVE.memory(parts.to(dtype), "lj", 5), PlainMemory)
    model, x = et.EdgeTransformer(CONFIG), torch.randn(2, 5, 5, 16)  # in training, with dropout
    half = model.to(dtype)(x.to(dtype))
    assert half.dtype == dtype
    assert half.isfinite().all()
    half.sum().backward()


# --- autocast ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU that has no arithmetic for any 16-bit type."""
    monkeypatch.setattr(precision, "SLOW_ON_CPU", frozenset(HALVES))


def test_what_this_cpu_is_slow_with_is_known() -> None:
    assert precision._slow_types() == precision.SLOW_ON_CPU
    assert set(HALVES) >= precision.SLOW_ON_CPU


@pytest.mark.parametrize("has", [True, False])
def test_the_questions_to_an_x86_cpu(monkeypatch: pytest.MonkeyPatch, has: bool) -> None:
    monkeypatch.setattr(precision.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: has)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    monkeypatch.delattr(torch.cpu, "_is_amx_fp16_supported", raising=False)  # as in an older PyTorch
    assert precision._slow_types() == (frozenset({torch.float16}) if has else frozenset(HALVES))


@pytest.mark.parametrize("norm", ["released", "paper", "pre"])
@halves
def test_under_slow_autocast_the_encoder_computes_in_float32(slow: None, norm: str, dtype: torch.dtype) -> None:
    model = et.EdgeTransformer(et.EdgeTransformerConfig(dim=16, heads=2, layers=2, norm=norm)).eval()
    x, pairs = torch.randn(2, 5, 5, 16), torch.tensor([[[0, 1], [4, 2]]] * 2)
    expected, read = model(x), model.read(x, pairs)
    gradients = torch.autograd.grad(expected.sum(), list(model.parameters()))
    grouped = model.encode_groups([x, x[:1, :3, :3]])
    with torch.autocast("cpu", dtype):
        found = model(x)
        assert torch.equal(found, expected)
        assert torch.equal(model.read(x, pairs), read)
        for group, right_group in zip(model.encode_groups([x, x[:1, :3, :3]]), grouped, strict=True):
            assert torch.equal(group.edges, right_group.edges)
        rounded = model(x.to(dtype))  # the final norm may give float32, as it does without this
    assert worst(rounded, model(x.to(dtype).float())) <= 8 * torch.finfo(dtype).eps
    for one, right in zip(torch.autograd.grad(found.sum(), list(model.parameters())), gradients, strict=True):
        assert torch.equal(one, right)


@halves
def test_a_step_gives_back_the_type_that_it_got(slow: None, dtype: torch.dtype) -> None:
    layer, x = EdgeTransformerLayer(CONFIG).eval(), torch.randn(2, 5, 5, 16).to(dtype)
    with torch.autocast("cpu", dtype):
        for module in (layer, layer.attention, layer.feed_forward):
            found = module(x)
            assert found.dtype == dtype
            with torch.autocast("cpu", enabled=False):
                assert worst(found, module(x.float())) <= 4 * torch.finfo(dtype).eps
        normed, parts = layer.project(x)
        assert (normed.dtype, parts.dtype) == (torch.float32, torch.float32)


@halves
def test_no_product_is_computed_in_16_bits(slow: None, monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype) -> None:
    seen: set[torch.dtype] = set()
    linear = nn.functional.linear

    def watched(x: Tensor, *rest: Any) -> Tensor:
        out = linear(x, *rest)
        seen.add(out.dtype)
        return out

    monkeypatch.setattr(nn.functional, "linear", watched)
    with torch.autocast("cpu", dtype):
        et.EdgeTransformer(CONFIG)(torch.randn(1, 4, 4, 16)).sum().backward()
    assert seen == {torch.float32}


def test_a_fast_autocast_and_a_16_bit_module_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(1, 4, 4, 16)
    monkeypatch.setattr(precision, "SLOW_ON_CPU", frozenset())
    attention = TriangularAttention(CONFIG).eval()
    with torch.autocast("cpu", torch.bfloat16):
        assert attention(x).dtype == torch.bfloat16
    monkeypatch.setattr(precision, "SLOW_ON_CPU", frozenset(HALVES))
    with torch.autocast("cpu", torch.bfloat16):
        assert attention(x).dtype == torch.float32
        assert attention.bfloat16()(x).dtype == torch.bfloat16


def test_under_torch_compile(slow: None) -> None:
    model, x = et.EdgeTransformer(CONFIG).eval(), torch.randn(1, 4, 4, 16)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    with torch.autocast("cpu", torch.bfloat16):
        assert worst(compiled(x), model(x)) < 1e-6
