"""Triangular attention in plain PyTorch with O(n^2 head_dim) memory for each (batch, head), on any device.

The rows i of the updated edges (i, j) are computed a few at a time, and the backward pass computes their weights again.
16-bit numbers are computed in float32, so that only the results are rounded to 16 bits. It stands in where there is no
compiled kernel, and is a PyTorch operator for the same reasons as the native engine.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .einsum import attention_weights
from .engine import Engine, Options, sums_in
from .operators import empty_gradients, operator
from .plain import Kept, attend, attend_backward, connect_separate, without_autocast


class BlockedEngine(Engine):
    """Plain PyTorch, a few rows at a time."""

    name = "blocked"
    about = "plain PyTorch, n^2 memory"
    takes_offsets = gives_weights = True

    def attend(self, q: Tensor, k: Tensor, v1: Tensor, v2: Tensor | None, options: Options) -> Tensor:
        return blocked_forward(q, k, v1, v2, *options.offsets(q), *options.arguments())

    def weights(self, q: Tensor, k: Tensor, options: Options) -> Tensor:
        """All at once: they are as many numbers as the answer has."""
        with without_autocast(q.device):
            wide = sums_in(q.dtype)
            return attention_weights(q.to(wide), k.to(wide), options).to(q.dtype).permute(0, 4, 1, 2, 3)


BLOCKED = BlockedEngine()


def _kept(q: Tensor, dropout_p: float, seed: Tensor | None) -> Kept:
    """The factors of dropout, the same whenever they are asked for, however many rows a block has."""
    batch, n, _, heads, _ = q.shape

    def draw(rows: slice) -> Tensor | None:
        if seed is None:
            return None
        generator, shape = torch.Generator(q.device), (batch, n, n, heads)
        drawn = [
            torch.rand(shape, generator=generator.manual_seed((int(seed) + row) % 2**63), device=q.device)
            for row in range(rows.start, rows.stop)
        ]
        return (torch.stack(drawn, 1) >= dropout_p).to(sums_in(q.dtype)) / (1 - dropout_p)

    return draw


def _empty_output(q: Tensor, *rest: Any) -> Tensor:
    return q.new_empty(tuple(q.shape))


@operator("blocked_forward", fake=_empty_output)
def blocked_forward(
    q: Tensor,
    k: Tensor,
    v1: Tensor,
    v2: Tensor | None,
    left: Tensor | None,
    right: Tensor | None,
    node_mask: Tensor | None,
    causal_from: int,
    key_is_ij: bool,
    dropout_p: float,
    seed: Tensor | None,
) -> Tensor:
    """The output."""
    return attend(q, k, v1, v2, left, right, node_mask, causal_from, key_is_ij, _kept(q, dropout_p, seed)).contiguous()


@operator("blocked_backward", fake=empty_gradients)
def blocked_backward(
    dout: Tensor,
    q: Tensor,
    k: Tensor,
    v1: Tensor,
    v2: Tensor | None,
    left: Tensor | None,
    right: Tensor | None,
    node_mask: Tensor | None,
    causal_from: int,
    key_is_ij: bool,
    dropout_p: float,
    seed: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of q, k, v1, v2, left and right; empty for what there is not."""
    made = attend_backward(
        dout, q, k, v1, v2, left, right, node_mask, causal_from, key_is_ij, _kept(q, dropout_p, seed)
    )
    return tuple(one.contiguous() for one in made)  # type: ignore[return-value]


connect_separate(blocked_forward, blocked_backward)
