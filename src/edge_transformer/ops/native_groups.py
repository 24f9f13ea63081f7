"""The native engine for graphs of several sizes at once, whose edges lie behind each other in one tensor.

A batch without padding has a dozen sizes. As one operator it has one output and one gradient, which every size writes
its part of, instead of a dozen that are put together afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ctypes import c_int64
from typing import Any

import torch
from torch import Tensor

from .kernels import draw_seed
from .native import SMALLEST_SHARE, Problem, run_kernel
from .operators import operator

_NAMES = ("q", "k", "v1", "v2")


def native_attention_groups(parts: Tensor, sizes: Sequence[tuple[int, int]], key: str, dropout_p: float) -> Tensor:
    """`[edges, 3 or 4, heads, head_dim] -> [edges, heads, head_dim]`; `sizes` are numbers of graphs and their nodes."""
    flat = [number for size in sizes for number in size]
    return groups_forward(parts, flat, key == "ij", dropout_p, draw_seed(dropout_p))[0]


def _run(
    function: str,
    tensors: Mapping[str, Tensor],
    soft_max: Tensor,
    sizes: Sequence[int],
    key_is_ij: bool,
    dropout_p: float,
    seed: Tensor | None,
) -> None:
    """Compute "forward" or "backward" of all groups. Tensors are `[edges, heads, features]`, by their names in C."""
    some = next(iter(tensors.values()))
    _, heads, features = some.shape
    number = 0 if seed is None else int(seed)
    problem = Problem.of(some.dtype, 0, 0, heads, features, -1, key_is_ij, dropout_p, number)
    problem.threads = torch.get_num_threads()
    problem.soft_max = soft_max.data_ptr()
    for name, tensor in tensors.items():
        edge, head, _ = tensor.stride()
        setattr(problem, name, tensor.data_ptr())
        setattr(problem, f"{name}_stride", (0, 0, edge, head))  # those of rows and graphs differ from group to group
    run_kernel(
        f"groups_{function}", problem, (c_int64 * len(sizes))(*sizes), c_int64(len(sizes) // 2), c_int64(SMALLEST_SHARE)
    )


def _parts(parts: Tensor, prefix: str = "") -> dict[str, Tensor]:
    """The tensors that lie side by side, by name."""
    return {f"{prefix}{name}": part for name, part in zip(_NAMES, parts.unbind(1), strict=False)}


@operator("groups_forward", device="cpu")
def groups_forward(
    parts: Tensor, sizes: Sequence[int], key_is_ij: bool, dropout_p: float, seed: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Output, and what its soft-max subtracted and multiplied with."""
    parts = parts.contiguous()
    edges, _, heads, features = parts.shape
    out, soft_max = parts.new_empty(edges, heads, features), parts.new_zeros(edges * heads * 2)
    _run("forward", {**_parts(parts), "out": out}, soft_max, sizes, key_is_ij, dropout_p, seed)
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
    tensors = {**_parts(parts), "out": out, "dout": dout, **_parts(gradient, "d")}
    _run("backward", tensors, soft_max, sizes, key_is_ij, dropout_p, seed)
    return gradient


@groups_backward.register_fake
def _(dout: Tensor, parts: Tensor, *rest: Any) -> Tensor:
    return parts.new_empty(tuple(parts.shape))


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
