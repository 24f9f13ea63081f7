"""The native engine on graphs of several sizes at once."""

from __future__ import annotations

import torch
from torch import Tensor

from attention_cases import NO_OFFSETS, check_operator, needs_kernels
from edge_transformer.ops.attention import grouped_triangular_attention
from edge_transformer.ops.native import groups_backward, groups_forward, packed_backward, packed_forward

pytestmark = needs_kernels


def edges(sizes: list[tuple[int, int]]) -> list[int]:
    return [batch * n * n for batch, n in sizes]


def draw(sizes: list[tuple[int, int]], parts: int, dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(sum(edges(sizes)))
    return torch.randn(sum(edges(sizes)), parts, 2, 5, dtype=dtype, generator=generator)


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
        expected, kept = packed_forward(packed, *NO_OFFSETS, None, -1, False, drop, seed + group)
        assert torch.equal(found.view_as(expected), expected)
        given = (expected, packed, *NO_OFFSETS, expected, kept, None, -1, False, drop, seed + group)
        expected_gradient, *_ = packed_backward(*given)
        assert torch.equal(found_gradient.view_as(expected_gradient), expected_gradient)
    assert not torch.equal(out[:32], out[32:64])
    torch.manual_seed(5)
    first = grouped_triangular_attention(values, sizes, dropout_p=drop)
    second = grouped_triangular_attention(values, sizes, dropout_p=drop)
    torch.manual_seed(5)
    assert torch.equal(first, grouped_triangular_attention(values, sizes, dropout_p=drop))
    assert not torch.equal(first, second)


def test_pytorch_finds_no_fault_with_the_operator() -> None:
    values = draw([(2, 3)], 4, torch.float64).requires_grad_()
    check_operator(groups_forward, values, [2, 3], False, 0.0, None)
