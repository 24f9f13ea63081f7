"""Heads: what is read off the final states. Each takes the two tensors that every encoder answers with."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .encoder import Encoded


class QueryEdgeHead(nn.Module):
    """A label for one edge of each graph: Linear, ReLU, Linear on the state of the queried edge."""

    def __init__(self, dim: int, labels: int) -> None:
        super().__init__()
        self.classifier = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, labels))

    def forward(self, encoded: Encoded, query: Tensor) -> Tensor:
        """`query` is `[batch, 2]`, the two nodes of the edge -> `[batch, labels]` logits."""
        if query.shape != (encoded.edges.shape[0], 2):
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


class AttentionParentHead(nn.Module):
    """The same for encoders without states of pairs: node i scores node j by the product of a query and a key.

    Ontanon et al. (2021) call this an attention decoder.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, encoded: Encoded, node_mask: Tensor | None = None) -> Tensor:
        query, key = self.query(encoded.nodes), self.key(encoded.nodes)  # (B, n, dim)
        logits = query @ key.transpose(1, 2) * query.shape[-1] ** -0.5  # (B, n, n)
        return logits if node_mask is None else logits.masked_fill(~node_mask[:, None, :], -torch.inf)


class Biaffine(nn.Module):
    """Scores of all pairs of nodes from the states of the two: `[batch, n, n, outputs]` (Dozat and Manning, 2017).

    Two small networks make u_i of node i as the first of a pair and v_j of node j as the second; output o of the pair
    is [u_i, 1] W_o [v_j, 1], with a weight for every two features, one for each feature, and a bias.
    """

    def __init__(self, dim: int, hidden: int, outputs: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.hidden, self.dropout_p = hidden, dropout
        self.ends = nn.Linear(dim, 2 * hidden)
        self.weight = nn.Parameter(torch.zeros(outputs, hidden + 1, hidden + 1))  # zero: all pairs start out equal

    def forward(self, nodes: Tensor) -> Tensor:
        """States of nodes, `[batch, n, dim]`."""
        ends = F.dropout(F.leaky_relu(self.ends(nodes), 0.1), self.dropout_p, self.training)  # (B, n, 2 * hidden)
        first, second = (F.pad(end, (0, 1), value=1.0) for end in ends.chunk(2, dim=-1))  # (B, n, hidden + 1)
        outputs, width, _ = self.weight.shape
        # One product for all outputs: first the rows with all matrices, then with the columns.
        mixed = first @ self.weight.transpose(0, 1).reshape(width, outputs * width)  # (B, n, outputs * width)
        scores = mixed.unflatten(-1, (outputs, width)).flatten(1, 2) @ second.transpose(1, 2)  # (B, n * outputs, n)
        return scores.unflatten(1, (-1, outputs)).transpose(2, 3)  # (B, n, n, outputs)


class BiaffineLabelHead(nn.Module):
    """A label for every pair of nodes from the states of the two: `[batch, n, n, labels]` logits.

    Label 0 says that there is no edge. It has networks of its own, as the scores of arcs have in Dozat and Manning
    (2017), and the real labels share theirs.
    """

    def __init__(self, dim: int, labels: int, arc_dim: int, label_dim: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.arcs = Biaffine(dim, arc_dim, 1, dropout)
        self.labels = Biaffine(dim, label_dim, labels - 1, dropout)

    def forward(self, encoded: Encoded) -> Tensor:
        return torch.cat([self.arcs(encoded.nodes), self.labels(encoded.nodes)], dim=-1)


POOLS = ("mean", "attention", "max", "mean-max")


class PooledHead(nn.Module):
    """One label for the whole graph: `[batch, labels]` logits from the edges' mean, plain or by attention, or maximum.

    The maximum of every feature suits questions of whether a graph has something somewhere, the mean those of shares;
    "mean-max" reads both.
    """

    def __init__(self, dim: int, labels: int, pool: str = "mean") -> None:
        super().__init__()
        if pool not in POOLS:
            raise ValueError(f"pool={pool!r} is not known; choose one of {list(POOLS)}")
        self.pool = pool
        self.score = nn.Linear(dim, 1) if pool == "attention" else None
        self.classifier = nn.Linear(2 * dim if pool == "mean-max" else dim, labels)

    def forward(self, encoded: Encoded, node_mask: Tensor | None = None) -> Tensor:
        edges = encoded.edges.flatten(1, 2)  # (B, n*n, dim)
        scores = edges.new_zeros(edges.shape[:2]) if self.score is None else self.score(edges).squeeze(-1)
        if node_mask is not None:
            real = (node_mask[:, :, None] & node_mask[:, None, :]).flatten(1)  # (B, n*n)
            scores = scores.masked_fill(~real, torch.finfo(scores.dtype).min)
        pooled = []
        if self.pool != "max":
            pooled.append(torch.einsum("be,bed->bd", scores.softmax(dim=1), edges))  # equal scores give the mean
        if self.pool.endswith("max"):
            padding = scores[..., None] < 0
            pooled.append(edges.masked_fill(padding, torch.finfo(edges.dtype).min).amax(1))
        return self.classifier(torch.cat(pooled, dim=-1))
