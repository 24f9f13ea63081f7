"""Encoders of sequences, which see tokens and no pairs of them: a Transformer, and a bidirectional LSTM."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ..encoder import TokenEncoder
from .config import BiLSTMConfig, SequenceConfig
from .transformer import RelativePositions, TransformerStack


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
