"""Input and head of models of links against plain sums."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from edge_transformer.nn import links
from edge_transformer.nn.encoder import EdgeTransformer
from edge_transformer.nn.layer import EdgeTransformerConfig
from edge_transformer.nn.links import EntityBias, LinkHead, LinkInput, LinkNetwork

DIM, NODES, RELATIONS = 4, 5, 3
# Two relations from 0 to 1, one of them also back, and one from 2 to itself.
FACTS = [(0, 0, 1), (0, 2, 1), (1, 0, 0), (3, 1, 4), (2, 1, 2)]


@pytest.fixture(autouse=True)
def in_double() -> Iterator[None]:
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def plain_sum(given: LinkInput, start: Tensor, end: Tensor) -> Tensor:
    edges = torch.zeros(NODES, NODES, DIM)
    for i in range(NODES):
        for j in range(NODES):
            edges[i, j] = given.null + start[i] + end[j] + (given.itself if i == j else 0)
            for head, relation, tail in FACTS:
                if (head, tail) == (i, j):
                    edges[i, j] += given.forth.weight[relation]
                if (tail, head) == (i, j):
                    edges[i, j] += given.back.weight[relation]
    return edges


def test_an_edge_is_the_sum_of_its_relations_in_both_directions() -> None:
    given = LinkInput(RELATIONS, DIM)
    nothing = torch.zeros(NODES, DIM)
    torch.testing.assert_close(given(torch.tensor(FACTS), NODES)[0], plain_sum(given, nothing, nothing))
    empty = given(torch.empty(0, 3, dtype=torch.long), NODES)[0]
    assert (empty[0, 1] == given.null).all()


def test_what_is_known_of_nodes_is_added_at_both_ends() -> None:
    given = LinkInput(RELATIONS, DIM, entities=3, types=2, features=2)
    assert given.entities is not None
    assert given.types is not None
    assert given.features is not None
    entities = torch.tensor([2, -1, 0, 1, -1])  # nodes 1 and 4 have no embedding
    of_types: list[list[int]] = [[0], [], [0, 1], [1], []]
    flat = torch.tensor([number for numbers in of_types for number in numbers])
    starts = torch.tensor([0, 1, 1, 3, 4])
    features = torch.randn(NODES, 2, dtype=torch.float32)  # of another precision than the weights
    told = torch.zeros(NODES, 2 * DIM)
    for node in range(NODES):
        if entities[node] >= 0:
            told[node] += given.entities.weight[entities[node]]
        for number in of_types[node]:
            told[node] += given.types.weight[number]
        told[node] += given.features.weight @ features[node].double()
    edges = given(torch.tensor(FACTS), NODES, entities=entities, types=(flat, starts), features=features)
    torch.testing.assert_close(edges[0], plain_sum(given, *told.chunk(2, dim=1)))


@pytest.mark.parametrize("tails", [True, False])
def test_all_scores_at_once_and_the_asked_ones_alone_are_the_same(tails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    head = LinkHead(DIM, RELATIONS)
    states = torch.randn(NODES, NODES, DIM, requires_grad=True)
    nodes = torch.arange(NODES).repeat(4)
    relations = torch.randint(0, RELATIONS, (len(nodes),))
    weights = torch.randn(len(nodes), NODES)
    found = []
    for most in (links.FULL_LOGITS, 0):
        monkeypatch.setattr(links, "FULL_LOGITS", most)
        scores = head(states, nodes, relations, tails)
        gradients = torch.autograd.grad((scores * weights).sum(), [states, *head.parameters()])
        found.append([scores, *gradients])
    torch.testing.assert_close(*found)
    for question, (node, relation) in enumerate(zip(nodes.tolist(), relations.tolist(), strict=True)):
        for other in range(NODES):
            i, j = (node, other) if tails else (other, node)
            plain = head.forth.weight[relation] @ states[i, j] + head.forth.bias[relation]
            plain = plain + head.back.weight[relation] @ states[j, i]
            torch.testing.assert_close(found[0][0][question, other], plain)


def test_the_three_questions_have_one_score_for_a_link() -> None:
    head, states = LinkHead(DIM, RELATIONS), torch.randn(NODES, NODES, DIM)
    asked = torch.tensor(FACTS)
    pairs = head.pairs(states, asked[:, [0, 2]]).gather(1, asked[:, 1:2])[:, 0]
    tails = head(states, asked[:, 0], asked[:, 1], True).gather(1, asked[:, 2:])[:, 0]
    heads = head(states, asked[:, 2], asked[:, 1], False).gather(1, asked[:, :1])[:, 0]
    torch.testing.assert_close(tails, pairs)
    torch.testing.assert_close(heads, pairs)


def test_scores_of_entities_are_added_where_they_have_some() -> None:
    bias = EntityBias(RELATIONS, 3)
    for weight in bias.parameters():
        torch.nn.init.normal_(weight)
    entities, relations = torch.tensor([2, -1, 0]), torch.tensor([1, 0])
    for tails, weight in ((True, bias.tails), (False, bias.heads)):
        found = bias(relations, entities, tails)
        assert found.tolist() == [[weight[r, 2].item(), 0, weight[r, 0].item()] for r in (1, 0)]
    network = LinkNetwork(EdgeTransformer(EdgeTransformerConfig(dim=4, heads=2, layers=1)), RELATIONS, entities=3)
    assert network.bias is not None
    torch.nn.init.ones_(network.bias.tails)
    states = torch.randn(3, 3, 4)
    plain = network.scores(states, relations, relations, True)
    with_bias = network.scores(states, relations, relations, True, entities)
    torch.testing.assert_close(with_bias - plain, torch.tensor([[1.0, 0.0, 1.0]] * 2))


def test_the_numbers_of_nodes_do_not_matter() -> None:
    """Other numbers for the same nodes: the same states, moved."""
    network = LinkNetwork(EdgeTransformer(EdgeTransformerConfig(dim=4, heads=2, layers=2)), RELATIONS).eval()
    facts, order = torch.tensor(FACTS), torch.tensor([3, 0, 4, 1, 2])
    moved = torch.stack([order[facts[:, 0]], facts[:, 1], order[facts[:, 2]]], dim=1)
    states, there = network(facts, NODES), network(moved, NODES)
    torch.testing.assert_close(there[order][:, order], states)


def test_a_link_has_one_score_with_those_of_its_entities_too() -> None:
    network = LinkNetwork(EdgeTransformer(EdgeTransformerConfig(dim=4, heads=2, layers=1)), RELATIONS, entities=3)
    assert network.bias is not None
    for weight in network.bias.parameters():
        torch.nn.init.normal_(weight)
    states, entities, asked = torch.randn(NODES, NODES, DIM), torch.tensor([2, -1, 0, 1, -1]), torch.tensor(FACTS)
    pairs = network.pair_scores(states, asked[:, [0, 2]], entities)
    plain = network.head.pairs(states, asked[:, [0, 2]])
    for number, (i, r, j) in enumerate(FACTS):
        expected = plain[number, r]
        for node, weight in ((i, network.bias.heads), (j, network.bias.tails)):
            if entities[node] >= 0:
                expected = expected + weight[r, entities[node]]
        torch.testing.assert_close(pairs[number, r], expected)
    assert network.pair_scores(states, asked[:, [0, 2]]).equal(plain)
