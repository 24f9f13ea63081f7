"""Encoders of sequences, which see tokens and no pairs of them: a Transformer, and a bidirectional LSTM."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ..encoder import Encoded, Encoder
from ..layer import StackConfig
from .config import BiLSTMConfig, SequenceConfig
from .relation_aware import gather_nodes
from .transformer import RelativePositions, TransformerStack


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


class SequenceTransformer(TokenEncoder):
    """A Transformer over tokens, tied or not.

    Relative positions, clipped at `max_distance`, enter the attention of all layers as in Shaw et al. (2018).
    """

    config: SequenceConfig

    def __init__(self, config: SequenceConfig) -> None:
        super().__init__(config)
        self.positions = RelativePositions(config.dim, config.heads, config.max_distance)
        self.stack = TransformerStack(config, tied=config.tied)

    def encode_nodes(self, nodes: Tensor, node_mask: Tensor | None = None) -> Tensor:
        return self.stack(nodes, self.positions(nodes.shape[1]), node_mask)


class BiLSTM(TokenEncoder):
    """An LSTM in both directions. A node's state is that of both side by side, `dim` / 2 each."""

    config: BiLSTMConfig

    def __init__(self, config: BiLSTMConfig) -> None:
        super().__init__(config)
        self.lstm = nn.LSTM(
            config.dim,
            config.dim // 2,
            config.layers,
            batch_first=True,
            dropout=config.dropout if config.layers > 1 else 0.0,  # between the layers
            bidirectional=True,
        )

    def encode_nodes(self, nodes: Tensor, node_mask: Tensor | None = None) -> Tensor:
        """Padding is only behind the last real node."""
        nodes = nodes.contiguous()
        if node_mask is None:
            return self.lstm(nodes)[0]
        lengths = node_mask.sum(1)
        if not bool((node_mask.long().cummin(1).values == node_mask).all()) or not bool(lengths.all()):
            raise ValueError("node_mask must be True from the first node to the last real one, at least one a graph")
        packed = pack_padded_sequence(nodes, lengths.cpu(), batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=nodes.shape[1])[0]
