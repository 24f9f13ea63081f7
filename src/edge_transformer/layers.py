"""One Edge Transformer layer: triangular attention, feed-forward network, norms and residuals."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from .attention import packed_triangular_attention
from .config import EdgeTransformerConfig
from .dropout import add_dropout, relu_dropout


class TriangularAttention(nn.Module):
    """Multi-head triangular attention with its projections: `[batch, n, n, dim] -> [batch, n, n, dim]`.

    One matrix product gives q, k, v1 and v2 of all edges.
    """

    def __init__(self, config: EdgeTransformerConfig, engine: str = "auto") -> None:
        super().__init__()
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
        batch, n, _, dim = edges.shape
        parts = self.projections(edges).view(batch, n, n, self.parts, self.heads, dim // self.heads)
        mixed = packed_triangular_attention(
            parts,
            node_mask=node_mask,
            causal_from=causal_from,
            key=self.key,
            dropout_p=self.dropout_p if self.training else 0.0,
            engine=self.engine,
        )
        return self.output(mixed.reshape(batch, n, n, dim))  # (B, n, n, h, d) -> (B, n, n, dim)


class FeedForward(nn.Module):
    """The network applied to every edge on its own, with one hidden layer: Linear, ReLU, dropout, Linear."""

    def __init__(self, dim: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.dropout_p = dropout
        self.hidden, self.output = nn.Linear(dim, hidden), nn.Linear(hidden, dim)
        for layer in (self.hidden, self.output):
            nn.init.xavier_uniform_(layer.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.output(relu_dropout(self.hidden(x), self.dropout_p, self.training))


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
        residual = normed if self.norm == "released" else edges
        edges = add_dropout(residual, self.attention(normed, node_mask, causal_from), self.dropout_p, self.training)
        normed = self.feed_forward_norm(edges)
        update = self.feed_forward(normed)
        if self.norm == "paper":
            return F.dropout(update, self.dropout_p, self.training)
        return add_dropout(normed if self.norm == "released" else edges, update, self.dropout_p, self.training)
