"""A plain Transformer that reads a labelled graph as a sequence of tokens."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from ...errors import UserError
from ..encoder import Encoded, Encoder
from .config import StoryConfig
from .transformer import RelativePositions, TransformerStack

QUESTION = 3  # tokens of the question: entity, entity, separator
FACT = 3  # tokens of a fact: entity, relation, entity


class Facts(NamedTuple):
    """The edges of each graph as a list, in the order of their first and then their second node."""

    start: Tensor  # (B, facts)
    end: Tensor  # (B, facts)
    real: Tensor  # (B, facts), False where a graph has fewer edges than another

    @classmethod
    def of(cls, edge_mask: Tensor) -> Facts:
        """List the True entries of `[B, n, n]`."""
        n = edge_mask.shape[1]
        flat = edge_mask.flatten(1)
        counts = flat.sum(1)
        longest = int(counts.max()) if len(counts) else 0
        places = (~flat).to(torch.uint8).argsort(dim=1, stable=True)[:, :longest]  # those that are there come first
        real = torch.arange(longest, device=flat.device) < counts[:, None]
        return cls(places // n, places % n, real)


class StoryTransformer(Encoder):
    """A Transformer over the linearised graph. The question comes first, a fact for each edge after it:

        a  b  |    x1  r1  y1    x2  r2  y2    ...

    Entity tokens are names from a pool. In training every graph gets names at random, so that all of them are learned,
    though a graph of the training set uses only a few; otherwise node i has name i. Relation tokens are the first state
    of their edges. Relative positions, clipped, enter the attention of all layers as in Shaw et al. (2018), so that a
    story may be longer than any in training. Each pair is asked for in a sequence of its own, and read as the final
    states of its two question tokens side by side.

    What it is sensitive to: facts are told in the order of the numbers of their nodes, and their places in the sequence
    count. In CLUTRR's files nodes are numbered along the chain of relations, so that each fact follows the one it has
    to be combined with: the task is easier than for a model that sees a graph without order. Other numbers for the same
    nodes may give another answer, which is true of no other encoder here. Padding changes nothing.

    Without `edge_mask` every pair counts as a fact.
    """

    config: StoryConfig

    def __init__(self, config: StoryConfig) -> None:
        super().__init__(config)
        self.read_dim = 2 * config.dim
        self.entities = nn.Embedding(config.entities, config.dim)
        self.separator = nn.Parameter(torch.zeros(config.dim))
        nn.init.xavier_uniform_(self.entities.weight)
        self.positions = RelativePositions(config.dim, config.heads, config.max_distance)
        self.stack = TransformerStack(config, tied=config.tied)

    def encode(self, edges: Tensor, node_mask: Tensor | None = None, edge_mask: Tensor | None = None) -> Encoded:
        """States of a story without a question: of a node, the mean over the tokens that name it; of an edge, that of
        its relation token. Nodes that no fact names and absent edges are zero.
        """
        self._check(edges)
        batch, n, _, dim = edges.shape
        facts = Facts.of(_real_edges(edges, node_mask, edge_mask))
        tokens, real = self._tell(edges, facts, self._names(edges))
        states = self._run(tokens, real).unflatten(1, (-1, FACT))  # (B, facts, 3, dim)
        states = states * facts.real[..., None, None]
        row = torch.arange(batch, device=edges.device)[:, None]
        sums = edges.new_zeros(batch, n, dim)
        mentions = edges.new_zeros(batch, n, 1)
        for place, token in ((facts.start, 0), (facts.end, 2)):
            sums = sums.index_put((row, place), states[:, :, token], accumulate=True)
            mentions = mentions.index_put((row, place), facts.real[..., None].to(edges.dtype), accumulate=True)
        # Accumulated, not set: the entries beyond a graph's last fact are zero and may name any of its edges.
        final = torch.zeros_like(edges).index_put((row, facts.start, facts.end), states[:, :, 1], accumulate=True)
        return Encoded(sums / mentions.clamp(min=1), final)

    def read(
        self, edges: Tensor, pairs: Tensor, node_mask: Tensor | None = None, edge_mask: Tensor | None = None
    ) -> Tensor:
        """The final states of the question tokens of each pair: `[batch, m, 2] -> [batch, m, 2 * dim]`."""
        self._check(edges, pairs)
        m = pairs.shape[1]
        facts = Facts.of(_real_edges(edges, node_mask, edge_mask))
        names = self._names(edges)  # (B, n)
        asked = self.entities(names.gather(1, pairs.flatten(1)).view_as(pairs))  # (B, m, 2, dim)
        question = torch.cat([asked, self.separator.expand(*asked.shape[:2], 1, -1)], dim=2)  # (B, m, 3, dim)
        story, real = self._tell(edges, facts, names)
        # Each pair is asked about a copy of the story: (B, tokens, dim) -> (B * m, 3 + tokens, dim)
        tokens = torch.cat([question, story[:, None].expand(-1, m, -1, -1)], dim=2).flatten(0, 1)
        real = torch.cat([real.new_ones(len(real), QUESTION), real], dim=1).repeat_interleave(m, dim=0)
        return self._run(tokens, real)[:, :2].reshape(*pairs.shape[:2], self.read_dim)

    def _names(self, edges: Tensor) -> Tensor:
        """The number of each node's name, `[B, n]`."""
        batch, n = edges.shape[:2]
        if n > self.config.entities:
            raise UserError(
                f"found a graph of {n} nodes; expected at most model.entities={self.config.entities}, "
                "for which this model has learned names"
            )
        if not self.training:
            return torch.arange(n, device=edges.device).expand(batch, -1)
        return torch.rand(batch, self.config.entities, device=edges.device).argsort(dim=1)[:, :n]

    def _tell(self, edges: Tensor, facts: Facts, names: Tensor) -> tuple[Tensor, Tensor]:
        """The tokens of the facts, `[B, 3 * facts, dim]`, and which of them are real."""
        row = torch.arange(edges.shape[0], device=edges.device)[:, None]
        relation = edges[row, facts.start, facts.end]
        start, end = (self.entities(names.gather(1, place)) for place in (facts.start, facts.end))
        tokens = torch.stack([start, relation, end], dim=2).flatten(1, 2)
        return tokens, facts.real.repeat_interleave(FACT, dim=1)

    def _run(self, tokens: Tensor, real: Tensor) -> Tensor:
        return self.stack(tokens, self.positions(tokens.shape[1]), real)


def _real_edges(edges: Tensor, node_mask: Tensor | None, edge_mask: Tensor | None) -> Tensor:
    """Which pairs are edges between real nodes: bool `[B, n, n]`."""
    real = edges.new_ones(edges.shape[:3], dtype=torch.bool) if edge_mask is None else edge_mask
    return real if node_mask is None else real & node_mask[:, :, None] & node_mask[:, None, :]
