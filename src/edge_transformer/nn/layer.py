"""One Edge Transformer layer: triangular attention, feed-forward network, norms and residuals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..io.settings import require_choice, require_fraction, require_positive
from ..ops.attention import KEYS, VALUES, check_engine, grouped_triangular_attention, packed_triangular_attention
from ..ops.dropout import add_dropout
from .feed_forward import FeedForward
from .recomputing import kept_as_rule

NORMS = ("released", "paper", "pre")


class StackConfig(Protocol):
    """What the configuration of every encoder has: the shape of a stack of layers with several heads."""

    @property
    def dim(self) -> int: ...
    @property
    def heads(self) -> int: ...
    @property
    def layers(self) -> int: ...
    @property
    def dropout(self) -> float: ...
    @property
    def min_layers(self) -> int | None: ...


@dataclass(frozen=True)
class EdgeTransformerConfig:
    """The shape of an Edge Transformer encoder."""

    dim: int
    heads: int
    layers: int
    tied: bool = True  # one set of weights for all layers
    dropout: float = 0.0
    ff_factor: int = 4  # hidden units of the feed-forward network, in multiples of dim
    attention_bias: bool = True
    norm: str = "released"  # "released" | "paper" | "pre"
    key: str = "lj"  # "ij" is the attention ablation
    value: str = "product"  # "left" is the value ablation
    min_layers: int | None = None  # in training, each call runs a random number of layers, from this many to `layers`

    def __post_init__(self) -> None:
        require_positive(self, "ff_factor")
        require_stack(self)
        require_choice(self, "norm", NORMS)
        require_choice(self, "key", KEYS)
        require_choice(self, "value", VALUES)


def require_stack(config: StackConfig) -> None:
    """Refuse a stack that cannot be built."""
    require_positive(config, "dim", "heads", "layers")
    if config.dim % config.heads:
        raise ValueError(f"dim={config.dim} is not divisible by heads={config.heads}")
    if config.min_layers is not None and not 1 <= config.min_layers <= config.layers:
        raise ValueError(f"min_layers must lie between 1 and layers={config.layers}, but is {config.min_layers}")
    require_fraction(config, "dropout")


class TriangularAttention(nn.Module):
    """Multi-head triangular attention with its projections: `[batch, n, n, dim] -> [batch, n, n, dim]`.

    One matrix product gives q, k, v1 and v2 of all edges.
    """

    def __init__(self, config: EdgeTransformerConfig, engine: str = "auto") -> None:
        super().__init__()
        check_engine(engine)  # here, where the name is given, and not in the middle of a forward pass
        self.heads, self.key = config.heads, config.key
        self.dropout_p, self.engine = config.dropout, engine
        self.parts = 4 if config.value == "product" else 3  # the value ablation has no v2
        self.projections = nn.Linear(config.dim, self.parts * config.dim, bias=config.attention_bias)
        self.output = nn.Linear(config.dim, config.dim, bias=config.attention_bias)
        # Each part on its own: Xavier's bound depends on the fan-out, which is dim for each, not 4 * dim.
        for part in self.projections.weight.chunk(self.parts):
            nn.init.xavier_uniform_(part)
        nn.init.xavier_uniform_(self.output.weight)

    def forward(self, edges: Tensor, node_mask: Tensor | None = None, causal_from: int | None = None) -> Tensor:
        return self.output(self._mix(self.projections(edges), node_mask, causal_from))

    def forward_groups(self, edges: Tensor, sizes: Sequence[tuple[int, int]]) -> Tensor:
        """The same for graphs of several sizes, whose edges lie behind each other: `[edges, dim] -> [edges, dim]`.

        `sizes` has for each group its number of graphs and the number of nodes of each. The products are computed for
        all groups at once, and only the triangles group by group.
        """
        mixed = grouped_triangular_attention(
            self.projections(edges).unflatten(-1, (self.parts, self.heads, -1)),  # (edges, parts, h, d)
            sizes,
            key=self.key,
            dropout_p=self.dropout_p if self.training else 0.0,
            engine=self.engine,
        )
        return self.output(mixed.flatten(1))

    def _mix(self, projected: Tensor, node_mask: Tensor | None = None, causal_from: int | None = None) -> Tensor:
        """The attention between the products: `[batch, n, n, parts * dim] -> [batch, n, n, dim]`."""
        mixed = packed_triangular_attention(
            projected.unflatten(-1, (self.parts, self.heads, -1)),  # (B, n, n, parts, h, d)
            node_mask=node_mask,
            causal_from=causal_from,
            key=self.key,
            dropout_p=self.dropout_p if self.training else 0.0,
            engine=self.engine,
        )
        return mixed.flatten(-2)

    def read(
        self,
        edges: Tensor,
        rows: Tensor,
        columns: Tensor,
        allowed: Tensor | None,
    ) -> Tensor:
        """The update of some edges only, for a last layer of which no more is read: `[batch, m, dim]`.

        For each of the m edges (i, j), `rows` has the states of all edges (i, l), `columns` those of all edges (l, j),
        both `[batch, m, n, dim]`, and `edges` its own, `[batch, m, dim]`. `allowed` is bool `[batch, m, n]`.
        """
        dim = rows.shape[-1]
        heads = (self.heads, dim // self.heads)
        weight = self.projections.weight.view(self.parts, dim, dim)
        bias = None if self.projections.bias is None else self.projections.bias.view(self.parts, dim)

        def project(states: Tensor, *parts: int) -> Iterator[Tensor]:
            chosen = list(parts)
            chosen_bias = None if bias is None else bias[chosen].flatten()
            projected = F.linear(states, weight[chosen].flatten(0, 1), chosen_bias)
            return iter(projected.unflatten(-1, (len(chosen), *heads)).unbind(-3))

        q, v1 = project(rows, 0, 2)  # (B, m, n, h, d)
        if self.key == "ij":
            k = next(project(edges, 1)).unsqueeze(2)  # (B, m, 1, h, d)
            v2 = next(project(columns, 3)) if self.parts == 4 else None
        elif self.parts == 4:
            k, v2 = project(columns, 1, 3)
        else:
            k, v2 = next(project(columns, 1)), None
        scores = (q * k).sum(-1) * heads[1] ** -0.5  # (B, m, n, h)
        if allowed is not None:
            scores = scores.masked_fill(~allowed[..., None], torch.finfo(scores.dtype).min)
        weights = scores.softmax(dim=2)
        if allowed is not None:
            weights = weights * allowed[..., None]
        weights = F.dropout(weights, self.dropout_p, self.training)
        values = v1 if v2 is None else v1 * v2
        return self.output((weights[..., None] * values).sum(2).flatten(-2))


class EdgeTransformerLayer(nn.Module):
    """Attention, then a feed-forward network, with the norms and residuals placed as `config.norm` says.

    "released"  x = LN(x); x = x + Att(x); x = LN(x); x = x + FFN(x): what the paper's results were computed with
    "paper"     FFN(LN(x + Att(LN(x)))), equation (3)
    "pre"       x = x + Att(LN(x)); x = x + FFN(LN(x)): the common pre-norm Transformer
    """

    def __init__(self, config: EdgeTransformerConfig, engine: str = "auto") -> None:
        super().__init__()
        self.norm = config.norm
        self.attention = TriangularAttention(config, engine)
        self.feed_forward = FeedForward(config.dim, config.ff_factor * config.dim, config.dropout)
        self.attention_norm = nn.LayerNorm(config.dim)
        self.feed_forward_norm = nn.LayerNorm(config.dim)
        self.dropout_p = config.dropout

    def forward(self, edges: Tensor, node_mask: Tensor | None = None, causal_from: int | None = None) -> Tensor:
        normed = self.attention_norm(edges)
        with self._not_kept(normed, self.attention_norm, edges):
            update = self.attention(normed, node_mask, causal_from)
        return self._finish(edges, normed, update)

    def forward_groups(self, edges: Tensor, sizes: Sequence[tuple[int, int]]) -> Tensor:
        """The same for graphs of several sizes: `[edges, dim] -> [edges, dim]`; see `TriangularAttention`."""
        normed = self.attention_norm(edges)
        with self._not_kept(normed, self.attention_norm, edges):
            update = self.attention.forward_groups(normed, sizes)
        return self._finish(edges, normed, update)

    def read(self, edges: Tensor, pairs: Tensor, node_mask: Tensor | None = None) -> Tensor:
        """What `forward` gives for the edges in `pairs` (`[batch, m, 2]`) alone: `[batch, m, dim]`."""
        batch, n, _, dim = edges.shape
        flat = edges.reshape(batch * n * n, dim)
        start, end = pairs.unbind(-1)  # (B, m)
        graph = torch.arange(batch, device=edges.device)[:, None] * n * n
        pivot = torch.arange(n, device=edges.device)
        row = (graph + start * n)[..., None] + pivot  # (B, m, n): edges (i, l)
        column = (graph + end)[..., None] + pivot * n  # (B, m, n): edges (l, j)
        own = (graph + start * n + end).flatten()
        places = torch.cat([row.flatten(), column.flatten(), own])
        states = flat.index_select(0, places)
        counts = [row.numel(), column.numel(), own.numel()]
        rows, columns, chosen = self.attention_norm(states).split(counts)
        allowed = None
        if node_mask is not None:
            real = node_mask.gather(1, start) & node_mask.gather(1, end)  # (B, m)
            allowed = real[..., None] & node_mask[:, None, :]
        shape = (*pairs.shape[:2], n, dim)
        normed = chosen.view(*pairs.shape[:2], dim)
        update = self.attention.read(normed, rows.view(shape), columns.view(shape), allowed)
        return self._finish(states[row.numel() + column.numel() :].view_as(normed), normed, update)

    def _finish(self, edges: Tensor, normed: Tensor, update: Tensor) -> Tensor:
        """From the attention's update to the end of the layer. Works on any set of edges."""
        edges = self._add(normed if self.norm == "released" else edges, update)
        normed = self.feed_forward_norm(edges)
        with self._not_kept(normed, self.feed_forward_norm, edges):
            update = self.feed_forward(normed)
        if self.norm == "paper":
            return F.dropout(update, self.dropout_p, self.training)
        return self._add(normed if self.norm == "released" else edges, update)

    def _not_kept(self, normed: Tensor, norm: nn.LayerNorm, edges: Tensor) -> AbstractContextManager[None]:
        """Where hidden layers are not kept for the backward pass, neither are the norms' results."""
        return nullcontext() if self.feed_forward.keep_hidden else kept_as_rule(normed, lambda: norm(edges))

    def _add(self, residual: Tensor, update: Tensor) -> Tensor:
        return add_dropout(residual, update, self.dropout_p, self.training, fresh=True)
