"""Rows from what people have: tables (see `table_rows`), graphs of networkx, and of PyTorch Geometric.

None of these libraries is imported here: a value of theirs says so by the module of its type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import UserError
from . import values
from .fields import MAX_NODES
from .table_rows import TABLES, csv_files, named_nodes, read_csv_split, rows_from_csv, rows_from_frames
from .values import Where

__all__ = [
    "csv_files",
    "read_csv_split",
    "row_from_networkx",
    "row_from_pyg",
    "rows_from_csv",
    "rows_from_frames",
    "rows_of",
]

LABEL = "label"  # the attribute of networkx, unless another is named
ONLY_LABEL = "edge"  # of all edges of graphs without labels


def rows_of(value: Any, task: str | None = None) -> list[Any]:
    """Rows from a value: a DataFrame, {"edges": DataFrame, "queries": DataFrame, "nodes": DataFrame}, graphs of
    networkx or PyTorch Geometric, or rows, which stay as they are.

    Args:
        value: one of these; graphs alone, or in a list or data set.
        task: "relations", "graph-labels" or "node-labels", which says what the targets of a PyG graph are.
    """
    if _is_of(value, "pandas"):
        _require_queries({"edges": value}, task)
        return rows_from_frames(value)
    if isinstance(value, Mapping) and value and set(value) <= set(TABLES):
        if "edges" in value and all(_is_of(each, "pandas") for each in value.values()):
            _require_queries(value, task)
            return rows_from_frames(**value)
    elif _is_of(value, "networkx"):
        value = [value]
    elif any(each.__name__ == "BaseData" for each in type(value).__mro__) and _is_of(value, "torch_geometric"):
        value = value.to_data_list() if hasattr(value, "ptr") else [value]
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise UserError(f"data: found {type(value).__name__}; expected rows, a DataFrame, or graphs")
    items = value if isinstance(value, list) else list(value)
    if not items:
        return items
    for package, convert in (("networkx", _networkx_rows), ("torch_geometric", _pyg_rows)):
        if _is_of(items[0], package):
            for number, item in enumerate(items):
                if not _is_of(item, package):
                    raise Where(f"data[{number}]").fail(f"a {type(item).__name__}", f"graphs of {package} alone")
            return convert(items, task)
    if _is_of(items[0], "pandas"):
        expected = 'one, or {"edges": DataFrame, "queries": DataFrame, "nodes": DataFrame}'
        raise UserError(f"data: found a list of DataFrames; expected {expected}")
    return items


def _require_queries(frames: Mapping[str, Any], task: str | None) -> None:
    """Refuse edges that nothing is asked about; the other tasks ask for all nodes, or for the graph."""
    if task == "relations" and "queries" not in frames and "edges" not in frames["edges"].columns:
        asked = "with from, to and, but in predict, target"
        expected = f'{{"edges": frame, "queries": frame}} for each split, queries {asked}'
        raise UserError(f"data: found a DataFrame of edges alone; expected {expected}")


def _is_of(value: Any, package: str) -> bool:
    """Whether a value's type comes from this package, or from a class of it."""
    return any(each.__module__.partition(".")[0] == package for each in type(value).__mro__)


# --- networkx ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Attributes:
    """The attributes of the edges or nodes of some graphs that are read, and how."""

    label: str | None  # None: no labels
    features: tuple[str, ...]

    @classmethod
    def of(
        cls, all_given: Iterable[Mapping[Any, Any]], label: str | None, features: str | Sequence[str] | None
    ) -> _Attributes:
        """The label, if any has it, and the features: those given, else all others that there are."""
        each = list(all_given)
        found = {attribute: None for given in each for attribute in given}
        listed = (features,) if isinstance(features, str) else features
        named = [*(listed or ()), *([] if label in (None, LABEL) else [label])]
        for attribute in named if each else ():
            if attribute not in found:
                raise UserError(
                    f"{attribute}: found the attributes {', '.join(map(str, found)) or 'none'}; expected it among them"
                )
        if listed is None:
            listed = sorted((attribute for attribute in found if attribute not in (label, "target")), key=str)
        return cls(label if label in found else None, tuple(listed))

    def numbers(self, given: Mapping[Any, Any], where: Where) -> list[int | float] | None:
        """The features of an edge or node; None where it has none of them."""
        if all(given.get(name) is None for name in self.features):
            return None
        expected = (
            "a number: all attributes but the label are features, unless `features` and `node_features` say which"
        )
        found: list[int | float] = []
        for name in self.features:
            try:
                found += values.numbers(given.get(name), where, str(name))
            except UserError as error:
                raise where.fail_at(
                    name, given.get(name), f"{expected} (a finite number, or a list of them)"
                ) from error
        return found


def row_from_networkx(
    graph: Any,
    query: Any = None,
    target: Any = None,
    label: str | None = LABEL,
    node_label: str | None = LABEL,
    features: str | Sequence[str] | None = None,
    node_features: str | Sequence[str] | None = None,
) -> dict[str, Any]:
    """A row from a graph of networkx; undirected edges become edges in both directions.

    Args:
        graph: a Graph, DiGraph, MultiGraph or MultiDiGraph. Its attributes `graph.graph` may have "query", "target",
            "absent" and "id", as rows have them; nodes may have the attribute "target".
        query: the query of the row; that of the graph by default.
        target: the same for its target. Numbers are numbers here, and texts are labels.
        label: the attribute of edges with a label, or a list of labels. Where no edge has it, the keys of a multigraph
            are the labels if they are texts; else all edges are labelled "edge", as with None.
        node_label: the same for nodes, which need no label.
        features: attributes of edges that are features, each a number or a list of numbers; by default all others, in
            order of names. Where some are named, no others are read.
        node_features: the same for nodes.
    """
    if not _is_of(graph, "networkx"):
        raise UserError(f"graph: found a {type(graph).__name__}; expected a graph of networkx")
    edges = _Attributes.of(_edge_attributes([graph]), label, features)
    nodes = _Attributes.of(_node_attributes([graph]), node_label, node_features)
    row = _networkx_row(graph, edges, nodes, Where("graph"))
    for name, value in (("query", query), ("target", target)):
        if value is not None:
            row[name] = (
                values.query(value, Where("graph")) if name == "query" else values.plain(value, Where("graph"), name)
            )
    return row


def _networkx_rows(graphs: Sequence[Any], task: str | None) -> list[dict[str, Any]]:
    """All graphs read alike: by the attributes that any of them has."""
    edges = _Attributes.of(_edge_attributes(graphs), LABEL, None)
    nodes = _Attributes.of(_node_attributes(graphs), LABEL, None)
    return [_networkx_row(graph, edges, nodes, Where(f"data[{number}]")) for number, graph in enumerate(graphs)]


def _edge_attributes(graphs: Iterable[Any]) -> Iterable[Mapping[Any, Any]]:
    return (given for graph in graphs for _, _, given in graph.edges(data=True))


def _node_attributes(graphs: Iterable[Any]) -> Iterable[Mapping[Any, Any]]:
    return (given for graph in graphs for _, given in graph.nodes(data=True))


def _networkx_row(graph: Any, edges: _Attributes, nodes: _Attributes, where: Where) -> dict[str, Any]:
    told: dict[str, tuple[list[str], list[int | float] | None]] = {}
    targets: dict[str, Any] = {}
    for node, given in graph.nodes(data=True):
        name = values.name(node, where, "node")
        if name in told:
            raise where.fail(f"the nodes {name!r} and {name}", "other names: as texts they are the same")
        place = Where(f"{where.source}, node {name}")
        found = None if nodes.label is None else given.get(nodes.label)
        listed = [] if found is None else values.labels(found, place, nodes.label or "")
        told[name] = ([listed] if isinstance(listed, str) else listed, nodes.numbers(given, place))
        if given.get("target") is not None:
            targets[name] = values.plain(given["target"], place, "target")
    row: dict[str, Any] = {"nodes": named_nodes(told), "edges": _networkx_edges(graph, edges, where)}
    for field in ("id", "absent", "query", "target"):
        if graph.graph.get(field) is not None:
            value = graph.graph[field]
            row[field] = values.query(value, where) if field == "query" else values.plain(value, where, field)
    if targets and "target" in row:
        raise where.fail("the attribute target of the graph and of nodes", "one of them")
    return {**row, "target": targets} if targets else row


def _networkx_edges(graph: Any, attributes: _Attributes, where: Where) -> list[list[Any]]:
    """All edges with labels and features, undirected ones in both directions."""
    found = []
    if graph.is_multigraph():
        all_edges = list(graph.edges(keys=True, data=True))
    else:
        all_edges = [(start, end, None, given) for start, end, given in graph.edges(data=True)]
    by_keys = attributes.label is None and bool(all_edges) and all(isinstance(key, str) for _, _, key, _ in all_edges)
    for start, end, key, given in all_edges:
        names = [values.name(node, where, "node") for node in (start, end)]
        place = Where(f"{where.source}, edge {names[0]} {names[1]}")
        if "target" in given and "target" not in attributes.features:
            raise place.fail(
                "the attribute target", 'targets in graph.graph["target"], and queries in graph.graph["query"]'
            )
        if attributes.label is not None:
            label = values.labels(given.get(attributes.label), place, attributes.label)
        else:
            label = values.label(key, place, "key") if by_keys else ONLY_LABEL
        numbers = attributes.numbers(given, place)
        rest = [] if numbers is None else [numbers]
        found.append([names[0], label, names[1], *rest])
        if not graph.is_directed() and names[0] != names[1]:
            found.append([names[1], label, names[0], *rest])
    return found


# --- PyTorch Geometric ------------------------------------------------------------------------------------------------


def row_from_pyg(data: Any, task: str | None = None, *, mask: str | None = None) -> dict[str, Any]:
    """A row from a `Data` of PyTorch Geometric, whose nodes are "0", "1" and so on.

    Args:
        data: a graph with `edge_index`. Labels of edges are `edge_type` or an `edge_attr` of one whole number an edge
            or one-hot; any other `edge_attr` is features. `x` is features or, with one whole number a node, labels.
            Targets are `edge_label` for the pairs in `edge_label_index`, or `y`, with one element for the graph or one
            for each node. Whole numbers are labels, and floats are numbers. Other attributes are not read.
        task: "relations", "graph-labels" or "node-labels", where a graph has targets of several kinds.
        mask: the attribute that says which nodes have a target, such as "train_mask".
    """
    _refuse_sparse(data, Where("data"))
    return _pyg_row(data, task, Where("data"), _has_one_hot_edges([data]), mask)


def _pyg_rows(graphs: Sequence[Any], task: str | None) -> list[dict[str, Any]]:
    """All graphs read alike: edges are one-hot in all of them or in none."""
    for number, data in enumerate(graphs):
        _refuse_sparse(data, Where(f"data[{number}]"))
    one_hot = _has_one_hot_edges(graphs)
    return [_pyg_row(data, task, Where(f"data[{number}]"), one_hot, None) for number, data in enumerate(graphs)]


def _refuse_sparse(data: Any, where: Where) -> None:
    for name in ("x", "edge_index", "edge_type", "edge_attr", "y", "edge_label", "edge_label_index"):
        if getattr(getattr(data, name, None), "is_sparse", False):
            raise where.fail(f"{name} as a sparse tensor", "a dense one, as its to_dense()")


def _has_one_hot_edges(graphs: Iterable[Any]) -> bool:
    for data in graphs:
        given = getattr(data, "edge_attr", None)
        if given is None or getattr(given, "ndim", 0) != 2 or given.shape[1] < 2:
            return False
        if not bool(((given == 0) | (given == 1)).all() and ((given != 0).sum(1) == 1).all()):
            return False
    return True


def _pyg_row(data: Any, task: str | None, where: Where, one_hot: bool, mask: str | None) -> dict[str, Any]:
    if hasattr(data, "node_types"):
        raise where.fail(f"a {type(data).__name__}, with several types of nodes", "a Data; see to_homogeneous()")
    if getattr(data, "edge_index", None) is None or not hasattr(type(data), "num_nodes"):
        found = f"a {type(data).__name__} without edge_index"
        raise where.fail(
            found, "a Data of PyTorch Geometric; without edges, it has torch.empty(2, 0, dtype=torch.long)"
        )
    if getattr(data, "ptr", None) is not None:
        raise where.fail("a Batch of several graphs", "one graph; see to_data_list()")
    size = _pyg_size(data, where)
    pairs = _pairs(data.edge_index, size, where, "edge_index")
    labels, features = _pyg_edges(data, len(pairs), where, one_hot)
    told: dict[str, tuple[list[str], list[int | float] | None]] = {str(node): ([], None) for node in range(size)}
    if (x := getattr(data, "x", None)) is not None:
        columns = _columns(x, size, where, "x")
        for node, cells in enumerate(columns):
            whole = _is_whole(x) and len(cells) == 1
            told[str(node)] = ([str(int(cells[0]))], None) if whole else ([], values.numbers(cells, where, "x"))
    row: dict[str, Any] = {
        "nodes": named_nodes(told),
        "edges": [[start, label, end] for (start, end), label in zip(pairs, labels, strict=True)],
    }
    if features is not None:
        for edge, numbers in zip(row["edges"], features, strict=True):
            edge.append(numbers)
    return {**row, **_pyg_targets(data, size, task, where, mask)}


def _pyg_size(data: Any, where: Where) -> int:
    """The number of nodes, which the library works out from other attributes where nobody has set it."""
    try:
        size = 0 if data.num_nodes is None else values.plain(data.num_nodes, where, "num_nodes")
    except (AttributeError, IndexError, RuntimeError, TypeError) as error:
        raise where.fail(f"no num_nodes ({error})", "a graph that knows how many nodes it has") from error
    if type(size) is not int or not 0 <= size <= MAX_NODES:
        raise where.fail_at("num_nodes", size, f"a whole number up to {MAX_NODES}")
    return size


def _pyg_edges(data: Any, count: int, where: Where, one_hot: bool) -> tuple[list[str], list[list[int | float]] | None]:
    """The label of every edge, and features where there are any."""
    kinds, given = getattr(data, "edge_type", None), getattr(data, "edge_attr", None)
    cells = None if given is None else _columns(given, count, where, "edge_attr")
    if kinds is not None:
        labels = [_only(each, where, "edge_type") for each in _columns(kinds, count, where, "edge_type")]
    elif cells is not None and one_hot:
        return [str(each.index(1)) for each in cells], None
    elif cells is not None and _is_whole(given) and all(len(each) == 1 for each in cells):
        return [_only(each, where, "edge_attr") for each in cells], None
    else:
        labels = [ONLY_LABEL] * count
    return labels, None if cells is None else [values.numbers(each, where, "edge_attr") for each in cells]


def _pyg_targets(data: Any, size: int, task: str | None, where: Where, mask: str | None) -> dict[str, Any]:
    """The fields "query" and "target", where the graph has them."""
    asked, y = getattr(data, "edge_label_index", None), getattr(data, "y", None)
    if asked is not None and task in (None, "relations"):
        queries, given = _pairs(asked, size, where, "edge_label_index"), getattr(data, "edge_label", None)
        alone = len(queries) == 1
        row: dict[str, Any] = {"query": queries[0] if alone else queries}
        if given is None:
            return row
        targets = _targets(given, len(queries), where, "edge_label")
        return {**row, "target": targets[0] if alone else targets}
    if y is None:
        return {}
    count = 1 if isinstance(y, int | float) else len(y) if isinstance(y, list | tuple) else getattr(y, "size", None)
    count = y.numel() if hasattr(y, "numel") else count
    if not isinstance(count, int):
        raise where.fail_at("y", y, "a tensor")
    if count == 1 and task != "node-labels":
        return {"target": _targets(y, 1, where, "y")[0]}
    if count != size or (getattr(y, "ndim", 1) == 2 and y.shape[1] != 1):
        shape = list(getattr(y, "shape", [count]))
        nodes = f"one for each of {size} nodes (num_nodes says how many, where some have no edges)"
        raise where.fail(f"y of the shape {shape}", f"one element for the graph, or {nodes}")
    kept = _mask(data, mask, size, where)
    targets = _targets(y, size, where, "y")
    return {"target": {str(node): target for node, target in enumerate(targets) if kept[node]}}


def _mask(data: Any, mask: str | None, size: int, where: Where) -> list[Any]:
    """Which nodes have a target."""
    if mask is None:
        if getattr(data, "train_mask", None) is not None:
            how = f'row_from_pyg(data, mask="train_mask"), or another mask, for each split; it stands in {__name__}'
            raise where.fail("train_mask", how)
        return [True] * size
    if getattr(data, mask, None) is None:
        raise where.fail(f"no {mask}", "a mask of the graph")
    return [bool(each[0]) for each in _columns(getattr(data, mask), size, where, mask)]


def _targets(given: Any, count: int, where: Where, field: str) -> list[Any]:
    cells = _columns(given, count, where, field)
    if any(len(each) != 1 for each in cells):
        raise where.fail(f"{field} of {len(cells[0])} numbers each", "one each")
    floats = any(isinstance(each[0], float) for each in cells)
    read = values.number if floats else values.label
    return [read(each[0], where, field) for each in cells]


def _pairs(index: Any, size: int, where: Where, field: str) -> list[list[str]]:
    """Names of the two nodes of each column of `[2, edges]`."""
    if getattr(index, "ndim", 0) != 2 or index.shape[0] != 2 or not _is_whole(index):
        shape = list(getattr(index, "shape", []))
        raise where.fail(f"{field} of the shape {shape}, {getattr(index, 'dtype', '')}", "whole numbers, [2, edges]")
    pairs = list(zip(*index.tolist(), strict=True))
    for pair in pairs:
        if not all(0 <= node < size for node in pair):
            raise where.fail(f"the edge {list(pair)} in {field}", f"nodes from 0 to {size - 1}")
    return [[str(start), str(end)] for start, end in pairs]


def _columns(given: Any, count: int, where: Where, field: str) -> list[list[Any]]:
    """The numbers of each of so many edges or nodes, as lists."""
    cells = given.tolist() if hasattr(given, "tolist") else given
    cells = cells if isinstance(cells, list) else [cells]
    if len(cells) != count:
        raise where.fail(f"{field} of {len(cells)} entries", f"{count}")
    found = [each if isinstance(each, list) else [each] for each in cells]
    if any(isinstance(each, list) for cell in found for each in cell):
        raise where.fail(f"{field} of the shape {list(getattr(given, 'shape', []))}", "one or two dimensions")
    return found


def _only(cells: list[Any], where: Where, field: str) -> str:
    if len(cells) != 1 or not isinstance(cells[0], int):
        raise where.fail_at(field, cells, "one whole number an edge")
    return str(int(cells[0]))


def _is_whole(tensor: Any) -> bool:
    """Whether a tensor, or an array of NumPy, has whole numbers: neither floats nor truth values."""
    return str(getattr(tensor, "dtype", "")).removeprefix("torch.").startswith(("int", "uint"))
