"""Heads: shapes, and values computed by hand from their own weights."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from edge_transformer.nn.encoder import Encoded
from edge_transformer.nn.heads import (
    AttentionParentHead,
    Biaffine,
    BiaffineLabelHead,
    EdgeLabelHead,
    NodeLabelHead,
    ParentHead,
    PooledHead,
    QueryEdgeHead,
)

BATCH, N, DIM, LABELS = 2, 3, 4, 5
MASK = torch.tensor([[True, True, True], [True, False, True]])


@pytest.fixture
def encoded() -> Encoded:
    torch.manual_seed(0)
    return Encoded(nodes=torch.randn(BATCH, N, DIM), edges=torch.randn(BATCH, N, N, DIM))


def linear(x: Tensor, layer: nn.Module) -> Tensor:
    assert isinstance(layer, nn.Linear)
    return x @ layer.weight.T + (0 if layer.bias is None else layer.bias)


# --- one edge ---------------------------------------------------------------------------------------------------------


def test_query_edge(encoded: Encoded) -> None:
    head = QueryEdgeHead(DIM, LABELS)
    query = torch.tensor([[0, 2], [2, 1]])
    logits = head(encoded, query)
    assert logits.shape == (BATCH, LABELS)
    first, _, last = head.classifier
    for graph, (i, j) in enumerate(query.tolist()):
        hidden = linear(encoded.edges[graph, i, j], first).clamp(min=0)
        torch.testing.assert_close(logits[graph], linear(hidden, last))


def test_query_edge_from_its_state_alone(encoded: Encoded) -> None:
    head = QueryEdgeHead(DIM, LABELS)
    query = torch.tensor([[0, 2], [2, 1]])
    states = torch.stack([encoded.edges[0, 0, 2], encoded.edges[1, 2, 1]])
    torch.testing.assert_close(head.classify(states), head(encoded, query))


@pytest.mark.parametrize("shape", [(2,), (2, 3), (2, 1, 2)])
def test_queries_of_another_shape_are_refused(encoded: Encoded, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"query must be \[batch=\d+, 2\], but its shape is \[") as error:
        QueryEdgeHead(DIM, LABELS)(encoded, torch.zeros(shape, dtype=torch.int64))
    assert str(list(shape)) in str(error.value)


# --- every edge, every node -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [True, False])
def test_edge_labels(encoded: Encoded, bias: bool) -> None:
    head = EdgeLabelHead(DIM, LABELS, bias=bias)
    logits = head(encoded)
    assert logits.shape == (BATCH, N, N, LABELS)
    assert (head.classifier.bias is not None) == bias
    for i in range(N):
        for j in range(N):
            torch.testing.assert_close(logits[:, i, j], linear(encoded.edges[:, i, j], head.classifier))


@pytest.mark.parametrize("bias", [True, False])
def test_node_labels(encoded: Encoded, bias: bool) -> None:
    head = NodeLabelHead(DIM, LABELS, bias=bias)
    logits = head(encoded)
    assert logits.shape == (BATCH, N, LABELS)
    assert (head.classifier.bias is not None) == bias
    for i in range(N):
        torch.testing.assert_close(logits[:, i], linear(encoded.nodes[:, i], head.classifier))


# --- parents ----------------------------------------------------------------------------------------------------------


def test_parents_are_scored_on_the_edge_from_child_to_parent(encoded: Encoded) -> None:
    head = ParentHead(DIM)
    logits = head(encoded)
    assert logits.shape == (BATCH, N, N)
    for child in range(N):
        for parent in range(N):
            expected = linear(encoded.edges[:, child, parent], head.score)[:, 0]
            torch.testing.assert_close(logits[:, child, parent], expected)


def test_padding_is_never_chosen_as_parent(encoded: Encoded) -> None:
    head = ParentHead(DIM)
    free, masked = head(encoded), head(encoded, MASK)
    candidates = MASK[:, None, :].expand(free.shape)
    assert torch.equal(masked[candidates], free[candidates])
    weights = masked.softmax(-1)
    assert (weights[~candidates] == 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(BATCH, N))
    edges = encoded.edges.clone()
    edges[:, :, 1] = 1e6 * head.score.weight.detach()  # by its score the best of all
    best = head(Encoded(encoded.nodes, edges), MASK).argmax(-1)
    assert (best[0] == 1).all()
    assert (best[1] != 1).all()


def test_gradients_of_parents_are_finite_beside_padding(encoded: Encoded) -> None:
    edges = encoded.edges.clone().requires_grad_()
    logits = ParentHead(DIM)(Encoded(encoded.nodes, edges), MASK)
    loss = nn.functional.cross_entropy(logits[MASK], torch.tensor([0, 0, 1, 2, 0]))
    (gradient,) = torch.autograd.grad(loss, edges)
    assert gradient.isfinite().all()
    assert (gradient[1, :, 1] == 0).all()
    assert gradient.abs().sum() > 0


# --- the whole graph --------------------------------------------------------------------------------------------------


def test_mean_of_edges(encoded: Encoded) -> None:
    head = PooledHead(DIM, LABELS)
    logits = head(encoded)
    assert logits.shape == (BATCH, LABELS)
    torch.testing.assert_close(logits, linear(encoded.edges.mean((1, 2)), head.classifier))


def test_mean_of_edges_without_padding(encoded: Encoded) -> None:
    head = PooledHead(DIM, LABELS)
    logits = head(encoded, MASK)
    real = encoded.edges[1, [0, 0, 2, 2], [0, 2, 0, 2]]
    torch.testing.assert_close(logits[0], linear(encoded.edges[0].mean((0, 1)), head.classifier))
    torch.testing.assert_close(logits[1], linear(real.mean(0), head.classifier))


@pytest.mark.parametrize("masked", [False, True])
def test_weighted_mean_of_edges(encoded: Encoded, masked: bool) -> None:
    head = PooledHead(DIM, LABELS, pool="attention")
    assert head.score is not None
    logits = head(encoded, MASK if masked else None)
    for graph in range(BATCH):
        nodes = [node for node in range(N) if not masked or MASK[graph, node]]
        states = torch.stack([encoded.edges[graph, i, j] for i in nodes for j in nodes])
        weights = linear(states, head.score)[:, 0].exp()
        pooled = (weights[:, None] * states).sum(0) / weights.sum()
        torch.testing.assert_close(logits[graph], linear(pooled, head.classifier))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("pool", ["max", "mean-max"])
def test_largest_of_every_feature(encoded: Encoded, pool: str, masked: bool) -> None:
    head = PooledHead(DIM, LABELS, pool=pool)
    logits = head(encoded, MASK if masked else None)
    for graph in range(BATCH):
        nodes = [node for node in range(N) if not masked or MASK[graph, node]]
        states = torch.stack([encoded.edges[graph, i, j] for i in nodes for j in nodes])
        pooled = states.amax(0) if pool == "max" else torch.cat([states.mean(0), states.amax(0)])
        torch.testing.assert_close(logits[graph], linear(pooled, head.classifier))


@pytest.mark.parametrize("pool", ["mean", "attention", "mean-max"])
def test_padding_gets_no_gradient(encoded: Encoded, pool: str) -> None:
    edges = encoded.edges.clone().requires_grad_()
    logits = PooledHead(DIM, LABELS, pool=pool)(Encoded(encoded.nodes, edges), MASK)
    (gradient,) = torch.autograd.grad(logits.square().sum(), edges)
    real = MASK[:, :, None] & MASK[:, None, :]
    assert (gradient[~real] == 0).all()
    assert (gradient[real].abs().sum(-1) > 0).all()


def test_an_unknown_pool_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"pool='sum' is not known; choose one of \['mean', 'attention', 'max', 'mean-max'\]"
    ):
        PooledHead(DIM, LABELS, pool="sum")


def test_parents_from_products_of_nodes(encoded: Encoded) -> None:
    torch.manual_seed(1)
    dim = encoded.nodes.shape[-1]
    head = AttentionParentHead(dim)
    logits = head(encoded)
    for i in range(encoded.nodes.shape[1]):
        for j in range(encoded.nodes.shape[1]):
            product = (head.query(encoded.nodes[:, i]) * head.key(encoded.nodes[:, j])).sum(-1) / dim**0.5
            torch.testing.assert_close(logits[:, i, j], product)
    mask = torch.ones(encoded.nodes.shape[:2], dtype=torch.bool)
    mask[:, -1] = False
    masked = head(encoded, mask)
    assert torch.isneginf(masked[:, :, -1]).all()
    assert torch.equal(masked[:, :, :-1], logits[:, :, :-1])


def test_biaffine_scores_are_those_of_the_formula(encoded: Encoded) -> None:
    torch.manual_seed(1)
    head = BiaffineLabelHead(DIM, LABELS, arc_dim=3, label_dim=2, dropout=0.5).eval()
    for weight in head.parameters():
        nn.init.normal_(weight)
    logits = head(encoded)
    assert logits.shape == (BATCH, N, N, LABELS)
    for part, outputs in ((head.arcs, slice(0, 1)), (head.labels, slice(1, LABELS))):
        ends = nn.functional.leaky_relu(part.ends(encoded.nodes), 0.1)
        first, second = ends[..., : part.hidden], ends[..., part.hidden :]
        weight = part.weight
        for i in range(N):
            for j in range(N):
                u, v = first[:, i], second[:, j]
                expected = torch.einsum("bx,oxy,by->bo", u, weight[:, :-1, :-1], v) + u @ weight[:, :-1, -1].T
                expected = expected + v @ weight[:, -1, :-1].T + weight[:, -1, -1]
                torch.testing.assert_close(logits[:, i, j, outputs], expected)
    assert not Biaffine(DIM, 3, 2)(encoded.nodes).any()  # all pairs start out equal
    dropped = head.train()(encoded)
    assert not torch.allclose(dropped, logits)
