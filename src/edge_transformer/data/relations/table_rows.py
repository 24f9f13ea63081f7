"""Rows from tables of edges, queries and nodes: CSV files, or frames of pandas.

    edges    graph, from, label (or relation), to, and numbers    one edge a line
    queries  graph, from, to, target                              what is asked; one query a line
             graph, target    or    graph, node, target           labels of whole graphs, or of nodes
    nodes    graph, node, label, and numbers                      optional

`graph` names the graph that a line belongs to; tables without it are about one graph. Lines of a graph may be anywhere.
Every other column of edges and nodes is a feature, in order of names, and all of its cells are numbers; `features` and
`node_features` name some columns instead, and then no others are read. An edge or node may have no features at all, but
not some of them. An empty cell, or one that pandas calls missing, is a missing value.

Several lines for the same query, node or pair of nodes give it several labels. Targets are numbers if all of them are
and some have a fraction, as in 0.5 and 1.0; whole numbers are labels. `numbers` says it instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import DataError, UserError, no_folder
from . import values
from .tables import Table, check_floats, frame_table, open_csv
from .values import Where

SPLITS, TABLES = ("train", "test", "valid"), ("edges", "queries", "nodes")
LABEL_COLUMNS = ("label", "relation")
_EDGE_COLUMNS, _NODE_COLUMNS = ("graph", "from", "to", *LABEL_COLUMNS), ("graph", "node", "label")
# Columns that would be wrong as features: they mean something else, or are the numbers of lines.
NO_FEATURES = {
    "target": "targets in the table of queries",
    "query": "queries in a table of their own",
    "from": "edges in the table of edges",
    "to": "edges in the table of edges",
    "node": "nodes in a table of their own",
    "relation": "labels in the column label",
    "id": "names of graphs in the column graph",
    "index": "no numbers of lines",
}


@dataclass
class _Node:
    labels: list[str] = field(default_factory=list)
    features: list[int | float] | None = None


Key = tuple[str, ...]  # what a target is for: two nodes, one node, or nothing, the graph


@dataclass
class _Graph:
    id: Any
    edges: list[list[Any]] = field(default_factory=list)
    nodes: dict[str, _Node] = field(default_factory=dict)
    targets: dict[Key, list[tuple[Where, Any]]] = field(default_factory=dict)  # without a target: an empty list


def rows_from_csv(
    edges: str | Path,
    queries: str | Path | None = None,
    nodes: str | Path | None = None,
    *,
    features: Sequence[str] | None = None,
    node_features: Sequence[str] | None = None,
    numbers: bool | None = None,
) -> list[dict[str, Any]]:
    """Rows from CSV files with a header, one row a graph; this module says which columns they have.

    Args:
        edges: the file of edges.
        queries: the file of queries and targets.
        nodes: the file of nodes.
        features: the columns of edges that are features; all others by default.
        node_features: the same for nodes.
        numbers: whether targets are numbers; by default, if some have a fraction.
    """
    with ExitStack() as stack:
        asked, told = (None if path is None else stack.enter_context(open_csv(path)) for path in (queries, nodes))
        return _rows(stack.enter_context(open_csv(edges)), asked, told, features, node_features, numbers)


def rows_from_frames(
    edges: Any,
    queries: Any = None,
    nodes: Any = None,
    *,
    features: Sequence[str] | None = None,
    node_features: Sequence[str] | None = None,
    numbers: bool | None = None,
) -> list[dict[str, Any]]:
    """Rows from frames of pandas with the same columns, or from one whose lines are whole rows: edges, query, target.

    Args:
        edges: the frame of edges, or of whole rows.
        queries: the frame of queries and targets.
        nodes: the frame of nodes.
        features: the columns of edges that are features; all others by default.
        node_features: the same for nodes.
        numbers: whether targets are numbers; by default, if they are of a type with fractions.
    """
    table = frame_table(edges, "edges")
    if "edges" not in table.columns:
        asked = None if queries is None else frame_table(queries, "queries")
        if asked is not None and numbers is None:
            check_floats(queries)
        told = None if nodes is None else frame_table(nodes, "nodes")
        return _rows(table, asked, told, features, node_features, numbers)
    if queries is not None or nodes is not None:
        raise UserError("frames: found queries or nodes beside a frame of whole rows; expected that frame alone")
    return [
        {column: values.plain(cell, where, column) for column, cell in cells.items() if cell is not None}
        for where, cells in table.rows
    ]


def csv_files(folder: str | Path) -> dict[str, dict[str, Path]]:
    """The CSV files of a folder by split and table, such as train-edges.csv; none where no split has such files."""
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"{folder}: {no_folder(folder)}; expected one with train-edges.csv and train-queries.csv")
    files: dict[str, dict[str, Path]] = {}
    for split in SPLITS:
        paths = {table: folder / f"{split}-{table}.csv" for table in TABLES}
        if found := {table: path for table, path in paths.items() if path.is_file()}:
            files[split] = found
    for split in files:
        names = [f"{split}-{table}.csv" for table in TABLES]
        if "edges" not in files[split]:
            found_name = next(iter(files[split].values())).name
            raise UserError(f"{folder}: found {found_name} but no {names[0]}; expected both")
        for path in sorted(folder.glob(f"{split}-*.csv")):
            if path.name not in names:
                raise UserError(f"{path}: found a file that is not read; expected no other than {', '.join(names)}")
    return files


def read_csv_split(folder: str | Path, split: str, numbers: bool | None = None) -> list[dict[str, Any]]:
    """The rows of a split of a folder with files as `csv_files` finds them.

    The training files say which features there are and, unless `numbers` does, whether targets are numbers, so that
    all splits are read alike.
    """
    files = csv_files(folder)
    if split not in files:
        raise UserError(f"{folder}: found no {split}-edges.csv; expected a file of edges, and {split}-queries.csv")
    own, first = files[split], files.get("train", files[split])
    columns: dict[str, tuple[str, ...]] = {}
    for table, known in (("edges", _EDGE_COLUMNS), ("nodes", _NODE_COLUMNS)):
        wanted, found = (_csv_features(each.get(table), known) for each in (first, own))
        if wanted != found:
            expected = f"those of the training files: {', '.join(wanted) or 'none'}"
            raise DataError(own.get(table, Path(folder)), 1, f"the features {', '.join(found) or 'none'}", expected)
        columns[table] = wanted
    if numbers is None and own is not first and "queries" in first:
        with open_csv(first["queries"]) as asked:
            cells = [(where, row.get("target")) for where, row in asked.rows]
        numbers = _are_numbers(cells) if any(cell is not None for _, cell in cells) else None
    return rows_from_csv(
        own["edges"],
        own.get("queries"),
        own.get("nodes"),
        features=columns["edges"],
        node_features=columns["nodes"],
        numbers=numbers,
    )


def _features(table: Table, known: Sequence[str], given: Sequence[str] | None) -> tuple[str, ...]:
    """The columns that are features, in order of names or as given."""
    if given is not None:
        table.require(*given)
        return tuple(given)
    others = sorted(column for column in table.columns if column not in known)
    for column in others:
        if column in NO_FEATURES:
            raise table.where.fail(f"the column {column}", NO_FEATURES[column])
    return tuple(others)


def _csv_features(path: Path | None, known: Sequence[str]) -> tuple[str, ...]:
    if path is None:
        return ()
    with open_csv(path) as table:
        return _features(table, known, None)


# --- graphs -----------------------------------------------------------------------------------------------------------


def _rows(
    edges: Table,
    queries: Table | None,
    nodes: Table | None,
    features: Sequence[str] | None,
    node_features: Sequence[str] | None,
    numbers: bool | None,
) -> list[dict[str, Any]]:
    """Rows from tables: one a graph, in the order in which edges and nodes mention them."""
    named = "graph" in edges.columns
    for table in (queries, nodes):
        if table is not None and named != ("graph" in table.columns):
            found, expected = ("no column graph", "one") if named else ("the column graph", "none")
            raise table.where.fail(found, f"{expected}, as in {edges.where.source}")
    graphs: dict[str, _Graph] = {} if named else {"": _Graph(None)}
    _read_edges(edges, graphs, features)
    if nodes is not None:
        _read_nodes(nodes, graphs, node_features)
    if not any(graph.edges or graph.nodes for graph in graphs.values()):
        raise edges.where.fail("no edges", "at least one")
    rows = [_row(graph) for graph in graphs.values()]
    if queries is None:
        return rows
    _read_targets(queries, graphs)
    cells = [cell for graph in graphs.values() for cells in graph.targets.values() for cell in cells]
    if numbers is None:
        numbers = _are_numbers(cells)
    for graph, row in zip(graphs.values(), rows, strict=True):
        if not graph.targets:
            which = f" of the graph {graph.id}" if named else ""
            raise DataError(
                queries.where.source, None, f"no line{which}", f"one for each graph of {edges.where.source}"
            )
        row.update(_asked(graph, numbers))
    return rows


def _graph(cells: dict[str, Any], where: Where, graphs: dict[str, _Graph], new: bool = True) -> _Graph:
    """The graph of a line; with `new`, it may be mentioned here first."""
    if "graph" not in cells:
        return graphs[""]
    name = values.name(cells["graph"], where, "graph")
    if name not in graphs:
        if not new:
            raise where.fail(f"graph = {name!r}", "a graph that has edges or nodes")
        graphs[name] = _Graph(values.plain(cells["graph"], where, "graph"))
    return graphs[name]


def _read_edges(table: Table, graphs: dict[str, _Graph], given: Sequence[str] | None) -> None:
    names = [column for column in LABEL_COLUMNS if column in table.columns]
    if len(names) != 1:
        found = "both label and relation" if names else f"the columns {', '.join(table.columns) or 'none'}"
        raise table.where.fail(found, "a header with from, label (or relation), to")
    table.require("from", "to")
    features = _features(table, _EDGE_COLUMNS, given)
    for where, cells in table.rows:
        start, end = (values.name(cells[column], where, column) for column in ("from", "to"))
        edge = [start, values.label(cells[names[0]], where, names[0]), end]
        numbers = _numbers(cells, features, where)
        _graph(cells, where, graphs).edges.append(edge if numbers is None else [*edge, numbers])


def _read_nodes(table: Table, graphs: dict[str, _Graph], given: Sequence[str] | None) -> None:
    table.require("node")
    features = _features(table, _NODE_COLUMNS, given)
    for where, cells in table.rows:
        name, label = values.name(cells["node"], where, "node"), cells.get("label")
        node = _graph(cells, where, graphs).nodes.setdefault(name, _Node())
        if label is not None and (text := values.label(label, where, "label")) not in node.labels:
            node.labels.append(text)
        found = _numbers(cells, features, where)
        if found is not None and node.features not in (None, found):
            raise where.fail(f"other features of the node {name} than before", "the same features in all of its lines")
        node.features = node.features if found is None else found


def _numbers(cells: dict[str, Any], features: Sequence[str], where: Where) -> list[int | float] | None:
    """The features of a line; None where all are missing."""
    if all(cells[column] is None for column in features):
        return None
    return [number for column in features for number in _feature(cells[column], where, column)]


def _feature(cell: Any, where: Where, column: str) -> list[int | float]:
    try:
        return values.numbers(cell, where, column)
    except DataError as error:
        raise where.fail(error.found, f"{error.expected}: the column {column} is read as a feature") from error


def _read_targets(table: Table, graphs: dict[str, _Graph]) -> None:
    keys = next((each for each in (("from", "to"), ("node",)) if set(each) & set(table.columns)), ())
    table.require(*keys, *(() if keys == ("from", "to") else ("target",)))
    for column in table.columns:
        if column not in ("graph", *keys, "target"):
            expected = "graph, from, to, target, or graph, node, target, or graph, target"
            raise table.where.fail(f"the column {column}", f"no other than {expected}")
    for where, cells in table.rows:
        graph = _graph(cells, where, graphs, new=False)
        key = tuple(values.name(cells[column], where, column) for column in keys)
        found = graph.targets.setdefault(key, [])
        if cells.get("target") is not None:
            found.append((where, cells["target"]))


def _are_numbers(cells: Sequence[tuple[Where, Any]]) -> bool:
    """Whether targets are numbers: some are, with a fraction, and then all must be."""
    given = [(where, cell) for where, cell in cells if cell is not None]
    if not any(values.is_number(cell) and not values.is_whole(cell) for _, cell in given):
        return False
    for where, cell in given:
        if not values.is_number(cell):
            raise where.fail_at("target", cell, "a number, as other targets are numbers with a fraction")
    return True


def _asked(graph: _Graph, numbers: bool) -> dict[str, Any]:
    """The fields "query" and "target" of a row."""
    found = {key: _target(cells, numbers) for key, cells in graph.targets.items()}
    lengths = {len(key) for key in found}
    assert len(lengths) == 1  # of one table
    if lengths == {1}:  # nodes; some may have no target
        return {"target": {key[0]: target for key, target in found.items() if target is not None}}
    if lengths == {0}:
        return {"target": found[()]} if found[()] is not None else {}
    missing = [key for key, target in found.items() if target is None]
    if missing and len(missing) < len(found):
        where = next(cells[0][0] for cells in graph.targets.values() if cells)
        raise where.fail(
            f"a target here, but none for {' '.join(missing[0])}", "one for each query of a graph, or none"
        )
    queries, targets = [list(key) for key in found], list(found.values())
    alone = len(queries) == 1
    row: dict[str, Any] = {"query": queries[0] if alone else queries}
    return row if missing else {**row, "target": targets[0] if alone else targets}


def _target(cells: Sequence[tuple[Where, Any]], numbers: bool) -> Any:
    """One label, several, a number, or None."""
    if not numbers:
        found = list(dict.fromkeys(values.label(cell, where, "target") for where, cell in cells))
        return (found[0] if len(found) == 1 else found) if found else None
    if len(cells) > 1:
        where, cell = cells[1]
        raise where.fail_at("target", cell, f"one number; there is another, {cells[0][1]}, for the same")
    return values.number(cells[0][1], cells[0][0], "target") if cells else None


def _row(graph: _Graph) -> dict[str, Any]:
    """A row without its query and target."""
    nodes = named_nodes({name: (node.labels, node.features) for name, node in graph.nodes.items()})
    return {
        **({} if graph.id is None else {"id": graph.id}),
        **({"nodes": nodes} if nodes else {}),
        "edges": graph.edges,
    }


def named_nodes(nodes: Mapping[str, tuple[Sequence[str], Sequence[int | float] | None]]) -> Any:
    """The field "nodes" of a row from labels and features by name: names alone where no node has any."""
    if not any(labels or features is not None for labels, features in nodes.values()):
        return list(nodes)
    return {name: _described(list(labels), features) for name, (labels, features) in nodes.items()}


def _described(labels: list[str], features: Sequence[int | float] | None) -> Any:
    if features is not None:
        return {"labels": labels, "features": list(features)}
    return (labels[0] if len(labels) == 1 else labels) if labels else None
