"""A bidirectional LSTM over a sequence of tokens."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ..encoder import Encoded, Encoder
from .config import BiLSTMConfig
from .relation_aware import gather_nodes


class BiLSTM(Encoder):
    """An LSTM in both directions that reads its tokens from the self-edges and looks at no other edges.

    A node's state is that of both directions side by side, `dim` / 2 each. A pair is read as the final states of its
    two nodes side by side. The edges it answers with are those it was given: it has no other states of pairs.
    """

    config: BiLSTMConfig
    takes_edges: ClassVar[bool] = False
    has_edge_states: ClassVar[bool] = False

    def __init__(self, config: BiLSTMConfig) -> None:
        super().__init__(config)
        self.read_dim = 2 * config.dim
        self.lstm = nn.LSTM(
            config.dim,
            config.dim // 2,
            config.layers,
            batch_first=True,
            dropout=config.dropout if config.layers > 1 else 0.0,  # between the layers
            bidirectional=True,
        )

    def encode(self, edges: Tensor, node_mask: Tensor | None = None, edge_mask: Tensor | None = None) -> Encoded:
        """The final states of the nodes, and the edges unchanged. Padding is only behind the last real node."""
        self._check(edges)
        start = edges.diagonal(dim1=1, dim2=2).transpose(1, 2).contiguous()  # (B, n, dim)
        if node_mask is None:
            return Encoded(self.lstm(start)[0], edges)
        lengths = node_mask.sum(1)
        if not bool((node_mask.long().cummin(1).values == node_mask).all()) or not bool(lengths.all()):
            raise ValueError("node_mask must be True from the first node to the last real one, at least one a graph")
        packed = pack_padded_sequence(start, lengths.cpu(), batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=start.shape[1])
        return Encoded(states, edges)

    def read(
        self, edges: Tensor, pairs: Tensor, node_mask: Tensor | None = None, edge_mask: Tensor | None = None
    ) -> Tensor:
        """The final states of the two nodes of each pair: `[batch, m, 2] -> [batch, m, 2 * dim]`."""
        self._check(edges, pairs)
        return gather_nodes(self.encode(edges, node_mask).nodes, pairs)
