"""From data to the initial state of the edges: labelled graphs, sequences of tokens, words with their letters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .plain import may_be_skipped

NULL_LABEL = 0  # the label of an edge that the graph does not have, self-edges included


class LabelledGraphInput(nn.Module):
    """A labelled graph: every edge starts as the sum of the embeddings of its labels, plus its features by a matrix.

    `labels` counts the real labels, numbered from 1; 0 is the null label of absent edges and self-edges. A node's
    labels and features are those of its self-edge. With `inverse_edges` the way back along an edge has labels of its
    own, unless the graph has an edge there, and so have self-edges. With `distances` every pair also knows how many
    edges apart it is, walked in any direction, up to that number; the first `relations` labels, by default all, are
    those of edges that can be walked.
    """

    def __init__(
        self,
        labels: int,
        dim: int,
        *,
        inverse_edges: bool = False,
        distances: int = 0,
        relations: int | None = None,
        node_features: int = 0,
        edge_features: int = 0,
    ) -> None:
        super().__init__()
        if distances < 0:
            raise ValueError(f"distances must not be negative, but is {distances}")
        self.labels, self.inverse_edges = labels, inverse_edges
        self.relations = labels if relations is None else relations
        self.embedding = nn.Embedding(2 * labels + 2 if inverse_edges else labels + 1, dim)
        nn.init.xavier_uniform_(self.embedding.weight)
        self.node_features = nn.Linear(node_features, dim) if node_features else None
        self.edge_features = nn.Linear(edge_features, dim, bias=False) if edge_features else None
        self.distances = nn.Embedding(distances + 1, dim) if distances else None
        if self.distances is not None:
            nn.init.xavier_uniform_(self.distances.weight)

    def forward(
        self, labels: Tensor, node_features: Tensor | None = None, edge_features: Tensor | None = None
    ) -> Tensor:
        """`[batch, n, n]` label numbers, or `[batch, n, n, m]` if pairs have up to m, 0 as padding -> `[..., dim]`.

        `node_features` are `[batch, n, f]`, `edge_features` `[batch, n, n, f]`.
        """
        if labels.dim() not in (3, 4) or labels.shape[1] != labels.shape[2]:
            raise ValueError(
                f"labels must be [batch, n, n] or [batch, n, n, m], but their shape is {list(labels.shape)}"
            )
        apart = None if self.distances is None else self.distances(self._distance_numbers(labels))  # (B, n, n, dim)
        if self.inverse_edges:
            labels = self._with_inverse(labels)
        edges = self.embedding(labels)  # (B, n, n, dim) or (B, n, n, m, dim)
        if labels.dim() == 4:
            told = labels != NULL_LABEL
            first = torch.arange(labels.shape[3], device=labels.device) == 0
            used = told | (first & ~told.any(-1, keepdim=True))  # a pair without labels has the null label once
            edges = (edges * used[..., None]).sum(3)
        if apart is not None:
            edges = edges + apart
        if (node_features is None) != (self.node_features is None) or (edge_features is None) != (
            self.edge_features is None
        ):
            raise ValueError("features must be given if and only if the input was made for them")
        if self.edge_features is not None:
            edges = edges + self.edge_features(edge_features)
        if self.node_features is not None:
            itself = torch.eye(labels.shape[1], dtype=edges.dtype, device=edges.device)[..., None]  # (n, n, 1)
            edges = edges + itself * self.node_features(node_features)[:, :, None]
        return edges

    def _distance_numbers(self, labels: Tensor) -> Tensor:
        """How many edges apart two nodes are: `[batch, n, n]`; the largest number also says that no edges join them."""
        assert self.distances is not None
        walked = (labels != NULL_LABEL) & (labels <= self.relations)
        walked = walked if labels.dim() == 3 else walked.any(-1)
        itself = torch.eye(labels.shape[1], device=labels.device)  # (n, n)
        steps = (walked | walked.transpose(1, 2)).float().add(itself).clamp(max=1)  # (B, n, n)
        within = itself.expand_as(steps)  # 1 where two nodes are at most as many edges apart as were walked
        distance = 1 - within
        for _ in range(self.distances.num_embeddings - 2):
            within = (within @ steps).clamp(max=1)
            distance = distance + 1 - within
        return distance.long()

    def _with_inverse(self, labels: Tensor) -> Tensor:
        back = labels.transpose(1, 2)
        inverse = torch.where(back != NULL_LABEL, back + self.labels, back)
        itself = torch.eye(labels.shape[1], dtype=labels.dtype, device=labels.device) * (2 * self.labels + 1)
        if labels.dim() == 3:
            return torch.where(labels != NULL_LABEL, labels, torch.maximum(inverse, itself))
        first = torch.zeros(labels.shape[3], dtype=labels.dtype, device=labels.device)
        first[0] = 1
        told = (labels != NULL_LABEL).any(-1, keepdim=True)
        return torch.where(told, labels, torch.maximum(inverse, itself[..., None] * first))


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
        if self.distances is None or not may_be_skipped(self, TokenSequenceInput):
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


class WordInput(nn.Module):
    """Nodes are the root (node 0) and the words, or the words alone; x_ij = a(i - j), plus what is known of the words.

    A word's vector is the sum of its embedding and of what the character model says. It is added to its self-edge; with
    `ends`, linear images of it are also added to all edges that start, and that end at the word.

    words, letters: how many numbers they may have. characters: filters of the character model; 0 for none.
    max_distance: distances are clipped here; None where the encoder sees them in another way.
    word_dim: how many numbers a word's vector has; where it is not dim, self-edges get a linear image of it too.
    root: whether there is a node before the words. n + 1 is n without it.
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
        root: bool = True,
    ) -> None:
        super().__init__()
        self.max_distance, self.dropout_p = max_distance, dropout
        width = word_dim or dim
        # Its gradient has the rows of the words in use alone, which are added to those of the batch's other parts.
        self.words = nn.Embedding(words, width, sparse=True)
        self.root = nn.Parameter(torch.randn(width)) if root else None
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
        return self._edges(self._nodes(self._types(words, letters), places))

    def of_tokens(self, words: Tensor, letters: Tensor, places: Tensor) -> Tensor:
        """The self-edges alone, for encoders that look at no others: `[batch, n + 1, dim]`."""
        return self._own(self._nodes(self._types(words, letters), places))

    def forward_groups(self, words: Tensor, letters: Tensor, groups: Sequence[Tensor]) -> list[Tensor]:
        """`forward` for several groups of sentences, each `[batch, n]` with a length of its own."""
        if not may_be_skipped(self, WordInput):
            return [self(words, letters, places) for places in groups]
        types = self._types(words, letters)
        return [self._edges(self._nodes(types, places)) for places in groups]

    def of_token_groups(self, words: Tensor, letters: Tensor, groups: Sequence[Tensor]) -> list[Tensor]:
        """`of_tokens` for several groups of sentences."""
        types = self._types(words, letters)
        return [self._own(self._nodes(types, places)) for places in groups]

    def _types(self, words: Tensor, letters: Tensor) -> Tensor:
        """The vectors of the different words: `[types, word_dim]`."""
        types = self.words(words)
        return types if self.characters is None else types + self.characters(letters)

    def _nodes(self, types: Tensor, places: Tensor) -> Tensor:
        """The vectors of the root and the words: `[batch, n + 1, word_dim]`."""
        nodes = F.embedding(places, types)  # (B, n, word_dim)
        if self.root is not None:
            nodes = torch.cat([self.root.expand(nodes.shape[0], 1, -1), nodes], dim=1)
        return F.dropout(nodes, self.dropout_p, self.training)

    def _own(self, nodes: Tensor) -> Tensor:
        return nodes if self.nodes is None else self.nodes(nodes)

    def _edges(self, nodes: Tensor) -> Tensor:
        """`[batch, n + 1, word_dim] -> [batch, n + 1, n + 1, dim]`."""
        edges = torch.diag_embed(self._own(nodes).transpose(1, 2), dim1=1, dim2=2)
        if self.distances is not None and self.max_distance is not None:
            position = torch.arange(nodes.shape[1], device=nodes.device)
            distance = (position[:, None] - position[None, :]).clamp(-self.max_distance, self.max_distance)
            edges = edges + self.distances(distance + self.max_distance)
        if self.ends is not None:
            start, end = self.ends(nodes).chunk(2, dim=-1)  # (B, n + 1, dim) each
            edges = edges + start[:, :, None] + end[:, None, :]
        return edges


LETTER_DIM = 32
WINDOW = 3  # letters that a filter sees


class CharacterModel(nn.Module):
    """Filters over three letters each, the strongest answer of each filter in the word, and a linear layer.

    `letters` counts the numbers that letters may have; 0 is padding behind the end of a word and never looked at.
    """

    def __init__(self, letters: int, filters: int, dim: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(letters, LETTER_DIM)
        self.filters = nn.Linear(WINDOW * LETTER_DIM, filters)
        self.output = nn.Linear(filters, dim)

    def forward(self, letters: Tensor) -> Tensor:
        """`[words, most]` numbers of letters -> `[words, dim]`. Words have one letter at least, marks included."""
        if not torch.compiler.is_compiling():  # a trace knows no numbers, and looks at all the padding
            longest = max(WINDOW, int((letters != 0).sum(1).max())) if letters.numel() else WINDOW
            letters = letters[:, :longest]
        if letters.shape[1] < WINDOW:
            letters = nn.functional.pad(letters, (0, WINDOW - letters.shape[1]))
        real = letters != 0
        embedded = self.embedding(letters) * real[..., None]  # (words, m, 32)
        places = range(WINDOW)
        windows = torch.cat(
            [embedded[:, place : place - WINDOW + 1 or None] for place in places], -1
        )  # (words, m - 2, 96)
        found = self.filters(windows)  # (words, m - 2, filters)
        # A window counts where it begins at a letter and has no padding; the first one counts for the shortest words.
        whole = real[:, WINDOW - 1 :].clone()
        whole[:, 0] = True
        found = found.masked_fill(~whole[..., None], torch.finfo(found.dtype).min)
        return self.output(found.amax(1).relu())
