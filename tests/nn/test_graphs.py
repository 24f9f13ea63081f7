"""Graphs of PyTorch Geometric to states of all pairs and back, and the encoder as a layer between its layers."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import edge_transformer as et
from edge_transformer.nn.encoder import encoder_names, find_encoder
from edge_transformer.nn.graphs import GraphLayer, from_dense_edges, graph_tensors, to_dense_edges

pytestmark = pytest.mark.usefixtures("one_thread")
CONFIG = et.EdgeTransformerConfig(dim=8, heads=2, layers=2)


def make_layer(in_channels: int = 5, **options: Any) -> GraphLayer:
    torch.manual_seed(3)
    return GraphLayer(et.EdgeTransformer(CONFIG), in_channels, **options).double().eval()


@st.composite
def random_graphs(draw: st.DrawFn) -> dict[str, Any]:
    """Some graphs of 0 to 6 nodes, with parallel edges and self-loops, in any order of nodes and edges."""
    sizes = draw(st.lists(st.integers(0, 6), min_size=1, max_size=4))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 999)))
    batch = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    if draw(st.booleans()):
        batch = batch[torch.randperm(len(batch), generator=generator)]
    choices = (batch[:, None] == batch).nonzero()  # pairs within a graph
    count = draw(st.integers(0, 20)) if len(choices) else 0
    edge_index = choices[torch.randint(max(1, len(choices)), (count,), generator=generator)].T
    x, edge_attr = (
        torch.randn(size, 3, generator=generator, dtype=torch.float64) for size in (len(batch), edge_index.shape[1])
    )
    return {"x": x, "edge_index": edge_index, "edge_attr": edge_attr, "batch": batch, "batch_size": len(sizes)}


def plain_dense(x: Tensor, edge_index: Tensor, edge_attr: Tensor, batch: Tensor, batch_size: int) -> list[Tensor]:
    """What `to_dense_edges` says in words, one graph, node and edge after the other; absent edges are 7."""
    answers = []
    for graph in range(batch_size):
        nodes = (batch == graph).nonzero().flatten().tolist()
        states = torch.full((len(nodes), len(nodes), x.shape[1]), 7.0, dtype=x.dtype)
        for place, node in enumerate(nodes):
            states[place, place] = x[node]
        seen = {(node, node) for node in nodes}
        for (source, target), attr in zip(edge_index.T.tolist(), edge_attr, strict=True):
            if source in nodes:
                i, j = nodes.index(source), nodes.index(target)
                states[i, j] = states[i, j] + attr if (source, target) in seen else attr
                seen.add((source, target))
        answers.append(states)
    return answers


# --- dense edges ------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(random_graphs())
def test_every_pair_has_what_the_words_say(graphs: dict[str, Any]) -> None:
    dense = to_dense_edges(**graphs, null=torch.full((3,), 7.0, dtype=torch.float64))
    expected = plain_dense(**graphs)
    assert len(dense.edges) == len(expected)
    for edges, mask, wanted in zip(dense.edges, dense.node_mask, expected, strict=True):
        n = len(wanted)
        torch.testing.assert_close(edges[:n, :n], wanted)
        assert mask.tolist() == [True] * n + [False] * (len(mask) - n)
        assert edges[n:].count_nonzero() == edges[:, n:].count_nonzero() == 0
    assert int(dense.edge_mask.sum()) == len(set(map(tuple, graphs["edge_index"].T.tolist())))


@settings(max_examples=60, deadline=None)
@given(random_graphs())
def test_there_and_back(graphs: dict[str, Any]) -> None:
    source, target = graphs["edge_index"]
    numbers = source * len(graphs["x"]) + target
    single = (source != target) & ((numbers[:, None] == numbers).sum(1) == 1)
    alone = ~torch.isin(torch.arange(len(graphs["x"])), source[source == target])  # nodes without self-loops
    dense = to_dense_edges(**graphs)
    x, edge_attr = from_dense_edges(dense.edges, dense)
    assert torch.equal(x[alone], graphs["x"][alone])
    assert torch.equal(edge_attr[single], graphs["edge_attr"][single])
    summed = torch.zeros(len(x) ** 2, 3, dtype=x.dtype).index_add(0, numbers, graphs["edge_attr"])
    proper = source != target
    torch.testing.assert_close(edge_attr[proper], summed[numbers][proper])  # parallel edges have their sum


@settings(max_examples=30, deadline=None)
@given(random_graphs())
def test_the_same_as_the_functions_of_pytorch_geometric(graphs: dict[str, Any]) -> None:
    utils = pytest.importorskip("torch_geometric.utils")
    order = graphs["batch"].argsort(stable=True)  # which those need
    renumbered = order.argsort()[graphs["edge_index"]]
    graphs |= {"x": graphs["x"][order], "batch": graphs["batch"][order], "edge_index": renumbered}
    dense = to_dense_edges(**graphs)
    size = {"batch_size": graphs["batch_size"]}
    if len(order):
        _, mask = utils.to_dense_batch(graphs["x"], graphs["batch"], **size)
        assert torch.equal(dense.node_mask, mask)
    nodes = to_dense_edges(**{**graphs, "edge_attr": torch.zeros_like(graphs["edge_attr"])})
    if graphs["edge_index"].shape[1]:
        count = dense.node_mask.shape[1]
        adjacency = utils.to_dense_adj(renumbered, graphs["batch"], graphs["edge_attr"], count, **size)
        torch.testing.assert_close(dense.edges - nodes.edges, adjacency)
    if len(order):
        features, _ = utils.to_dense_batch(graphs["x"], graphs["batch"], **size)
        assert torch.equal(nodes.edges.diagonal(dim1=1, dim2=2).transpose(1, 2), features)


def test_no_graphs_at_all() -> None:
    nothing = torch.empty(0, dtype=torch.long)
    dense = to_dense_edges(torch.empty(0, 2), nothing.view(2, 0), torch.empty(0, 2), nothing)
    assert dense.edges.shape == (0, 1, 1, 2)
    x, edge_attr = make_layer(2).float()(torch.empty(0, 2), nothing.view(2, 0), None, nothing, 3)
    assert (x.shape, edge_attr.shape) == ((0, 8), (0, 8))


def test_gradients_reach_features_and_null() -> None:
    x, edge_attr = (torch.randn(size, 2, dtype=torch.float64, requires_grad=True) for size in (5, 4))
    null = torch.randn(2, dtype=torch.float64, requires_grad=True)
    edge_index, batch = torch.tensor([[0, 1, 3, 3], [1, 2, 4, 4]]), torch.tensor([0, 0, 0, 1, 1])

    def run(x: Tensor, edge_attr: Tensor, null: Tensor) -> Tensor:
        return to_dense_edges(x, edge_index, edge_attr, batch, null=null).edges

    assert torch.autograd.gradcheck(run, (x, edge_attr, null))


def test_a_given_size_and_number_of_graphs() -> None:
    x, edge_index = torch.randn(3, 2), torch.tensor([[0], [2]])
    dense = to_dense_edges(x, edge_index, torch.ones(1, 2), size=5)
    assert dense.edges.shape == (1, 5, 5, 2)
    assert dense.node_mask.tolist() == [[True, True, True, False, False]]
    dense = to_dense_edges(x, edge_index, torch.ones(1, 2), torch.zeros(3, dtype=torch.long), batch_size=3)
    assert dense.node_mask.sum(1).tolist() == [3, 0, 0]


X, EDGES, ATTR, BATCH = torch.randn(4, 2), torch.tensor([[0, 2], [1, 3]]), torch.randn(2, 2), torch.tensor([0, 0, 1, 1])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": X[0]}, r"x must be \[nodes, dim\], but its shape is \[2\]"),
        ({"edge_index": EDGES.int()}, r"edge_index must be torch.int64 \[2, edges\], but is torch.int32 \[2, 2\]"),
        ({"edge_index": torch.zeros(3, 2).long()}, r"but is torch.int64 \[3, 2\]"),
        ({"edge_attr": ATTR[:1]}, r"edge_attr must be \[edges=2, dim=2\], but its shape is \[1, 2\]"),
        ({"edge_attr": ATTR.double()}, "x and edge_attr must have one type, but have torch.float32 and torch.float64"),
        ({"batch": BATCH[:3]}, r"batch must be torch.int64 \[nodes=4\], but is torch.int64 \[3\]"),
        ({"batch": BATCH - 1}, "batch must number graphs from 0, but has -1"),
        ({"batch_size": 1}, "batch names graph 1, but batch_size=1"),
        ({"null": X}, r"null must be \[dim=2\], but its shape is \[4, 2\]"),
        ({"edge_index": EDGES + 1}, "edge_index names node 4, but there are 4 nodes, numbered from 0"),
        ({"edge_index": EDGES - 1}, "edge_index names node -1, but there are 4 nodes"),
        ({"batch": torch.tensor([0, 0, 0, 1])}, "edge 1 connects node 2 of graph 0 and node 3 of graph 1; edges must"),
        ({"size": 1}, "graph 0 has 2 nodes, more than size=1"),
    ],
)
def test_wrong_tensors_are_refused(changes: dict[str, Any], message: str) -> None:
    given = {"x": X, "edge_index": EDGES, "edge_attr": ATTR, "batch": BATCH}
    with pytest.raises(ValueError, match=message):
        to_dense_edges(**{**given, **changes})


def test_states_of_other_graphs_are_refused() -> None:
    dense = to_dense_edges(X, EDGES, ATTR, BATCH)
    with pytest.raises(ValueError, match=r"edges must be \[2, 2, 2, dim\], but their shape is \[2, 3, 3, 2\]"):
        from_dense_edges(torch.zeros(2, 3, 3, 2), dense)


# --- the layer --------------------------------------------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(random_graphs())
def test_the_layer_sees_each_graph_alone(graphs: dict[str, Any]) -> None:
    layer = make_layer(3, edge_dim=3)
    x, edge_attr = layer(**graphs)
    assert x.isfinite().all()
    for graph in range(graphs["batch_size"]):
        own = graphs["batch"] == graph
        edges = own[graphs["edge_index"][0]]
        renumbered = (own.cumsum(0) - 1)[graphs["edge_index"][:, edges]]
        if own.any():
            alone = layer(graphs["x"][own], renumbered, graphs["edge_attr"][edges])
            torch.testing.assert_close(x[own], alone[0])
            torch.testing.assert_close(edge_attr[edges], alone[1])


@settings(max_examples=20, deadline=None)
@given(random_graphs(), st.randoms(use_true_random=False))
def test_the_layer_does_not_care_how_nodes_and_edges_are_ordered(graphs: dict[str, Any], random: Any) -> None:
    layer = make_layer(3, edge_dim=3)
    nodes, edges = len(graphs["x"]), graphs["edge_index"].shape[1]
    order = torch.tensor(random.sample(range(nodes), nodes), dtype=torch.long)
    edge_order = torch.tensor(random.sample(range(edges), edges), dtype=torch.long)
    x, edge_attr = layer(**graphs)
    moved = {"x": graphs["x"][order], "batch": graphs["batch"][order], "batch_size": graphs["batch_size"]}
    moved_x, moved_edge_attr = layer(
        **moved,
        edge_index=order.argsort()[graphs["edge_index"]][:, edge_order],
        edge_attr=graphs["edge_attr"][edge_order],
    )
    torch.testing.assert_close(moved_x, x[order])
    torch.testing.assert_close(moved_edge_attr, edge_attr[edge_order])


def test_the_layer_is_the_encoder_between_linear_maps() -> None:
    layer = make_layer(2)
    assert layer.present is not None
    x = X.double()
    edges = layer.null.expand(1, 4, 4, 8).clone()
    edges[0, range(4), range(4)] = layer.node(x)
    edges[0, EDGES[0], EDGES[1]] = layer.present
    expected = layer.encoder.encode(edges)
    nodes, attr = layer(x, EDGES)
    torch.testing.assert_close(nodes, expected.nodes[0])
    torch.testing.assert_close(attr, expected.edges[0, EDGES[0], EDGES[1]])


@pytest.mark.parametrize("kind", encoder_names("graphs"))
def test_every_encoder_can_be_the_layer(kind: str) -> None:
    found = find_encoder(kind, "graphs")
    heads = {"heads": 2} if "heads" in {field.name for field in fields(found.config)} else {}
    layer = GraphLayer(found.encoder(found.config(dim=8, layers=2, **heads)).eval(), in_channels=2)
    x, edge_attr = layer(X, EDGES, batch=BATCH)
    assert (x.shape, edge_attr.shape) == ((4, 8), (2, 8))
    alone = layer(X[:2], EDGES[:, :1])
    torch.testing.assert_close((x[:2], edge_attr[:1]), alone)


def test_every_parameter_learns_and_the_layer_trains() -> None:
    for edge_dim in (None, 2):
        layer = make_layer(2, edge_dim=edge_dim)
        x, edge_attr = layer(X.double(), EDGES, None if edge_dim is None else ATTR.double(), BATCH[[0, 0, 0, 0]])
        (x.square().sum() + edge_attr.sin().sum()).backward()
        for name, parameter in layer.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.count_nonzero(), name


def test_one_number_for_each_edge_needs_no_dimension() -> None:
    layer = make_layer(2, edge_dim=1)
    weight = torch.randn(2, dtype=torch.float64)
    for one, other in zip(layer(X.double(), EDGES, weight), layer(X.double(), EDGES, weight[:, None]), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("made", "given", "message"),
    [
        ({}, {"edge_attr": ATTR}, "edge_attr is given, but the layer was made with edge_dim=None"),
        ({"edge_dim": 2}, {}, "edge_attr is None, but the layer was made with edge_dim=2"),
        ({"edge_dim": 3}, {"edge_attr": ATTR}, r"edge_attr must be \[any number, edge_dim=3\], but its shape is"),
        ({"in_channels": 3}, {}, r"x must be \[any number, in_channels=3\], but its shape is \[4, 2\]"),
        ({}, {"x": X.long()}, "x must be a tensor of floating-point numbers, not torch.int64; embed or one-hot"),
        ({}, {"x": None}, "x must be a tensor of floating-point numbers, not NoneType"),
        ({"max_nodes": 3}, {}, "a graph has 4 nodes, more than max_nodes=3: there is a state for each of its 4² pairs"),
        ({"max_nodes": 1}, {"batch": BATCH}, "a graph has 2 nodes, more than max_nodes=1"),
    ],
)
def test_the_layer_refuses_what_it_was_not_made_for(made: dict[str, Any], given: dict[str, Any], message: str) -> None:
    layer = make_layer(**{"in_channels": 2, **made}).float()
    with pytest.raises(ValueError, match=message):
        layer(**{"x": X, "edge_index": EDGES, **given})


@pytest.mark.parametrize("options", [{"in_channels": 0}, {"edge_dim": 0}, {"max_nodes": 0}])
def test_a_layer_without_features_is_refused(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(options))} must be at least 1, but is 0"):
        make_layer(**options)


# --- PyTorch Geometric ------------------------------------------------------------------------------------------------


def make_batch() -> Any:
    geometric = pytest.importorskip("torch_geometric.data", reason="needs torch-geometric")
    torch.manual_seed(5)
    one = geometric.Data(x=torch.randn(4, 5), edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]), y=torch.tensor(1))
    empty = geometric.Data(x=torch.randn(0, 5), edge_index=torch.empty(2, 0, dtype=torch.long), y=torch.tensor(0))
    return geometric.Batch.from_data_list([one, one.clone(), empty])


def test_data_and_batch_go_in_and_come_back() -> None:
    batch, layer = make_batch(), make_layer().float()
    found = graph_tensors(batch)
    assert found["batch_size"] == 3
    answer = layer.forward_data(batch)
    assert batch.x.shape == (8, 5)  # the one given stays as it is
    assert batch.edge_attr is None
    assert (answer.num_graphs, answer.x.shape, answer.edge_attr.shape) == (3, (8, 8), (6, 8))
    assert answer.y.tolist() == [1, 1, 0]
    assert torch.equal(answer.batch, batch.batch)
    x, edge_attr = layer(**found)
    torch.testing.assert_close((answer.x, answer.edge_attr), (x, edge_attr))
    single = layer.forward_data(batch[0])
    torch.testing.assert_close(single.x, answer[0].x)
    torch.testing.assert_close(single.edge_attr, answer.edge_attr[:3])


def test_between_layers_of_pytorch_geometric() -> None:
    geometric = pytest.importorskip("torch_geometric.nn", reason="needs torch-geometric")
    batch = make_batch()
    model = geometric.Sequential(
        "x, edge_index, edge_attr, batch, batch_size",
        [
            (geometric.GINConv(nn.Linear(5, 6)), "x, edge_index -> x"),
            (make_layer(6).float(), "x, edge_index, edge_attr, batch, batch_size -> x, edge_attr"),
            (geometric.GINEConv(nn.Linear(8, 2), edge_dim=8), "x, edge_index, edge_attr -> x"),
            (geometric.global_add_pool, "x, batch, batch_size -> x"),
        ],
    )
    answer = model(batch.x, batch.edge_index, None, batch.batch, batch.num_graphs)
    assert answer.shape == (3, 2)
    torch.testing.assert_close(answer[0], answer[1])
    answer.sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_other_data_is_refused() -> None:
    geometric = pytest.importorskip("torch_geometric.data", reason="needs torch-geometric")
    with pytest.raises(TypeError, match="data must be a torch_geometric Data or Batch, not Tensor"):
        graph_tensors(X)
    with pytest.raises(TypeError, match="data must be a torch_geometric Data or Batch, not list"):
        graph_tensors([])
    with pytest.raises(ValueError, match="data has no node features x"):
        graph_tensors(geometric.Data(edge_index=EDGES, num_nodes=4))
    with pytest.raises(ValueError, match="data has no edge_index"):
        graph_tensors(geometric.Data(x=X))
    with pytest.raises(ValueError, match="HeteroData has several types of nodes"):
        graph_tensors(geometric.HeteroData(a={"x": X}))
