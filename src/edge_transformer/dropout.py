"""Dropout fused with its neighbours: ReLU before it, or the residual sum after it.

PyTorch's dropout on the CPU draws its random numbers one by one and keeps a mask. The compiled kernel makes them from
counters, many at a time, and makes them again in the backward pass. Elsewhere PyTorch's own operations are used.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .native import draw_seed, drop_below, library, usable_for
from .operators import operator

_SMALLEST_SHARE = 100_000  # numbers that are worth a thread of their own


def relu_dropout(x: Tensor, p: float, training: bool, *, fresh: bool = False) -> Tensor:
    """dropout(relu(x)). A `fresh` x is needed by nobody else and may be overwritten."""
    if not training or p == 0:
        return x.relu_() if fresh else x.relu()
    if not usable_for(x):
        return F.dropout(x.relu(), p)
    seed = draw_seed(p)
    assert seed is not None
    return _relu_dropout(x, p, seed)


def add_dropout(residual: Tensor, x: Tensor, p: float, training: bool, *, fresh: bool = False) -> Tensor:
    """residual + dropout(x). A `fresh` x is needed by nobody else and may be overwritten."""
    if not training or p == 0:
        return x.add_(residual) if fresh and residual.shape == x.shape and residual.dtype == x.dtype else residual + x
    if not usable_for(x) or residual.shape != x.shape or residual.dtype != x.dtype:
        return residual + F.dropout(x, p)
    seed = draw_seed(p)
    assert seed is not None
    return _add_dropout(residual, x, p, seed)


class _Job(ctypes.Structure):
    """`dropout_job` in native/elementwise.c, field by field."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("x", "residual", "to")),
        ("count", ctypes.c_int64),
        ("seed", ctypes.c_uint64),
        ("keep_factor", ctypes.c_double),
        ("drop_below", ctypes.c_uint32),
        *((name, ctypes.c_int32) for name in ("relu", "threads")),
    ]


def _run(kernel: str, x: Tensor, residual: Tensor | None, p: float, seed: int = 0, relu: bool = False) -> Tensor:
    x, residual = x.contiguous(), None if residual is None else residual.contiguous()
    to = torch.empty_like(x)
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
    return to


@operator("relu_dropout", device="cpu")
def _relu_dropout(x: Tensor, p: float, seed: Tensor) -> Tensor:
    return _run("dropout", x, None, p, int(seed), relu=True)


@operator("relu_dropout_backward", device="cpu")
def _relu_dropout_backward(dy: Tensor, y: Tensor, p: float) -> Tensor:
    return _run("relu_dropout_backward", dy, y, p)


@operator("add_dropout", device="cpu")
def _add_dropout(residual: Tensor, x: Tensor, p: float, seed: Tensor) -> Tensor:
    return _run("dropout", x, residual, p, int(seed))


@operator("scale_dropout", device="cpu")
def _scale_dropout(x: Tensor, p: float, seed: Tensor) -> Tensor:
    return _run("dropout", x, None, p, int(seed))


@_relu_dropout.register_fake
@_scale_dropout.register_fake
def _(x: Tensor, p: float, seed: Tensor) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


@_relu_dropout_backward.register_fake
def _(dy: Tensor, y: Tensor, p: float) -> Tensor:
    return torch.empty_like(y, memory_format=torch.contiguous_format)


@_add_dropout.register_fake
def _(residual: Tensor, x: Tensor, p: float, seed: Tensor) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _relu_setup(ctx: Any, inputs: tuple[Tensor, float, Tensor], output: Tensor) -> None:
    ctx.p = inputs[1]
    ctx.save_for_backward(output)


def _relu_gradient(ctx: Any, dy: Tensor) -> tuple[Tensor, None, None]:
    return _relu_dropout_backward(dy, *ctx.saved_tensors, ctx.p), None, None


def _add_setup(ctx: Any, inputs: tuple[Tensor, Tensor, float, Tensor], output: Tensor) -> None:
    ctx.p = inputs[2]
    ctx.save_for_backward(inputs[3])


def _add_gradient(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor, None, None]:
    # Where nothing is added, the same numbers scale the gradient.
    return dy, _scale_dropout(dy, ctx.p, *ctx.saved_tensors), None, None


_relu_dropout.register_autograd(_relu_gradient, setup_context=_relu_setup)
_add_dropout.register_autograd(_add_gradient, setup_context=_add_setup)
_relu_dropout_backward.refuse_gradients()
_scale_dropout.refuse_gradients()
