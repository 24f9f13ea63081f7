"""Relation-aware attention and its two encoders against the plain equations, entry by entry."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from edge_transformer.nn.baselines.config import RelationAwareConfig, TransformerConfig
from edge_transformer.nn.baselines.relation_aware import RelationAwareTransformer, RelationUpdatingTransformer
from edge_transformer.nn.baselines.transformer import (
    RelationAwareAttention,
    Relations,
    RelativePositions,
    TransformerStack,
)

DIM, HEADS, WIDTH = 12, 3, 4


@pytest.fixture(autouse=True)
def same_numbers_every_time() -> None:
    torch.manual_seed(0)


def randn(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def make_attention(**settings: Any) -> RelationAwareAttention:
    config = TransformerConfig(dim=DIM, heads=HEADS, layers=1, **settings)
    return RelationAwareAttention(config).double().eval()


def mixed_by_hand(attention: RelationAwareAttention, nodes: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """z of one graph from `[n, dim]` nodes and `[n, n, dim]` relations, one head and one node at a time."""
    n = len(nodes)
    q, k, v = attention.projections(nodes).chunk(3, dim=-1)
    mixed = torch.zeros(n, DIM, dtype=torch.float64)
    for head in range(HEADS):
        part = slice(head * WIDTH, (head + 1) * WIDTH)
        for i in range(n):
            scores = [q[i, part] @ (k[j, part] + keys[i, j, part]) / math.sqrt(WIDTH) for j in range(n)]
            weights = torch.stack(scores).softmax(0)
            mixed[i, part] = sum(weights[j] * (v[j, part] + values[i, j, part]) for j in range(n))
    return mixed


# --- attention --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [True, False])
def test_attention_with_relations(bias: bool) -> None:
    attention, nodes, packed = make_attention(attention_bias=bias), randn(2, 5, DIM), randn(2, 5, 5, 2 * DIM)
    mixed = attention.mix(nodes, Relations.unpack(packed, HEADS))
    keys, values = packed.chunk(2, dim=-1)
    for row in range(2):
        torch.testing.assert_close(mixed[row], mixed_by_hand(attention, nodes[row], keys[row], values[row]))
    torch.testing.assert_close(attention(nodes, Relations.unpack(packed, HEADS)), attention.output(mixed))
    assert (attention.projections.bias is None) == (attention.output.bias is None) == (not bias)


def test_relations_that_a_batch_shares() -> None:
    attention, nodes, packed = make_attention(), randn(2, 5, DIM), randn(5, 5, 2 * DIM)
    mask = torch.tensor([[True] * 5, [True, False, True, True, False]])
    shared, repeated = (Relations.unpack(each, HEADS) for each in (packed, packed.expand(2, -1, -1, -1)))
    torch.testing.assert_close(attention(nodes, shared, mask), attention(nodes, repeated, mask))


def test_attention_without_relations_is_that_with_zeros() -> None:
    attention, nodes = make_attention(), randn(2, 5, DIM)
    zeros = Relations.unpack(torch.zeros(2, 5, 5, 2 * DIM, dtype=torch.float64), HEADS)
    for mask in (None, torch.tensor([[True] * 5, [True, False, True, True, False]])):
        torch.testing.assert_close(attention(nodes, None, mask), attention(nodes, zeros, mask))


@pytest.mark.parametrize("related", [True, False])
def test_dropout_drops_attention_weights(related: bool) -> None:
    attention = make_attention(dropout=0.5).train()
    nodes = randn(1, 1, DIM).expand(4000, -1, -1)
    relations = Relations.unpack(torch.zeros(4000, 1, 1, 2 * DIM, dtype=torch.float64), HEADS) if related else None
    value = attention.projections(nodes[0]).chunk(3, dim=-1)[2]
    heads = attention.mix(nodes, relations).view(4000, HEADS, WIDTH)  # one node: all of its value, twice, or nothing
    dropped = (heads == 0).all(-1)
    assert dropped.double().mean().item() == pytest.approx(0.5, abs=0.03)
    torch.testing.assert_close(heads[~dropped], (2 * value.view(1, HEADS, WIDTH)).expand(4000, -1, -1)[~dropped])


def test_projections_start_within_the_bound_of_one_part() -> None:
    weight = make_attention().projections.weight
    bound = math.sqrt(6 / (DIM + DIM))
    assert 0.9 * bound < weight.abs().max() <= bound


# --- relative positions and stacks ------------------------------------------------------------------------------------


def test_relative_positions() -> None:
    positions = RelativePositions(DIM, HEADS, max_distance=2)
    assert positions.distances.weight.shape == (5, 2 * DIM)
    keys, values = positions(6)
    assert keys.shape == values.shape == (6, HEADS, 6, WIDTH)
    for i in range(6):
        for j in range(6):
            entry = positions.distances.weight[max(-2, min(2, i - j)) + 2]
            assert torch.equal(torch.cat([keys[i, :, j].flatten(), values[i, :, j].flatten()]), entry)


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("tied", [True, False])
def test_stack(norm: str, tied: bool) -> None:
    stack = TransformerStack(TransformerConfig(DIM, HEADS, layers=3, norm=norm), tied=tied).double().eval()
    start, relations = randn(2, 4, DIM), Relations.unpack(randn(2, 4, 4, 2 * DIM), HEADS)
    x = start
    for depth in range(3):
        layer: Any = stack.layers[0 if tied else depth]
        attention, feed_forward = layer.attention, layer.residual.feed_forward
        if norm == "post":
            x = layer.residual.update_norm(x + attention(x, relations))
            x = layer.residual.feed_forward_norm(x + feed_forward(x))
        else:
            x = x + attention(layer.residual.update_norm(x), relations)
            x = x + feed_forward(layer.residual.feed_forward_norm(x))
    torch.testing.assert_close(stack(start, relations), F.layer_norm(x, (DIM,)) if norm == "pre" else x)


# --- RAT --------------------------------------------------------------------------------------------------------------


def test_rat_by_hand() -> None:
    """Nodes start at zero; the relations come from the first state of the edges and are the same in all layers."""
    model: Any = RelationAwareTransformer(RelationAwareConfig(DIM, HEADS, layers=3)).double().eval()
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            nn.init.normal_(parameter)  # without biases nodes that are zero ask nothing
    edges = randn(1, 4, 4, DIM)
    keys, values = model.relations(edges[0]).chunk(2, dim=-1)
    layer = model.stack.layers[0]
    x = torch.zeros(4, DIM, dtype=torch.float64)
    for _ in range(3):
        update = layer.attention.output(mixed_by_hand(layer.attention, x, keys, values))
        x = layer.residual.update_norm(x + update)
        x = layer.residual.feed_forward_norm(x + layer.residual.feed_forward(x))
    torch.testing.assert_close(model.encode(edges).nodes[0], x)


def test_parameters_of_rat_and_rrat() -> None:
    def count(model: nn.Module) -> int:
        return sum(parameter.numel() for parameter in model.parameters())

    d = DIM
    attention = 4 * (d * d + d)
    residual = (d * 4 * d + 4 * d) + (4 * d * d + d) + 2 * 2 * d
    pair_of_maps = 2 * (d * d + d)
    config = RelationAwareConfig(DIM, HEADS, layers=3)
    assert count(RelationAwareTransformer(config)) == pair_of_maps + attention + residual
    assert count(RelationUpdatingTransformer(config)) == 2 * pair_of_maps + attention + 2 * residual


# --- RRAT -------------------------------------------------------------------------------------------------------------


def test_rrat_by_hand() -> None:
    """Each layer makes its relations from its edges, and updates an edge from what its two nodes have gathered."""
    model: Any = RelationUpdatingTransformer(RelationAwareConfig(DIM, HEADS, layers=2)).double().eval()
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            nn.init.normal_(parameter)
    start = randn(1, 4, 4, DIM)
    layer = model.layers[0]
    nodes, edges = torch.zeros(4, DIM, dtype=torch.float64), start[0]
    for _ in range(2):
        keys, values = layer.relations(edges).chunk(2, dim=-1)
        mixed = mixed_by_hand(layer.attention, nodes, keys, values)
        left, right = layer.edge_update.weight.chunk(2)
        linear = torch.cat([left, right], dim=1)  # one linear layer on the two side by side
        bias = sum(layer.edge_update.bias.chunk(2))
        updates = [[linear @ torch.cat([mixed[i], mixed[j]]) + bias for j in range(4)] for i in range(4)]
        update = torch.stack([torch.stack(row) for row in updates])
        nodes = layer.node_residual.update_norm(nodes + layer.attention.output(mixed))
        nodes = layer.node_residual.feed_forward_norm(nodes + layer.node_residual.feed_forward(nodes))
        edges = layer.edge_residual.update_norm(edges + update)
        edges = layer.edge_residual.feed_forward_norm(edges + layer.edge_residual.feed_forward(edges))
    encoded = model.encode(start)
    torch.testing.assert_close(encoded.nodes[0], nodes)
    torch.testing.assert_close(encoded.edges[0], edges)
