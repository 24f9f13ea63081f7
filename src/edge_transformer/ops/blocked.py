"""Triangular attention in plain PyTorch with O(n^2 head_dim) memory for each (batch, head), on any device.

The rows i of the updated edges (i, j) are computed a few at a time, and the backward pass computes their weights again.
16-bit numbers are computed in float32, so that only the results are rounded to 16 bits. It stands in where there is no
compiled kernel, and is a PyTorch operator for the same reasons as the native engine.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from .einsum import allowed_triangles, attention_weights, soft_max
from .engine import Engine, Options, sums_in
from .operators import connect, empty_gradients, operator

_NUMBERS_AT_ONCE = 1 << 22  # of a block's largest intermediate, unless a single row is larger


class BlockedEngine(Engine):
    """Plain PyTorch, a few rows at a time."""

    name = "blocked"
    about = "plain PyTorch, n^2 memory"
    takes_offsets = gives_weights = True

    def attend(self, q: Tensor, k: Tensor, v1: Tensor, v2: Tensor | None, options: Options) -> Tensor:
        return blocked_forward(q, k, v1, v2, *options.offsets(q), *options.arguments())

    def weights(self, q: Tensor, k: Tensor, options: Options) -> Tensor:
        """All at once: they are as many numbers as the answer has."""
        with _without_autocast(q.device):
            return attention_weights(_wide(q), _wide(k), options).to(q.dtype).permute(0, 4, 1, 2, 3)


BLOCKED = BlockedEngine()


class _Blocks:
    """What forward and backward share: the blocks of rows, their weights and their dropout."""

    def __init__(
        self,
        q: Tensor,
        k: Tensor,
        left: Tensor | None,
        right: Tensor | None,
        node_mask: Tensor | None,
        causal_from: int,
        key_is_ij: bool,
        dropout_p: float,
        seed: Tensor | None,
    ) -> None:
        self.q, self.k, self.left, self.right = q, k, left, right
        self.key_is_ij, self.dropout_p = key_is_ij, dropout_p
        self.seed = 0 if seed is None else int(seed)
        self.node_mask, self.causal_from = node_mask, None if causal_from < 0 else causal_from
        self.scale = q.shape[-1] ** -0.5

    def rows(self) -> Iterator[slice]:
        """Slices of rows i, so few that a block has about `_NUMBERS_AT_ONCE` numbers."""
        batch, n, _, heads, head_dim = self.q.shape
        step = max(1, _NUMBERS_AT_ONCE // max(1, batch * n * n * heads * head_dim))
        return (slice(start, min(n, start + step)) for start in range(0, n, step))

    def weights(self, rows: slice) -> Tensor:
        """The attention weights of a block before dropout: (B, c, l, j, h)."""
        if self.key_is_ij:
            scores = torch.einsum("bilhd,bijhd->biljh", self.q[:, rows], self.k[:, rows])
        else:
            scores = torch.einsum("bilhd,bljhd->biljh", self.q[:, rows], self.k)
        allowed = allowed_triangles(self.q.shape[1], self.node_mask, self.causal_from, self.q.device, rows)
        left = None if self.left is None else self.left[:, :, rows]
        return soft_max(scores * self.scale, left, self.right, allowed)

    def keep(self, rows: slice, like: Tensor) -> Tensor | None:
        """The factors of dropout for a block's weights, the same whenever they are asked for; None without dropout."""
        if self.dropout_p == 0:
            return None
        generator = torch.Generator(like.device).manual_seed((self.seed + rows.start) % 2**63)
        kept = torch.rand(like.shape, generator=generator, device=like.device) >= self.dropout_p
        return kept.to(like.dtype) / (1 - self.dropout_p)


def _wide(tensor: Tensor) -> Tensor:
    """In the number type of the sums: float32, or float64 for float64."""
    return tensor.to(sums_in(tensor.dtype))


def _without_autocast(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Autocast would make the products of matrices 16-bit again."""
    if torch.amp.is_autocast_available(device.type):
        return torch.autocast(device.type, enabled=False)
    return contextlib.nullcontext()


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
    out = _empty_output(q)
    with _without_autocast(q.device):
        q, k, v1, v2 = _wide(q), _wide(k), _wide(v1), None if v2 is None else _wide(v2)
        blocks = _Blocks(q, k, left, right, node_mask, causal_from, key_is_ij, dropout_p, seed)
        for rows in blocks.rows():
            weights = blocks.weights(rows)
            keep = blocks.keep(rows, weights)
            if keep is not None:
                weights *= keep
            if v2 is None:
                out[:, rows] = torch.einsum("biljh,bilhd->bijhd", weights, v1[:, rows])
            else:
                mixed = torch.einsum("biljh,bilhd->biljhd", weights, v1[:, rows])  # (B, c, l, j, h, d)
                out[:, rows] = torch.einsum("biljhd,bljhd->bijhd", mixed, v2)
    return out


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
    dtype, n = q.dtype, q.shape[1]
    with _without_autocast(q.device):
        q, k, v1, v2, dout = _wide(q), _wide(k), _wide(v1), None if v2 is None else _wide(v2), _wide(dout)
        blocks = _Blocks(q, k, left, right, node_mask, causal_from, key_is_ij, dropout_p, seed)
        dq, dk, dv1, dv2, dleft, dright = empty_gradients(dout, q, k, v1, v2, left, right)
        dk.zero_()
        dv2.zero_()
        for rows in blocks.rows():
            weights = blocks.weights(rows)  # (B, c, l, j, h)
            keep = blocks.keep(rows, weights)
            kept = weights if keep is None else weights * keep
            dmixed = dout[:, rows, None] if v2 is None else dout[:, rows, None] * v2[:, None]  # (B, c, 1 or l, j, h, d)
            dweights = torch.einsum("biljhd,bilhd->biljh", dmixed.expand(-1, -1, n, -1, -1, -1), v1[:, rows])
            if keep is not None:
                dweights = dweights * keep
            dscores = weights * (dweights - (weights * dweights).sum(2, keepdim=True))
            if left is not None:
                dleft[:, :, rows] = dscores.sum(3).permute(0, 3, 1, 2)
            if right is not None:
                dright += dscores.sum(1).permute(0, 3, 1, 2)
            dscores *= blocks.scale
            dv1[:, rows] = (kept[..., None] * dmixed).sum(3)
            if v2 is not None:
                dv2 += torch.einsum("biljh,bijhd,bilhd->bljhd", kept, dout[:, rows], v1[:, rows])
            if key_is_ij:
                dq[:, rows] = torch.einsum("biljh,bijhd->bilhd", dscores, k[:, rows])
                dk[:, rows] = torch.einsum("biljh,bilhd->bijhd", dscores, q[:, rows])
            else:
                dq[:, rows] = torch.einsum("biljh,bljhd->bilhd", dscores, k)
                dk += torch.einsum("biljh,bilhd->bljhd", dscores, q[:, rows])
    return dq.to(dtype), dk.to(dtype), dv1.to(dtype), dv2.to(dtype), dleft, dright


connect(blocked_forward, blocked_backward, keeps_results=False)
