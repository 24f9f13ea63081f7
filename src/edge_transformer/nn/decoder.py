"""Sequence to sequence with edges: an encoder, and a causal decoder whose graph holds the source and then the target.

    decoder's edges      to source j            to target j
    from source i        encoder's final state  one relation for all
    from target i        one relation for all   relative position i - j, plus the token where i = j

With `ends`, which the paper does not have, all of them but those among source nodes also say from the start which words
they lie between: target nodes by their tokens, source nodes by what the encoder made of them.

Target node 0 stands for the beginning, node t for the t-th token; the self-edge of node t says which token comes next.
An edge sees no pivot that comes after both of its nodes. It follows that edges among earlier nodes never change when a
node arrives: `cache.py` builds on that.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .cache import EdgeCache
from .encoder import EdgeTransformer
from .generation import EncoderDecoder, check_decoding, check_pair, check_step
from .inputs import TokenSequenceInput
from .layer import EdgeTransformerConfig, EdgeTransformerLayer
from .plain import may_be_skipped, require_steps


class DecoderInput(nn.Module):
    """The first state of the decoder's edges but those among source nodes, which the encoder has made.

    Relative positions are clipped at `max_distance`. The first target node has a learned vector in place of a token.
    With `ends` what is known of both nodes is added to each edge.
    """

    def __init__(self, dim: int, max_distance: int = 32, ends: bool = False) -> None:
        super().__init__()
        if max_distance < 1:
            raise ValueError(f"max_distance must be at least 1, but is {max_distance}")
        self.max_distance = max_distance
        self.relations = nn.Embedding(2 * max_distance + 3, dim)  # the distances, source to target, target to source
        nn.init.xavier_uniform_(self.relations.weight)
        self.beginning = nn.Parameter(torch.randn(dim))  # like the embedding of a token
        # What a node adds to the edges that start there, and to those that end there: [..., 2 * dim].
        self.source_ends = nn.Linear(dim, 2 * dim, bias=False) if ends else None
        self.target_ends = nn.Linear(dim, 2 * dim, bias=False) if ends else None

    def forward(self, source_edges: Tensor, embedded: Tensor) -> Tensor:
        """The edges of a graph of S source nodes and T target nodes: `[batch, S + T, S + T, dim]`.

        `source_edges` is `[batch, S, S, dim]`, `embedded` has what the self-edges of the target nodes carry,
        `[batch, T, dim]`.
        """
        batch, sources = source_edges.shape[:2]
        targets = embedded.shape[1]
        node = torch.arange(sources + targets, device=embedded.device)
        relations = self.relations(self._relation(node[:, None], node[None, :], sources))  # (n, n, dim)
        self_edges = torch.diag_embed(embedded.transpose(1, 2)).movedim(1, -1)  # (B, T, T, dim)
        upper = relations[:sources, sources:].expand(batch, -1, -1, -1)
        lower = relations[sources:, :sources].expand(batch, -1, -1, -1)
        inner = relations[sources:, sources:] + self_edges
        if self.target_ends is not None:
            source_starts, source_ends = self._of_sources(source_edges).transpose(0, 1).chunk(2, dim=-1)  # (B, S, dim)
            starts, ends = self.target_ends(embedded).chunk(2, dim=-1)  # (B, T, dim)
            upper = upper + source_starts[:, :, None] + ends[:, None]
            lower = lower + starts[:, :, None] + source_ends[:, None]
            inner = inner + starts[:, :, None] + ends[:, None]
        top = torch.cat([source_edges, upper], dim=2)
        bottom = torch.cat([lower, inner], dim=2)
        return torch.cat([top, bottom], dim=1)

    def _of_sources(self, source_edges: Tensor) -> Tensor:
        """What the source nodes add to edges that start and end there: `[S, batch, 2 * dim]`."""
        assert self.source_ends is not None
        return self.source_ends(source_edges.diagonal(dim1=1, dim2=2).permute(2, 0, 1))

    def first_ends(self, source_edges: Tensor) -> Tensor | None:
        """What `new_edges` wants to know of the nodes so far, before there is a target node: of those of the source."""
        return None if self.source_ends is None else self._of_sources(source_edges)

    def new_edges(
        self, nodes: int, sources: int, embedded: Tensor, ends: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """The edges of the last of `nodes` nodes, in the order of `EdgeCache`: `[2 * nodes - 1, batch, dim]`.

        `embedded` is what its self-edge carries, `[batch, dim]`; `ends` what earlier nodes add to edges of theirs. The
        second result is the same with what this node adds: `[nodes, batch, 2 * dim]`.
        """
        node = torch.arange(nodes, device=embedded.device)
        last = torch.full_like(node, nodes - 1)
        numbers = torch.cat([self._relation(node, last, sources)[:-1], self._relation(last, node, sources)])
        edges = self.relations(numbers)[:, None].repeat(1, embedded.shape[0], 1)
        edges[-1] += embedded
        if self.target_ends is not None and ends is not None:
            ends = torch.cat([ends, self.target_ends(embedded)[None]])
            starting, ending = ends.chunk(2, dim=-1)  # (n, B, dim)
            edges[: nodes - 1] += starting[:-1] + ending[-1]
            edges[nodes - 1 :] += starting[-1] + ending
        return edges, ends

    def _relation(self, start: Tensor, end: Tensor, sources: int) -> Tensor:
        """The number of the relation from one node to another."""
        number = (start - end).clamp(-self.max_distance, self.max_distance) + self.max_distance
        number = torch.where((start < sources) & (end >= sources), 2 * self.max_distance + 1, number)
        return torch.where((start >= sources) & (end < sources), 2 * self.max_distance + 2, number)


class EdgeDecoder(EdgeTransformer):
    """The stack of the decoder. It is read at the self-edges of the target nodes."""

    def read_targets(self, edges: Tensor, sources: int, node_mask: Tensor | None = None) -> Tensor:
        """The final states of the self-edges of all nodes from `sources` on: `[batch, n - sources, dim]`.

        The same numbers as those of `forward` with `causal_from=sources`, for less work: the last layer computes no
        other edges.
        """
        self._check(edges)

        def self_edges(states: Tensor) -> Tensor:
            return states.diagonal(dim1=1, dim2=2).movedim(-1, 1)[:, sources:]  # (B, T, ...)

        if not may_be_skipped(self, EdgeTransformer):
            return self_edges(self(edges, node_mask, sources))
        depth = self._depth()
        edges, last = self._run(edges, depth - 1, node_mask, sources), self.layer(depth - 1)
        if not may_be_skipped(last, EdgeTransformerLayer):
            return self.final_norm(self_edges(self._run_layer(last, edges, node_mask, sources)))
        pivot = torch.arange(edges.shape[1], device=edges.device)
        allowed = ((pivot < sources) | (pivot <= pivot[sources:, None]))[None]  # (1, T, n)
        if node_mask is not None:
            allowed = allowed & node_mask[:, None, :]

        def pick(states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            return states[:, sources:], states[:, :, sources:].transpose(1, 2), self_edges(states)  # (B, T, n, ...)

        return self.final_norm(self._read_layer(last.read_edges, self_edges(edges), edges, pick, allowed))

    def start(self, source_edges: Tensor, node_mask: Tensor | None = None, limit: int | None = None) -> EdgeCache:
        """What decoding from this source needs to remember."""
        require_steps(self, EdgeTransformer, "its layers")
        return EdgeCache(list(map(self.layer, range(self.config.layers))), source_edges, node_mask, limit)


class EdgeSeq2Seq(EncoderDecoder):
    """The encoder-decoder Edge Transformer: sequences of token numbers to sequences of token numbers.

    Encoder and decoder have the same shape and weights of their own. Without `target_tokens` both sides have one
    vocabulary and one table of embeddings. `ends` is that of `DecoderInput`.

    >>> import torch
    >>> model = EdgeSeq2Seq(EdgeTransformerConfig(dim=8, heads=2, layers=2), source_tokens=10).eval()
    >>> source, target = torch.tensor([[3, 1, 4]]), torch.tensor([[1, 5, 9, 2]])
    >>> model(source, target).shape
    torch.Size([1, 4, 10])
    >>> state = model.start(source)
    >>> model.step(state, None).shape, model.step(state, target[:, 0]).shape
    (torch.Size([1, 10]), torch.Size([1, 10]))
    """

    has_edge_states = True

    def __init__(
        self,
        config: EdgeTransformerConfig,
        source_tokens: int,
        target_tokens: int | None = None,
        *,
        max_distance: int = 32,
        ends: bool = False,
        engine: str = "auto",
    ) -> None:
        super().__init__()
        self.config = config
        self.source_input = TokenSequenceInput(source_tokens, config.dim, max_distance)
        self.target_tokens = None if target_tokens is None else nn.Embedding(target_tokens, config.dim)
        self.decoder_input = DecoderInput(config.dim, max_distance, ends)
        self.encoder = EdgeTransformer(config, engine)
        self.decoder = EdgeDecoder(config, engine)
        self.output = nn.Linear(config.dim, target_tokens or source_tokens, bias=False)

    def forward(self, source: Tensor, target: Tensor, source_mask: Tensor | None = None) -> Tensor:
        check_pair(source, target, source_mask)
        source_edges = self.encoder(self.source_input(source), source_mask)
        before = self.decoder_input.beginning.expand(source.shape[0], 1, -1)
        embedded = torch.cat([before, self.embed(target[:, :-1])], dim=1)  # (B, T, dim)
        node_mask = None
        if source_mask is not None:
            node_mask = torch.cat([source_mask, source_mask.new_ones(target.shape)], dim=1)
        edges = self.decoder_input(source_edges, embedded)
        return self.output(self.decoder.read_targets(edges, source.shape[1], node_mask))

    @torch.no_grad()
    def start(self, source: Tensor, source_mask: Tensor | None = None, limit: int | None = None) -> EdgeCache:
        check_decoding(self, source, source_mask)
        require_steps(self.decoder_input, DecoderInput, "its embeddings and products")
        source_edges = self.encoder(self.source_input(source), source_mask)
        state = self.decoder.start(source_edges, source_mask, limit)
        state.ends = self.decoder_input.first_ends(source_edges)
        return state

    @torch.no_grad()
    def step(self, state: EdgeCache, tokens: Tensor | None) -> Tensor:
        check_step(state.steps, state.rows, tokens)
        embedded = self.decoder_input.beginning.expand(state.rows, -1) if tokens is None else self.embed(tokens)
        new, state.ends = self.decoder_input.new_edges(state.nodes + 1, state.sources, embedded, state.ends)
        return self.output(self.decoder.final_norm(state.extend(new)))

    def embed(self, tokens: Tensor) -> Tensor:
        """The vectors of target tokens."""
        return (self.source_input.tokens if self.target_tokens is None else self.target_tokens)(tokens)
