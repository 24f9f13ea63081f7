"""The paper's main baselines on graphs: the Relation-aware Transformer, and its variant that updates the relations."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from ..encoder import Encoded, Encoder, gather_nodes
from .config import RelationAwareConfig
from .transformer import RelationAwareAttention, Relations, Residual, TransformerStack, final_norm, init_parts


class RelationAwareTransformer(Encoder):
    """RAT: a Transformer over the nodes that sees the edges as relations (Shaw et al., 2018; Wang et al., 2020).

    Nodes start at zero. One linear layer makes the keys and values of the relations from the first state of the edges;
    they stay the same in all layers, as in the code released with the paper. A pair is read as the final states of its
    two nodes side by side. The edges it answers with are those it was given: it has no other states of pairs.

    Every pair has a relation, absent edges too, so `edge_mask` makes no difference.
    """

    config: RelationAwareConfig
    has_edge_states: ClassVar[bool] = False

    def __init__(self, config: RelationAwareConfig) -> None:
        super().__init__(config)
        self.read_dim = 2 * config.dim
        self.relations = nn.Linear(config.dim, 2 * config.dim, bias=config.attention_bias)
        init_parts(self.relations, 2)
        self.stack = TransformerStack(config, tied=config.tied)

    def encode(self, edges: Tensor, node_mask: Tensor | None = None, edge_mask: Tensor | None = None) -> Encoded:
        """The final states of the nodes, and the edges unchanged."""
        self._check(edges)
        return Encoded(self._nodes(edges, node_mask), edges)

    def read(
        self, edges: Tensor, pairs: Tensor, node_mask: Tensor | None = None, edge_mask: Tensor | None = None
    ) -> Tensor:
        """The final states of the two nodes of each pair: `[batch, m, 2] -> [batch, m, 2 * dim]`."""
        self._check(edges, pairs)
        return gather_nodes(self._nodes(edges, node_mask), pairs)

    def _nodes(self, edges: Tensor, node_mask: Tensor | None) -> Tensor:
        relations = Relations.unpack(self.relations(edges), self.config.heads)
        start = edges.new_zeros(edges.shape[0], edges.shape[1], self.config.dim)
        return self.stack(start, relations, node_mask)


class RelationUpdatingLayer(nn.Module):
    """One layer of RRAT: the nodes attend as in RAT, with relations that come from the edges of this layer; then

        x_ij = LN(x_ij + L [z_i; z_j]),    x_ij = LN(x_ij + FFN(x_ij))

    where z_i is what node i's heads have gathered. The paper speaks of "the representations for nodes i and j"; its
    released code takes them there, before the output projection and the residual. Nodes and edges each have their own
    norms and feed-forward network, placed as `config.norm` says; the equations are those of "post".
    """

    def __init__(self, config: RelationAwareConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.relations = nn.Linear(config.dim, 2 * config.dim, bias=config.attention_bias)
        self.attention = RelationAwareAttention(config)
        # L as two halves: the first is applied once to every node i, the second to every node j, not to all pairs.
        self.edge_update = nn.Linear(config.dim, 2 * config.dim, bias=config.attention_bias)
        init_parts(self.relations, 2)
        init_parts(self.edge_update, 2)
        self.node_residual = Residual(config)
        self.edge_residual = Residual(config)

    def forward(self, nodes: Tensor, edges: Tensor, node_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        mixed = self._mix(nodes, edges, node_mask)
        left, right = self.edge_update(mixed).chunk(2, dim=-1)  # (B, n, dim) each
        update = left[:, :, None] + right[:, None, :]  # (B, n, n, dim)
        return self.node_residual(nodes, self.attention.output(mixed)), self.edge_residual(edges, update)

    def read(self, nodes: Tensor, edges: Tensor, pairs: Tensor, node_mask: Tensor | None = None) -> Tensor:
        """What `forward` gives for the edges in `pairs` (`[batch, m, 2]`) alone: `[batch, m, dim]`."""
        row = torch.arange(edges.shape[0], device=edges.device)[:, None]
        start, end = pairs.unbind(-1)  # (B, m)
        left, right = self.edge_update(self._mix(nodes, edges, node_mask)).chunk(2, dim=-1)
        return self.edge_residual(edges[row, start, end], left[row, start] + right[row, end])

    def _mix(self, nodes: Tensor, edges: Tensor, node_mask: Tensor | None) -> Tensor:
        relations = Relations.unpack(self.relations(self.edge_residual.before(edges)), self.heads)
        return self.attention.mix(self.node_residual.before(nodes), relations, node_mask)


class RelationUpdatingTransformer(Encoder):
    """RRAT: a Relation-aware Transformer that updates its edges too, and is read at the queried edge.

    Nodes start at zero, edges as they are given. Every pair has a state, absent edges too, so `edge_mask` makes no
    difference.
    """

    config: RelationAwareConfig

    def __init__(self, config: RelationAwareConfig) -> None:
        super().__init__(config)
        self.layers = nn.ModuleList(RelationUpdatingLayer(config) for _ in range(1 if config.tied else config.layers))
        self.node_norm, self.edge_norm = final_norm(config), final_norm(config)

    def encode(self, edges: Tensor, node_mask: Tensor | None = None, edge_mask: Tensor | None = None) -> Encoded:
        """The final states of nodes and edges."""
        self._check(edges)
        encoded = self._run(edges, self._depth(), node_mask)
        return Encoded(self.node_norm(encoded.nodes), self.edge_norm(encoded.edges))

    def read(
        self, edges: Tensor, pairs: Tensor, node_mask: Tensor | None = None, edge_mask: Tensor | None = None
    ) -> Tensor:
        """The final state of the edges in `pairs` alone, `[batch, m, 2] -> [batch, m, dim]`.

        The same numbers as those of `encode`, for less work: the last layer computes no other edges.
        """
        self._check(edges, pairs)
        depth = self._depth()
        encoded = self._run(edges, depth - 1, node_mask)
        last = self.layers[(depth - 1) % len(self.layers)]
        assert isinstance(last, RelationUpdatingLayer)
        return self.edge_norm(last.read(encoded.nodes, encoded.edges, pairs, node_mask))

    def _run(self, edges: Tensor, layers: int, node_mask: Tensor | None) -> Encoded:
        nodes = edges.new_zeros(edges.shape[0], edges.shape[1], self.config.dim)
        for depth in range(layers):
            nodes, edges = self._run_layer(self.layers[depth % len(self.layers)], nodes, edges, node_mask)
        return Encoded(nodes, edges)
