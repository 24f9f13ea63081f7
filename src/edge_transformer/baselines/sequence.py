"""A plain Transformer over a sequence of tokens, with relative positions."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from ..encoder import Encoded, Encoder
from .config import SequenceConfig
from .relation_aware import gather_nodes
from .transformer import RelativePositions, TransformerStack


class SequenceTransformer(Encoder):
    """A Transformer that reads its tokens from the self-edges and looks at no other edges.

    Relative positions, clipped at `max_distance`, enter the attention of all layers as in Shaw et al. (2018). A pair is
    read as the final states of its two nodes side by side. The edges it answers with are those it was given: it has no
    other states of pairs.
    """

    config: SequenceConfig
    takes_edges: ClassVar[bool] = False
    has_edge_states: ClassVar[bool] = False

    def __init__(self, config: SequenceConfig) -> None:
        super().__init__(config)
        self.read_dim = 2 * config.dim
        self.positions = RelativePositions(config.dim, config.heads, config.max_distance)
        self.stack = TransformerStack(config, tied=config.tied)

    def encode(self, edges: Tensor, node_mask: Tensor | None = None, edge_mask: Tensor | None = None) -> Encoded:
        """The final states of the nodes, and the edges unchanged."""
        self._check(edges)
        start = edges.diagonal(dim1=1, dim2=2).transpose(1, 2)  # (B, n, dim)
        return Encoded(self.stack(start, self.positions(edges.shape[1]), node_mask), edges)

    def read(
        self, edges: Tensor, pairs: Tensor, node_mask: Tensor | None = None, edge_mask: Tensor | None = None
    ) -> Tensor:
        """The final states of the two nodes of each pair: `[batch, m, 2] -> [batch, m, 2 * dim]`."""
        self._check(edges, pairs)
        return gather_nodes(self.encode(edges, node_mask).nodes, pairs)
