"""The paper's competitors behind the interface of the Edge Transformer, by the `kind` that a preset names."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..config import EdgeTransformerConfig
from ..encoder import EdgeTransformer, Encoder
from .config import GraphAttentionConfig, RelationAwareConfig, StoryConfig, UniversalStoryConfig
from .gat import GraphAttentionNetwork
from .relation_aware import RelationAwareTransformer, RelationUpdatingTransformer
from .story import StoryTransformer


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
