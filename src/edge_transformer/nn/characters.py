"""A small model of spelling: what the letters of a word say about it, for words that were never or seldom seen."""

from __future__ import annotations

import torch
from torch import Tensor, nn

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
        longest = max(WINDOW, int((letters != 0).sum(1).max())) if letters.numel() else WINDOW
        letters = letters[:, :longest]
        if letters.shape[1] < WINDOW:
            letters = nn.functional.pad(letters, (0, WINDOW - letters.shape[1]))
        real = letters != 0
        embedded = self.embedding(letters) * real[..., None]  # (words, m, 32)
        windows = embedded.unfold(1, WINDOW, 1).transpose(2, 3).flatten(2)  # (words, m - 2, 3 * 32)
        found = self.filters(windows)  # (words, m - 2, filters)
        # A window counts where it begins at a letter and has no padding; the first one counts for the shortest words.
        whole = real[:, WINDOW - 1 :].clone()
        whole[:, 0] = True
        found = found.masked_fill(~whole[..., None], torch.finfo(found.dtype).min)
        return self.output(found.amax(1).relu())
