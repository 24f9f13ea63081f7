"""One Edge Transformer layer: triangular attention, feed-forward network, norms and residuals."""

from __future__ import annotations

from torch import Tensor, nn

from .attention import triangular_attention
from .config import EdgeTransformerConfig


class TriangularAttention(nn.Module):
    """Multi-head triangular attention with its projections: `[batch, n, n, dim] -> [batch, n, n, dim]`.

    One matrix product gives q, k, v1 and v2 of all edges.
    """

    def __init__(self, config: EdgeTransformerConfig, engine: str = "auto") -> None:
        super().__init__()
        self.heads, self.key, self.value = config.heads, config.key, config.value
        self.dropout_p, self.engine = config.dropout, engine
        self.parts = 4 if config.value == "product" else 3  # the value ablation has no v2
        self.projections = nn.Linear(config.dim, self.parts * config.dim, bias=config.attention_bias)
        self.output = nn.Linear(config.dim, config.dim, bias=config.attention_bias)
        # Each part on its own: Xavier's bound depends on the fan-out, which is dim for each, not 4 * dim.
        for part in self.projections.weight.chunk(self.parts):
            nn.init.xavier_uniform_(part)
        nn.init.xavier_uniform_(self.output.weight)

    def forward(self, edges: Tensor, node_mask: Tensor | None = None, causal_from: int | None = None) -> Tensor:
        batch, n, _, dim = edges.shape
        parts = self.projections(edges).view(batch, n, n, self.parts, self.heads, dim // self.heads)
        q, k, v1, *v2 = parts.unbind(3)  # each (B, n, n, h, d)
        mixed = triangular_attention(
            q,
            k,
            v1,
            v2[0] if v2 else None,
            node_mask=node_mask,
            causal_from=causal_from,
            key=self.key,
            value=self.value,
            dropout_p=self.dropout_p if self.training else 0.0,
            engine=self.engine,
        )
        return self.output(mixed.reshape(batch, n, n, dim))  # (B, n, n, h, d) -> (B, n, n, dim)


class FeedForward(nn.Sequential):
    """The network applied to every edge on its own, with one hidden layer."""

    def __init__(self, dim: int, hidden: int, dropout: float) -> None:
        super().__init__(nn.Linear(dim, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, dim))
        for layer in (self[0], self[3]):
            nn.init.xavier_uniform_(layer.weight)


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
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, edges: Tensor, node_mask: Tensor | None = None, causal_from: int | None = None) -> Tensor:
        normed = self.attention_norm(edges)
        residual = normed if self.norm == "released" else edges
        edges = residual + self.dropout(self.attention(normed, node_mask, causal_from))
        normed = self.feed_forward_norm(edges)
        update = self.dropout(self.feed_forward(normed))
        if self.norm == "paper":
            return update
        return (normed if self.norm == "released" else edges) + update
