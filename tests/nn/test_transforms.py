"""Whole models under torch.func: the same derivatives with compiled kernels as with the plain equations."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import functional_call, grad, stack_module_state, vmap

from attention_cases import needs_kernels
from edge_transformer import EdgeTransformer, EdgeTransformerConfig
from edge_transformer.nn.decoder import EdgeSeq2Seq
from edge_transformer.nn.encoder import recompute
from edge_transformer.nn.layer import NORMS
from seq2seq_cases import SOURCE_TOKENS, TARGET_TOKENS

pytestmark = pytest.mark.filterwarnings("error:There is a performance drop", "ignore:`torch.jit.script")
every_engine = pytest.mark.parametrize("engine", [pytest.param("native", marks=needs_kernels), "blocked"])
DIM = 4


@pytest.fixture(autouse=True)
def same_numbers_every_time() -> None:
    torch.manual_seed(0)


def make(engine: str, **settings: Any) -> EdgeTransformer:
    torch.manual_seed(1)
    config = EdgeTransformerConfig(dim=DIM, heads=2, layers=2, **settings)
    return EdgeTransformer(config, engine).double()


def forward(model: EdgeTransformer, edges: Tensor) -> Tensor:
    return model(edges, torch.tensor([[True, True, True], [True, True, False]]))


def read(model: EdgeTransformer, edges: Tensor) -> Tensor:
    return model.read(edges, torch.tensor([[[0, 1], [2, 2]], [[1, 0], [0, 1]]]))


def groups(model: EdgeTransformer, edges: Tensor) -> Tensor:
    return torch.cat([one.edges.flatten() for one in model.encode_groups([edges, edges[:1, :2, :2]])])


ways = pytest.mark.parametrize("way", [forward, read, groups])
Way = Callable[[EdgeTransformer, Tensor], Tensor]


# These answer with as many results as they are asked for, which type checkers cannot know.
jvp: Any = torch.func.jvp
vjp: Any = torch.func.vjp


def numbers(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64)


def same(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


@every_engine
@ways
@pytest.mark.parametrize("norm", NORMS)
def test_forward_mode(engine: str, way: Way, norm: str) -> None:
    edges, tangent = numbers(2, 3, 3, DIM), numbers(2, 3, 3, DIM)
    models = make(engine, norm=norm), make("einsum", norm=norm)
    same(*(jvp(lambda edges, model=model: way(model, edges), (edges,), (tangent,)) for model in models))


@every_engine
@ways
def test_forward_mode_with_dropout(engine: str, way: Way) -> None:
    model = make(engine, dropout=0.3)

    def run(edges: Tensor) -> Tensor:
        torch.manual_seed(5)
        return way(model, edges)

    edges, tangent = numbers(2, 3, 3, DIM), numbers(2, 3, 3, DIM)
    out, forwards = jvp(run, (edges,), (tangent,))
    same(out, run(edges))
    upstream = torch.randn_like(out)
    same((vjp(run, edges)[1](upstream)[0] * tangent).sum(), (upstream * forwards).sum())


@every_engine
def test_forward_mode_of_the_decoder_by_its_weights(engine: str) -> None:
    source, target = torch.randint(1, SOURCE_TOKENS, (2, 3)), torch.randint(1, TARGET_TOKENS, (2, 2))
    results = []
    for each in (engine, "einsum"):
        torch.manual_seed(1)
        config = EdgeTransformerConfig(dim=DIM, heads=2, layers=2)
        model = EdgeSeq2Seq(config, SOURCE_TOKENS, TARGET_TOKENS, engine=each).double()
        weights = {name: weight.detach() for name, weight in model.named_parameters()}
        tangents = {name: weight.cos() for name, weight in weights.items()}
        results.append(
            jvp(lambda weights, model=model: functional_call(model, weights, (source, target)), (weights,), (tangents,))
        )
    same(*results)


@every_engine
def test_gradients_for_each_graph(engine: str) -> None:
    model, edges = make(engine), numbers(3, 3, 3, DIM)
    weights = {name: weight.detach() for name, weight in model.named_parameters()}

    def loss(weights: dict[str, Tensor], edges: Tensor) -> Tensor:
        return functional_call(model, weights, edges[None]).pow(3).sum()

    found = vmap(grad(loss), in_dims=(None, 0))(weights, edges)
    for at, graph in enumerate(edges):
        exact = make("einsum")
        exact(graph[None]).pow(3).sum().backward()
        same({name: each[at] for name, each in found.items()}, {name: w.grad for name, w in exact.named_parameters()})


@every_engine
def test_several_models_at_once(engine: str) -> None:
    models = [make(engine) for _ in range(2)]
    for weight in models[1].parameters():
        torch.nn.init.normal_(weight)
    weights, buffers = stack_module_state(models)
    empty, edges = copy.deepcopy(models[0]).to("meta"), numbers(2, 3, 3, DIM)
    found = vmap(lambda weights, buffers: functional_call(empty, (weights, buffers), (edges,)))(weights, buffers)
    same(found, torch.stack([model(edges) for model in models]))


@every_engine
def test_reading_pairs_of_each_graph(engine: str) -> None:
    model, edges, pairs = make(engine), numbers(4, 3, 3, DIM), torch.randint(3, (4, 2, 2))
    read_each = vmap(lambda edges, pairs: model.read(edges[None], pairs[None])[0])
    same(read_each(edges, pairs), model.read(edges, pairs))
    with pytest.raises(ValueError, match="pairs must name nodes from 0 to 2"):
        read_each(edges, pairs + 3)


@pytest.mark.skipif(torch.__version__.startswith("2.6"), reason="PyTorch 2.6 refuses forward mode in checkpoints")
@every_engine
@ways
@pytest.mark.parametrize("what", ["hidden", "layers"])
def test_what_is_computed_again(engine: str, way: Way, what: str) -> None:
    model, edges, tangent = make(engine), numbers(2, 3, 3, DIM), numbers(2, 3, 3, DIM)
    expected = jvp(lambda edges: way(model, edges), (edges,), (tangent,))
    recompute(model, what)
    same(jvp(lambda edges: way(model, edges), (edges,), (tangent,)), expected)
    with pytest.raises(ValueError, match=r'call recompute\(model, "nothing"\) first'):
        grad(lambda edges: way(model, edges).sum())(edges)
