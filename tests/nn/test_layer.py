"""One layer: written out again with plain PyTorch from its own weights, its first weights, and where it drops."""

from __future__ import annotations

import dataclasses
import math
import re
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attention_cases import needs_kernels
from edge_transformer.io.settings import to_dict
from edge_transformer.nn.layer import (
    NORMS,
    EdgeTransformerConfig,
    EdgeTransformerLayer,
    FeedForward,
    Triangles,
    TriangularAttention,
)

ENGINES = ["einsum", pytest.param("native", marks=needs_kernels)]
SMALL: dict[str, Any] = {"dim": 8, "heads": 2, "layers": 3}
CASES = [
    {"norm": norm, "key": key, "value": value, "attention_bias": bias}
    for norm, key, value, bias in product(NORMS, ("lj", "ij"), ("product", "left"), (True, False))
]


@pytest.fixture(autouse=True)
def same_numbers_every_time() -> None:
    torch.manual_seed(0)


def make_layer(dim: int = 12, heads: int = 3, engine: str = "auto", **settings: Any) -> EdgeTransformerLayer:
    """A layer in float64 whose every parameter is random, norms and biases too."""
    config = EdgeTransformerConfig(dim=dim, heads=heads, layers=1, **settings)
    layer = EdgeTransformerLayer(config, engine).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.5)
    return layer


def plain_norm(x: Tensor, norm: nn.LayerNorm) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    scaled = centred / (centred.square().mean(-1, keepdim=True) + norm.eps).sqrt()
    return scaled * norm.weight + norm.bias


def plain_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return x @ weight.T + (0 if bias is None else bias)


def plain_attention(x: Tensor, attention: TriangularAttention, node_mask: Tensor, causal_from: int | None) -> Tensor:
    """Equations (4) to (9), edge by edge, with one matrix and bias for each of W^q, W^k, V^1 and V^2."""
    batch, n, _, dim = x.shape
    heads, head_dim = attention.heads, dim // attention.heads
    weights = attention.projections.weight.split(dim)
    biases = [None] * len(weights) if attention.projections.bias is None else attention.projections.bias.split(dim)
    parts = [plain_linear(x, *pair).view(batch, n, n, heads, head_dim) for pair in zip(weights, biases, strict=True)]
    q, k, v1 = parts[:3]
    v2 = parts[3] if len(parts) == 4 else torch.ones_like(v1)
    out = torch.zeros(batch, n, n, heads, head_dim, dtype=x.dtype)
    for b, i, j in product(range(batch), range(n), range(n)):
        if not (node_mask[b, i] and node_mask[b, j]):
            continue
        pivots = [
            pivot
            for pivot in range(n)
            if node_mask[b, pivot] and (causal_from is None or pivot < causal_from or pivot <= max(i, j))
        ]
        keys = k[b, pivots, j] if attention.key == "lj" else k[b, [i] * len(pivots), j]
        scores = (q[b, i, pivots] * keys).sum(-1) / math.sqrt(head_dim)  # (pivots, heads)
        out[b, i, j] = (scores.softmax(0)[..., None] * v1[b, i, pivots] * v2[b, pivots, j]).sum(0)
    return plain_linear(out.flatten(-2), attention.output.weight, attention.output.bias)


def plain_feed_forward(x: Tensor, network: FeedForward) -> Tensor:
    hidden = plain_linear(x, network.hidden.weight, network.hidden.bias)
    return plain_linear(hidden.clamp(min=0), network.output.weight, network.output.bias)


def plain_layer(x: Tensor, layer: EdgeTransformerLayer, node_mask: Tensor, causal_from: int | None = None) -> Tensor:
    """The three placements of norms and residuals, as REFERENCE.md and the paper have them."""

    def attend(x: Tensor) -> Tensor:
        return plain_attention(x, layer.attention, node_mask, causal_from)

    if layer.norm == "released":
        x = plain_norm(x, layer.attention_norm)
        x = x + attend(x)
        x = plain_norm(x, layer.feed_forward_norm)
        return x + plain_feed_forward(x, layer.feed_forward)
    if layer.norm == "paper":
        inner = plain_norm(x + attend(plain_norm(x, layer.attention_norm)), layer.feed_forward_norm)
        return plain_feed_forward(inner, layer.feed_forward)
    x = x + attend(plain_norm(x, layer.attention_norm))
    return x + plain_feed_forward(plain_norm(x, layer.feed_forward_norm), layer.feed_forward)


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("settings", CASES, ids=lambda settings: "-".join(map(str, settings.values())))
def test_layer(settings: dict[str, Any], engine: str) -> None:
    layer = make_layer(**settings, engine=engine)
    edges = torch.randn(2, 4, 4, 12, dtype=torch.float64)
    everyone, some = torch.ones(2, 4, dtype=torch.bool), torch.tensor([[True] * 4, [True, False, True, True]])
    with torch.no_grad():
        torch.testing.assert_close(layer(edges), plain_layer(edges, layer, everyone))
        torch.testing.assert_close(layer(edges, some), plain_layer(edges, layer, some))
        torch.testing.assert_close(layer(edges, some, 2), plain_layer(edges, layer, some, 2))


@pytest.mark.parametrize("norm", NORMS)
def test_every_parameter_gets_a_gradient(norm: str) -> None:
    layer = make_layer(norm=norm)
    layer(torch.randn(2, 4, 4, 12, dtype=torch.float64)).square().sum().backward()
    for name, parameter in layer.named_parameters():
        assert parameter.grad is not None, name
        assert all(rows.abs().max() > 1e-9 for rows in parameter.grad.split(12)), name  # of each fused projection


@pytest.mark.parametrize("settings", CASES, ids=lambda settings: "-".join(map(str, settings.values())))
@pytest.mark.parametrize("masked", [False, True])
def test_reading_some_edges(settings: dict[str, Any], masked: bool) -> None:
    layer = make_layer(**settings)
    edges = torch.randn(3, 4, 4, 12, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[True] * 4, [True, False, True, True], [True, True, False, False]]) if masked else None
    pairs = torch.tensor([[[0, 1], [3, 3]], [[2, 0], [2, 0]], [[1, 0], [3, 1]]])  # the last of padding, if masked
    found = layer.read(edges, pairs, mask)
    graphs = torch.arange(3)[:, None]
    expected = layer(edges, mask)[graphs, pairs[..., 0], pairs[..., 1]]
    torch.testing.assert_close(found, expected)
    leaves = [edges, *layer.parameters()]
    upstream = torch.randn_like(found)
    torch.testing.assert_close(
        *(torch.autograd.grad(out, leaves, upstream, allow_unused=True) for out in (found, expected))
    )


@pytest.mark.parametrize("shape", [(3, 0, 2), (0, 2, 2)])
def test_reading_no_edges(shape: tuple[int, ...]) -> None:
    edges = torch.randn(shape[0], 4, 4, 12, dtype=torch.float64)
    assert make_layer().read(edges, torch.zeros(shape, dtype=torch.int64)).shape == (*shape[:2], 12)


# --- first weights ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "parts"), [("product", 4), ("left", 3)])
def test_each_projection_starts_within_its_own_xavier_bound(value: str, parts: int) -> None:
    dim = 40
    attention = TriangularAttention(EdgeTransformerConfig(dim=dim, heads=4, layers=1, value=value))
    assert attention.projections.weight.shape == (parts * dim, dim)
    bound = math.sqrt(6 / (dim + dim))
    for weight in (*attention.projections.weight.split(dim), attention.output.weight):
        assert 0.97 * bound < weight.abs().max() <= bound
        assert abs(weight.std().item() / (bound / math.sqrt(3)) - 1) < 0.1


def test_feed_forward_starts_within_the_xavier_bound() -> None:
    network = FeedForward(40, 160, 0.0)
    assert network.hidden.weight.shape == (160, 40)
    assert network.output.weight.shape == (40, 160)
    bound = math.sqrt(6 / 200)
    for weight in (network.hidden.weight, network.output.weight):
        assert 0.97 * bound < weight.abs().max() <= bound


@pytest.mark.parametrize("bias", [True, False])
def test_biases_of_the_attention(bias: bool) -> None:
    layer = make_layer(attention_bias=bias)
    assert (layer.attention.projections.bias is not None) == bias
    assert (layer.attention.output.bias is not None) == bias
    assert layer.feed_forward.hidden.bias is not None  # these have theirs always
    assert layer.feed_forward.output.bias is not None


def test_hidden_units_of_the_feed_forward_network() -> None:
    assert make_layer(ff_factor=2).feed_forward.hidden.out_features == 24
    assert make_layer().feed_forward.hidden.out_features == 48


# --- dropout ----------------------------------------------------------------------------------------------------------

P = 0.25


def dropping_layer(norm: str, dim: int = 8) -> EdgeTransformerLayer:
    """A layer that adds nothing: attention and feed-forward network give zeros until a test sets something else."""
    config = EdgeTransformerConfig(dim=dim, heads=2, layers=1, dropout=P, ff_factor=1, norm=norm)
    layer = EdgeTransformerLayer(config)
    for module in (layer.attention.projections, layer.attention.output, layer.feed_forward.hidden):
        nn.init.zeros_(module.weight)
        nn.init.zeros_(module.bias)
    nn.init.zeros_(layer.feed_forward.output.weight)
    nn.init.zeros_(layer.feed_forward.output.bias)
    return layer


def shares(x: Tensor) -> dict[float, float]:
    """The values in a tensor, to two places, and how large a share of it has each."""
    values, counts = torch.round(x.detach(), decimals=2).unique(return_counts=True)
    return {round(value, 2): count / x.numel() for value, count in zip(values.tolist(), counts.tolist(), strict=True)}


def test_attention_output_and_feed_forward_output_are_dropped() -> None:
    layer = dropping_layer("pre")
    nn.init.constant_(layer.attention.output.bias, 1 - P)
    nn.init.constant_(layer.feed_forward.output.bias, 10 * (1 - P))
    edges = torch.zeros(10, 6, 6, 8)
    found = shares(layer(edges))
    expected = {0: P * P, 1: (1 - P) * P, 10: P * (1 - P), 11: (1 - P) ** 2}
    assert found == pytest.approx(expected, abs=0.04)
    assert shares(layer.eval()(edges)) == {11 * (1 - P): 1.0}


def test_released_drops_the_feed_forward_output() -> None:
    layer = dropping_layer("released")
    nn.init.zeros_(layer.feed_forward_norm.weight)  # so that there is no residual
    nn.init.constant_(layer.feed_forward.output.bias, 1 - P)
    edges = torch.randn(10, 6, 6, 8)
    assert shares(layer(edges)) == pytest.approx({0: P, 1: 1 - P}, abs=0.04)
    assert shares(layer.eval()(edges)) == {1 - P: 1.0}


def test_released_drops_the_attention_output() -> None:
    layer = dropping_layer("released", dim=64)
    nn.init.ones_(layer.attention.output.bias)
    edges = torch.zeros(2, 6, 6, 64)
    above = (layer(edges) > 0).float()  # the output is the norm of dropped and kept ones
    assert above.mean().item() == pytest.approx(1 - P, abs=0.04)
    assert (layer.eval()(edges).abs() < 1e-6).all()


def test_paper_drops_the_output() -> None:
    layer = dropping_layer("paper")
    nn.init.constant_(layer.feed_forward.output.bias, 1 - P)
    edges = torch.randn(10, 6, 6, 8)
    assert shares(layer(edges)) == pytest.approx({0: P, 1: 1 - P}, abs=0.04)
    assert shares(layer.eval()(edges)) == {1 - P: 1.0}


def test_hidden_units_are_dropped() -> None:
    network = FeedForward(8, 8, P)
    nn.init.zeros_(network.hidden.weight)
    nn.init.constant_(network.hidden.bias, 1 - P)
    nn.init.eye_(network.output.weight)
    nn.init.zeros_(network.output.bias)
    x = torch.randn(500, 8)
    assert shares(network(x)) == pytest.approx({0: P, 1: 1 - P}, abs=0.04)
    assert shares(network.eval()(x)) == {1 - P: 1.0}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("read", [False, True])
def test_attention_weights_are_dropped(engine: str, read: bool) -> None:
    attention = dropping_layer("pre").attention
    attention.engine = engine
    with torch.no_grad():  # equal scores, all values 1: the output tells how many of the two pivots were kept
        attention.projections.bias[2 * 8 :] = 1.0
        nn.init.eye_(attention.output.weight)
    edges = torch.randn(300, 2, 2, 8)

    def weights() -> Tensor:
        parts: Any = attention.project(edges)  # (300, 2, 2, 4, h, d)
        if read:  # one edge alone
            q, k, v1, v2 = parts[:, :1].unbind(3)
            parts = Triangles(q, k, v1, v2, None)
        return attention.output(attention.attend(parts))[..., ::4] * (1 - P)  # one number for each head

    expected = {0: P * P, 0.5: 2 * P * (1 - P), 1: (1 - P) ** 2}
    assert shares(weights()) == pytest.approx(expected, abs=0.06)
    attention.eval()
    assert shares(weights()) == {1 - P: 1.0}


def test_without_dropout_training_draws_nothing() -> None:
    layer = make_layer(dropout=0.0)
    edges = torch.randn(1, 3, 3, 12, dtype=torch.float64)
    state = torch.get_rng_state()
    trained = layer(edges)
    assert torch.equal(trained, layer.eval()(edges))
    assert torch.equal(torch.get_rng_state(), state)


# --- its configuration ------------------------------------------------------------------------------------------------


def test_defaults_of_the_configuration() -> None:
    assert to_dict(EdgeTransformerConfig(**SMALL)) == {
        **SMALL,
        "tied": True,
        "dropout": 0.0,
        "ff_factor": 4,
        "attention_bias": True,
        "norm": "released",
        "key": "lj",
        "value": "product",
        "min_layers": None,
    }


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        EdgeTransformerConfig(**SMALL).dim = 16  # type: ignore[misc]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"dim": 0}, "dim must be at least 1, but is 0"),
        ({"heads": 0}, "heads must be at least 1, but is 0"),
        ({"layers": -1}, "layers must be at least 1, but is -1"),
        ({"ff_factor": 0}, "ff_factor must be at least 1, but is 0"),
        ({"min_layers": 0}, "min_layers must lie between 1 and layers=3, but is 0"),
        ({"min_layers": 4}, "min_layers must lie between 1 and layers=3, but is 4"),
        ({"heads": 3}, "dim=8 is not divisible by heads=3"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, but is 1.0"),
        ({"dropout": -0.1}, "dropout must be at least 0 and below 1, but is -0.1"),
        ({"norm": "post"}, "norm='post' is not known; choose one of ['released', 'paper', 'pre']"),
        ({"key": "il"}, "key='il' is not known; choose one of ['lj', 'ij']"),
        ({"value": "right"}, "value='right' is not known; choose one of ['product', 'left']"),
    ],
    ids=str,
)
def test_nonsense_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        EdgeTransformerConfig(**SMALL | changed)
