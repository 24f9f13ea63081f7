"""From data to the initial state of the edges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn

NULL_LABEL = 0  # the label of an edge that the graph does not have, self-edges included


class LabelledGraphInput(nn.Module):
    """A labelled graph: every edge starts as the embedding of its label.

    `labels` counts the real labels, numbered from 1; 0 is the null label of absent edges and self-edges. With
    `inverse_edges` the way back along an edge has a label of its own, unless the graph has an edge there, and so have
    self-edges.
    """

    def __init__(self, labels: int, dim: int, *, inverse_edges: bool = False) -> None:
        super().__init__()
        self.labels, self.inverse_edges = labels, inverse_edges
        self.embedding = nn.Embedding(2 * labels + 2 if inverse_edges else labels + 1, dim)
        nn.init.xavier_uniform_(self.embedding.weight)

    def forward(self, labels: Tensor) -> Tensor:
        """`[batch, n, n]` label numbers -> `[batch, n, n, dim]`."""
        if labels.dim() != 3 or labels.shape[1] != labels.shape[2]:
            raise ValueError(f"labels must be [batch, n, n], but their shape is {list(labels.shape)}")
        if self.inverse_edges:
            back = labels.transpose(1, 2)
            inverse = torch.where(back != NULL_LABEL, back + self.labels, back)
            itself = torch.eye(labels.shape[1], dtype=labels.dtype, device=labels.device) * (2 * self.labels + 1)
            labels = torch.where(labels != NULL_LABEL, labels, torch.maximum(inverse, itself))
        return self.embedding(labels)


class TokenSequenceInput(nn.Module):
    """A sequence of tokens: x_ij = a(i - j), plus e(t_i) where i = j, with distances clipped at `max_distance`.

    Without `max_distance` there is no a, for encoders that see distances in another way.
    """

    def __init__(self, tokens: int, dim: int, max_distance: int | None = 16) -> None:
        super().__init__()
        if max_distance is not None and max_distance < 1:
            raise ValueError(f"max_distance must be at least 1, but is {max_distance}")
        self.max_distance = max_distance
        self.tokens = nn.Embedding(tokens, dim)
        self.distances = None if max_distance is None else nn.Embedding(2 * max_distance + 1, dim)
        if self.distances is not None:
            nn.init.xavier_uniform_(self.distances.weight)

    def forward(self, tokens: Tensor) -> Tensor:
        """`[batch, n]` token numbers -> `[batch, n, n, dim]`."""
        if tokens.dim() != 2:
            raise ValueError(f"tokens must be [batch, n], but their shape is {list(tokens.shape)}")
        embedded = self.tokens(tokens)[:, :, None]  # (B, n, 1, dim)
        itself = torch.eye(tokens.shape[1], dtype=embedded.dtype, device=tokens.device)[..., None]  # (n, n, 1)
        if self.distances is None or self.max_distance is None:
            return embedded * itself
        pairs = self.distances(self._distance_numbers(tokens))  # (n, n, dim), the same for every sentence
        return torch.addcmul(pairs, itself, embedded)  # (B, n, n, dim)

    def of_tokens(self, tokens: Tensor) -> Tensor:
        """e alone, for encoders that look at no edges: `[batch, n] -> [batch, n, dim]`."""
        return self.tokens(tokens)

    def forward_groups(self, groups: Sequence[Tensor]) -> list[Tensor]:
        """`forward` for several groups of sequences, each `[batch, n]` with a length of its own, looked up at once."""
        if self.distances is None:
            return [self(tokens) for tokens in groups]
        sizes = [(*tokens.shape, tokens.shape[1]) for tokens in groups]
        counts = [math.prod(size) for size in sizes]  # edges of each group
        numbers = [self._distance_numbers(tokens).expand(size) for tokens, size in zip(groups, sizes, strict=True)]
        starts = [0, *accumulate(counts)]
        # In a row of n * n edges, those from a token to itself are n + 1 apart.
        itself = [
            torch.arange(len(tokens), device=tokens.device)[:, None] * n * n
            + torch.arange(n, device=tokens.device) * (n + 1)
            + start
            for tokens, (_, n, _), start in zip(groups, sizes, starts, strict=False)
        ]
        flat = self.distances(torch.cat([each.flatten() for each in numbers]))  # (edges of all groups, dim)
        embedded = self.tokens(torch.cat([tokens.flatten() for tokens in groups]))  # (tokens of all groups, dim)
        flat = flat.index_add(0, torch.cat([each.flatten() for each in itself]), embedded)
        return [part.view(*size, -1) for part, size in zip(flat.split(counts), sizes, strict=True)]

    def _distance_numbers(self, tokens: Tensor) -> Tensor:
        """Which of the distances lies between tokens i and j: `[n, n]`."""
        assert self.max_distance is not None
        position = torch.arange(tokens.shape[1], device=tokens.device)
        distance = (position[:, None] - position[None, :]).clamp(-self.max_distance, self.max_distance)
        return distance + self.max_distance
