"""Rows from graphs of networkx and PyTorch Geometric, and from any value that `train` takes."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_transformer.data.relations.sources import row_from_networkx, row_from_pyg, rows_of
from edge_transformer.errors import DataError, UserError

networkx = pytest.importorskip("networkx")
pandas = pytest.importorskip("pandas")
geometric = pytest.importorskip("torch_geometric.data", reason="needs torch-geometric")

words = st.text(min_size=1, max_size=3)
floats = st.floats(allow_nan=False, allow_infinity=False, width=32)


# --- networkx ---------------------------------------------------------------------------------------------------------


def family() -> Any:
    graph = networkx.DiGraph(query=("Ann", "Eve"), target="daughter", id=7, absent=[("Bob", "son", "Ann")], name="any")
    graph.add_edge("Ann", "Bob", label="son")
    graph.add_edge("Bob", "Eve", label=["sister", "friend"])
    return graph


def test_a_directed_graph() -> None:
    assert row_from_networkx(family()) == {
        "nodes": ["Ann", "Bob", "Eve"],
        "edges": [["Ann", "son", "Bob"], ["Bob", ["sister", "friend"], "Eve"]],
        "id": 7,
        "absent": [["Bob", "son", "Ann"]],
        "query": ["Ann", "Eve"],
        "target": "daughter",
    }
    found = row_from_networkx(family(), query=[("Ann", "Eve"), ("Eve", "Ann")], target=numpy.array([0.5, 2]))
    assert (found["query"], found["target"]) == ([["Ann", "Eve"], ["Eve", "Ann"]], [0.5, 2.0])
    assert row_from_networkx(family(), query="all", target=[("Ann", "x", "Bob")])["query"] == "all"


def test_undirected_edges_lead_in_both_directions() -> None:
    graph = networkx.Graph([(1, 2), (2, 2)])
    graph.add_node(0)
    assert row_from_networkx(graph) == {
        "nodes": ["1", "2", "0"],
        "edges": [["1", "edge", "2"], ["2", "edge", "1"], ["2", "edge", "2"]],
    }


def test_labels_and_features() -> None:
    graph = networkx.DiGraph()
    graph.add_node("a", label="big", size=numpy.float32(0.5), at=[1, 2], target="x")
    graph.add_node("b", label={"old", "big"}, size=True, at=(3, 4))
    graph.add_node("c")
    graph.add_edge("a", "b", relation=numpy.int64(4), w=torch.tensor(2.5))
    graph.add_edge("b", "c", relation="r")
    assert row_from_networkx(graph, label="relation") == {
        "nodes": {
            "a": {"labels": ["big"], "features": [1, 2, 0.5]},
            "b": {"labels": ["big", "old"], "features": [3, 4, 1]},
            "c": None,
        },
        "edges": [["a", "4", "b", [2.5]], ["b", "r", "c"]],
        "target": {"a": "x"},
    }
    found = row_from_networkx(graph, label=None, node_label=None, features=(), node_features="size")
    assert found["edges"] == [["a", "edge", "b"], ["b", "edge", "c"]]
    assert found["nodes"]["a"] == {"labels": [], "features": [0.5]}


def test_keys_of_a_multigraph_are_labels_where_no_edge_has_one() -> None:
    graph = networkx.MultiDiGraph()
    for key in ("son", "heir"):
        graph.add_edge("a", "b", key=key)
    assert row_from_networkx(graph)["edges"] == [["a", "son", "b"], ["a", "heir", "b"]]
    graph = networkx.MultiDiGraph([("a", "b", {"label": "x"}), ("a", "b", {"label": "y"})])
    assert row_from_networkx(graph)["edges"] == [["a", "x", "b"], ["a", "y", "b"]]
    assert row_from_networkx(networkx.MultiDiGraph([("a", "b")]))["edges"] == [["a", "edge", "b"]]


@pytest.mark.parametrize(
    ("attributes", "options", "message"),
    [
        ({"relation": "son"}, {}, "graph, edge a b: found relation = 'son'; expected a number: all attributes but the"),
        ({"w": float("nan")}, {}, "found w = nan; expected a number.*a finite number"),
        ({"w": numpy.inf}, {}, "found w = inf"),
        ({"w": 1, "v": None}, {}, "found no v"),
        ({"target": "x"}, {}, "found the attribute target; expected targets in graph.graph"),
        ({"label": 0.5}, {}, "found label = 0.5; expected a label"),
        ({"label": ""}, {}, "found label = ''; expected a label"),
        ({"label": "x"}, {"label": "relation"}, "relation: found the attributes label; expected it among them"),
        ({}, {"features": "w"}, "w: found the attributes none; expected it among them"),
        ({}, {"query": "ab"}, "graph: found query = 'ab'; expected two nodes, a list of such pairs, or"),
        ({}, {"query": ["a", 0.5]}, "found query = 0.5; expected a text or a whole number"),
        ({}, {"target": float("nan")}, "found target = nan; expected a finite number"),
        ({}, {"target": object()}, "found target = <object"),
    ],
)
def test_broken_graphs(attributes: dict[str, Any], options: dict[str, Any], message: str) -> None:
    graph = networkx.DiGraph()
    graph.add_edge("a", "b", **attributes)
    with pytest.raises(UserError, match=message):
        row_from_networkx(graph, **options)


def test_names_of_nodes() -> None:
    for graph, message in (
        (networkx.grid_graph((2, 2)), r"found node = \(0, 0\); expected a text or a whole number"),
        (networkx.DiGraph([(1, "1")]), "found the nodes '1' and 1; expected other names"),
        (networkx.DiGraph([(0.5, 1)]), "found node = 0.5; expected a text or a whole number"),
    ):
        with pytest.raises(DataError, match=message):
            row_from_networkx(graph)
    with pytest.raises(UserError, match="graph: found a dict; expected a graph of networkx"):
        row_from_networkx({})


@st.composite
def multigraphs(draw: st.DrawFn) -> dict[str, Any]:
    nodes = draw(st.lists(words, min_size=1, max_size=4, unique=True))
    node, width = st.sampled_from(nodes), draw(st.integers(0, 2))
    edge = st.tuples(node, words | st.lists(words, max_size=2), node, st.lists(floats, min_size=width, max_size=width))
    described = st.none() | words | st.lists(words, min_size=2, max_size=3)
    return {
        "nodes": {each: draw(described) for each in nodes},
        "edges": [list(each) if width else list(each[:3]) for each in draw(st.lists(edge, min_size=1, max_size=6))],
        "query": draw(st.lists(node, min_size=2, max_size=2)),
        "target": draw(words | floats | st.lists(words, max_size=2)),
    }


@settings(deadline=None)
@given(row=multigraphs())
def test_round_trip_by_networkx(row: dict[str, Any]) -> None:
    graph = networkx.MultiDiGraph(query=row["query"], target=row["target"])
    for name, label in row["nodes"].items():
        graph.add_node(name, **({} if label is None else {"label": label}))
    for start, label, end, *features in row["edges"]:
        graph.add_edge(start, end, label=label, **({"features": features[0]} if features else {}))
    (found,) = rows_of(graph)
    by_text = {key: sorted(each["edges"], key=repr) for key, each in (("found", found), ("row", row))}
    assert by_text["found"] == by_text["row"]  # networkx orders edges by their nodes
    bare = all(label is None for label in row["nodes"].values())
    assert found["nodes"] == (list(row["nodes"]) if bare else row["nodes"])
    assert (found["query"], found["target"]) == (row["query"], row["target"])


# --- PyTorch Geometric ------------------------------------------------------------------------------------------------

INDEX = torch.tensor([[0, 1], [1, 2]])
EDGES = [["0", "edge", "1"], ["1", "edge", "2"]]


def data(**given: Any) -> Any:
    return geometric.Data(**{"edge_index": INDEX, "num_nodes": 3, **given})


@pytest.mark.parametrize(
    ("given_data", "edges"),
    [
        ({}, EDGES),
        ({"edge_type": torch.tensor([4, 0])}, [["0", "4", "1"], ["1", "0", "2"]]),
        ({"edge_attr": torch.tensor([4, 0])}, [["0", "4", "1"], ["1", "0", "2"]]),
        ({"edge_attr": torch.tensor([[4], [0]])}, [["0", "4", "1"], ["1", "0", "2"]]),
        ({"edge_attr": torch.tensor([[0.0, 1, 0], [1, 0, 0]])}, [["0", "1", "1"], ["1", "0", "2"]]),
        ({"edge_attr": torch.tensor([[False, True], [True, False]])}, [["0", "1", "1"], ["1", "0", "2"]]),
        ({"edge_attr": torch.tensor([[0.5, 1], [1, 0]])}, [["0", "edge", "1", [0.5, 1]], ["1", "edge", "2", [1, 0]]]),
        ({"edge_attr": torch.tensor([0.5, 1])}, [["0", "edge", "1", [0.5]], ["1", "edge", "2", [1]]]),
        (
            {"edge_type": torch.tensor([4, 0]), "edge_attr": torch.eye(2)},
            [["0", "4", "1", [1, 0]], ["1", "0", "2", [0, 1]]],
        ),
        ({"edge_index": torch.empty(2, 0, dtype=torch.long), "edge_attr": torch.empty(0, 4)}, []),
    ],
)
def test_edges_of_pyg(given_data: dict[str, Any], edges: list[Any]) -> None:
    assert row_from_pyg(data(**given_data)) == {"nodes": ["0", "1", "2"], "edges": edges}


def test_nodes_of_pyg() -> None:
    for x in (torch.tensor([5, 6, 5]), torch.tensor([[5], [6], [5]])):
        assert row_from_pyg(data(x=x))["nodes"] == {"0": "5", "1": "6", "2": "5"}
    found = row_from_pyg(data(x=torch.tensor([[1.0, 0], [0, 1], [2, 2]])))["nodes"]
    assert found["2"] == {"labels": [], "features": [2.0, 2.0]}
    assert row_from_pyg(data(x=torch.tensor([1.0, 0, 0.5])))["nodes"]["2"] == {"labels": [], "features": [0.5]}


@pytest.mark.parametrize(
    ("given_data", "task", "expected"),
    [
        ({"y": torch.tensor([3])}, None, {"target": "3"}),
        ({"y": torch.tensor(3)}, "graph-labels", {"target": "3"}),
        ({"y": torch.tensor([[0.5]])}, None, {"target": 0.5}),
        ({"y": 3}, None, {"target": "3"}),
        ({"y": torch.tensor([3, 4, 3])}, None, {"target": {"0": "3", "1": "4", "2": "3"}}),
        ({"y": torch.tensor([[0.5], [1], [2]])}, "node-labels", {"target": {"0": 0.5, "1": 1.0, "2": 2.0}}),
        (
            {"edge_label_index": INDEX.flip(0), "edge_label": torch.tensor([1, 0]), "y": torch.tensor([3])},
            "relations",
            {"query": [["1", "0"], ["2", "1"]], "target": ["1", "0"]},
        ),
        ({"edge_label_index": torch.tensor([[2], [0]])}, None, {"query": ["2", "0"]}),
        ({"edge_label_index": INDEX, "y": torch.tensor([3])}, "graph-labels", {"target": "3"}),
    ],
)
def test_targets_of_pyg(given_data: dict[str, Any], task: str | None, expected: dict[str, Any]) -> None:
    found = row_from_pyg(data(**given_data), task)
    assert {name: value for name, value in found.items() if name not in ("nodes", "edges")} == expected


def test_one_node_and_masks_of_pyg() -> None:
    one = geometric.Data(edge_index=torch.empty(2, 0, dtype=torch.long), x=torch.ones(1, 2), y=torch.tensor([3]))
    assert row_from_pyg(one)["target"] == "3"
    assert row_from_pyg(one, "node-labels")["target"] == {"0": "3"}
    masked = data(y=torch.tensor([3, 4, 3]), train_mask=torch.tensor([True, False, True]))
    expected = r"row_from_pyg\(data, mask=.*; it stands in edge_transformer\.data\.relations\.sources"
    with pytest.raises(DataError, match=f"data: found train_mask; expected {expected}"):
        row_from_pyg(masked)
    assert row_from_pyg(masked, mask="train_mask")["target"] == {"0": "3", "2": "3"}
    with pytest.raises(DataError, match="found no val_mask; expected a mask of the graph"):
        row_from_pyg(masked, mask="val_mask")


@pytest.mark.parametrize(
    ("given_data", "message"),
    [
        ({"edge_index": None}, "data: found a Data without edge_index"),
        ({"edge_index": torch.tensor([0, 1])}, r"found edge_index of the shape \[2\], torch.int64; expected whole num"),
        ({"edge_index": INDEX.float()}, "found edge_index of the shape .2, 2., torch.float32"),
        ({"edge_index": INDEX + 1}, r"found the edge \[2, 3\] in edge_index; expected nodes from 0 to 2"),
        ({"edge_index": INDEX - 1}, r"found the edge \[-1, 0\]"),
        ({"edge_attr": torch.ones(3)}, "found edge_attr of 3 entries; expected 2"),
        ({"edge_attr": torch.tensor([0.5, float("nan")])}, "found edge_attr = nan; expected a finite number"),
        ({"edge_attr": torch.ones(2, 1, 1)}, r"found edge_attr of the shape \[2, 1, 1\]; expected one or two dim"),
        ({"edge_type": torch.tensor([0.5, 1])}, "found edge_type = .0.5.; expected one whole number an edge"),
        ({"x": torch.ones(4, 2)}, "found x of 4 entries; expected 3"),
        ({"x": torch.full((3, 2), float("inf"))}, "found x = inf"),
        (
            {"y": torch.ones(1, 3)},
            r"found y of the shape \[1, 3\]; expected one element for the graph, or one for each",
        ),
        ({"y": torch.ones(2)}, r"found y of the shape \[2\]"),
        ({"y": torch.tensor([float("nan")])}, "found y = nan"),
        ({"edge_label_index": INDEX, "edge_label": torch.ones(3)}, "found edge_label of 3 entries; expected 2"),
    ],
)
def test_broken_data_of_pyg(given_data: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        row_from_pyg(data(**given_data))


def test_other_kinds_of_data() -> None:
    with pytest.raises(
        DataError, match=r"found a HeteroData, with several types of nodes; expected a Data; see to_homo"
    ):
        row_from_pyg(geometric.HeteroData())
    with pytest.raises(DataError, match=r"found a Batch of several graphs; expected one graph; see to_data_list"):
        row_from_pyg(geometric.Batch.from_data_list([data(), data()]))
    with pytest.raises(DataError, match="found a dict without edge_index"):
        row_from_pyg({})


@settings(deadline=None)
@given(given_row=st.data())
def test_round_trip_by_pyg(given_row: st.DataObject) -> None:
    draw = given_row.draw
    size, width, node_width = draw(st.integers(1, 4)), draw(st.integers(0, 2)), draw(st.integers(0, 2))
    node, label = st.integers(0, size - 1).map(str), st.integers(0, 9).map(str)
    edge = st.tuples(node, label, node, st.lists(floats, min_size=width, max_size=width))
    numbers = st.lists(floats, min_size=node_width, max_size=node_width)
    row: dict[str, Any] = {
        "nodes": {str(each): {"labels": [], "features": draw(numbers)} for each in range(size)},
        "edges": [list(each) if width else list(each[:3]) for each in draw(st.lists(edge, max_size=6))],
        "target": draw(label | floats | st.lists(label, min_size=size, max_size=size)),
    }
    if not node_width:
        row["nodes"] = list(row["nodes"])
    graph = geometric.Data(num_nodes=size)
    graph.edge_index = torch.tensor([[int(each[0]), int(each[2])] for each in row["edges"]]).long().view(-1, 2).t()
    graph.edge_type = torch.tensor([int(each[1]) for each in row["edges"]]).long()
    if width:
        graph.edge_attr = torch.tensor([each[3] for each in row["edges"]]).view(-1, width)
    if node_width:
        graph.x = torch.tensor([each["features"] for each in row["nodes"].values()])
    if isinstance(row["target"], list):
        graph.y = torch.tensor([int(each) for each in row["target"]])
        row["target"] = dict(zip(map(str, range(size)), row["target"], strict=True))
    else:
        graph.y = torch.tensor([int(row["target"]) if isinstance(row["target"], str) else row["target"]])
    assert rows_of(graph, "node-labels" if isinstance(row["target"], dict) else "graph-labels") == [row]


# --- any value --------------------------------------------------------------------------------------------------------


def test_rows_stay_as_they_are() -> None:
    rows = [{"edges": []}, {"edges": 3}]
    assert rows_of(rows, "relations") is rows
    assert rows_of(iter(rows)) == rows_of(tuple(rows)) == rows
    assert rows_of([]) == []


def test_rows_of_graphs() -> None:
    assert rows_of([family(), family()], "relations") == [row_from_networkx(family())] * 2
    with pytest.raises(DataError, match=r"data\[1\]: found a dict; expected graphs of networkx alone"):
        rows_of([family(), {}])
    plain, weighted = networkx.DiGraph([("a", "b")]), networkx.DiGraph([("a", "b", {"label": "x"})])
    with pytest.raises(DataError, match=r"data\[0\], edge a b: found no label; expected a label"):
        rows_of([plain, weighted])  # all graphs are read alike


def test_rows_of_pyg() -> None:
    hot, other = data(edge_attr=torch.eye(2)), data(edge_attr=torch.tensor([[0.5, 0], [1, 0]]))
    assert rows_of(hot)[0]["edges"] == [["0", "0", "1"], ["1", "1", "2"]]
    assert rows_of([hot, other])[0]["edges"] == [["0", "edge", "1", [1, 0]], ["1", "edge", "2", [0, 1]]]
    assert rows_of(geometric.Batch.from_data_list([hot, hot])) == rows_of([hot, hot]) == rows_of(hot) * 2

    class Set(geometric.InMemoryDataset):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.data, self.slices = self.collate([hot, other])

    assert rows_of(Set()) == rows_of([hot, other])


def test_rows_of_frames() -> None:
    edges = pandas.DataFrame({"from": ["a"], "label": ["x"], "to": ["b"]})
    queries = pandas.DataFrame({"target": ["yes"]})
    row = {"edges": [["a", "x", "b"]]}
    assert rows_of(edges) == [row]
    assert rows_of({"edges": edges, "queries": queries}) == [{**row, "target": "yes"}]
    assert rows_of(pandas.DataFrame([row, row])) == rows_of(pandas.DataFrame([row, row]), "relations") == [row, row]
    assert len(rows_of(edges, "node-labels")) == 1
    expected = r'expected \{"edges": frame, "queries": frame\} for each split, queries with from, to and, but in'
    for alone in (edges, {"edges": edges}):
        with pytest.raises(UserError, match=f"data: found a DataFrame of edges alone; {expected}"):
            rows_of(alone, "relations")
    with pytest.raises(UserError, match="found a list of DataFrames; expected one, or"):
        rows_of([edges, queries])


@pytest.mark.parametrize("value", ["rows", 5, None, {"edges": []}])
def test_no_rows(value: Any) -> None:
    with pytest.raises(UserError, match=r"data: found \w+; expected rows, a DataFrame, or graphs"):
        rows_of(value)


def test_no_library_is_imported() -> None:
    code = "import sys; from edge_transformer.data.relations.sources import rows_of; rows_of([{}]); print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"pandas", "networkx", "torch", "torch_geometric", "numpy"} & set(found)
