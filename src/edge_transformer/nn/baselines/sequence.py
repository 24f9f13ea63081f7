"""A plain Transformer over a sequence of tokens, with relative positions."""

from __future__ import annotations

from torch import Tensor

from .config import SequenceConfig
from .token_encoder import TokenEncoder
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
