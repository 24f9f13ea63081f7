"""Triangular attention in plain PyTorch with O(n^2 head_dim) memory for each (batch, head), on any device.

The rows i of the updated edges (i, j) are computed a few at a time, and the backward pass computes their weights again
from the log-sum-exp of the scores. It stands in where there is no compiled kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from .einsum import allowed_triangles

_NUMBERS_AT_ONCE = 1 << 22  # of a block's largest intermediate, unless a single row is larger


def blocked_attention(
    q: Tensor,
    k: Tensor,
    v1: Tensor,
    v2: Tensor | None,
    node_mask: Tensor | None,
    causal_from: int | None,
    key: str,
    dropout_p: float,
) -> Tensor:
    """Arguments as in `einsum_attention`."""
    seed = torch.randint(2**62, ()).item() if dropout_p > 0 else 0
    return _Blocked.apply(q, k, v1, v2, node_mask, causal_from, key, dropout_p, seed)


class _Blocks:
    """What forward and backward share: the blocks of rows, their scores and their dropout."""

    def __init__(
        self,
        q: Tensor,
        k: Tensor,
        node_mask: Tensor | None,
        causal_from: int | None,
        key: str,
        dropout_p: float,
        seed: int,
    ) -> None:
        self.q, self.k, self.key, self.dropout_p, self.seed = q, k, key, dropout_p, seed
        self.node_mask, self.causal_from = node_mask, causal_from
        self.scale = q.shape[-1] ** -0.5

    def rows(self) -> Iterator[slice]:
        """Slices of rows i, so few that a block has about `_NUMBERS_AT_ONCE` numbers."""
        batch, n, _, heads, head_dim = self.q.shape
        step = max(1, _NUMBERS_AT_ONCE // max(1, batch * n * n * heads * head_dim))
        return (slice(start, min(n, start + step)) for start in range(0, n, step))

    def scores(self, rows: slice) -> Tensor:
        """The scores of a block, -inf for triangles that do not count: (B, c, l, j, h)."""
        if self.key == "lj":
            scores = torch.einsum("bilhd,bljhd->biljh", self.q[:, rows], self.k)
        else:
            scores = torch.einsum("bilhd,bijhd->biljh", self.q[:, rows], self.k[:, rows])
        scores = scores * self.scale
        allowed = allowed_triangles(self.q.shape[1], self.node_mask, self.causal_from, self.q.device, rows)
        return scores if allowed is None else scores.masked_fill(~allowed, -torch.inf)

    def keep(self, rows: slice, like: Tensor) -> Tensor | None:
        """The factors of dropout for a block's weights, the same whenever they are asked for; None without dropout."""
        if self.dropout_p == 0:
            return None
        generator = torch.Generator(like.device).manual_seed((self.seed + rows.start) % 2**63)
        kept = torch.rand(like.shape, generator=generator, device=like.device) >= self.dropout_p
        return kept.to(like.dtype) / (1 - self.dropout_p)


class _Blocked(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v1: Tensor,
        v2: Tensor | None,
        node_mask: Tensor | None,
        causal_from: int | None,
        key: str,
        dropout_p: float,
        seed: int,
    ) -> Tensor:
        blocks = _Blocks(q, k, node_mask, causal_from, key, dropout_p, seed)
        out = q.new_empty(q.shape)
        lse = q.new_empty(q.shape[:-1])  # (B, i, j, h)
        for rows in blocks.rows():
            scores = blocks.scores(rows)
            lse[:, rows] = scores.logsumexp(2)
            # An edge without any pivot has a log-sum-exp of -inf; as +inf it makes all its weights zero.
            lse[:, rows].masked_fill_(lse[:, rows] == -torch.inf, torch.inf)
            weights = (scores - lse[:, rows, None]).exp_()
            keep = blocks.keep(rows, weights)
            if keep is not None:
                weights *= keep
            mixed = torch.einsum("biljh,bilhd->biljhd", weights, v1[:, rows])  # (B, c, l, j, h, d)
            out[:, rows] = mixed.sum(2) if v2 is None else torch.einsum("biljhd,bljhd->bijhd", mixed, v2)
        ctx.options = (node_mask, causal_from, key, dropout_p, seed)
        ctx.save_for_backward(q, k, v1, v2, out, lse)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, dout: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v1, v2, out, lse = ctx.saved_tensors
        blocks = _Blocks(q, k, *ctx.options)
        dq, dv1, dk = torch.empty_like(q), torch.empty_like(v1), torch.zeros_like(k)
        dv2 = None if v2 is None else torch.zeros_like(v2)
        dot = (dout * out).sum(-1)  # (B, i, j, h)
        for rows in blocks.rows():
            weights = (blocks.scores(rows) - lse[:, rows, None]).exp_()  # (B, c, l, j, h)
            keep = blocks.keep(rows, weights)
            kept = weights if keep is None else weights * keep
            dmixed = dout[:, rows, None] if v2 is None else dout[:, rows, None] * v2[:, None]  # (B, c, 1 or l, j, h, d)
            dweights = torch.einsum("biljhd,bilhd->biljh", dmixed.expand(-1, -1, q.shape[1], -1, -1, -1), v1[:, rows])
            if keep is not None:
                dweights = dweights * keep
            dscores = weights * (dweights - dot[:, rows, None]) * blocks.scale
            dv1[:, rows] = (kept[..., None] * dmixed).sum(3)
            if dv2 is not None:
                dv2 += torch.einsum("biljh,bijhd,bilhd->bljhd", kept, dout[:, rows], v1[:, rows])
            if blocks.key == "lj":
                dq[:, rows] = torch.einsum("biljh,bljhd->bilhd", dscores, k)
                dk += torch.einsum("biljh,bilhd->bljhd", dscores, q[:, rows])
            else:
                dq[:, rows] = torch.einsum("biljh,bijhd->bilhd", dscores, k[:, rows])
                dk[:, rows] = torch.einsum("biljh,bilhd->bijhd", dscores, q[:, rows])
        return dq, dk, dv1, dv2, None, None, None, None, None
