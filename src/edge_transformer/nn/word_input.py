"""From the words of a sentence to the initial state of the edges, with an artificial root before the first word."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .characters import CharacterModel


class WordInput(nn.Module):
    """Nodes are the root (node 0) and the words; x_ij = a(i - j), plus what is known of the words.

    A word's vector is the sum of its embedding and of what the character model says. It is added to its self-edge; with
    `ends`, linear images of it are also added to all edges that start, and that end at the word.

    words, letters: how many numbers they may have. characters: filters of the character model; 0 for none.
    max_distance: distances are clipped here; None where the encoder sees them in another way.
    word_dim: how many numbers a word's vector has; where it is not dim, self-edges get a linear image of it too.
    """

    def __init__(
        self,
        words: int,
        letters: int,
        dim: int,
        *,
        characters: int = 0,
        max_distance: int | None = 16,
        ends: bool = False,
        dropout: float = 0.0,
        word_dim: int | None = None,
    ) -> None:
        super().__init__()
        self.max_distance, self.dropout_p = max_distance, dropout
        width = word_dim or dim
        # Its gradient has the rows of the words in use alone, which are added to those of the batch's other parts.
        self.words = nn.Embedding(words, width, sparse=True)
        self.root = nn.Parameter(torch.randn(width))
        self.characters = CharacterModel(letters, characters, width) if characters else None
        if self.characters is not None:
            nn.init.zeros_(self.words.weight)  # chance would drown what the letters say of seldom words
        self.nodes = nn.Linear(width, dim, bias=False) if width != dim else None
        self.distances = None if max_distance is None else nn.Embedding(2 * max_distance + 1, dim)
        if self.distances is not None:
            nn.init.xavier_uniform_(self.distances.weight)
        self.ends = nn.Linear(width, 2 * dim, bias=False) if ends else None
        if self.ends is not None:
            nn.init.zeros_(self.ends.weight)  # words are large beside distances, which would not be heard at first

    def forward(self, words: Tensor, letters: Tensor, places: Tensor) -> Tensor:
        """The different words of a batch, and which of them stands where.

        words: `[types]` numbers of words; letters: `[types, most]`; places: `[batch, n]` numbers of types ->
        `[batch, n + 1, n + 1, dim]`
        """
        nodes = self._vectors(words, letters, places)  # (B, n + 1, word_dim)
        loops = nodes if self.nodes is None else self.nodes(nodes)  # (B, n + 1, dim)
        edges = torch.diag_embed(loops.transpose(1, 2), dim1=1, dim2=2)  # (B, n + 1, n + 1, dim)
        if self.distances is not None and self.max_distance is not None:
            position = torch.arange(nodes.shape[1], device=nodes.device)
            distance = (position[:, None] - position[None, :]).clamp(-self.max_distance, self.max_distance)
            edges = edges + self.distances(distance + self.max_distance)
        if self.ends is not None:
            start, end = self.ends(nodes).chunk(2, dim=-1)  # (B, n + 1, dim) each
            edges = edges + start[:, :, None] + end[:, None, :]
        return edges

    def of_tokens(self, words: Tensor, letters: Tensor, places: Tensor) -> Tensor:
        """The self-edges alone, for encoders that look at no others: `[batch, n + 1, dim]`."""
        nodes = self._vectors(words, letters, places)
        return nodes if self.nodes is None else self.nodes(nodes)

    def _vectors(self, words: Tensor, letters: Tensor, places: Tensor) -> Tensor:
        """The vectors of the root and the words: `[batch, n + 1, word_dim]`."""
        types = self.words(words)  # (types, word_dim)
        if self.characters is not None:
            types = types + self.characters(letters)
        nodes = F.embedding(places, types)  # (B, n, word_dim)
        nodes = torch.cat([self.root.expand(len(nodes), 1, -1), nodes], dim=1)
        return F.dropout(nodes, self.dropout_p, self.training)
