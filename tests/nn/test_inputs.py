"""From data to the first state of the edges."""

from __future__ import annotations

import math

import pytest
import torch

from edge_transformer.nn.inputs import NULL_LABEL, LabelledGraphInput, TokenSequenceInput

# --- labelled graphs --------------------------------------------------------------------------------------------------


def test_every_edge_starts_as_the_embedding_of_its_label() -> None:
    module = LabelledGraphInput(labels=3, dim=4)
    labels = torch.tensor([[[0, 1], [3, 0]], [[2, 2], [0, 1]]])
    states = module(labels)
    assert states.shape == (2, 2, 2, 4)
    for graph in range(2):
        for i in range(2):
            for j in range(2):
                assert torch.equal(states[graph, i, j], module.embedding.weight[labels[graph, i, j]])


def test_the_null_label_comes_beside_the_real_ones() -> None:
    module = LabelledGraphInput(labels=3, dim=4)
    assert NULL_LABEL == 0
    assert module.embedding.weight.shape == (4, 4)
    with pytest.raises(IndexError):
        module(torch.tensor([[[4]]]))


def test_inverse_edges_and_self_edges_have_labels_of_their_own() -> None:
    module = LabelledGraphInput(labels=3, dim=4, inverse_edges=True)
    # 0 -1-> 1, 1 -2-> 2 and 2 -3-> 1: between 1 and 2 the graph has both directions.
    labels = torch.tensor([[[0, 1, 0], [0, 0, 2], [0, 3, 0]]])
    expected = torch.tensor([[[7, 1, 0], [1 + 3, 7, 2], [0, 3, 7]]])
    assert torch.equal(module(labels), module.embedding.weight[expected])
    assert module.embedding.weight.shape == (8, 4)


def test_the_null_label_is_learned_too() -> None:
    module = LabelledGraphInput(labels=2, dim=4)
    module(torch.tensor([[[NULL_LABEL, 1], [NULL_LABEL, NULL_LABEL]]])).sum().backward()
    gradient = module.embedding.weight.grad
    assert gradient is not None
    assert gradient[:, 0].tolist() == [3.0, 1.0, 0.0]  # three absent edges share it


def test_labels_start_within_the_xavier_bound() -> None:
    weight = LabelledGraphInput(labels=59, dim=40).embedding.weight
    bound = math.sqrt(6 / 100)
    assert 0.95 * bound < weight.abs().max() <= bound


@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 4), (1, 2, 3, 3)])
def test_labels_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"labels must be \[batch, n, n\], but their shape is \[") as error:
        LabelledGraphInput(labels=3, dim=4)(torch.zeros(shape, dtype=torch.int64))
    assert str(list(shape)) in str(error.value)


# --- sequences of tokens ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_distance", [1, 2, 16])
def test_equation_nine(max_distance: int) -> None:
    """x_ij = a(i - j), plus e(t_i) where i = j; distances beyond the largest count as the largest."""
    module = TokenSequenceInput(tokens=7, dim=5, max_distance=max_distance)
    tokens = torch.tensor([[1, 6, 0, 6], [2, 2, 5, 3]])
    states = module(tokens)
    assert states.shape == (2, 4, 4, 5)
    for sentence in range(2):
        for i in range(4):
            for j in range(4):
                clipped = max(-max_distance, min(max_distance, i - j))
                assert module.distances is not None
                expected = module.distances.weight[clipped + max_distance]
                if i == j:
                    expected = expected + module.tokens.weight[tokens[sentence, i]]
                torch.testing.assert_close(states[sentence, i, j], expected)


def test_distances_are_clipped_on_both_sides() -> None:
    module = TokenSequenceInput(tokens=3, dim=4, max_distance=2)
    assert module.distances is not None
    assert module.distances.weight.shape == (5, 4)
    states = module(torch.zeros(1, 6, dtype=torch.int64))[0]
    assert torch.equal(states[5, 0], states[2, 0])
    assert torch.equal(states[0, 5], states[0, 2])
    different = {tuple(states[i, j].tolist()) for i, j in ((0, 2), (0, 1), (0, 0), (1, 0), (2, 0))}
    assert len(different) == 5


def test_distances_start_within_the_xavier_bound_and_tokens_as_pytorch_does() -> None:
    torch.manual_seed(0)
    module = TokenSequenceInput(tokens=500, dim=40, max_distance=16)
    bound = math.sqrt(6 / (33 + 40))
    assert module.distances is not None
    assert 0.95 * bound < module.distances.weight.abs().max() <= bound
    assert module.tokens.weight.std().item() == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("shape", [(3,), (2, 3, 3)])
def test_tokens_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"tokens must be \[batch, n\], but their shape is \[") as error:
        TokenSequenceInput(tokens=3, dim=4)(torch.zeros(shape, dtype=torch.int64))
    assert str(list(shape)) in str(error.value)


def test_a_largest_distance_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="max_distance must be at least 1, but is 0"):
        TokenSequenceInput(tokens=3, dim=4, max_distance=0)


def test_without_distances_only_the_tokens_are_there() -> None:
    torch.manual_seed(1)
    layer = TokenSequenceInput(5, 4, max_distance=None)
    tokens = torch.tensor([[3, 0, 3]])
    edges = layer(tokens)
    for i in range(3):
        for j in range(3):
            expected = layer.tokens.weight[tokens[0, i]] if i == j else torch.zeros(4)
            assert torch.equal(edges[0, i, j], expected)
    assert [name for name, _ in layer.named_parameters()] == ["tokens.weight"]


@pytest.mark.parametrize("max_distance", [None, 1, 3, 16])
def test_groups_are_as_each_alone(max_distance: int | None) -> None:
    torch.manual_seed(2)
    module = TokenSequenceInput(tokens=9, dim=5, max_distance=max_distance).double()
    groups = [torch.randint(9, size) for size in ((3, 4), (1, 1), (2, 7), (1, 2), (4, 4))]
    each = [module(tokens) for tokens in groups]
    together = module.forward_groups(groups)
    assert [states.shape for states in together] == [states.shape for states in each]
    for one, other in zip(each, together, strict=True):
        torch.testing.assert_close(one, other)
    weights = [torch.randn_like(states) for states in each]
    gradients = []
    for found in (each, together):
        total = torch.stack([(states * weight).sum() for states, weight in zip(found, weights, strict=True)]).sum()
        gradients.append(torch.autograd.grad(total, list(module.parameters())))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)
    assert module.forward_groups(groups[:1])[0].shape == (3, 4, 4, 5)
