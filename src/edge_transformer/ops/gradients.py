"""What the operators of all engines have in common: how a backward pass belongs to its forward pass."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from .operators import Operator


def connect(forward: Operator, backward: Operator, keeps_results: bool = True) -> None:
    """Let `backward` compute the gradients of `forward`.

    `forward` takes q, k, v1, v2, a mask, options and a seed. `backward` takes the gradient of the output, q, k, v1 and
    v2, the results of `forward` where it keeps them, and the rest as `forward` had it.
    """

    def keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        q, k, v1, v2, node_mask, *ctx.options, seed = inputs
        ctx.save_for_backward(q, k, v1, v2, *(output if keeps_results else ()), node_mask, seed)
        ctx.set_materialize_grads(False)

    def gradients(ctx: Any, dout: Tensor | None, *_: Tensor | None) -> tuple[Tensor | None, ...]:
        options = (None,) * (len(ctx.options) + 2)  # mask and seed have no gradients either
        if dout is None:
            return *(None,) * 4, *options
        *tensors, node_mask, seed = ctx.saved_tensors
        dq, dk, dv1, dv2 = backward(dout, *tensors, node_mask, *ctx.options, seed)
        return dq, dk, dv1, None if tensors[3] is None else dv2, *options

    forward.register_autograd(gradients, setup_context=keep)
    backward.register_fake(empty_gradients)
    backward.refuse_gradients()


def empty_gradients(
    dout: Tensor, q: Tensor, k: Tensor, v1: Tensor, v2: Tensor | None, *rest: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Room for the gradients of q, k, v1 and v2; the last is empty where there is no v2."""
    shape = tuple(q.shape)
    return q.new_empty(shape), q.new_empty(shape), q.new_empty(shape), q.new_empty(0 if v2 is None else shape)
