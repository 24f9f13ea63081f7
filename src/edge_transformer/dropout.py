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


def relu_dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """dropout(relu(x))"""
    if not training or p == 0:
        return x.relu()
    if not usable_for(x):
        return F.dropout(x.relu(), p)
    seed = draw_seed(p)
    assert seed is not None
    return _relu_dropout(x, p, seed)


def add_dropout(residual: Tensor, x: Tensor, p: float, training: bool) -> Tensor:
    """residual + dropout(x)"""
    if not training or p == 0:
        return residual + x
    if not usable_for(x) or residual.shape != x.shape or residual.dtype != x.dtype:
        return residual + F.dropout(x, p)
    seed = draw_seed(p)
    assert seed is not None
    return _add_dropout(residual, x, p, seed)


def _kernel(name: str, like: Tensor) -> Any:
    return getattr(library(), f"edge_transformer_{name}_{'f64' if like.dtype == torch.float64 else 'f32'}")


def _address(tensor: Tensor | None) -> ctypes.c_void_p:
    return ctypes.c_void_p(None if tensor is None else tensor.data_ptr())


def _apply(x: Tensor, residual: Tensor | None, p: float, seed: Tensor, relu: bool) -> Tensor:
    x, residual = x.contiguous(), None if residual is None else residual.contiguous()
    y = torch.empty_like(x)
    _kernel("dropout", x)(
        _address(x),
        _address(residual),
        _address(y),
        ctypes.c_int64(0),
        ctypes.c_int64(x.numel()),
        ctypes.c_uint64(int(seed)),
        ctypes.c_uint32(drop_below(p)),
        ctypes.c_double(1 / (1 - p)),
        ctypes.c_int32(relu),
    )
    return y


@torch.library.custom_op("edge_transformer::relu_dropout", mutates_args=(), device_types="cpu")
def _relu_dropout(x: Tensor, p: float, seed: Tensor) -> Tensor:
    return _apply(x, None, p, seed, relu=True)


@torch.library.custom_op("edge_transformer::relu_dropout_backward", mutates_args=(), device_types="cpu")
def _relu_dropout_backward(dy: Tensor, y: Tensor, p: float) -> Tensor:
    dy, y = dy.contiguous(), y.contiguous()
    dx = torch.empty_like(y)
    end = ctypes.c_int64(y.numel())
    addresses = (_address(dy), _address(y), _address(dx))
    _kernel("relu_dropout_backward", y)(*addresses, ctypes.c_int64(0), end, ctypes.c_double(1 / (1 - p)))
    return dx


@torch.library.custom_op("edge_transformer::add_dropout", mutates_args=(), device_types="cpu")
def _add_dropout(residual: Tensor, x: Tensor, p: float, seed: Tensor) -> Tensor:
    return _apply(x, residual, p, seed, relu=False)


@torch.library.custom_op("edge_transformer::scale_dropout", mutates_args=(), device_types="cpu")
def _scale_dropout(x: Tensor, p: float, seed: Tensor) -> Tensor:
    return _apply(x, None, p, seed, relu=False)


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
