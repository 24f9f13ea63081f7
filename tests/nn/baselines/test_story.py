"""Graphs as sequences of tokens: the facts, the names, what the Transformer is given and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from edge_transformer.errors import UserError
from edge_transformer.nn.baselines.config import StoryConfig
from edge_transformer.nn.baselines.story import Facts, StoryTransformer

DIM = 12


@pytest.fixture(autouse=True)
def same_numbers_every_time() -> None:
    torch.manual_seed(0)


def make_model(**settings: Any) -> StoryTransformer:
    return StoryTransformer(StoryConfig(**{"dim": DIM, "heads": 3, "layers": 2, **settings})).double().eval()


def graph(n: int, *facts: tuple[int, int]) -> Tensor:
    mask = torch.zeros(n, n, dtype=torch.bool)
    for start, end in facts:
        mask[start, end] = True
    return mask


def sequences(model: StoryTransformer, *arguments: Any) -> tuple[Tensor, Tensor]:
    """The tokens that reach the layers, and which are real."""
    seen: list[Any] = []
    handle = model.stack.register_forward_pre_hook(lambda _, inputs: seen.append(inputs))
    model.read(*arguments)
    handle.remove()
    tokens, _, real = seen[0]
    return tokens, real


def test_facts_in_the_order_of_their_nodes() -> None:
    masks = [graph(4, (2, 3), (0, 1), (2, 0)), graph(4), graph(4, (1, 1)), torch.ones(4, 4, dtype=torch.bool)]
    facts = Facts.of(torch.stack(masks))
    for row, mask in enumerate(masks):
        listed = zip(facts.start[row].tolist(), facts.end[row].tolist(), facts.real[row].tolist(), strict=True)
        assert [(start, end) for start, end, real in listed if real] == [
            tuple(pair) for pair in mask.nonzero().tolist()
        ]
        assert facts.real[row].tolist() == [True] * int(mask.sum()) + [False] * (16 - int(mask.sum()))


def test_tokens_of_a_story() -> None:
    """Question first, then entity, relation, entity for each fact; a row with fewer facts is padded and masked."""
    model, edges = make_model(), torch.randn(2, 4, 4, DIM, dtype=torch.float64)
    masks = torch.stack([graph(4, (0, 1), (1, 3), (3, 2)), graph(4, (2, 0))])
    pairs = torch.tensor([[[0, 2], [3, 1]], [[2, 0], [1, 1]]])
    tokens, real = sequences(model, edges, pairs, None, masks)
    assert tokens.shape == (4, 3 + 9, DIM)
    name = model.entities.weight
    for row in range(2):
        for asked in range(2):
            start, end = pairs[row, asked].tolist()
            expected = [name[start], name[end], model.separator]
            for a, b in masks[row].nonzero().tolist():
                expected += [name[a], edges[row, a, b], name[b]]
            mine = tokens[2 * row + asked]
            assert torch.equal(mine[: len(expected)], torch.stack(expected))
            assert real[2 * row + asked].tolist() == [True] * len(expected) + [False] * (12 - len(expected))


def test_what_is_read_are_the_states_of_the_question() -> None:
    model, edges = make_model(), torch.randn(2, 3, 3, DIM, dtype=torch.float64)
    masks, pairs = torch.stack([graph(3, (0, 1), (1, 2))] * 2), torch.tensor([[[0, 2]], [[2, 1]]])
    tokens, real = sequences(model, edges, pairs, None, masks)
    states = model.stack(tokens, model.positions(9), real)
    torch.testing.assert_close(model.read(edges, pairs, None, masks)[:, 0], states[:, :2].flatten(1))


def test_states_of_nodes_and_edges() -> None:
    model, edges = make_model(), torch.randn(1, 4, 4, DIM, dtype=torch.float64)
    mask = graph(4, (0, 1), (1, 2))[None]
    name = model.entities.weight
    story = torch.stack([name[0], edges[0, 0, 1], name[1], name[1], edges[0, 1, 2], name[2]])[None]
    states = model.stack(story, model.positions(6))[0]
    nodes, final = model.encode(edges, edge_mask=mask)
    expected = torch.stack([states[0], (states[2] + states[3]) / 2, states[5], torch.zeros_like(states[0])])
    torch.testing.assert_close(nodes[0], expected)
    torch.testing.assert_close(final[0, 0, 1], states[1])
    torch.testing.assert_close(final[0, 1, 2], states[4])
    assert (final[~mask] == 0).all()


def test_random_names_in_training() -> None:
    """Different nodes have different names, every name of the pool is used, and question and facts agree."""
    model, edges = make_model(entities=6).train(), torch.randn(300, 3, 3, DIM, dtype=torch.float64)
    masks, pairs = graph(3, (0, 1), (1, 2)).expand(300, -1, -1), torch.tensor([[0, 2]]).expand(300, 1, 2)
    tokens, _ = sequences(model, edges, pairs, None, masks)

    def names(place: int) -> Tensor:
        distance = (tokens[:, place, None] - model.entities.weight).abs().sum(-1)  # (300, 6)
        assert (distance.min(1).values == 0).all()
        return distance.argmin(1)

    a, b, c = names(3), names(5), names(8)
    assert torch.equal(names(0), a)
    assert torch.equal(names(1), c)
    assert torch.equal(names(6), b)
    assert ((a != b) & (b != c) & (a != c)).all()
    for each in (a, b, c):
        assert each.bincount(minlength=6).min() > 20  # 50 expected


def test_every_name_gets_a_gradient_in_training() -> None:
    model, edges = make_model(entities=12).train(), torch.randn(60, 3, 3, DIM, dtype=torch.float64)
    pairs = torch.tensor([[0, 2]]).expand(60, 1, 2)
    model.read(edges, pairs, None, graph(3, (0, 1), (1, 2)).expand(60, -1, -1)).pow(3).sum().backward()
    gradient = model.get_parameter("entities.weight").grad
    assert gradient is not None
    assert (gradient.abs().sum(1) > 0).all()


def test_the_order_of_the_facts_counts() -> None:
    """Unlike the other encoders: other numbers for the same nodes give another sequence."""
    model, edges = make_model(), torch.randn(1, 4, 4, DIM, dtype=torch.float64)
    nn.init.zeros_(model.get_parameter("entities.weight"))  # so that names make no difference
    mask = graph(4, (0, 1), (1, 2), (2, 3))[None]
    order = torch.tensor([3, 2, 1, 0])  # node 0 becomes node 3, and so on
    moved = model.read(edges[:, order][:, :, order], torch.tensor([[[3, 0]]]), None, mask[:, order][:, :, order])
    assert not torch.allclose(moved, model.read(edges, torch.tensor([[[0, 3]]]), None, mask))


def test_a_story_longer_than_the_clipped_distances() -> None:
    model = make_model(max_distance=1)
    n = 30
    edges, mask = torch.randn(1, n, n, DIM, dtype=torch.float64), graph(n, *((i, i + 1) for i in range(n - 1)))[None]
    assert model.read(edges, torch.tensor([[[0, n - 1]]]), None, mask).isfinite().all()


def test_graphs_with_more_nodes_than_names_are_refused() -> None:
    model, edges = make_model(entities=3), torch.randn(1, 4, 4, DIM, dtype=torch.float64)
    for run in (model.encode, lambda edges: model.read(edges, torch.tensor([[[0, 1]]]))):
        with pytest.raises(UserError, match=r"found a graph of 4 nodes; expected at most model\.entities=3"):
            run(edges)


def test_graphs_without_edges() -> None:
    model, edges = make_model(), torch.randn(2, 3, 3, DIM, dtype=torch.float64)
    nothing = torch.zeros(2, 3, 3, dtype=torch.bool)
    assert model.read(edges, torch.tensor([[[0, 1]]] * 2), None, nothing).isfinite().all()
    nodes, final = model.encode(edges, edge_mask=nothing)
    assert (nodes == 0).all()
    assert (final == 0).all()
