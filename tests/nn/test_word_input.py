"""Edges of a sentence, with or without an artificial root: words on self-edges, distances, words on both ends."""

from __future__ import annotations

import pytest
import torch

from edge_transformer.nn.inputs import WordInput

WORDS = torch.tensor([3, 0, 2])
LETTERS = torch.tensor([[2, 4, 3, 0], [2, 5, 4, 3], [2, 3, 0, 0]])
PLACES = torch.tensor([[0, 1, 2, 0], [2, 2, 1, 1]])


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("characters", [0, 6])
@pytest.mark.parametrize("max_distance", [None, 2])
@pytest.mark.parametrize("word_dim", [None, 8, 5])
@pytest.mark.parametrize("root", [True, False])
def test_edges_are_those_of_the_plain_way(
    ends: bool, characters: int, max_distance: int | None, word_dim: int | None, root: bool
) -> None:
    torch.manual_seed(1)
    options = {"characters": characters, "max_distance": max_distance, "ends": ends, "word_dim": word_dim, "root": root}
    input_ = WordInput(4, 6, 8, dropout=0.5, **options).double().eval()  # type: ignore[arg-type]
    for parameter in input_.parameters():
        torch.nn.init.normal_(parameter)  # some start at zero
    edges = input_(WORDS, LETTERS, PLACES)
    assert edges.shape == (2, 4 + root, 4 + root, 8)
    for row, places in enumerate(PLACES.tolist()):
        nodes = [] if input_.root is None else [input_.root.detach()]
        for place in places:
            node = input_.words(WORDS[place])
            if input_.characters is not None:
                node = node + input_.characters(LETTERS[place : place + 1])[0]
            nodes.append(node)
        for i, first in enumerate(nodes):
            for j, second in enumerate(nodes):
                loop = first if input_.nodes is None else input_.nodes(first)
                expected = loop.clone() if i == j else torch.zeros(8, dtype=torch.float64)
                if input_.distances is not None:
                    expected = expected + input_.distances.weight[min(2, max(-2, i - j)) + 2]
                if input_.ends is not None:
                    expected = expected + input_.ends(first)[:8] + input_.ends(second)[8:]
                torch.testing.assert_close(edges[row, i, j], expected)


def test_letters_alone_tell_words_apart_at_first() -> None:
    with_letters, without = WordInput(4, 6, 8, characters=6), WordInput(4, 6, 8)
    assert not with_letters.words.weight.any()
    assert with_letters(WORDS, LETTERS, PLACES)[0, 1, 1].any()
    assert without.words.weight.all()


def test_words_are_dropped_in_training_only() -> None:
    input_ = WordInput(4, 6, 8, max_distance=None, dropout=0.5)
    torch.manual_seed(1)
    trained = input_(WORDS, LETTERS, PLACES).diagonal(dim1=1, dim2=2)
    assert 0.2 < float((trained == 0).float().mean()) < 0.8
    assert (input_.eval()(WORDS, LETTERS, PLACES).diagonal(dim1=1, dim2=2) != 0).all()


def test_groups_of_sentences_are_read_like_sentences_alone() -> None:
    input_ = WordInput(4, 6, 8, characters=6, ends=True, word_dim=5, root=False)
    for parameter in input_.parameters():
        torch.nn.init.normal_(parameter)
    groups = [PLACES, PLACES[:1, :2]]
    together, tokens = input_.forward_groups(WORDS, LETTERS, groups), input_.of_token_groups(WORDS, LETTERS, groups)
    for places, edges, alone in zip(groups, together, tokens, strict=True):
        torch.testing.assert_close(edges, input_(WORDS, LETTERS, places))
        torch.testing.assert_close(alone, input_.of_tokens(WORDS, LETTERS, places))
