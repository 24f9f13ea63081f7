"""A graph attention network that sees the labels of edges, in dense PyTorch."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..encoder import Encoded, Encoder, gather_nodes
from .config import GraphAttentionConfig
from .transformer import init_parts

SLOPE = 0.2  # of the leaky ReLU, as in both papers on graph attention


class GraphAttentionLayer(nn.Module):
    """Every node attends to its neighbours and to itself, scored as in GATv2 (Brody, Alon and Yahav, 2022):

        m_ij = V x_j + f_ij,    a_ij = softmax_j(w LeakyReLU(U x_i + m_ij)),    x_i = LN(x_i + ELU(sum_j a_ij m_ij))

    for each head, with f_ij the features of the connection, the same in all layers. They are part of the message as
    well as of the score: nodes that start alike have nothing else to tell.
    """

    def __init__(self, config: GraphAttentionConfig) -> None:
        super().__init__()
        self.heads, self.dropout_p = config.heads, config.dropout
        self.projections = nn.Linear(config.dim, 2 * config.dim, bias=config.attention_bias)  # U and V
        init_parts(self.projections, 2)
        self.score = nn.Parameter(torch.empty(config.heads, config.dim // config.heads))
        nn.init.xavier_uniform_(self.score)
        self.norm = nn.LayerNorm(config.dim)

    def forward(self, nodes: Tensor, features: Tensor, neighbours: Tensor) -> Tensor:
        """`nodes` are `[B, n, dim]`, `features` `[B, n, n, dim]`, `neighbours` bool `[B, n, n]`."""
        target, source = self.projections(nodes).chunk(2, dim=-1)  # (B, n, dim) each
        messages = source[:, None, :] + features  # (B, n, n, dim)
        seen = F.leaky_relu(target[:, :, None] + messages, SLOPE).unflatten(-1, (self.heads, -1))
        scores = torch.einsum("bijhd,hd->bhij", seen, self.score)
        scores = scores.masked_fill(~neighbours[:, None], torch.finfo(scores.dtype).min)
        weights = F.dropout(scores.softmax(-1), self.dropout_p, self.training)
        gathered = torch.einsum("bhij,bijhd->bihd", weights, messages.unflatten(-1, (self.heads, -1)))
        update = F.dropout(F.elu(gathered.flatten(-2)), self.dropout_p, self.training)
        return self.norm(nodes + update)


class GraphAttentionNetwork(Encoder):
    """GAT: messages along the edges of the graph alone, `layers` rounds of them.

    The paper takes its GAT results from the authors of CLUTRR and gives no settings. What is done here:

    - Messages go along every edge in both directions, else nothing could flow against an arrow. The two directions have
      a linear layer each, which gives every label an inverse; a self-edge has a learned vector of its own. Two nodes
      with edges both ways are one connection, with the sum of both features.
    - Nodes start at zero: all they ever know comes from labels. Rounds share their weights, unless `tied` is off, and
      each has a residual and a norm, so that there can be as many as long stories need.
    - A pair is read as the final states of its two nodes side by side. The edges it answers with are those it was
      given: it has no other states of pairs.

    Without `edge_mask` every pair counts as an edge.
    """

    config: GraphAttentionConfig
    has_edge_states: ClassVar[bool] = False

    def __init__(self, config: GraphAttentionConfig) -> None:
        super().__init__(config)
        self.read_dim = 2 * config.dim
        # along the edge, and against it
        self.features = nn.Linear(config.dim, 2 * config.dim, bias=config.attention_bias)
        init_parts(self.features, 2)
        self.self_loop = nn.Parameter(torch.zeros(config.dim))
        self.layers = nn.ModuleList(GraphAttentionLayer(config) for _ in range(1 if config.tied else config.layers))

    def encode(self, edges: Tensor, node_mask: Tensor | None = None, edge_mask: Tensor | None = None) -> Encoded:
        """The final states of the nodes, and the edges unchanged."""
        self._check(edges)
        batch, n, _, dim = edges.shape
        if edge_mask is None:
            edge_mask = edges.new_ones(batch, n, n, dtype=torch.bool)
        if node_mask is not None:
            edge_mask = edge_mask & node_mask[:, :, None] & node_mask[:, None, :]
        along, against = (self.features(edges) * edge_mask[..., None]).chunk(2, dim=-1)  # (B, n, n, dim) each
        itself = torch.eye(n, dtype=torch.bool, device=edges.device)
        features = along + against.transpose(1, 2) + itself[..., None] * self.self_loop
        neighbours = edge_mask | edge_mask.transpose(1, 2) | itself
        nodes = edges.new_zeros(batch, n, dim)
        for depth in range(self._depth()):
            nodes = self._run_layer(self.layers[depth % len(self.layers)], nodes, features, neighbours)
        return Encoded(nodes, edges)

    def read(
        self, edges: Tensor, pairs: Tensor, node_mask: Tensor | None = None, edge_mask: Tensor | None = None
    ) -> Tensor:
        """The final states of the two nodes of each pair: `[batch, m, 2] -> [batch, m, 2 * dim]`."""
        self._check(edges, pairs)
        return gather_nodes(self.encode(edges, node_mask, edge_mask).nodes, pairs)
