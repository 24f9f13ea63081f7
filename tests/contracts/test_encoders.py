"""What every encoder of the registry must do: shapes, gradients, padding, groups, reading, depth, memory."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from edge_transformer.nn.encoder import RECOMPUTE, Encoded, Encoder, encoder_names, find_encoder, recompute

DIM = 12
ENCODERS = {find_encoder(name, reads): (name, reads) for reads in ("tokens", "graphs") for name in encoder_names(reads)}
CHANGES: list[dict[str, Any]] = [{}, {"tied": False}, {"norm": "pre"}, {"attention_bias": False}]
CHANGES += [{"value": "left"}, {"key": "ij", "norm": "paper"}]  # of the Edge Transformer alone
CASES = [
    (name, reads, changes)
    for kind, (name, reads) in ENCODERS.items()
    for changes in CHANGES
    if changes.keys() <= {field.name for field in fields(kind.config)}
]
cases = pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, (*case[:2], *case[2].values()))))
encoders = pytest.mark.parametrize("case", ENCODERS.values(), ids="-".join)
GRAPHS = [(kind, "graphs") for kind in ("edge", "rat", "rrat", "gat")]  # those that do not care how nodes are numbered
graphs = pytest.mark.parametrize("case", GRAPHS, ids="-".join)


@pytest.fixture(autouse=True)
def same_numbers_every_time() -> None:
    torch.manual_seed(0)


def make_encoder(case: tuple[Any, ...], layers: int = 3, **settings: Any) -> Encoder:
    name, reads, *changes = case
    kind = find_encoder(name, reads)
    heads = {"heads": 3} if "heads" in {field.name for field in fields(kind.config)} else {}
    config = kind.config(dim=DIM, layers=layers, **heads, **settings, **(changes[0] if changes else {}))
    encoder = kind.encoder(config).double().eval()
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
def test_shapes_and_gradients_of_all_parameters(case: tuple[Any, ...]) -> None:
    model, edges, graph = make_encoder(case), random_edges(2, 5), random_graph(2, 5)
    encoded = model.encode(edges, edge_mask=graph)
    assert isinstance(encoded, Encoded)
    assert encoded.nodes.shape == (2, 5, DIM)
    assert encoded.edges.shape == (2, 5, 5, DIM)
    read = model.read(edges, all_pairs(2, 5), None, graph)
    assert read.shape == (2, 25, model.read_dim)
    (encoded.nodes.sin().sum() + encoded.edges.sin().sum() + read.sin().sum()).backward()
    unused = [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()]
    # Nodes that start at zero leave the first product of nodes without one, where no later layer has the same weights.
    assert [name for name in unused if not name.endswith("projections.weight") or "layers.0." not in name] == []


@cases
def test_groups_are_as_single_calls(case: tuple[Any, ...]) -> None:
    model, groups = make_encoder(case), [random_edges(batch, n) for batch, n in ((2, 3), (1, 1), (3, 4))]
    for together, edges in zip(model.encode_groups(groups), groups, strict=True):
        for found, alone in zip(together, model.encode(edges), strict=True):
            torch.testing.assert_close(found, alone)


@cases
def test_a_pair_is_read_as_its_edge_or_as_its_two_nodes(case: tuple[Any, ...]) -> None:
    model, edges, graph = make_encoder(case), random_edges(2, 4), random_graph(2, 4)
    mask = torch.tensor([[True] * 4, [True, True, True, False]])
    pairs = torch.tensor([[[0, 3], [3, 0], [2, 2]], [[1, 2], [0, 1], [0, 0]]])
    read = model.read(edges, pairs, mask, graph)
    encoded, row = model.encode(edges, mask, graph), torch.arange(2)[:, None]
    if model.has_edge_states:
        assert not torch.allclose(encoded.edges, edges)
    else:
        assert torch.equal(encoded.edges, edges)
    if model.read_dim == DIM:
        torch.testing.assert_close(read, encoded.edges[row, pairs[..., 0], pairs[..., 1]])
    elif not model.has_edge_states:
        torch.testing.assert_close(read, encoded.nodes[row[..., None], pairs].flatten(-2))
    for number in range(3):  # each pair on its own
        alone = model.read(edges, pairs[:, number : number + 1], mask, graph)
        torch.testing.assert_close(read[:, number], alone[:, 0])


@encoders
def test_directions_of_pairs_and_of_edges_matter(case: tuple[Any, ...]) -> None:
    model, edges, graph = make_encoder(case), random_edges(1, 4), random_graph(1, 4)
    pair = torch.tensor([[[0, 2]]])
    read = model.read(edges, pair, edge_mask=graph)
    assert not torch.allclose(read, model.read(edges, pair.flip(-1), edge_mask=graph))
    turned = model.read(edges.transpose(1, 2), pair, edge_mask=graph.transpose(1, 2))
    assert torch.allclose(read, turned) != model.takes_edges


@encoders
def test_wrong_shapes_are_refused(case: tuple[Any, ...]) -> None:
    model, pairs = make_encoder(case), torch.zeros(2, 1, 2, dtype=torch.long)
    for shape in ((2, 4, 12), (2, 4, 5, 12), (2, 4, 4, 11)):
        for run in (model.encode, lambda edges: model.read(edges, pairs), lambda edges: model.encode_groups([edges])):
            with pytest.raises(ValueError, match=r"edges must be \[batch, n, n, dim=12\], but their shape is \["):
                run(torch.zeros(shape, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"pairs must be \[batch=2, m, 2\], but their shape is \[2, 2\]"):
        model.read(random_edges(2, 4), pairs[:, 0])
    with pytest.raises(ValueError, match="pairs must name nodes from 0 to 3"):
        model.read(random_edges(2, 4), pairs + 4)


# --- symmetries and padding -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [case for case in CASES if (case[0], "graphs") in GRAPHS], ids=str)
def test_relabelling_the_nodes_relabels_the_output(case: tuple[Any, ...]) -> None:
    model, edges, graph = make_encoder(case), random_edges(2, 5), random_graph(2, 5)
    order = torch.tensor([3, 0, 4, 1, 2])
    plain = model.encode(edges, edge_mask=graph)
    moved = model.encode(edges[:, order][:, :, order], edge_mask=graph[:, order][:, :, order])
    torch.testing.assert_close(moved.nodes, plain.nodes[:, order])
    torch.testing.assert_close(moved.edges, plain.edges[:, order][:, :, order])
    assert not torch.allclose(moved.nodes, plain.nodes)


@cases
def test_padding_changes_nothing(case: tuple[Any, ...]) -> None:
    model = make_encoder(case)
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
def test_padding_gets_no_gradient_and_every_edge_that_is_looked_at_gets_one(case: tuple[Any, ...]) -> None:
    model, edges = make_encoder(case), random_edges(1, 4).requires_grad_()
    mask = torch.tensor([[True, True, True, False]])
    read = model.read(edges, torch.tensor([[[0, 1], [2, 0]]]), mask, torch.ones(1, 4, 4, dtype=torch.bool))
    (gradient,) = torch.autograd.grad((read * torch.randn_like(read)).sum(), edges)
    real = mask[:, :, None] & mask[:, None, :] & (torch.eye(4, dtype=torch.bool) | model.takes_edges)
    assert (gradient[~real] == 0).all()
    assert (gradient[real].abs().sum(-1) > 0).all()


@pytest.mark.parametrize("kind", ["gat", "transformer", "universal"])
def test_absent_edges_are_not_seen(kind: str) -> None:
    model, edges, graph = make_encoder((kind, "graphs")), random_edges(2, 5), random_graph(2, 5)
    graph[:, 4, 0] = False
    rubbish = torch.where(graph[..., None], edges, 100 * random_edges(2, 5))
    pairs = all_pairs(2, 5)
    read = model.read(edges, pairs, edge_mask=graph)
    assert torch.equal(model.read(rubbish, pairs, edge_mask=graph), read)
    graph[:, 4, 0] = True
    assert not torch.allclose(model.read(edges, pairs, edge_mask=graph), read)


@encoders
def test_without_an_edge_mask_every_pair_is_an_edge(case: tuple[Any, ...]) -> None:
    model, edges = make_encoder(case), random_edges(2, 3)
    everything = torch.ones(2, 3, 3, dtype=torch.bool)
    assert torch.equal(model.read(edges, all_pairs(2, 3)), model.read(edges, all_pairs(2, 3), None, everything))


# --- ways to run it ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [*GRAPHS, ("universal", "graphs"), ("universal", "tokens")], ids="-".join)
def test_a_random_number_of_layers_in_training(case: tuple[Any, ...]) -> None:
    model, edges, pairs = make_encoder(case, layers=4, min_layers=2), random_edges(1, 3), torch.tensor([[[0, 2]]])
    if case == ("universal", "graphs"):  # in training its names are random: only a model without them can be compared
        nn.init.zeros_(model.get_parameter("entities.weight"))
    expected = []
    for layers in range(1, 5):
        shallow = make_encoder(case, layers)
        shallow.load_state_dict(model.state_dict())
        expected.append(shallow.read(edges, pairs))

    def depth() -> int:
        read = model.read(edges, pairs)
        return next(number for number, answer in enumerate(expected, start=1) if torch.allclose(read, answer))

    assert {depth() for _ in range(3)} == {4}
    model.train()
    assert {depth() for _ in range(40)} == {2, 3, 4}


@cases
def test_dropout_in_training_only(case: tuple[Any, ...]) -> None:
    model, edges, pairs = make_encoder(case, dropout=0.3), random_edges(2, 4), all_pairs(2, 4)
    assert torch.equal(model.read(edges, pairs), model.read(edges, pairs))
    model.train()
    torch.manual_seed(1)
    first, second = model.read(edges, pairs), model.read(edges, pairs)
    torch.manual_seed(1)
    assert torch.equal(model.read(edges, pairs), first)
    assert not torch.allclose(first, second)


@cases
def test_what_is_computed_again_gives_the_same_gradients(case: tuple[Any, ...]) -> None:
    model, edges, pairs = make_encoder(case, dropout=0.3).train(), random_edges(2, 4), all_pairs(2, 4)
    gradients = []
    for again in RECOMPUTE:
        recompute(model, again)
        torch.manual_seed(1)
        model.zero_grad()
        nodes, states = model.encode(edges)
        (nodes.sin().sum() + states.sin().sum() + model.read(edges, pairs).square().sum()).backward()
        gradients.append({name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None})
    plain, *others = gradients
    for other in others:
        assert other.keys() == plain.keys()
        for name, gradient in plain.items():
            torch.testing.assert_close(other[name], gradient, rtol=0, atol=0, msg=name)


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@graphs
def test_tied_layers_are_one_layer(case: tuple[Any, ...]) -> None:
    one, tied, untied = make_encoder(case, 1), make_encoder(case, 3), make_encoder(case, 3, tied=False)
    assert count(tied) == count(one)
    layer = count(untied.get_submodule("stack.layers.0" if case[0] == "rat" else "layers.0"))
    assert count(untied) == count(one) + 2 * layer


@pytest.mark.parametrize("reads", ["graphs", "tokens"])
def test_the_kind_decides_whether_a_transformer_is_tied(reads: str) -> None:
    tied, untied = ("universal", reads), ("transformer", reads)
    assert count(make_encoder(tied, 3)) == count(make_encoder(untied, 1))
    assert count(make_encoder(untied, 3)) > 2 * count(make_encoder(tied, 3))
