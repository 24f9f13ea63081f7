"""The recording forward pass: the same numbers as the model's own, and triangles that can be taken away."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from edge_transformer import EdgeTransformer, EdgeTransformerConfig
from edge_transformer.explain import trace as trace_module
from edge_transformer.explain.trace import run, trace

SETTINGS: list[dict[str, Any]] = [
    {},
    {"tied": False},
    {"norm": "paper"},
    {"norm": "pre"},
    {"key": "ij"},
    {"value": "left"},
    {"attention_bias": False},
]


def encoder(**settings: Any) -> EdgeTransformer:
    torch.manual_seed(1)
    return EdgeTransformer(EdgeTransformerConfig(dim=8, heads=2, layers=3, **settings)).double().eval()


def edges(n: int = 5) -> torch.Tensor:
    return torch.randn(2, n, n, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_same_numbers_as_forward(settings: dict[str, Any], n: int) -> None:
    model = encoder(**settings)
    expected = model(edges(n))
    traced = trace(model, edges(n))
    torch.testing.assert_close(model.final_norm(traced.states[-1]), expected)
    torch.testing.assert_close(model.final_norm(run(model, edges(n))), expected)
    assert traced.states.shape == (4, 2, n, n, 8)
    assert traced.weights.shape == (3, 2, n, n, n, 2)
    torch.testing.assert_close(traced.weights.sum(3), torch.ones(3, 2, n, n, 2, dtype=torch.float64))


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_strengths_are_what_triangles_add_to_their_edge(settings: dict[str, Any]) -> None:
    """In the first layer, against a loop over triangles."""
    model = encoder(**settings)
    layer: Any = model.layers[0]
    states = edges()
    normed = layer.attention_norm(states)
    parts = layer.attention.projections(normed).view(2, 5, 5, layer.attention.parts, 2, 4)
    traced = trace(model, states)
    base = normed if layer.norm == "released" else states
    for i, pivot, j in ((0, 1, 2), (3, 3, 4), (2, 0, 2)):
        value = parts[0, i, pivot, 2] * (parts[0, pivot, j, 3] if layer.attention.parts == 4 else 1)  # (h, d)
        added = layer.attention.output.weight @ (traced.weights[0, 0, i, pivot, j, :, None] * value).flatten()
        expected = added.norm() / (added.norm() + base[0, i, j].norm())
        torch.testing.assert_close(traced.strengths[0, 0, i, pivot, j], expected)


def test_strengths_do_not_depend_on_the_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = trace(encoder(), edges()).strengths
    monkeypatch.setattr(trace_module, "CHUNK", 1)
    torch.testing.assert_close(trace(encoder(), edges()).strengths, whole)


def test_removed_triangles_get_no_weight_and_the_others_all_of_it() -> None:
    removed = torch.zeros(2, 5, 5, 5, dtype=torch.bool)
    removed[0, 1, 2, 3] = True
    plain, traced = trace(encoder(), edges()), trace(encoder(), edges(), removed)
    assert (traced.weights[:, 0, 1, 2, 3] == 0).all()
    others = plain.weights[0, 0, 1, :, 3].clone()
    others[2] = 0
    torch.testing.assert_close(traced.weights[0, 0, 1, :, 3], others / others.sum(0))
    torch.testing.assert_close(run(encoder(), edges(), removed), traced.states[-1])
    torch.testing.assert_close(traced.states[:, 1], plain.states[:, 1])  # the other graph is not touched
    assert not torch.allclose(traced.states[-1, 0], plain.states[-1, 0])


def test_an_edge_without_pivots_gets_no_update() -> None:
    model = encoder(attention_bias=False)
    layer: Any = model.layers[0]
    removed = torch.ones(2, 5, 5, 5, dtype=torch.bool)
    normed = layer.attention_norm(edges())
    traced = trace(model, edges(), removed)
    torch.testing.assert_close(traced.states[1], layer.finish(edges(), normed, torch.zeros_like(normed)))
    assert (traced.strengths == 0).all()
