"""Dropout fused with its neighbours: ReLU before it, or the residual sum after it.

PyTorch's dropout on the CPU draws its random numbers one by one and keeps a mask. The compiled kernel makes them from
counters, many at a time, and makes them again in the backward pass. Elsewhere PyTorch's own operations are used.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .engine import draw_seed, drop_below
from .native import has_kernels_for, library
from .operators import derive, operator, vectorize

DROPOUT_BLOCK = 4096  # BLOCK in csrc/elementwise.c
_SMALLEST_SHARE = 100_000  # numbers that are worth a thread of their own


def add_dropout(residual: Tensor, x: Tensor, p: float) -> Tensor:
    """residual + dropout(x)."""
    alike = residual.shape == x.shape and residual.dtype == x.dtype and x.dim() > 0
    seed = draw_seed(p) if alike and has_kernels_for(x) else None
    return residual + F.dropout(x, p) if seed is None else _add_dropout(residual, x, p, seed)


class _Job(ctypes.Structure):
    """`dropout_job` in csrc/elementwise.c, field by field."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("x", "residual", "to")),
        ("count", ctypes.c_int64),
        ("seed", ctypes.c_uint64),
        ("keep_factor", ctypes.c_double),
        ("drop_below", ctypes.c_uint32),
        *((name, ctypes.c_int32) for name in ("relu", "threads")),
    ]


def relu_dropout_(x: Tensor, p: float, seed: int) -> None:
    """dropout(relu(x)) in the place of a contiguous x.

    Every DROPOUT_BLOCK numbers have a seed of their own, the one after that of the block before.
    """
    _run("dropout", x, None, x, p, seed, relu=True)


def relu_dropout_backward_(dy: Tensor, y: Tensor, p: float) -> None:
    """The gradient of x in the place of that of y = dropout(relu(x)); both contiguous."""
    _run("relu_dropout_backward", dy, y, dy, p)


def _run(
    kernel: str, x: Tensor, residual: Tensor | None, to: Tensor, p: float, seed: int = 0, relu: bool = False
) -> None:
    job = _Job(
        x=x.data_ptr(),
        residual=None if residual is None else residual.data_ptr(),
        to=to.data_ptr(),
        count=x.numel(),
        seed=seed,
        keep_factor=1 / (1 - p),
        drop_below=drop_below(p),
        relu=relu,
        threads=min(torch.get_num_threads(), x.numel() // _SMALLEST_SHARE),
    )
    suffix = "f64" if x.dtype == torch.float64 else "f32"
    getattr(library(), f"edge_transformer_{kernel}_{suffix}")(ctypes.byref(job))


def _empty(x: Tensor, *rest: Any) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


@operator("add_dropout", device="cpu", fake=lambda residual, x, p, seed: _empty(x))
def _add_dropout(residual: Tensor, x: Tensor, p: float, seed: Tensor) -> Tensor:
    to = _empty(x)
    _run("dropout", x.contiguous(), residual.contiguous(), to, p, int(seed))
    return to


@operator("scale_dropout", device="cpu", fake=_empty)
def scale_dropout(x: Tensor, p: float, seed: Tensor) -> Tensor:
    """dropout(x). Every DROPOUT_BLOCK numbers have a seed of their own, as in `relu_dropout_`."""
    to = _empty(x)
    _run("dropout", x.contiguous(), None, to, p, int(seed))
    return to


def _keep(ctx: Any, inputs: Sequence[Any], outputs: tuple[Tensor, ...]) -> None:
    *_, ctx.p, seed = inputs
    ctx.save_for_backward(seed)


def _gradient(ctx: Any, dy: Tensor) -> Tensor:
    """The same numbers scale the gradient."""
    return scale_dropout(dy, ctx.p, *ctx.saved_tensors)


def _plain_scale(x: Tensor, p: float, seed: Tensor) -> Tensor:
    return x * scale_dropout(torch.ones_like(x), p, seed)


def _plain_add(residual: Tensor, x: Tensor, p: float, seed: Tensor) -> Tensor:
    return residual + _plain_scale(x, p, seed)


derive(_add_dropout, _plain_add, _keep, lambda ctx, dy: (dy, _gradient(ctx, dy)))
derive(scale_dropout, _plain_scale, _keep, lambda ctx, dy: (_gradient(ctx, dy),))
vectorize(_add_dropout)
vectorize(scale_dropout)
