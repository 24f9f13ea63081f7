"""Triangular attention as the paper writes it, equations (4) to (8): the oracle that every engine is tested against.

It builds tensors of n^3 * dim numbers, so it is for small graphs and for tests.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from .engine import Engine, Options


class EinsumEngine(Engine):
    """The plain equations."""

    name = "einsum"
    about = "the equations in plain PyTorch, n^3 memory"
    cubic_memory = True
    takes_offsets = gives_weights = True

    def preferred_for(self, tensor: Tensor) -> bool:
        return False

    def attend(self, q: Tensor, k: Tensor, v1: Tensor, v2: Tensor | None, options: Options) -> Tensor:
        weights = F.dropout(attention_weights(q, k, options), options.dropout_p, training=options.dropout_p > 0)

        if v2 is None:
            return torch.einsum("biljh,bilhd->bijhd", weights, v1)
        values = torch.einsum("bilhd,bljhd->biljhd", v1, v2)  # (B, n, n, n, h, d): the cost of plain equations
        return torch.einsum("biljh,biljhd->bijhd", weights, values)

    def weights(self, q: Tensor, k: Tensor, options: Options) -> Tensor:
        return attention_weights(q, k, options).permute(0, 4, 1, 2, 3)


EINSUM = EinsumEngine()


def attention_weights(q: Tensor, k: Tensor, options: Options) -> Tensor:
    """The weights before dropout, with their gradients: `[batch, i, l, j, heads]`."""
    # scores[b, i, l, j, h] = q[b, i, l, h] . k[b, l, j, h] / sqrt(head_dim)
    pattern = "bilhd,bljhd->biljh" if options.key == "lj" else "bilhd,bijhd->biljh"
    scores = torch.einsum(pattern, q, k) * q.shape[-1] ** -0.5
    allowed = allowed_triangles(q.shape[1], options.node_mask, options.causal_from, q.device)
    return soft_max(scores, *options.offsets(q), allowed).to(q.dtype)


def soft_max(scores: Tensor, left: Tensor | None, right: Tensor | None, allowed: Tensor | None) -> Tensor:
    """Weights from scores (B, i, l, j, h) and what is added to them for edges il (B, h, i, l) and lj (B, h, l, j), over
    the triangles that count: those that are `allowed` and that no -inf excludes.
    """
    if left is not None:
        scores = scores + left.permute(0, 2, 3, 1)[:, :, :, None]
    if right is not None:
        scores = scores + right.permute(0, 2, 3, 1)[:, None]
    if left is not None or right is not None:
        present = scores != -torch.inf
        allowed = present if allowed is None else allowed & present
    if allowed is None:
        return scores.softmax(dim=2)
    # Minus infinity, so that no bias is as low as what does not count. Zeros keep an edge without pivots free of NaN,
    # and the product makes its weights zero.
    scores = scores.masked_fill(~allowed, -torch.inf).masked_fill(~allowed.any(2, keepdim=True), 0)
    return scores.softmax(dim=2) * allowed


def allowed_triangles(
    n: int, node_mask: Tensor | None, causal_from: int | None, device: torch.device, rows: slice = slice(None)
) -> Tensor | None:
    """Which triangles (i, l, j) count, for these rows i: bool (B or 1, i, l, j, 1), or None where all of them do.

    A triangle with a padding node does not count. In a decoder's graph, whose target nodes start at `causal_from`, a
    target node l is no pivot for an edge (i, j) of two earlier nodes: that would show the edge its future.
    """
    allowed = None
    if node_mask is not None:
        allowed = node_mask[:, rows, None, None] & node_mask[:, None, :, None] & node_mask[:, None, None, :]
    if causal_from is not None:
        node = torch.arange(n, device=device)
        i, pivot, j = node[rows, None, None], node[None, :, None], node[None, None, :]
        causal = ((pivot < causal_from) | (pivot <= i) | (pivot <= j))[None]
        allowed = causal if allowed is None else allowed & causal
    return None if allowed is None else allowed[..., None]
