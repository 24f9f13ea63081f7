"""Heads: what is read off the final states. Each takes the two tensors that every encoder answers with."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .encoder import Encoded


class QueryEdgeHead(nn.Module):
    """A label for one edge of each graph: Linear, ReLU, Linear on the state of the queried edge."""

    def __init__(self, dim: int, labels: int) -> None:
        super().__init__()
        self.classifier = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, labels))

    def forward(self, encoded: Encoded, query: Tensor) -> Tensor:
        """`query` is `[batch, 2]`, the two nodes of the edge -> `[batch, labels]` logits."""
        if query.shape != (len(encoded.edges), 2):
            raise ValueError(f"query must be [batch={len(encoded.edges)}, 2], but its shape is {list(query.shape)}")
        row = torch.arange(query.shape[0], device=query.device)
        return self.classify(encoded.edges[row, query[:, 0], query[:, 1]])

    def classify(self, states: Tensor) -> Tensor:
        """States of the queried edges, `[..., dim]` -> `[..., labels]` logits, where nothing else was computed."""
        return self.classifier(states)


class EdgeLabelHead(nn.Module):
    """A label for every edge: `[batch, n, n, labels]` logits."""

    def __init__(self, dim: int, labels: int, bias: bool = True) -> None:
        super().__init__()
        self.classifier = nn.Linear(dim, labels, bias=bias)

    def forward(self, encoded: Encoded) -> Tensor:
        return self.classifier(encoded.edges)


class NodeLabelHead(nn.Module):
    """A label for every node: `[batch, n, labels]` logits."""

    def __init__(self, dim: int, labels: int, bias: bool = True) -> None:
        super().__init__()
        self.classifier = nn.Linear(dim, labels, bias=bias)

    def forward(self, encoded: Encoded) -> Tensor:
        return self.classifier(encoded.nodes)


class ParentHead(nn.Module):
    """The parent of every node: `[batch, n, n]` logits, where row i scores each node j as parent of i by edge x_ij.

    Take the softmax over the last dimension; padding nodes are never candidates. A root is its own parent.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.score = nn.Linear(dim, 1)

    def forward(self, encoded: Encoded, node_mask: Tensor | None = None) -> Tensor:
        logits = self.score(encoded.edges).squeeze(-1)  # (B, n, n)
        return logits if node_mask is None else logits.masked_fill(~node_mask[:, None, :], -torch.inf)


class PooledHead(nn.Module):
    """One label for the whole graph: `[batch, labels]` logits from the mean of the edges, plain or by attention."""

    def __init__(self, dim: int, labels: int, pool: str = "mean") -> None:
        super().__init__()
        if pool not in ("mean", "attention"):
            raise ValueError(f"pool={pool!r} is not known; choose one of ['mean', 'attention']")
        self.score = nn.Linear(dim, 1) if pool == "attention" else None
        self.classifier = nn.Linear(dim, labels)

    def forward(self, encoded: Encoded, node_mask: Tensor | None = None) -> Tensor:
        edges = encoded.edges.flatten(1, 2)  # (B, n*n, dim)
        scores = edges.new_zeros(edges.shape[:2]) if self.score is None else self.score(edges).squeeze(-1)
        if node_mask is not None:
            real = (node_mask[:, :, None] & node_mask[:, None, :]).flatten(1)  # (B, n*n)
            scores = scores.masked_fill(~real, torch.finfo(scores.dtype).min)
        weights = scores.softmax(dim=1)  # equal scores give the mean
        return self.classifier(torch.einsum("be,bed->bd", weights, edges))
