"""A layer with another step is another layer wherever layers run: whole graphs, last layers, groups, decoder, cache."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from edge_transformer.explain.trace import run
from edge_transformer.nn.decoder import EdgeSeq2Seq
from edge_transformer.nn.encoder import RECOMPUTE, EdgeTransformer, recompute
from edge_transformer.nn.layer import EdgeTransformerConfig, EdgeTransformerLayer, Triangles
from seq2seq_cases import SOURCE_TOKENS, TARGET_TOKENS, decode, draw_vectors, mask_of, random_pair


class OtherProject(EdgeTransformerLayer):
    def project(self, edges: Tensor) -> tuple[Tensor, Tensor]:
        normed, parts = super().project(edges.sin())
        return normed.tanh(), parts.tanh()


class OtherMix(EdgeTransformerLayer):
    def mix(self, parts: Tensor | Triangles, **how: Any) -> Tensor:
        return super().mix(parts, **how).tanh()


class OtherFinish(EdgeTransformerLayer):
    def finish(self, edges: Tensor, normed: Tensor, update: Tensor) -> Tensor:
        return super().finish(edges, normed, 2 * update).sin()


OPTIONS: list[dict[str, Any]] = [
    {},
    {"key": "ij", "norm": "pre", "tied": False},
    {"value": "left", "norm": "paper", "attention_bias": False},
    {"key": "ij", "value": "left"},
]
steps = pytest.mark.parametrize("step", [OtherProject, OtherMix, OtherFinish])
some_options = pytest.mark.parametrize("options", OPTIONS, ids=str)


@pytest.fixture(autouse=True)
def same_numbers_every_time() -> None:
    torch.manual_seed(0)


def replace_layers(stack: EdgeTransformer, step: type[EdgeTransformerLayer], engine: str = "auto") -> None:
    """Give the layers of a stack another step, and leave their weights as they are."""
    for number, layer in enumerate(stack.layers):
        stack.layers[number] = step(stack.config, engine).double()
        stack.layers[number].load_state_dict(layer.state_dict())


@steps
@some_options
@pytest.mark.parametrize("masked", [False, True])
def test_the_encoder(step: type[EdgeTransformerLayer], options: dict[str, Any], masked: bool) -> None:
    model = EdgeTransformer(EdgeTransformerConfig(dim=12, heads=3, layers=3, **options)).double().eval()
    draw_vectors(model)
    edges = torch.randn(2, 5, 5, 12, dtype=torch.float64)
    mask = torch.tensor([[True] * 5, [True, True, True, False, False]]) if masked else None
    plain = model(edges, mask)
    replace_layers(model, step)
    whole = model(edges, mask)
    assert not torch.allclose(whole, plain)
    pairs = torch.tensor([[[0, 4], [2, 2], [1, 0]], [[2, 1], [2, 1], [0, 0]]])
    expected = whole[torch.arange(2)[:, None], pairs[..., 0], pairs[..., 1]]
    torch.testing.assert_close(model.read(edges, pairs, mask), expected)
    groups = [edges[:1, :3, :3], edges]
    for found, group in zip(model.encode_groups(groups), groups, strict=True):
        torch.testing.assert_close(found.edges, model(group))
    if step is not OtherMix:  # which an explanation computes itself, to know the weight of every triangle
        torch.testing.assert_close(model.final_norm(run(model, edges)), model(edges))


@steps
@some_options
@pytest.mark.parametrize("engine", ["einsum", "auto"])
def test_the_decoder_and_its_cache(step: type[EdgeTransformerLayer], options: dict[str, Any], engine: str) -> None:
    config = EdgeTransformerConfig(dim=12, heads=3, layers=3, **options)
    model = EdgeSeq2Seq(config, SOURCE_TOKENS, TARGET_TOKENS, engine=engine).double().eval()
    draw_vectors(model)
    source, target, mask = *random_pair(3, 4, 6), mask_of(4, 2, 1)
    plain = model(source, target, mask)
    replace_layers(model.decoder, step, engine)
    found = model(source, target, mask)
    assert not torch.allclose(found, plain)
    torch.testing.assert_close(decode(model, model.start(source, mask), target), found)
    # The last layer is read at the self-edges of the target alone: here it is computed for all edges.
    edges, before = torch.randn(2, 9, 9, 12, dtype=torch.float64), torch.arange(4, 9)
    whole = model.decoder(edges, causal_from=4)
    torch.testing.assert_close(model.decoder.read_targets(edges, 4), whole[:, before, before])


@steps
@pytest.mark.parametrize("again", RECOMPUTE[1:])
def test_what_is_computed_again(step: type[EdgeTransformerLayer], again: str) -> None:
    model = EdgeTransformer(EdgeTransformerConfig(dim=12, heads=3, layers=3, dropout=0.2)).double()
    replace_layers(model, step)
    edges, pairs = torch.randn(2, 5, 5, 12, dtype=torch.float64), torch.randint(5, (2, 3, 2))
    gradients = []
    for what in ("nothing", again):
        recompute(model, what)
        torch.manual_seed(1)
        loss = model(edges).sin().sum() + model.read(edges, pairs).sin().sum()
        gradients.append(torch.autograd.grad(loss, list(model.parameters())))
    assert all(torch.equal(*pair) for pair in zip(*gradients, strict=True))
