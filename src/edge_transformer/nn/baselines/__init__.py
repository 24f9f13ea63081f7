"""The paper's competitors behind the interface of the Edge Transformer, by the `kind` that a preset names."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..encoder import EdgeTransformer, Encoder
from ..layer import EdgeTransformerConfig
from .config import (
    BiLSTMConfig,
    GraphAttentionConfig,
    RelationAwareConfig,
    SequenceConfig,
    StoryConfig,
    UniversalSequenceConfig,
    UniversalStoryConfig,
)
from .gat import GraphAttentionNetwork
from .relation_aware import RelationAwareTransformer, RelationUpdatingTransformer
from .story import StoryTransformer
from .tokens import BiLSTM, SequenceTransformer


class Kind(NamedTuple):
    """A kind of model: its settings and its encoder, which is built from them."""

    config: type[Any]
    encoder: type[Encoder]


KINDS = {
    "edge": Kind(EdgeTransformerConfig, EdgeTransformer),
    "rat": Kind(RelationAwareConfig, RelationAwareTransformer),
    "rrat": Kind(RelationAwareConfig, RelationUpdatingTransformer),
    "gat": Kind(GraphAttentionConfig, GraphAttentionNetwork),
    "transformer": Kind(StoryConfig, StoryTransformer),
    "universal": Kind(UniversalStoryConfig, StoryTransformer),
}
# The same for sequences of tokens, which a Transformer need not be told as a story.
SEQUENCE_KINDS = {
    **{name: KINDS[name] for name in ("edge", "rat", "rrat")},
    "transformer": Kind(SequenceConfig, SequenceTransformer),
    "universal": Kind(UniversalSequenceConfig, SequenceTransformer),
    "bilstm": Kind(BiLSTMConfig, BiLSTM),
}
