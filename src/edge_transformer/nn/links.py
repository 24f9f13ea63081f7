"""Whole knowledge graphs: from facts to the states of all pairs of nodes, and from these to scores of links."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .encoder import Encoded, Encoder

FULL_LOGITS = 1 << 24  # scores of all pairs and relations are computed at once up to so many


class LinkInput(nn.Module):
    """A knowledge graph: x_ij is the sum of the vectors of all relations from i to j and, others, of all from j to i.

    Every pair has a null vector added, every self-edge a vector of its own. So a state says nothing about who the nodes
    are, and the model answers on graphs that it never saw. What is known of nodes is added to all edges that start, and
    that end at them: an embedding of each of `entities` (for a fixed graph only), the sum of those of its types, of
    which there are `types`, and a linear image of its `features`.
    """

    def __init__(self, relations: int, dim: int, *, entities: int = 0, types: int = 0, features: int = 0) -> None:
        super().__init__()
        self.forth, self.back = nn.Embedding(relations, dim), nn.Embedding(relations, dim)
        self.null, self.itself = nn.Parameter(torch.empty(dim)), nn.Parameter(torch.empty(dim))
        for weight in (self.forth.weight, self.back.weight, self.null, self.itself):
            nn.init.normal_(weight, std=0.3)
        self.entities = nn.Embedding(entities, 2 * dim) if entities else None  # as start and as end of an edge
        self.types = nn.EmbeddingBag(types, 2 * dim, mode="sum") if types else None
        for table in (self.entities, self.types):
            if table is not None:
                nn.init.normal_(table.weight, std=0.1)
        self.features = nn.Linear(features, 2 * dim, bias=False) if features else None

    def forward(
        self,
        facts: Tensor,
        nodes: int,
        entities: Tensor | None = None,
        types: tuple[Tensor, Tensor] | None = None,
        features: Tensor | None = None,
    ) -> Tensor:
        """Facts `[facts, 3]`, numbers of head, relation and tail -> `[1, nodes, nodes, dim]`.

        entities: `[nodes]`, the number of each node's embedding, -1 for a node that has none. types: the numbers of the
        types of all nodes, and where those of each begin. features: `[nodes, features]`.
        """
        head, relation, tail = facts.unbind(1)
        dim = len(self.null)
        # Sums over several relations of a pair: no tensor of all pairs and relations.
        edges = self.null.expand(nodes * nodes, dim)
        edges = edges.index_add(0, head * nodes + tail, self.forth(relation))
        edges = edges.index_add(0, tail * nodes + head, self.back(relation))
        edges = edges.index_add(
            0, torch.arange(nodes, device=facts.device) * (nodes + 1), self.itself.expand(nodes, dim)
        )
        edges = edges.view(1, nodes, nodes, dim)
        told = []
        if self.entities is not None and entities is not None:
            has = (entities >= 0)[:, None]
            told.append(self.entities(entities.clamp(min=0)) * has)
        if self.types is not None and types is not None:
            told.append(self.types(*types))
        if self.features is not None and features is not None:
            told.append(self.features(features.to(self.null.dtype)))
        if told:
            start, end = sum(told[1:], told[0]).chunk(2, dim=-1)  # (n, dim) each
            edges = edges + start[:, None] + end[None]
        return edges


class LinkHead(nn.Module):
    """Scores of links: of (i, r, j) from the states of both edges between i and j, those of (i, j) and of (j, i)."""

    def __init__(self, dim: int, relations: int) -> None:
        super().__init__()
        self.forth, self.back = nn.Linear(dim, relations), nn.Linear(dim, relations, bias=False)

    def forward(self, states: Tensor, nodes: Tensor, relations: Tensor, tails: bool) -> Tensor:
        """The scores of all nodes as the tails, or as the heads, of links: `[questions, n]`.

        states: `[n, n, dim]`; nodes, relations: `[questions]`, what is given of each link.
        """
        n, _, dim = states.shape
        forth, back = (states, states.transpose(0, 1)) if tails else (states.transpose(0, 1), states)
        if n * n * self.forth.out_features <= min(FULL_LOGITS, len(nodes) * n * dim):
            logits = self.forth(states) + self.back(states.transpose(0, 1))  # (n, n, relations)
            return logits[nodes, :, relations] if tails else logits[:, nodes, relations].T
        scores = torch.einsum("qnd,qd->qn", forth[nodes], self.forth.weight[relations])
        scores = scores + torch.einsum("qnd,qd->qn", back[nodes], self.back.weight[relations])
        return scores + self.forth.bias[relations][:, None]

    def pairs(self, states: Tensor, pairs: Tensor) -> Tensor:
        """The scores of all relations between some nodes, `[m, 2]` heads and tails -> `[m, relations]`."""
        head, tail = pairs.unbind(1)
        return self.forth(states[head, tail]) + self.back(states[tail, head])

    def of_relation(self, states: Tensor, relation: int) -> Tensor:
        """The scores of one relation between all nodes: `[heads, tails]`."""
        forth, back = states @ self.forth.weight[relation], states @ self.back.weight[relation]  # (n, n) each
        return forth + back.T + self.forth.bias[relation]


class PairStates(nn.Module):
    """States of pairs for encoders that have states of nodes alone: a hidden layer on those of both nodes."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.ends, self.output = nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)

    def forward(self, encoded: Encoded) -> Tensor:
        """`[batch, n, n, dim]`."""
        start, end = self.ends(encoded.nodes).chunk(2, dim=-1)  # (B, n, dim) each
        return self.output((start[:, :, None] + end[:, None]).relu())


class EntityBias(nn.Module):
    """How often each entity of a fixed graph is the tail, and the head, of each relation, learned as a score.

    Entities with the number -1 are not among them, and get no score.
    """

    def __init__(self, relations: int, entities: int) -> None:
        super().__init__()
        self.tails, self.heads = (nn.Parameter(torch.zeros(relations, entities)) for _ in range(2))

    def forward(self, relations: Tensor, entities: Tensor, tails: bool) -> Tensor:
        """`[questions]` and `[n]` -> `[questions, n]`."""
        weight = self.tails if tails else self.heads
        return weight[relations][:, entities.clamp(min=0)] * (entities >= 0)

    def of_pairs(self, pairs: Tensor) -> Tensor:
        """`[m, 2]`, the entities that are heads and tails -> `[m, relations]`, the scores of both together."""
        known, (head, tail) = pairs >= 0, pairs.clamp(min=0).unbind(1)
        return self.heads.T[head] * known[:, :1] + self.tails.T[tail] * known[:, 1:]

    def of_relation(self, entities: Tensor, relation: int) -> Tensor:
        """`[n]` -> `[heads, tails]`, the scores of both together for one relation."""
        known, place = entities >= 0, entities.clamp(min=0)
        return (self.heads[relation][place] * known)[:, None] + self.tails[relation][place] * known


class LinkNetwork(nn.Module):
    """Input, encoder and head: facts in, scores of links out.

    encoder: any encoder of graphs. relations: how many there are. entities, types, features: as of `LinkInput`.
    """

    def __init__(
        self, encoder: Encoder, relations: int, *, entities: int = 0, types: int = 0, features: int = 0
    ) -> None:
        super().__init__()
        dim = encoder.config.dim
        self.encoder = encoder
        self.input = LinkInput(relations, dim, entities=entities, types=types, features=features)
        self.states = None if encoder.has_edge_states else PairStates(dim)
        self.head = LinkHead(dim, relations)
        self.bias = EntityBias(relations, entities) if entities else None

    def forward(self, facts: Tensor, nodes: int, **about: Any) -> Tensor:
        """Facts `[facts, 3]` over so many nodes -> the states of all pairs of nodes, `[nodes, nodes, dim]`."""
        edges = self.input(facts, nodes, **about)
        linked = torch.zeros(nodes * nodes, dtype=torch.bool, device=facts.device)
        linked[facts[:, 0] * nodes + facts[:, 2]] = True
        encoded = self.encoder.encode(edges, edge_mask=linked.view(1, nodes, nodes))
        states: Tensor = encoded.edges if self.states is None else self.states(encoded)
        return states[0]

    def scores(
        self, states: Tensor, nodes: Tensor, relations: Tensor, tails: bool, entities: Tensor | None = None
    ) -> Tensor:
        """What `LinkHead` gives, and how probable each of the `entities` `[n]` is for each relation anyway."""
        scores: Tensor = self.head(states, nodes, relations, tails)
        if self.bias is not None and entities is not None:
            scores = scores + self.bias(relations, entities, tails)
        return scores

    def pair_scores(self, states: Tensor, pairs: Tensor, entities: Tensor | None = None) -> Tensor:
        """The scores of all relations between some nodes, `[m, 2]` heads and tails -> `[m, relations]`."""
        scores: Tensor = self.head.pairs(states, pairs)
        if self.bias is not None and entities is not None:
            scores = scores + self.bias.of_pairs(entities[pairs])
        return scores

    def relation_scores(self, states: Tensor, relation: int, entities: Tensor | None = None) -> Tensor:
        """The scores of one relation between all nodes, `[heads, tails]`: those of `pair_scores`."""
        scores: Tensor = self.head.of_relation(states, relation)
        if self.bias is not None and entities is not None:
            scores = scores + self.bias.of_relation(entities, relation)
        return scores
