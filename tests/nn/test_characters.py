"""The character model: the strongest answer over all windows of a word, whatever padding is behind it."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from edge_transformer.nn.inputs import LETTER_DIM, WINDOW, CharacterModel


def plain(model: CharacterModel, word: list[int]) -> torch.Tensor:
    """The answer for one word, window by window."""
    letters = model.embedding(torch.tensor(word))
    letters = F.pad(letters, (0, 0, 0, max(0, WINDOW - len(word))))
    windows = [letters[start : start + WINDOW].flatten() for start in range(len(letters) - WINDOW + 1)]
    return model.output(torch.stack([model.filters(window) for window in windows]).amax(0).relu())


def test_words_are_those_of_the_plain_way_whatever_their_padding() -> None:
    torch.manual_seed(1)
    model = CharacterModel(letters=9, filters=6, dim=5)
    words = [[2, 3], [2, 4, 3], [2, 5, 6, 7, 8, 4, 3], [4], [2, 1, 3]]
    padded = torch.zeros(len(words), 12, dtype=torch.int32)
    for row, word in enumerate(words):
        padded[row, : len(word)] = torch.tensor(word)
    expected = torch.stack([plain(model, word) for word in words])
    torch.testing.assert_close(model(padded), expected)
    torch.testing.assert_close(model(padded[:, :7]), expected)
    torch.testing.assert_close(model(padded[3:4, :1]), expected[3:4])
    assert expected.shape == (5, 5)
    assert model.filters.in_features == WINDOW * LETTER_DIM


def test_padding_gets_no_gradient_and_no_words_are_none() -> None:
    model = CharacterModel(letters=9, filters=6, dim=5)
    model(torch.tensor([[2, 3, 0, 0], [2, 4, 3, 0]])).sum().backward()
    assert model.embedding.weight.grad is not None
    assert not model.embedding.weight.grad[0].any()
    assert model(torch.zeros(0, 22, dtype=torch.int32)).shape == (0, 5)
