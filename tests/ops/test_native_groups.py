"""Triangular attention of graphs of several sizes at once: to the bit what each size gives alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from edge_transformer.nn.layer import EdgeTransformerConfig, TriangularAttention
from edge_transformer.ops.attention import ENGINES, grouped_triangular_attention, packed_triangular_attention
from edge_transformer.ops.kernels import unavailable
from edge_transformer.ops.native import packed_backward, packed_forward
from edge_transformer.ops.native_groups import groups_backward, groups_forward

needs_kernels = pytest.mark.skipif(unavailable() is not None, reason=f"no compiled kernels: {unavailable()}")
SIZES = [[(1, 1)], [(3, 4)], [(2, 5), (1, 1), (3, 2), (2, 5)], [(1, 13), (0, 3), (7, 3)]]


def edges(sizes: list[tuple[int, int]]) -> list[int]:
    return [batch * n * n for batch, n in sizes]


def draw(sizes: list[tuple[int, int]], parts: int, dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(sum(edges(sizes)))
    return torch.randn(sum(edges(sizes)), parts, 2, 5, dtype=dtype, generator=generator)


def one_by_one(parts: Tensor, sizes: list[tuple[int, int]], key: str, engine: str) -> Tensor:
    each = zip(parts.split(edges(sizes)), sizes, strict=True)
    mixed = [packed_triangular_attention(part.unflatten(0, (b, n, n)), key=key, engine=engine) for part, (b, n) in each]
    return torch.cat([part.flatten(0, 2) for part in mixed])


@pytest.mark.parametrize("engine", ["einsum", "blocked", pytest.param("native", marks=needs_kernels)])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("parts", [3, 4])
@pytest.mark.parametrize("key", ["lj", "ij"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_as_each_size_alone(
    engine: str, sizes: list[tuple[int, int]], parts: int, key: str, dtype: torch.dtype
) -> None:
    assert engine in ENGINES
    values = draw(sizes, parts, dtype)
    weights = torch.randn(len(values), 2, 5, dtype=dtype)
    found = []
    for attend in (
        lambda tensor: grouped_triangular_attention(tensor, sizes, key=key, engine=engine),
        lambda tensor: one_by_one(tensor, sizes, key, engine),
    ):
        tensor = values.clone().requires_grad_()
        out = attend(tensor)
        found.append((out.detach(), *torch.autograd.grad((out * weights).sum(), tensor)))
    for together, alone in zip(*found, strict=True):
        assert torch.equal(together, alone)
    oracle = one_by_one(values.double(), sizes, key, "einsum")
    torch.testing.assert_close(found[0][0].double(), oracle, atol=1e-5, rtol=1e-5)


@needs_kernels
def test_tensors_that_lie_otherwise_in_memory() -> None:
    sizes = [(2, 3), (1, 4)]
    values = draw(sizes, 4, torch.float64)
    turned = values.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0).requires_grad_()
    assert not turned.is_contiguous()
    out = grouped_triangular_attention(turned, sizes, engine="native")
    plain = values.clone().requires_grad_()
    expected = grouped_triangular_attention(plain, sizes, engine="native")
    assert torch.equal(out, expected)
    weights = torch.randn(5, 2, len(values), dtype=torch.float64).permute(2, 1, 0)
    [one] = torch.autograd.grad(out, turned, weights)
    [other] = torch.autograd.grad(expected, plain, weights)
    assert torch.equal(one, other)


@needs_kernels
def test_every_group_drops_weights_of_its_own() -> None:
    sizes, drop, seed = [(2, 4), (2, 4), (1, 6)], 0.3, torch.tensor([41])
    values = draw(sizes, 4, torch.float32)
    values[32:64] = values[:32]  # the same graphs twice
    flat = [number for size in sizes for number in size]
    out, soft_max = groups_forward(values, flat, False, drop, seed)
    gradient = groups_backward(out, values, out, soft_max, flat, False, drop, seed)
    parts = zip(values.split(edges(sizes)), out.split(edges(sizes)), gradient.split(edges(sizes)), sizes, strict=True)
    for group, (part, found, found_gradient, (batch, n)) in enumerate(parts):
        packed = part.view(batch, n, n, 4, 2, 5)
        expected, kept = packed_forward(packed, None, -1, False, drop, seed + group)
        assert torch.equal(found.view_as(expected), expected)
        expected_gradient = packed_backward(expected, packed, expected, kept, None, -1, False, drop, seed + group)
        assert torch.equal(found_gradient.view_as(expected_gradient), expected_gradient)
    assert not torch.equal(out[:32], out[32:64])
    torch.manual_seed(5)
    first = grouped_triangular_attention(values, sizes, dropout_p=drop)
    second = grouped_triangular_attention(values, sizes, dropout_p=drop)
    torch.manual_seed(5)
    assert torch.equal(first, grouped_triangular_attention(values, sizes, dropout_p=drop))
    assert not torch.equal(first, second)


@needs_kernels
def test_pytorch_finds_no_fault_with_the_operator() -> None:
    values = draw([(2, 3)], 4, torch.float64).requires_grad_()
    results = torch.library.opcheck(groups_forward.overload, (values, [2, 3], False, 0.0, None))
    assert set(results.values()) == {"SUCCESS"}


@needs_kernels
def test_a_second_derivative_is_refused() -> None:
    values = draw([(1, 3)], 4, torch.float64).requires_grad_()
    out = grouped_triangular_attention(values, [(1, 3)], engine="native")
    [gradient] = torch.autograd.grad(out.sum(), values, create_graph=True)
    with pytest.raises(RuntimeError, match="second derivatives cannot be computed"):
        gradient.sum().backward()


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        ((9, 4, 2), {}, r"parts must be \[edges=9, 3 or 4, heads, head_dim\], but their shape is \[9, 4, 2\]"),
        ((9, 2, 2, 5), {}, r"parts must be .* \[9, 2, 2, 5\]"),
        ((8, 4, 2, 5), {}, r"parts must be .* \[8, 4, 2, 5\]"),
        ((9, 4, 2, 5), {"key": "jl"}, "key='jl' is not known"),
        ((9, 4, 2, 5), {"dropout_p": 1.0}, "dropout_p must be at least 0 and below 1, but is 1.0"),
        ((9, 4, 2, 5), {"engine": "fast"}, "engine='fast' is not known"),
    ],
)
def test_what_cannot_be_computed_is_refused(shape: tuple[int, ...], options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        grouped_triangular_attention(torch.zeros(shape), [(1, 3)], **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"must be floating point, but are torch\.int64"):
        grouped_triangular_attention(torch.zeros(9, 4, 2, 5, dtype=torch.int64), [(1, 3)])


@pytest.mark.parametrize("value", ["product", "left"])
def test_a_layer_uses_it(value: str) -> None:
    torch.manual_seed(1)
    layer = TriangularAttention(EdgeTransformerConfig(dim=8, heads=2, layers=1, value=value)).eval()
    sizes = [(2, 3), (1, 5)]
    states = torch.randn(sum(edges(sizes)), 8)
    parts = zip(states.split(edges(sizes)), sizes, strict=True)
    expected = torch.cat([layer(part.view(batch, n, n, 8)).flatten(0, 2) for part, (batch, n) in parts])
    torch.testing.assert_close(layer.forward_groups(states, sizes), expected)
