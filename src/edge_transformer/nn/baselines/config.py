"""The settings of the baselines: one frozen dataclass for each kind of model.

Names and meanings are those of `EdgeTransformerConfig` wherever both have a setting, so that a preset of a baseline can
build on one of the Edge Transformer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...io.settings import require_choice, require_positive
from ..layer import require_heads, require_stack

NORMS = ("post", "pre")


@dataclass(frozen=True)
class TransformerConfig:
    """What a stack of Transformer layers needs to know. See `transformer.TransformerStack`."""

    dim: int
    heads: int
    layers: int
    dropout: float = 0.0
    ff_factor: int = 4  # hidden units of the feed-forward network, in multiples of dim
    attention_bias: bool = True
    norm: str = "post"  # "post" | "pre"
    min_layers: int | None = None  # in training, each call runs a random number of layers, from this many to `layers`

    def __post_init__(self) -> None:
        require_positive(self, "ff_factor")
        require_stack(self)
        require_heads(self)
        require_choice(self, "norm", NORMS)


@dataclass(frozen=True)
class RelationAwareConfig(TransformerConfig):
    """A Relation-aware Transformer, with fixed relations (`rat`) or with relations that are updated (`rrat`)."""

    tied: bool = True  # one set of weights for all layers


@dataclass(frozen=True)
class StoryConfig(TransformerConfig):
    """A plain Transformer that reads a graph as a sequence of tokens. See `story.StoryTransformer`."""

    tied: ClassVar[bool] = False  # no setting: tied weights make it another kind of model

    entities: int = 40  # names for the nodes of one graph; a larger graph is refused
    max_distance: int = 8  # relative positions are clipped here; every distance should occur in training

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "entities", "max_distance")


@dataclass(frozen=True)
class UniversalStoryConfig(StoryConfig):
    """The same with one set of weights for all layers: a Universal Transformer without adaptive halting."""

    tied: ClassVar[bool] = True


@dataclass(frozen=True)
class SequenceConfig(TransformerConfig):
    """A plain Transformer over a sequence of tokens. See `tokens.SequenceTransformer`."""

    tied: ClassVar[bool] = False  # no setting: tied weights make it another kind of model

    max_distance: int = 16  # relative positions are clipped here

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "max_distance")


@dataclass(frozen=True)
class UniversalSequenceConfig(SequenceConfig):
    """The same with one set of weights for all layers: a Universal Transformer without adaptive halting."""

    tied: ClassVar[bool] = True


@dataclass(frozen=True)
class BiLSTMConfig:
    """A bidirectional LSTM over a sequence of tokens. See `tokens.BiLSTM`."""

    min_layers: ClassVar[None] = None  # no setting: all layers always run

    dim: int  # of both directions together
    layers: int
    dropout: float = 0.0  # between the layers

    def __post_init__(self) -> None:
        require_stack(self)
        if self.dim % 2:
            raise ValueError(f"dim={self.dim} is not divisible by 2: each direction has a half")


@dataclass(frozen=True)
class GraphAttentionConfig:
    """A graph attention network. See `gat.GraphAttentionNetwork`."""

    dim: int
    heads: int
    layers: int
    tied: bool = True  # one set of weights for all layers
    dropout: float = 0.0
    attention_bias: bool = True
    min_layers: int | None = None  # in training, each call runs a random number of layers, from this many to `layers`

    def __post_init__(self) -> None:
        require_stack(self)
        require_heads(self)
