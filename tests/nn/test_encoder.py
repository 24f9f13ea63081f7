"""The stack: its weights, its symmetries, padding, and what it refuses."""

from __future__ import annotations

import doctest
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import edge_transformer as et
from attention_cases import needs_kernels
from edge_transformer import EdgeTransformer, EdgeTransformerConfig, Encoded
from edge_transformer.nn import encoder as encoder_module
from edge_transformer.nn.encoder import RECOMPUTE, recompute
from edge_transformer.nn.layer import NORMS
from edge_transformer.ops.attention import grouped_triangular_attention

norms = pytest.mark.parametrize("norm", NORMS)


@pytest.fixture(autouse=True)
def same_numbers_every_time() -> None:
    torch.manual_seed(0)


def make_encoder(layers: int = 3, engine: str = "auto", **settings: Any) -> EdgeTransformer:
    config = EdgeTransformerConfig(dim=12, heads=3, layers=layers, **settings)
    return EdgeTransformer(config, engine).double().eval()


def random_edges(batch: int, n: int) -> Tensor:
    return torch.randn(batch, n, n, 12, dtype=torch.float64)


# --- weights ----------------------------------------------------------------------------------------------------------


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(("value", "projections"), [("product", 4), ("left", 3)])
@norms
def test_number_of_parameters(tied: bool, value: str, projections: int, norm: str) -> None:
    d = 12
    attention = projections * (d * d + d) + (d * d + d)
    feed_forward = (d * 4 * d + 4 * d) + (4 * d * d + d)
    one_layer = attention + feed_forward + 2 * 2 * d  # two norms
    expected = one_layer * (1 if tied else 3) + (2 * d if norm == "pre" else 0)
    assert count(make_encoder(tied=tied, value=value, norm=norm)) == expected


def test_biases_off() -> None:
    assert count(make_encoder()) - count(make_encoder(attention_bias=False)) == 5 * 12


@norms
@pytest.mark.parametrize("tied", [True, False])
def test_layers_run_one_after_the_other(norm: str, tied: bool) -> None:
    model, edges = make_encoder(tied=tied, norm=norm), random_edges(2, 4)
    expected = edges
    for depth in range(3):
        expected = model.layers[0 if tied else depth](expected)
    if norm == "pre":
        expected = nn.functional.layer_norm(expected, (12,))
    torch.testing.assert_close(model(edges), expected)


def test_untied_layers_start_different() -> None:
    weights = [dict(layer.named_parameters())["attention.output.weight"] for layer in make_encoder(tied=False).layers]
    assert len({weight.sum().item() for weight in weights}) == 3


@norms
def test_only_a_pre_norm_stack_ends_with_a_norm(norm: str) -> None:
    state = make_encoder(norm=norm)(100 * random_edges(1, 4))
    is_normal = torch.allclose(state.mean(-1), torch.zeros_like(state[..., 0]), atol=1e-6)
    is_normal &= torch.allclose(state.std(-1, correction=0), torch.ones_like(state[..., 0]), atol=1e-3)
    assert is_normal == (norm == "pre")


def depth_of(model: EdgeTransformer, edges: Tensor, found: Tensor) -> int:
    """How many layers give this state."""
    depths = []
    for depth, layer in enumerate(model.layers, start=1):
        edges = layer(edges)
        if torch.allclose(model.final_norm(edges), found):
            depths.append(depth)
    assert len(depths) == 1
    return depths[0]


@pytest.mark.parametrize("read", [False, True])
def test_a_random_number_of_layers_in_training(read: bool) -> None:
    model, edges = make_encoder(layers=4, tied=False, min_layers=2, norm="pre"), random_edges(1, 3)
    everything = torch.cartesian_prod(torch.arange(3), torch.arange(3))[None]

    def run() -> Tensor:
        return model.read(edges, everything).view(1, 3, 3, 12) if read else model(edges)

    assert {depth_of(model, edges, run()) for _ in range(3)} == {4}
    model.train()
    assert {depth_of(model, edges, run()) for _ in range(40)} == {2, 3, 4}


# --- what depends on what ---------------------------------------------------------------------------------------------


@norms
def test_a_causal_graph_never_changes_its_past(norm: str) -> None:
    model, edges = make_encoder(norm=norm), random_edges(2, 6)
    whole = model(edges, causal_from=2)
    for nodes in range(2, 7):
        torch.testing.assert_close(whole[:, :nodes, :nodes], model(edges[:, :nodes, :nodes], causal_from=2))
    assert not torch.allclose(whole[:, :2, :2], model(edges)[:, :2, :2])


def test_information_travels_two_edges_a_layer() -> None:
    """Edge (0, 3) depends on edge (1, 2) only through two triangles, so from the second layer on."""
    edges = random_edges(1, 4)
    changed = edges.clone()
    changed[:, 1, 2] += 1
    for layers, seen in ((1, False), (2, True)):
        model = make_encoder(layers=layers)
        assert torch.equal(model(edges)[:, 0, 3], model(changed)[:, 0, 3]) != seen


@needs_kernels
def test_engines_agree() -> None:
    edges, mask = random_edges(2, 5), torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    plain, compiled = (make_encoder(engine=engine) for engine in ("einsum", "native"))
    compiled.load_state_dict(plain.state_dict())
    torch.testing.assert_close(compiled(edges, mask), plain(edges, mask))


def test_an_unknown_engine_is_refused_when_the_model_is_made() -> None:
    with pytest.raises(ValueError, match=r"engine='fast' is not known; choose one of \['auto', 'einsum', "):
        make_encoder(engine="fast")


# --- what is read off it ----------------------------------------------------------------------------------------------


def test_nodes_are_the_self_edges() -> None:
    model, edges = make_encoder(), random_edges(2, 4)
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    encoded = model.encode(edges, mask)
    assert isinstance(encoded, Encoded)
    assert torch.equal(encoded.edges, model(edges, mask))
    assert encoded.nodes.shape == (2, 4, 12)
    for node in range(4):
        assert torch.equal(encoded.nodes[:, node], encoded.edges[:, node, node])


# --- memory -----------------------------------------------------------------------------------------------------------


def test_what_is_computed_again_is_not_kept() -> None:
    """Count what autograd keeps for the backward pass: with whole layers again, one state of the edges a layer."""

    def kept_by(model: EdgeTransformer) -> int:
        sizes: dict[int, int] = {}

        def keep(tensor: Tensor) -> Tensor:
            if not isinstance(tensor, nn.Parameter):
                sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            result = model(edges)
        assert result.requires_grad
        return sum(sizes.values())

    edges = random_edges(1, 6)
    state = edges.nbytes
    model = make_encoder(layers=6).train()
    plain = kept_by(model)
    assert plain > 6 * 10 * state
    recompute(model, "hidden")
    assert kept_by(model) <= plain - 6 * (4 + 2) * state + 1024  # random states are kept too
    recompute(model, "layers")
    assert kept_by(model) <= 6 * state + 1024
    recompute(model, "nothing")
    assert kept_by(model) == plain


def test_what_can_be_computed_again() -> None:
    with pytest.raises(ValueError, match="must be one of nothing, hidden, layers, not 'all'"):
        recompute(make_encoder(), "all")


# --- ways to run it ---------------------------------------------------------------------------------------------------


@needs_kernels
def test_torch_compile_takes_the_whole_model_as_one_graph() -> None:
    model, edges = make_encoder(layers=2, dropout=0.2).train(), random_edges(2, 4)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    results = []
    for run in (model, compiled):
        torch.manual_seed(4)
        out = run(edges)
        results.append([out, *torch.autograd.grad(out.square().sum(), list(model.parameters()))])
    torch.testing.assert_close(results[1], results[0])


def test_torch_export() -> None:
    model, edges = make_encoder(layers=2), random_edges(2, 4)
    exported = torch.export.export(model, (edges,)).module()
    torch.testing.assert_close(exported(edges), model(edges))


def test_public_names_and_the_example_in_the_documentation() -> None:
    assert et.EdgeTransformer is EdgeTransformer
    results = doctest.testmod(encoder_module)
    assert results.attempted >= 3
    assert results.failed == 0


@pytest.mark.parametrize(
    "options", [{}, {"tied": False}, {"norm": "pre"}, {"norm": "paper", "attention_bias": False}, {"value": "left"}]
)
@pytest.mark.parametrize("again", RECOMPUTE)
def test_groups_of_different_sizes_are_as_if_alone(options: dict[str, Any], again: str) -> None:
    torch.manual_seed(3)
    config = EdgeTransformerConfig(dim=8, heads=2, layers=3, **options)
    model = EdgeTransformer(config).double()
    recompute(model, again)
    groups = [torch.randn(b, n, n, 8, dtype=torch.float64, requires_grad=True) for b, n in ((2, 3), (1, 1), (4, 5))]

    def gradients(encoded: list[Encoded]) -> list[Tensor]:
        loss = sum((each.edges.sin().sum() + each.nodes.square().sum() for each in encoded), torch.zeros(()))
        return list(torch.autograd.grad(loss, [*groups, *model.parameters()]))

    together, alone = model.encode_groups(groups), [model.encode(edges) for edges in groups]
    for ours, theirs in zip(together, alone, strict=True):
        torch.testing.assert_close(ours.nodes, theirs.nodes)
        torch.testing.assert_close(ours.edges, theirs.edges)
    for ours_gradient, their_gradient in zip(gradients(together), gradients(alone), strict=True):
        torch.testing.assert_close(ours_gradient, their_gradient)
    with pytest.raises(ValueError, match=r"edges must be \[batch, n, n, dim=8\]"):
        model.encode_groups([groups[0], torch.zeros(1, 2, 3, 8)])


@pytest.mark.parametrize("engine", ["auto", "blocked"])
def test_groups_without_graphs(engine: str) -> None:
    model = EdgeTransformer(EdgeTransformerConfig(dim=8, heads=2, layers=2), engine)
    assert model.encode_groups([]) == []
    edges = torch.randn(2, 3, 3, 8)
    none, some = model.encode_groups([edges[:0], edges])
    assert none.edges.shape == (0, 3, 3, 8)
    torch.testing.assert_close(some.edges, model(edges))
    assert grouped_triangular_attention(torch.zeros(0, 4, 2, 3), [], engine=engine).shape == (0, 2, 3)
