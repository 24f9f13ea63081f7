"""What encoders of sequences have in common: they see tokens, and of pairs of them nothing."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from torch import Tensor

from ..config import StackConfig
from ..encoder import Encoded, Encoder
from .relation_aware import gather_nodes


class TokenEncoder(Encoder):
    """An encoder that reads its tokens from the self-edges and looks at no other edges.

    A pair is read as the final states of its two nodes side by side. The edges it answers with are those it was given:
    it has no other states of pairs.
    """

    takes_edges: ClassVar[bool] = False
    has_edge_states: ClassVar[bool] = False

    def __init__(self, config: StackConfig) -> None:
        super().__init__(config)
        self.read_dim = 2 * config.dim

    @abstractmethod
    def encode_nodes(self, nodes: Tensor, node_mask: Tensor | None = None) -> Tensor:
        """The final states of tokens: `[batch, n, dim] -> [batch, n, dim]`."""

    def encode_tokens(self, nodes: Tensor, node_mask: Tensor | None = None) -> Encoded:
        """The same as `encode` for tokens without edges: those it answers with are zero, and take no memory."""
        batch, size, dim = nodes.shape
        return Encoded(self.encode_nodes(nodes, node_mask), nodes.new_zeros(()).expand(batch, size, size, dim))

    def encode(self, edges: Tensor, node_mask: Tensor | None = None, edge_mask: Tensor | None = None) -> Encoded:
        """The final states of the nodes, and the edges unchanged."""
        self._check(edges)
        return Encoded(self.encode_nodes(edges.diagonal(dim1=1, dim2=2).transpose(1, 2), node_mask), edges)

    def read(
        self, edges: Tensor, pairs: Tensor, node_mask: Tensor | None = None, edge_mask: Tensor | None = None
    ) -> Tensor:
        """The final states of the two nodes of each pair: `[batch, m, 2] -> [batch, m, 2 * dim]`."""
        self._check(edges, pairs)
        return gather_nodes(self.encode(edges, node_mask).nodes, pairs)
