"""What all baselines have in common with the Edge Transformer: symmetries, padding, reading, depth, memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from edge_transformer.nn.baselines import KINDS
from edge_transformer.nn.encoder import RECOMPUTE, Encoded, Encoder, recompute
from edge_transformer.tasks.base import build_encoder

BASELINES = [kind for kind in KINDS if kind != "edge"]
GRAPH_KINDS = ["rat", "rrat", "gat"]  # those that do not care how nodes are numbered
baselines = pytest.mark.parametrize("kind", BASELINES)
CASES: list[dict[str, Any]] = [{"kind": kind} for kind in BASELINES]
CASES += [{"kind": kind, "tied": False} for kind in GRAPH_KINDS]
CASES += [{"kind": kind, "norm": "pre"} for kind in BASELINES if kind != "gat"]
CASES += [{"kind": kind, "attention_bias": False} for kind in GRAPH_KINDS]
cases = pytest.mark.parametrize("settings", CASES, ids=lambda settings: "-".join(map(str, settings.values())))
DIM = 12


@pytest.fixture(autouse=True)
def same_numbers_every_time() -> None:
    torch.manual_seed(0)


def make_encoder(kind: str, layers: int = 3, **settings: Any) -> Encoder:
    encoder = build_encoder({"kind": kind, "dim": DIM, "heads": 3, "layers": layers, **settings}).double().eval()
    for parameter in encoder.parameters():  # biases and norms as training may leave them, not as they start
        if parameter.dim() == 1:
            nn.init.normal_(parameter, mean=0.5)
    return encoder


def random_edges(batch: int, n: int) -> Tensor:
    return torch.randn(batch, n, n, DIM, dtype=torch.float64)


def random_graph(batch: int, n: int) -> Tensor:
    """Which edges there are: a chain, and some more."""
    chain = torch.diag(torch.ones(n - 1, dtype=torch.bool), 1) if n > 1 else torch.ones(1, 1, dtype=torch.bool)
    return chain | (torch.rand(batch, n, n) < 0.3)


def all_pairs(batch: int, n: int) -> Tensor:
    return torch.cartesian_prod(torch.arange(n), torch.arange(n)).expand(batch, -1, -1)


# --- the interface ----------------------------------------------------------------------------------------------------


@cases
def test_shapes(settings: dict[str, Any]) -> None:
    model = make_encoder(**settings)
    encoded = model.encode(random_edges(2, 5), edge_mask=random_graph(2, 5))
    assert isinstance(encoded, Encoded)
    assert encoded.nodes.shape == (2, 5, DIM)
    assert encoded.edges.shape == (2, 5, 5, DIM)
    assert model.read_dim == (DIM if settings["kind"] == "rrat" else 2 * DIM)
    assert model.read(random_edges(2, 5), torch.zeros(2, 3, 2, dtype=torch.long)).shape == (2, 3, model.read_dim)


@pytest.mark.parametrize("kind", ["rat", "gat"])
def test_a_pair_is_read_as_its_two_nodes(kind: str) -> None:
    model, edges, graph = make_encoder(kind), random_edges(2, 4), random_graph(2, 4)
    mask = torch.tensor([[True] * 4, [True, True, False, True]])
    pairs = torch.tensor([[[0, 3], [3, 0], [2, 2]], [[1, 3], [0, 1], [0, 0]]])
    nodes, same = model.encode(edges, mask, graph)
    assert torch.equal(same, edges)
    read = model.read(edges, pairs, mask, graph)
    for row in range(2):
        for number, (start, end) in enumerate(pairs[row].tolist()):
            assert torch.equal(read[row, number], torch.cat([nodes[row, start], nodes[row, end]]))


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("tied", [True, False])
def test_rrat_reads_the_edge(norm: str, layers: int, tied: bool) -> None:
    model, edges = make_encoder("rrat", layers, norm=norm, tied=tied), random_edges(2, 4)
    mask = torch.tensor([[True] * 4, [True, True, False, True]])
    pairs = torch.tensor([[[0, 3], [3, 0], [2, 2]], [[1, 3], [0, 1], [0, 0]]])
    final = model.encode(edges, mask).edges
    expected = final[torch.arange(2)[:, None], pairs[..., 0], pairs[..., 1]]
    torch.testing.assert_close(model.read(edges, pairs, mask), expected)
    assert not torch.allclose(final, edges)


@baselines
def test_pairs_are_read_independently(kind: str) -> None:
    model, edges, graph = make_encoder(kind), random_edges(2, 4), random_graph(2, 4)
    pairs = torch.tensor([[[0, 3], [1, 2], [0, 3]], [[2, 0], [1, 1], [3, 2]]])
    together = model.read(edges, pairs, edge_mask=graph)
    for number in range(3):
        alone = model.read(edges, pairs[:, number : number + 1], edge_mask=graph)
        torch.testing.assert_close(together[:, number], alone[:, 0])


@baselines
def test_directions_of_pairs_and_of_edges_matter(kind: str) -> None:
    model, edges, graph = make_encoder(kind), random_edges(1, 4), random_graph(1, 4)
    pair = torch.tensor([[[0, 2]]])
    read = model.read(edges, pair, edge_mask=graph)
    assert not torch.allclose(read, model.read(edges, pair.flip(-1), edge_mask=graph))
    turned = model.read(edges.transpose(1, 2), pair, edge_mask=graph.transpose(1, 2))
    assert not torch.allclose(read, turned)


@baselines
def test_wrong_shapes_are_refused(kind: str) -> None:
    model, pairs = make_encoder(kind), torch.zeros(2, 1, 2, dtype=torch.long)
    for shape in ((2, 4, 12), (2, 4, 5, 12), (2, 4, 4, 11)):
        for run in (model.encode, lambda edges: model.read(edges, pairs)):
            with pytest.raises(ValueError, match=r"edges must be \[batch, n, n, dim=12\], but their shape is \["):
                run(torch.zeros(shape, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"pairs must be \[batch=2, m, 2\], but their shape is \[2, 2\]"):
        model.read(random_edges(2, 4), pairs[:, 0])
    with pytest.raises(ValueError, match="pairs must name nodes from 0 to 3"):
        model.read(random_edges(2, 4), pairs + 4)


# --- symmetries and padding -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [case for case in CASES if case["kind"] in GRAPH_KINDS], ids=str)
def test_relabelling_the_nodes_relabels_the_output(settings: dict[str, Any]) -> None:
    model, edges, graph = make_encoder(**settings), random_edges(2, 5), random_graph(2, 5)
    order = torch.tensor([3, 0, 4, 1, 2])
    plain = model.encode(edges, edge_mask=graph)
    moved = model.encode(edges[:, order][:, :, order], edge_mask=graph[:, order][:, :, order])
    torch.testing.assert_close(moved.nodes, plain.nodes[:, order])
    torch.testing.assert_close(moved.edges, plain.edges[:, order][:, :, order])
    assert not torch.allclose(moved.nodes, plain.nodes)


@cases
def test_padding_changes_nothing(settings: dict[str, Any]) -> None:
    model = make_encoder(**settings)
    graphs = [(random_edges(1, n), random_graph(1, n)) for n in (3, 5, 1)]
    padded, present = 100 * random_edges(3, 5), torch.rand(3, 5, 5) < 0.5  # the rest is rubbish
    mask = torch.zeros(3, 5, dtype=torch.bool)
    for row, (edges, graph) in enumerate(graphs):
        n = edges.shape[1]
        padded[row, :n, :n], present[row, :n, :n], mask[row, :n] = edges[0], graph[0], True
    together = model.encode(padded, mask, present)
    for row, (edges, graph) in enumerate(graphs):
        n = edges.shape[1]
        alone = model.encode(edges, edge_mask=graph)
        torch.testing.assert_close(together.nodes[row, :n], alone.nodes[0])
        torch.testing.assert_close(together.edges[row, :n, :n], alone.edges[0])
        pairs = all_pairs(1, n)
        read = model.read(padded, pairs.expand(3, -1, -1), mask, present)[row]
        torch.testing.assert_close(read, model.read(edges, pairs, edge_mask=graph)[0])


@cases
def test_padding_gets_no_gradient_and_every_edge_gets_one(settings: dict[str, Any]) -> None:
    model, edges = make_encoder(**settings), random_edges(1, 4).requires_grad_()
    mask = torch.tensor([[True, False, True, True]])
    read = model.read(edges, torch.tensor([[[0, 3], [2, 0]]]), mask, torch.ones(1, 4, 4, dtype=torch.bool))
    (gradient,) = torch.autograd.grad((read * torch.randn_like(read)).sum(), edges)
    real = mask[:, :, None] & mask[:, None, :]
    assert (gradient[~real] == 0).all()
    assert (gradient[real].abs().sum(-1) > 0).all()


@pytest.mark.parametrize("kind", ["gat", "transformer", "universal"])
def test_absent_edges_are_not_seen(kind: str) -> None:
    model, edges, graph = make_encoder(kind), random_edges(2, 5), random_graph(2, 5)
    graph[:, 4, 0] = False
    rubbish = torch.where(graph[..., None], edges, 100 * random_edges(2, 5))
    pairs = all_pairs(2, 5)
    read = model.read(edges, pairs, edge_mask=graph)
    assert torch.equal(model.read(rubbish, pairs, edge_mask=graph), read)
    graph[:, 4, 0] = True
    assert not torch.allclose(model.read(edges, pairs, edge_mask=graph), read)


@baselines
def test_without_an_edge_mask_every_pair_is_an_edge(kind: str) -> None:
    model, edges = make_encoder(kind), random_edges(2, 3)
    everything = torch.ones(2, 3, 3, dtype=torch.bool)
    assert torch.equal(model.read(edges, all_pairs(2, 3)), model.read(edges, all_pairs(2, 3), None, everything))


# --- ways to run it ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*GRAPH_KINDS, "universal"])
def test_a_random_number_of_layers_in_training(kind: str) -> None:
    model, edges, pairs = make_encoder(kind, layers=4, min_layers=2), random_edges(1, 3), torch.tensor([[[0, 2]]])
    if kind == "universal":  # in training its names are random, so that only a model without them can be compared
        nn.init.zeros_(model.get_parameter("entities.weight"))
    expected = []
    for layers in range(1, 5):
        shallow = make_encoder(kind, layers)
        shallow.load_state_dict(model.state_dict())
        expected.append(shallow.read(edges, pairs))

    def depth() -> int:
        read = model.read(edges, pairs)
        return next(number for number, answer in enumerate(expected, start=1) if torch.allclose(read, answer))

    assert {depth() for _ in range(3)} == {4}
    model.train()
    assert {depth() for _ in range(40)} == {2, 3, 4}


@cases
def test_dropout_in_training_only(settings: dict[str, Any]) -> None:
    model, edges, pairs = make_encoder(dropout=0.3, **settings), random_edges(2, 4), all_pairs(2, 4)
    assert torch.equal(model.read(edges, pairs), model.read(edges, pairs))
    model.train()
    torch.manual_seed(1)
    first, second = model.read(edges, pairs), model.read(edges, pairs)
    torch.manual_seed(1)
    assert torch.equal(model.read(edges, pairs), first)
    assert not torch.allclose(first, second)


@cases
def test_what_is_computed_again_gives_the_same_gradients(settings: dict[str, Any]) -> None:
    model, edges, pairs = make_encoder(dropout=0.3, **settings).train(), random_edges(2, 4), all_pairs(2, 4)
    gradients = []
    for again in RECOMPUTE:
        recompute(model, again)
        torch.manual_seed(1)
        model.zero_grad()
        model.read(edges, pairs).square().sum().backward()
        gradients.append({name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None})
    plain, *others = gradients
    for other in others:
        assert other.keys() == plain.keys()
        for name, gradient in plain.items():
            torch.testing.assert_close(other[name], gradient, rtol=0, atol=0, msg=name)


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("kind", GRAPH_KINDS)
def test_tied_layers_are_one_layer(kind: str) -> None:
    one, tied, untied = make_encoder(kind, 1), make_encoder(kind, 3), make_encoder(kind, 3, tied=False)
    assert count(tied) == count(one)
    layer = count(untied.get_submodule("stack.layers.0" if kind == "rat" else "layers.0"))
    assert count(untied) == count(one) + 2 * layer


def test_kind_decides_whether_a_story_transformer_is_tied() -> None:
    assert count(make_encoder("universal", 3)) == count(make_encoder("transformer", 1))
    assert count(make_encoder("transformer", 3)) > 2 * count(make_encoder("universal", 3))
