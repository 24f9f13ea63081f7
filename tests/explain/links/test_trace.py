"""The forward pass over a graph gives the numbers of the model, and the triangles that a full trace has."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from edge_transformer import EdgeTransformer, EdgeTransformerConfig
from edge_transformer.explain.links import trace as trace_module
from edge_transformer.explain.links.trace import GraphTrace
from edge_transformer.explain.trace import trace

SETTINGS: list[dict[str, Any]] = [
    {},
    {"tied": False},
    {"norm": "pre"},
    {"norm": "paper"},
    {"key": "ij"},
    {"value": "left"},
]
NODES = torch.tensor([5, 0, 3, 2])


def encoder(**settings: Any) -> EdgeTransformer:
    torch.manual_seed(1)
    return EdgeTransformer(EdgeTransformerConfig(dim=8, heads=2, layers=3, **settings)).double().eval()


def edges() -> torch.Tensor:
    return torch.randn(1, 7, 7, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("chunk", [1, trace_module.CHUNK])
def test_the_same_triangles_as_a_full_trace(
    settings: dict[str, Any], chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_module, "CHUNK", chunk)
    model = encoder(**settings)
    full, some = trace(model, edges()), GraphTrace(model, edges())
    torch.testing.assert_close(some.states, model(edges())[0])
    weights, strengths = some.among(NODES)
    grid = torch.meshgrid(NODES, NODES, NODES, indexing="ij")
    torch.testing.assert_close(weights, full.weights[:, 0].mean(-1)[:, grid[0], grid[1], grid[2]])
    torch.testing.assert_close(strengths, full.strengths[:, 0][:, grid[0], grid[1], grid[2]])
    weights, strengths = some.pivots(4, 1)
    torch.testing.assert_close(weights, full.weights[:, 0, 4, :, 1].mean(-1))
    torch.testing.assert_close(strengths, full.strengths[:, 0, 4, :, 1])


def test_gradients_are_those_of_the_model() -> None:
    model, given = encoder(norm="pre"), edges().requires_grad_()
    (found,) = torch.autograd.grad(GraphTrace(model, given).states[1, 2, 0], given)
    (expected,) = torch.autograd.grad(model(given)[0, 1, 2, 0], given)
    torch.testing.assert_close(found, expected)
    assert found.abs().sum() > 0
