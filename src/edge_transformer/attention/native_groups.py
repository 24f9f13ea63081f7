"""The native engine for graphs of several sizes at once, whose edges lie behind each other in one tensor.

A batch without padding has a dozen sizes. As one operator it has one output and one gradient, which every size writes
its part of, instead of a dozen that are put together afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from ..native import draw_seed
from ..operators import operator
from .native import Problem, run_kernel

_PARTS = ("q", "k", "v1", "v2")


def native_attention_groups(parts: Tensor, sizes: Sequence[tuple[int, int]], key: str, dropout_p: float) -> Tensor:
    """`[edges, 3 or 4, heads, head_dim] -> [edges, heads, head_dim]`; `sizes` are numbers of graphs and their nodes."""
    flat = [number for size in sizes for number in size]
    return groups_forward(parts, flat, key == "ij", dropout_p, draw_seed(dropout_p))[0]


def _problems(
    parts: Tensor, out: Tensor, soft_max: Tensor, sizes: Sequence[int], key_is_ij: bool, dropout_p: float, seed: int
) -> Iterator[tuple[Problem, int]]:
    """The problem of each group, and where its edges begin."""
    _, count, heads, features = parts.shape
    start = 0
    for group, (batch, n) in enumerate(zip(sizes[::2], sizes[1::2], strict=True)):
        problem = Problem.of(parts.dtype, batch, n, heads, features, -1, key_is_ij, dropout_p, seed + group)
        _point(problem, _PARTS[:count], parts, start, n)
        _point(problem, ("out",), out, start, n)
        problem.soft_max = soft_max.data_ptr() + 2 * start * heads * soft_max.element_size()
        yield problem, start
        start += batch * n * n


def _point(problem: Problem, names: Sequence[str], tensor: Tensor, start: int, n: int) -> None:
    """Let a problem find its tensors, which lie side by side in the edges from `start` on."""
    edge, apart, features = tensor.stride(0), tensor.stride(-3), tensor.stride(-2)  # numbers from one to the next
    first, strides = tensor.data_ptr() + start * edge * tensor.element_size(), (n * n * edge, n * edge, edge, features)
    for place, name in enumerate(names):
        setattr(problem, name, first + place * apart * tensor.element_size())
        setattr(problem, f"{name}_stride", strides)


@operator("groups_forward", device="cpu")
def groups_forward(
    parts: Tensor, sizes: Sequence[int], key_is_ij: bool, dropout_p: float, seed: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Output, and what its soft-max subtracted and multiplied with."""
    parts = parts.contiguous()
    edges, _, heads, features = parts.shape
    out, soft_max = parts.new_empty(edges, heads, features), parts.new_zeros(edges * heads * 2)
    for problem, _start in _problems(parts, out, soft_max, sizes, key_is_ij, dropout_p, _number(seed)):
        run_kernel("forward", problem)
    return out, soft_max


@groups_forward.register_fake
def _(parts: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    edges, _, heads, features = parts.shape
    return parts.new_empty(edges, heads, features), parts.new_empty(edges * heads * 2)


@operator("groups_backward", device="cpu")
def groups_backward(
    dout: Tensor,
    parts: Tensor,
    out: Tensor,
    soft_max: Tensor,
    sizes: Sequence[int],
    key_is_ij: bool,
    dropout_p: float,
    seed: Tensor | None,
) -> Tensor:
    """The gradient of the parts."""
    parts, dout = parts.contiguous(), dout.contiguous()
    gradient = torch.empty_like(parts)
    names = [f"d{name}" for name in _PARTS[: parts.shape[1]]]
    for problem, start in _problems(parts, out, soft_max, sizes, key_is_ij, dropout_p, _number(seed)):
        _point(problem, names, gradient, start, problem.n)
        _point(problem, ("dout",), dout, start, problem.n)
        run_kernel("backward", problem)
    return gradient


@groups_backward.register_fake
def _(dout: Tensor, parts: Tensor, *rest: Any) -> Tensor:
    return parts.new_empty(tuple(parts.shape))


def _number(seed: Tensor | None) -> int:
    return 0 if seed is None else int(seed)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    parts, *ctx.options, seed = inputs
    ctx.save_for_backward(parts, *output, seed)
    ctx.set_materialize_grads(False)


def _gradient(ctx: Any, dout: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, ...]:
    if dout is None:
        return (None,) * 5
    *tensors, seed = ctx.saved_tensors
    return groups_backward(dout, *tensors, *ctx.options, seed), *(None,) * 4


groups_forward.register_autograd(_gradient, setup_context=_keep)
groups_backward.refuse_gradients()
