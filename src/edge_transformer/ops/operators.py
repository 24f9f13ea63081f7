"""Functions as operators of PyTorch, so that torch.compile, torch.export and gradient checkpointing work with them.

`torch.library.custom_op` does the same, but imports PyTorch's compiler when one of its operators first runs, which
takes seconds, also in a program that compiles nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch._ops import OpOverload

_NAMESPACE = "edge_transformer"


def operator(
    name: str, *, fake: Callable[..., Any], device: str = "default"
) -> Callable[[Callable[..., Any]], OpOverload]:
    """Make a function an operator, for one kind of device or for all.

    The function changes none of its arguments and returns new tensors only. `fake` makes results of the right kind
    without computing them, for tracing. What is defined is PyTorch's own object: a call passes through nothing else.
    """

    def define(function: Callable[..., Any]) -> OpOverload:
        full = f"{_NAMESPACE}::{name}"
        schema = torch.library.infer_schema(function, mutates_args=())
        torch.library.define(full, schema, tags=(torch.Tag.pt2_compliant_tag,))
        torch.library.impl(full, device, function)
        torch.library.register_fake(full, fake)
        return getattr(getattr(torch.ops, _NAMESPACE), name).default

    return define


def connect(forward: OpOverload, backward: OpOverload, tensors: int = 6, keeps_results: bool = True) -> None:
    """Let `backward` compute the gradients of `forward`.

    `forward` takes so many tensors with gradients, of which some may be None, and then options. `backward` takes
    the gradient of the first result, these tensors, the results of `forward` where it keeps them, and the options.
    """

    def keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.inputs = len(inputs)
        given = (*inputs[:tensors], *(output if keeps_results else ()), *inputs[tensors:])
        ctx.options = [None if isinstance(value, Tensor) else value for value in given]
        ctx.save_for_backward(*(value if isinstance(value, Tensor) else None for value in given))
        ctx.set_materialize_grads(False)

    def gradients(ctx: Any, dout: Tensor | None, *_: Tensor | None) -> tuple[Tensor | None, ...]:
        if dout is None:
            return (None,) * ctx.inputs
        pairs = zip(ctx.saved_tensors, ctx.options, strict=True)
        given = [option if tensor is None else tensor for tensor, option in pairs]
        made = backward(dout, *given)
        made = [made] if isinstance(made, Tensor) else made
        of_tensors = (None if tensor is None else one for tensor, one in zip(given[:tensors], made, strict=True))
        return *of_tensors, *(None,) * (ctx.inputs - tensors)

    torch.library.register_autograd(forward, gradients, setup_context=keep)
    refuse_gradients(backward)


def refuse_gradients(op: OpOverload) -> None:
    """Going back through this operator is an error: without this, PyTorch would take its gradient for zero."""

    def refuse(ctx: Any, *gradients: Any) -> NoReturn:
        raise RuntimeError(f"{op.name()} has no gradient of its own: second derivatives cannot be computed")

    torch.library.register_autograd(op, refuse)


def empty_gradients(
    dout: Tensor,
    q: Tensor,
    k: Tensor,
    v1: Tensor,
    v2: Tensor | None,
    left: Tensor | None,
    right: Tensor | None,
    *_: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Room for the gradients of q, k, v1, v2, left and right; empty for what there is not. Those of left and right are
    sums, and begin with zero.
    """
    dq, dk, dv1, dv2 = (q.new_empty(0 if tensor is None else tuple(q.shape)) for tensor in (q, k, v1, v2))
    return dq, dk, dv1, dv2, *zero_offsets(q, left, right)


def zero_offsets(q: Tensor, left: Tensor | None, right: Tensor | None) -> tuple[Tensor, Tensor]:
    """The gradients of left and right before anything is added to them; empty for what there is not."""
    none = q.new_empty(0, dtype=torch.float32)  # whatever the type of q, which an operator may have converted
    dleft, dright = (none.clone() if one is None else one.new_zeros(tuple(one.shape)) for one in (left, right))
    return dleft, dright
