"""Transformer layers whose attention knows a relation between every two nodes: the parts that baselines are made of.

The relations are vectors that come from edge labels (`relation_aware.py`) or from relative positions in a sequence
(`RelativePositions`), after Shaw, Uszkoreit and Vaswani (2018). Without relations this is a plain Transformer.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..encoder import Stack
from ..layer import FeedForward, add_update
from .config import TransformerConfig


class Relations(NamedTuple):
    """What the attention of node i adds to key and value of node j, for each head.

    Both are `[batch, i, heads, j, head_dim]`, or without the batch where all sequences have the same relations. In this
    order of dimensions a matrix product for each (batch, i, head) reads them in place, in every layer.
    """

    keys: Tensor
    values: Tensor

    @classmethod
    def unpack(cls, packed: Tensor, heads: int) -> Relations:
        """Keys and values that lie side by side: `[..., i, j, 2 * dim]`."""
        keys, values = packed.unflatten(-1, (2, heads, -1)).unbind(-3)  # (..., i, j, h, d) each
        return cls(keys.transpose(-3, -2).contiguous(), values.transpose(-3, -2).contiguous())


class RelativePositions(nn.Module):
    """Learned relations between places in a sequence: one key and one value for each distance i - j.

    Distances beyond `max_distance` count as `max_distance`, so that no sequence is too long. The vectors are the same
    in all layers.
    """

    def __init__(self, dim: int, heads: int, max_distance: int) -> None:
        super().__init__()
        self.heads, self.max_distance = heads, max_distance
        self.distances = nn.Embedding(2 * max_distance + 1, 2 * dim)
        for part in self.distances.weight.chunk(2, dim=1):
            nn.init.xavier_uniform_(part)

    def forward(self, length: int) -> Relations:
        """The relations of a sequence, `[length, heads, length, head_dim]`."""
        position = torch.arange(length, device=self.distances.weight.device)
        distance = (position[:, None] - position[None, :]).clamp(-self.max_distance, self.max_distance)
        return Relations.unpack(self.distances(distance + self.max_distance), self.heads)


class RelationAwareAttention(nn.Module):
    """Multi-head attention between nodes, `[batch, n, dim] -> [batch, n, dim]`, with relations in keys and values:

        a_ij = softmax_j(q_i (k_j + rk_ij) / sqrt(d)),    z_i = sum_j a_ij (v_j + rv_ij)

    for each head of width d. The sums over relations are matrix products of their own: k_j + rk_ij is never made.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.heads, self.dropout_p = config.heads, config.dropout
        self.projections = nn.Linear(config.dim, 3 * config.dim, bias=config.attention_bias)
        self.output = nn.Linear(config.dim, config.dim, bias=config.attention_bias)
        init_parts(self.projections, 3)
        init_parts(self.output, 1)

    def forward(self, nodes: Tensor, relations: Relations | None = None, node_mask: Tensor | None = None) -> Tensor:
        return self.output(self.mix(nodes, relations, node_mask))

    def mix(self, nodes: Tensor, relations: Relations | None = None, node_mask: Tensor | None = None) -> Tensor:
        """z_i of all heads side by side, before the output projection: `[batch, n, dim]`."""
        q, k, v = self.projections(nodes).unflatten(-1, (3, self.heads, -1)).unbind(-3)  # (B, n, h, d) each
        allowed = None if node_mask is None else node_mask[:, None, None, :]  # (B, 1, 1, n)
        dropout_p = self.dropout_p if self.training else 0.0
        by_head = (q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))  # (B, h, n, d)
        if relations is None:
            mixed = F.scaled_dot_product_attention(*by_head, attn_mask=allowed, dropout_p=dropout_p)
            return mixed.transpose(1, 2).flatten(-2)  # (B, h, n, d) -> (B, n, dim)
        batch = "b" if relations.keys.dim() == 5 else ""
        scores = by_head[0] @ by_head[1].transpose(-1, -2)  # (B, h, n, n)
        scores = (scores + torch.einsum(f"bihd,{batch}ihjd->bhij", q, relations.keys)) * q.shape[-1] ** -0.5
        if allowed is not None:
            scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
        weights = F.dropout(scores.softmax(-1), dropout_p)
        mixed = (weights @ by_head[2]).transpose(1, 2)  # (B, n, h, d)
        return (mixed + torch.einsum(f"bhij,{batch}ihjd->bihd", weights, relations.values)).flatten(-2)


class Residual(nn.Module):
    """What stands around an update of nodes or edges: residuals, norms, and a feed-forward network after it.

    "post"  x = LN(x + update(x)); x = LN(x + FFN(x)): Vaswani et al. (2017), and the paper's baselines
    "pre"   x = x + update(LN(x)); x = x + FFN(LN(x)): easier to train where it is deep
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.norm, self.dropout_p = config.norm, config.dropout
        self.feed_forward = FeedForward(config.dim, config.ff_factor * config.dim, config.dropout)
        self.update_norm = nn.LayerNorm(config.dim)
        self.feed_forward_norm = nn.LayerNorm(config.dim)

    def before(self, states: Tensor) -> Tensor:
        """What the update is computed from."""
        return self.update_norm(states) if self.norm == "pre" else states

    def forward(self, states: Tensor, update: Tensor) -> Tensor:
        """From the update to the end of the layer."""
        dropout_p = self.dropout_p if self.training else 0.0
        states, network = add_update(states, update, dropout_p), self.feed_forward
        if self.norm == "pre":
            return add_update(states, network(self.feed_forward_norm(states)), dropout_p, network)
        states = self.update_norm(states)
        return self.feed_forward_norm(add_update(states, network(states), dropout_p, network))


def final_norm(config: TransformerConfig) -> nn.Module:
    """The end of a stack: a pre-norm one never normalises its sum of updates, so that it needs one more norm."""
    return nn.LayerNorm(config.dim) if config.norm == "pre" else nn.Identity()


class TransformerLayer(nn.Module):
    """Attention, then a feed-forward network: `[batch, n, dim] -> [batch, n, dim]`."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention = RelationAwareAttention(config)
        self.residual = Residual(config)

    def forward(self, nodes: Tensor, relations: Relations | None = None, node_mask: Tensor | None = None) -> Tensor:
        return self.residual(nodes, self.attention(self.residual.before(nodes), relations, node_mask))


class TransformerStack(Stack):
    """Transformer layers one after the other, with the same relations in each: `[batch, n, dim] -> [batch, n, dim]`."""

    config: TransformerConfig

    def __init__(self, config: TransformerConfig, *, tied: bool) -> None:
        super().__init__(config)
        self.layers = nn.ModuleList(TransformerLayer(config) for _ in range(1 if tied else config.layers))
        self.final_norm = final_norm(config)

    def forward(self, nodes: Tensor, relations: Relations | None = None, node_mask: Tensor | None = None) -> Tensor:
        """`node_mask` is bool `[batch, n]`, True for a real node: the others are never attended to."""
        for depth in range(self._depth()):
            nodes = self._run_layer(self.layers[depth % len(self.layers)], nodes, relations, node_mask)
        return self.final_norm(nodes)


def init_parts(layer: nn.Linear, parts: int) -> None:
    """Xavier's start for each part of a product of several: its bound depends on the size of one part, not of all."""
    for part in layer.weight.chunk(parts):
        nn.init.xavier_uniform_(part)
