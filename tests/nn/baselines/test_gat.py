"""The graph attention network against its equations, and what flows where."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from edge_transformer.nn.baselines.config import GraphAttentionConfig
from edge_transformer.nn.baselines.gat import GraphAttentionNetwork

DIM, HEADS, WIDTH = 12, 3, 4


@pytest.fixture(autouse=True)
def same_numbers_every_time() -> None:
    torch.manual_seed(0)


def make_network(layers: int, **settings: Any) -> Any:
    model = GraphAttentionNetwork(GraphAttentionConfig(DIM, HEADS, layers, **settings)).double().eval()
    for parameter in model.parameters():
        if parameter.dim() == 1:
            nn.init.normal_(parameter)
    return model


def chain(n: int) -> Tensor:
    """0 -> 1 -> 2 -> ..."""
    return torch.diag(torch.ones(n - 1, dtype=torch.bool), 1)[None]


def test_by_hand() -> None:
    model, edges = make_network(2, tied=False), torch.randn(1, 4, 4, DIM, dtype=torch.float64)
    present = {(0, 1), (1, 2), (2, 1), (3, 3)}  # one way, both ways, a labelled loop; 3 is alone but for itself
    mask = torch.zeros(1, 4, 4, dtype=torch.bool)
    for start, end in present:
        mask[0, start, end] = True
    nodes = torch.zeros(4, DIM, dtype=torch.float64)
    for layer in model.layers:
        target, source = layer.projections(nodes).chunk(2, dim=-1)
        after = []
        for i in range(4):
            messages, scores = [], []
            for j in range(4):
                feature = torch.zeros(DIM, dtype=torch.float64)
                if (i, j) in present:
                    feature = feature + model.features(edges[0, i, j])[:DIM]
                if (j, i) in present:
                    feature = feature + model.features(edges[0, j, i])[DIM:]
                if i == j:
                    feature = feature + model.self_loop
                if i == j or (i, j) in present or (j, i) in present:
                    message = source[j] + feature
                    seen = F.leaky_relu(target[i] + message, 0.2).view(HEADS, WIDTH)
                    messages.append(message.view(HEADS, WIDTH))
                    scores.append((seen * layer.score).sum(-1))
            weights = torch.stack(scores).softmax(0)  # (neighbours, h)
            gathered = (weights[..., None] * torch.stack(messages)).sum(0).flatten()
            after.append(layer.norm(nodes[i] + F.elu(gathered)))
        nodes = torch.stack(after)
    torch.testing.assert_close(model.encode(edges, edge_mask=mask).nodes[0], nodes)


@pytest.mark.parametrize("turned", [False, True])
def test_news_travel_one_edge_a_layer_in_both_directions(turned: bool) -> None:
    """In a chain, the first node hears of the label between nodes 2 and 3 after three rounds, whatever the arrows."""
    edges = torch.randn(1, 4, 4, DIM, dtype=torch.float64)
    graph = chain(4).transpose(1, 2) if turned else chain(4)
    changed = edges.clone()
    changed[:, 2, 3] += 1
    changed[:, 3, 2] += 1
    for layers, heard in ((2, False), (3, True)):
        model = make_network(layers)
        before, after = (model.encode(each, edge_mask=graph).nodes[:, 0] for each in (edges, changed))
        assert torch.equal(before, after) != heard


def test_the_inverse_of_a_label_is_another_label() -> None:
    model, edges = make_network(1), torch.randn(1, 2, 2, DIM, dtype=torch.float64)
    nodes = model.encode(edges, edge_mask=chain(2)).nodes[0]
    assert not torch.allclose(nodes[0], nodes[1])
    with torch.no_grad():  # the same map for both directions: nothing tells the two ends apart
        model.features.weight[DIM:] = model.features.weight[:DIM]
        model.features.bias[DIM:] = model.features.bias[:DIM]
    nodes = model.encode(edges, edge_mask=chain(2)).nodes[0]
    torch.testing.assert_close(nodes[0], nodes[1])
