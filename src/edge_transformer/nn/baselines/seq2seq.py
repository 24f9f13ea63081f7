"""Sequence to sequence with nodes: the Transformer and the Universal Transformer as baselines of `decoder.EdgeSeq2Seq`.

Relative positions (Shaw et al., 2018) in the self-attention of both sides, and no others; attention to the source
between them; the usual cache of keys and values. A Universal Transformer has one set of weights for all layers of a
side, and here no adaptive halting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..encoder import Stack
from ..generation import EncoderDecoder, check_decoding, check_pair, check_rows, check_step
from ..layer import FeedForward, add_update
from .config import SequenceConfig, TransformerConfig
from .transformer import RelationAwareAttention, Relations, RelativePositions, TransformerStack, final_norm, init_parts

FIRST_TARGETS = 32  # target tokens that there is room for at first, before the memory is doubled


@dataclass(frozen=True)
class Seq2SeqTransformerConfig(SequenceConfig):
    """A Transformer encoder-decoder; `layers` counts those of each side."""

    max_distance: int = 32  # relative positions are clipped here


@dataclass(frozen=True)
class UniversalSeq2SeqTransformerConfig(Seq2SeqTransformerConfig):
    """The same with one set of weights for all layers of a side."""

    tied: ClassVar[bool] = True


class CausalAttention(RelationAwareAttention):
    """Self-attention with relative positions in which no node sees a later one."""

    def parts(self, nodes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of nodes, `[batch, n, dim] -> [batch, heads, n, head_dim]` each."""
        q, k, v = self.projections(nodes).unflatten(-1, (3, self.heads, -1)).transpose(1, 3).unbind(2)
        return q, k, v

    def attend(self, q: Tensor, k: Tensor, v: Tensor, relations: Relations) -> Tensor:
        """What the last `m` of n nodes gather from themselves and all nodes before them: `[batch, m, dim]`.

        `q` is `[batch, heads, m, head_dim]`, `k` and `v` have n nodes, `relations` those of the m nodes to all n.
        """
        m, n = q.shape[2], k.shape[2]
        scores = q @ k.transpose(-1, -2)  # (B, h, m, n)
        scores = (scores + torch.einsum("bhid,ihjd->bhij", q, relations.keys)) * q.shape[-1] ** -0.5
        if m > 1:
            node = torch.arange(n, device=q.device)
            scores = scores.masked_fill(node[None, :] > node[n - m :, None], -torch.inf)  # its own it always sees
        weights = F.dropout(scores.softmax(-1), self.dropout_p, self.training)
        mixed = weights @ v + torch.einsum("bhij,ihjd->bhid", weights, relations.values)
        return self.output(mixed.transpose(1, 2).flatten(-2))


class CrossAttention(nn.Module):
    """Attention of the target's nodes to those of the source."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.heads, self.dropout_p = config.heads, config.dropout
        self.query = nn.Linear(config.dim, config.dim, bias=config.attention_bias)
        self.source = nn.Linear(config.dim, 2 * config.dim, bias=config.attention_bias)
        self.output = nn.Linear(config.dim, config.dim, bias=config.attention_bias)
        init_parts(self.query, 1)
        init_parts(self.source, 2)
        init_parts(self.output, 1)

    def parts(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of the source's nodes, `[batch, S, dim] -> [batch, heads, S, head_dim]` each."""
        k, v = self.source(source).unflatten(-1, (2, self.heads, -1)).transpose(1, 3).unbind(2)
        return k, v

    def forward(self, nodes: Tensor, keys: Tensor, values: Tensor, source_mask: Tensor | None) -> Tensor:
        q = self.query(nodes).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, h, m, d)
        # A finite filling rather than a bool mask: a source without any token must not give NaN.
        filling = None
        if source_mask is not None:
            filling = torch.zeros(source_mask.shape, dtype=q.dtype, device=q.device)
            filling = filling.masked_fill(~source_mask, torch.finfo(q.dtype).min)[:, None, None, :]
        dropout_p = self.dropout_p if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, keys, values, attn_mask=filling, dropout_p=dropout_p)
        return self.output(mixed.transpose(1, 2).flatten(-2))


class DecoderLayer(nn.Module):
    """Self-attention, attention to the source, feed-forward network; norms placed as in `transformer.Residual`."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.norm, self.dropout_p = config.norm, config.dropout
        self.attention, self.cross = CausalAttention(config), CrossAttention(config)
        self.feed_forward = FeedForward(config.dim, config.ff_factor * config.dim, config.dropout)
        self.norms = nn.ModuleList(nn.LayerNorm(config.dim) for _ in range(3))

    def forward(
        self, nodes: Tensor, keys: Tensor, values: Tensor, relations: Relations, source_mask: Tensor | None
    ) -> Tensor:
        """`keys` and `values` are those of the source, as `CrossAttention.parts` gives them."""
        q, k, v = self.attention.parts(self.before(nodes))
        return self.finish(nodes, self.attention.attend(q, k, v, relations), keys, values, source_mask)

    def before(self, nodes: Tensor) -> Tensor:
        """What the self-attention is computed from."""
        return self.norms[0](nodes) if self.norm == "pre" else nodes

    def finish(self, nodes: Tensor, update: Tensor, keys: Tensor, values: Tensor, source_mask: Tensor | None) -> Tensor:
        """From the update of the self-attention to the end of the layer."""
        nodes = self._after(nodes, update, 0)
        nodes = self._after(nodes, self.cross(self._ahead(nodes, 1), keys, values, source_mask), 1)
        return self._after(nodes, self.feed_forward(self._ahead(nodes, 2)), 2)

    def _ahead(self, nodes: Tensor, number: int) -> Tensor:
        return self.norms[number](nodes) if self.norm == "pre" else nodes

    def _after(self, nodes: Tensor, update: Tensor, number: int) -> Tensor:
        nodes = add_update(nodes, update, self.dropout_p if self.training else 0.0)
        return nodes if self.norm == "pre" else self.norms[number](nodes)


class DecoderStack(Stack):
    """Decoder layers one after the other."""

    config: Seq2SeqTransformerConfig

    def __init__(self, config: Seq2SeqTransformerConfig) -> None:
        super().__init__(config)
        self.positions = RelativePositions(config.dim, config.heads, config.max_distance)
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(1 if config.tied else config.layers))
        self.final_norm = final_norm(config)

    def forward(self, nodes: Tensor, source: Tensor, source_mask: Tensor | None) -> Tensor:
        """`[batch, T, dim]`, `[batch, S, dim] -> [batch, T, dim]`."""
        relations = self.positions(nodes.shape[1])
        of_source: dict[int, tuple[Tensor, Tensor]] = {}  # tied layers have the same keys and values of it
        for depth in range(self._depth()):
            layer = self.layers[depth % len(self.layers)]
            assert isinstance(layer, DecoderLayer)
            if id(layer) not in of_source:
                of_source[id(layer)] = layer.cross.parts(source)
            nodes = self._run_layer(layer, nodes, *of_source[id(layer)], relations, source_mask)
        return self.final_norm(nodes)

    def relations_of_last(self, n: int) -> Relations:
        """The relations of the last of n nodes to all of them, `[1, heads, n, head_dim]`."""
        distance = torch.arange(n - 1, -1, -1, device=self.positions.distances.weight.device)
        distance = distance.clamp(max=self.positions.max_distance) + self.positions.max_distance
        return Relations.unpack(self.positions.distances(distance)[None], self.positions.heads)


class KeyValueCache:
    """The state of decoding: keys and values of all layers, of the target so far and of the source."""

    def __init__(self, stack: DecoderStack, source: Tensor, source_mask: Tensor | None, limit: int | None) -> None:
        self.rows = len(source)
        self.steps = 0  # target nodes so far
        self._mask, self._limit = source_mask, limit
        self._read = torch.arange(self.rows, device=source.device)  # the number of each row's source
        self._stack = stack
        # Tied layers have the same keys and values of the source.
        self._source = [torch.stack(layer.cross.parts(source)) for layer in self._layers(len(stack.layers))]
        config = stack.config
        room = FIRST_TARGETS if limit is None else min(FIRST_TARGETS, limit)
        shape = (2, self.rows, config.heads, room, config.dim // config.heads)
        self._target = [source.new_empty(shape) for _ in range(config.layers)]  # keys and values

    def _layers(self, count: int) -> Sequence[DecoderLayer]:
        layers = [self._stack.layers[depth % len(self._stack.layers)] for depth in range(count)]
        return [layer for layer in layers if isinstance(layer, DecoderLayer)]

    def extend(self, nodes: Tensor) -> Tensor:
        """Add a node, `[batch, dim]`, and give back its last state."""
        self._make_room()
        last = self.steps
        self.steps += 1
        relations = self._stack.relations_of_last(self.steps)
        nodes = nodes[:, None]  # (B, 1, dim)
        for depth, (layer, target) in enumerate(zip(self._layers(len(self._target)), self._target, strict=True)):
            q, k, v = layer.attention.parts(layer.before(nodes))  # (B, h, 1, d)
            target[0, :, :, last], target[1, :, :, last] = k[:, :, 0], v[:, :, 0]
            keys, values = target[:, :, :, : self.steps]
            update = layer.attention.attend(q, keys, values, relations)
            keys, values = self._source[depth % len(self._source)]
            nodes = layer.finish(nodes, update, keys, values, self._mask)
        return self._stack.final_norm(nodes)[:, 0]

    def reorder(self, index: Tensor) -> None:
        """Let row r go on from what was row `index[r]`. Rows may be repeated and left out."""
        check_rows(index, self.rows)
        self._target = [_take(parts, index, parts[:, :, :, : self.steps]) for parts in self._target]
        read = self._read[index]
        if not torch.equal(read, self._read):  # the rows of a beam have one source, and change places among themselves
            self._source = [_take(parts, index, parts) for parts in self._source]
            self._mask = None if self._mask is None else self._mask[index]
        self.rows, self._read = len(index), read

    def _make_room(self) -> None:
        room = self._target[0].shape[3]
        if self.steps < room:
            return
        wanted = 2 * room
        if self._limit is not None and self._limit > room:
            wanted = min(wanted, self._limit)
        for depth, before in enumerate(self._target):
            self._target[depth] = before.new_empty((*before.shape[:3], wanted, before.shape[4]))
            self._target[depth][:, :, :, :room] = before


def _take(parts: Tensor, index: Tensor, used: Tensor) -> Tensor:
    """Keys and values, `[2, rows, ...]`, of other rows; `used` is the part that is. Rows that stay are not touched."""
    if len(index) != parts.shape[1]:
        return parts.index_select(1, index)
    (moved,) = torch.where(index != torch.arange(len(index), device=index.device))
    if len(moved):
        used.index_copy_(1, moved, used.index_select(1, index[moved]))
    return parts


class TransformerSeq2Seq(EncoderDecoder):
    """A Transformer encoder-decoder.

    Without `target_tokens` both sides have one vocabulary and one table of embeddings.
    """

    def __init__(
        self,
        config: Seq2SeqTransformerConfig,
        source_tokens: int,
        target_tokens: int | None = None,
    ) -> None:
        super().__init__()
        self.config = config
        self.source_tokens = nn.Embedding(source_tokens, config.dim)
        self.target_tokens = None if target_tokens is None else nn.Embedding(target_tokens, config.dim)
        self.beginning = nn.Parameter(torch.randn(config.dim))  # like the embedding of a token
        self.positions = RelativePositions(config.dim, config.heads, config.max_distance)
        self.encoder = TransformerStack(config, tied=config.tied)
        self.decoder = DecoderStack(config)
        self.output = nn.Linear(config.dim, target_tokens or source_tokens, bias=False)

    def forward(self, source: Tensor, target: Tensor, source_mask: Tensor | None = None) -> Tensor:
        check_pair(source, target, source_mask)
        embedded = torch.cat([self.beginning.expand(source.shape[0], 1, -1), self.embed(target[:, :-1])], dim=1)
        return self.output(self.decoder(embedded, self._encode(source, source_mask), source_mask))

    @torch.no_grad()
    def start(self, source: Tensor, source_mask: Tensor | None = None, limit: int | None = None) -> KeyValueCache:
        check_decoding(self, source, source_mask)
        return KeyValueCache(self.decoder, self._encode(source, source_mask), source_mask, limit)

    @torch.no_grad()
    def step(self, state: KeyValueCache, tokens: Tensor | None) -> Tensor:
        check_step(state.steps, state.rows, tokens)
        embedded = self.beginning.expand(state.rows, -1) if tokens is None else self.embed(tokens)
        return self.output(state.extend(embedded))

    def _encode(self, source: Tensor, source_mask: Tensor | None) -> Tensor:
        return self.encoder(self.source_tokens(source), self.positions(source.shape[1]), source_mask)

    def embed(self, tokens: Tensor) -> Tensor:
        """The vectors of target tokens."""
        return (self.source_tokens if self.target_tokens is None else self.target_tokens)(tokens)
