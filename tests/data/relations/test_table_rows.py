"""Rows from CSV files and frames: what they read, round trips, and what they say of broken files."""

from __future__ import annotations

import csv
import gzip
import random
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge_transformer.data.relations.folder import read_folder
from edge_transformer.data.relations.sources import csv_files, read_csv_split, rows_from_csv, rows_from_frames
from edge_transformer.errors import DataError, UserError

pandas = pytest.importorskip("pandas")

EDGES = "graph,from,label,to\na,Ann,son,Bob\na,Bob,sister,Eve\nb,1,son,2\n"
QUERIES = "graph,from,to,target\na,Ann,Eve,daughter\nb,1,2,son\nb,2,1,father\n"
ROWS = [
    {
        "id": "a",
        "edges": [["Ann", "son", "Bob"], ["Bob", "sister", "Eve"]],
        "query": ["Ann", "Eve"],
        "target": "daughter",
    },
    {"id": "b", "edges": [["1", "son", "2"]], "query": [["1", "2"], ["2", "1"]], "target": ["son", "father"]},
]


def written(folder: Path, **tables: str) -> dict[str, Path]:
    """CSV files with these contents, by table."""
    paths = {table: folder / f"{table}.csv" for table in tables}
    for table, text in tables.items():
        paths[table].write_text(text, encoding="utf-8")
    return paths


def framed(**tables: str) -> dict[str, Any]:
    """The same as frames, with the types that pandas finds."""

    return {table: pandas.read_csv(StringIO(text)) for table, text in tables.items()}


def read(folder: Path, **tables: str) -> list[dict[str, Any]]:
    return rows_from_csv(**written(folder, **tables))  # type: ignore[arg-type]


def test_edges_and_queries(tmp_path: Path) -> None:
    assert read(tmp_path, edges=EDGES, queries=QUERIES) == ROWS
    assert rows_from_frames(**framed(edges=EDGES, queries=QUERIES)) == ROWS


def test_without_queries_and_without_graphs(tmp_path: Path) -> None:
    assert read(tmp_path, edges=EDGES) == [{"id": row["id"], "edges": row["edges"]} for row in ROWS]
    one = read(tmp_path, edges="from,relation,to\nAnn,son,Bob\n", queries="from,to\nBob,Ann\n")
    assert one == [{"edges": [["Ann", "son", "Bob"]], "query": ["Bob", "Ann"]}]


def test_spreadsheets(tmp_path: Path) -> None:
    text = "\ufeffgraph, from ,label,to\r\n\r\na, Ann ,son,Bob\r\n,,,\r\na,Bob,sister,Eve\r\nb,1,son,2"
    found = read(tmp_path, edges=text, queries=QUERIES)
    assert found == ROWS


def test_a_packed_file_and_cells_of_several_lines(tmp_path: Path) -> None:

    path = tmp_path / "edges.csv.gz"
    path.write_bytes(gzip.compress(b'from,label,to\n"A\nnn",son,"B, ob"\nx,y,\n'))
    with pytest.raises(DataError, match=r"edges.csv.gz:4: found no to; expected a text or a whole number"):
        rows_from_csv(path)
    path.write_bytes(gzip.compress(b'from,label,to\n"A\nnn",son,"B, ob"\n'))
    assert rows_from_csv(path) == [{"edges": [["A\nnn", "son", "B, ob"]]}]


def test_features_are_all_other_columns_in_order_of_names(tmp_path: Path) -> None:
    edges = "weight,from,label,to,length\n0.5,a,near,b,-2e3\n,b,near,a,\n"
    nodes = "node,label,size\na,big,3\na,old,3\nb,,\nc,,.5\n"
    expected = {
        "nodes": {
            "a": {"labels": ["big", "old"], "features": [3.0]},
            "b": None,
            "c": {"labels": [], "features": [0.5]},
        },
        "edges": [["a", "near", "b", [-2000.0, 0.5]], ["b", "near", "a"]],
    }
    assert read(tmp_path, edges=edges, nodes=nodes) == [expected]
    assert rows_from_frames(**framed(edges=edges, nodes=nodes)) == [expected]
    paths = written(tmp_path, edges=edges, nodes=nodes)
    found = rows_from_csv(paths["edges"], features=["weight"], node_features=())
    assert found == [{"edges": [["a", "near", "b", [0.5]], ["b", "near", "a"]]}]
    with pytest.raises(DataError, match=r"edges.csv:1: found the columns weight, .*; expected a header with mass"):
        rows_from_csv(paths["edges"], features=["mass"])


def test_nodes_alone(tmp_path: Path) -> None:
    found = read(tmp_path, edges="graph,from,label,to\n", nodes="graph,node\n7,a\n7,b\n", queries="graph,target\n7,x\n")
    assert found == [{"id": "7", "nodes": ["a", "b"], "edges": [], "target": "x"}]


def test_targets_of_graphs_and_nodes(tmp_path: Path) -> None:
    graphs = "graph,target\nb,yes\na,no\na,maybe\na,no\n"
    assert [row["target"] for row in read(tmp_path, edges=EDGES, queries=graphs)] == [["no", "maybe"], "yes"]
    nodes = "graph,node,target\na,Ann,boss\na,Bob,\na,Ann,old\nb,1,x\n"
    assert [row["target"] for row in read(tmp_path, edges=EDGES, queries=nodes)] == [
        {"Ann": ["boss", "old"]},
        {"1": "x"},
    ]
    both = "graph,from,to,target\na,Ann,Eve,x\na,Ann,Eve,y\nb,1,2,z\n"
    first, second = read(tmp_path, edges=EDGES, queries=both)
    assert (first["query"], first["target"], second["target"]) == (["Ann", "Eve"], ["x", "y"], "z")


@pytest.mark.parametrize(
    ("cells", "numbers", "expected"),
    [
        (("1", "2"), None, ["1", "2"]),
        (("1", "2"), True, [1.0, 2.0]),
        (("1", "2.5"), None, [1.0, 2.5]),
        (("1.0", "2.0"), None, [1.0, 2.0]),
        (("1e3", "-.5"), None, [1000.0, -0.5]),
        (("1", "2.5"), False, ["1", "2.5"]),
        (("x", "2"), None, ["x", "2"]),
    ],
)
def test_targets_are_numbers_where_some_have_a_fraction(
    tmp_path: Path, cells: tuple[str, str], numbers: bool | None, expected: list[Any]
) -> None:
    tables = {"edges": EDGES, "queries": f"graph,target\na,{cells[0]}\nb,{cells[1]}\n"}
    paths = written(tmp_path, **tables)
    assert [row["target"] for row in rows_from_csv(paths["edges"], paths["queries"], numbers=numbers)] == expected
    if numbers is not False or "." not in "".join(cells):
        found = rows_from_frames(**framed(**tables), numbers=numbers)
        assert [row["target"] for row in found] == expected


def test_whole_numbers_that_pandas_made_floats() -> None:
    frames = framed(edges=EDGES, queries="graph,target\na,1\nb,\n")
    with pytest.raises(UserError, match="found whole numbers as floats, and missing ones; expected numbers=True"):
        rows_from_frames(**frames)
    assert [row.get("target") for row in rows_from_frames(**frames, numbers=True)] == [1.0, None]


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"edges": ""}, "edges.csv:1: found the columns none; expected a header with from, label"),
        ({"edges": "from,label,to\n"}, "edges.csv:1: found no edges; expected at least one"),
        ({"edges": "from;label;to\na;b;c\n"}, "edges.csv:1: found the columns from;label;to; expected a header with"),
        ({"edges": "from,to\na,b\n"}, "expected a header with from, label .or relation., to"),
        ({"edges": "from,label,relation,to\na,b,c,d\n"}, "found both label and relation"),
        ({"edges": "from,label,tail\na,b,c\n"}, "expected a header with to"),
        ({"edges": "from,label,to,\na,b,c,0\n"}, r"found a column without name; expected .* to_csv\(index=False\)"),
        ({"edges": "Unnamed: 0,from,label,to\n0,a,b,c\n"}, "found the column 'Unnamed: 0'"),
        ({"edges": "from,label,to,to\na,b,c,c\n"}, "found the column to twice"),
        (
            {"edges": "from,label,to,target\na,b,c,1\n"},
            "found the column target; expected targets in the table of queri",
        ),
        ({"edges": "id,from,label,to\n1,a,b,c\n"}, "found the column id; expected names of graphs in the column graph"),
        ({"edges": "from,label,to\na,b\n"}, "edges.csv:2: found 2 cells; expected 3, as the header has"),
        ({"edges": "from,label,to\na,,c\n"}, "edges.csv:2: found no label; expected a label"),
        ({"edges": "graph,from,label,to\n,a,b,c\n"}, "edges.csv:2: found no graph; expected a text"),
        ({"edges": 'from,label,to\na,b,"c\n'}, "edges.csv:2: found unexpected end of data; expected a line of a CSV"),
        ({"edges": "from,label,to,w,v\na,b,c,1,\n"}, "edges.csv:2: found no v; .* the column v is read as a feature"),
        ({"edges": "from,label,to,w\na,b,c,nan\n"}, "found w = 'nan'; expected a number: the column w is read as a fe"),
        ({"edges": "from,label,to,w\na,b,c,1e999\n"}, "found w = inf; expected a finite number"),
        ({"edges": "from,label,to,w\na,b,c,1_0\n"}, "found w = '1_0'; expected a number"),
        (
            {"edges": EDGES, "queries": "from,to,target\nAnn,Eve,x\n"},
            "queries.csv:1: found no column graph; expected one",
        ),
        ({"edges": EDGES, "queries": QUERIES + "c,1,2,x\n"}, "queries.csv:5: found graph = 'c'; expected a graph that"),
        (
            {"edges": EDGES, "queries": "graph,target\na,x\n"},
            "queries.csv: found no line of the graph b; expected one f",
        ),
        ({"edges": EDGES, "queries": "graph,from,target\na,x,y\n"}, "queries.csv:1: .* expected a header with to"),
        ({"edges": EDGES, "queries": "graph,node\na,x\n"}, "queries.csv:1: .* expected a header with target"),
        ({"edges": EDGES, "queries": "graph,target,size\na,x,1\n"}, "found the column size; expected no other than"),
        (
            {"edges": EDGES, "queries": "graph,target\na,0.5\nb,x\n"},
            "queries.csv:3: found target = 'x'; expected a numb",
        ),
        (
            {"edges": EDGES, "queries": "graph,target\na,0.5\na,1\n"},
            "queries.csv:3: found target = '1'; expected one n",
        ),
        (
            {"edges": EDGES, "queries": "graph,from,to,target\na,1,2,x\na,2,1,\nb,1,2,x\n"},
            "queries.csv:2: found a target here, but none for 2 1; expected one for each query of a graph, or none",
        ),
        ({"edges": EDGES, "nodes": "graph,node,w\na,x,1\na,x,2\n"}, "nodes.csv:3: found other features of the node x"),
    ],
)
def test_broken_files(tmp_path: Path, tables: dict[str, str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, **tables)


def test_no_such_file_and_no_text(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none.csv: No such file"):
        rows_from_csv(tmp_path / "none.csv")
    (tmp_path / "edges.csv").write_bytes(b"from,label,to\na,\xff,b\n")
    with pytest.raises(DataError, match=r"edges.csv:2: found bytes that are no text"):
        rows_from_csv(tmp_path / "edges.csv")
    (tmp_path / "edges.csv").write_text("from,label,to\na," + "b" * 10_000_001, encoding="utf-8")
    with pytest.raises(DataError, match=r"edges.csv:2: found a line of more than 10000000 characters"):
        rows_from_csv(tmp_path / "edges.csv")


# --- frames -----------------------------------------------------------------------------------------------------------


def test_frames_of_numbers_and_missing_values() -> None:
    edges = pandas.DataFrame({"graph": [3, 3], "from": [0, 1], "label": pandas.Categorical(["x", "y"]), "to": [1, 0]})
    edges["near"], edges["w"] = [True, False], pandas.array([1.5, 2], dtype="float32")
    queries = pandas.DataFrame({"graph": [3], "target": pandas.array([7], dtype="Int64")})
    (row,) = rows_from_frames(edges, queries)
    assert row == {"id": 3, "edges": [["0", "x", "1", [1, 1.5]], ["1", "y", "0", [0, 2.0]]], "target": "7"}
    assert [type(each) for each in (row["id"], *row["edges"][0][3])] == [int, int, float]


def test_frames_of_whole_rows() -> None:
    frame = pandas.DataFrame(ROWS)
    frame.loc[1, "target"] = None
    assert rows_from_frames(frame) == [ROWS[0], {name: ROWS[1][name] for name in ("id", "edges", "query")}]
    with pytest.raises(UserError, match="found queries or nodes beside a frame of whole rows"):
        rows_from_frames(frame, frame)


@pytest.mark.parametrize(
    ("column", "cells", "message"),
    [
        ("from", [1.0], "the frame of edges, iloc.0.: found from = 1.0; expected a text or a whole number"),
        ("from", [True], "found from = True; expected a text or a whole number"),
        ("from", [None], "found no from"),
        ("label", [float("nan")], "found no label"),
        ("label", [0.5], "found label = 0.5; expected a label"),
        ("w", [float("inf")], "found w = inf; expected a finite number"),
        ("w", [10**400], "found w = 1000.*; expected a finite number"),
        ("w", ["x"], "found w = 'x'; expected a number: the column w is read as a feature"),
        (0, [1], "found the column 0; expected a name for each column"),
    ],
)
def test_broken_frames(column: Any, cells: list[Any], message: str) -> None:
    frame = pandas.DataFrame({"from": ["a"], "label": ["x"], "to": ["b"]})
    frame[column] = pandas.Series(cells, dtype=object)
    with pytest.raises(UserError, match=message):
        rows_from_frames(frame)


def test_no_frame() -> None:
    with pytest.raises(UserError, match="edges: found a list; expected a DataFrame of pandas"):
        rows_from_frames([1])


# --- folders ----------------------------------------------------------------------------------------------------------


def test_mistakes_in_a_folder_name_the_graph_as_its_tables_do(tmp_path: Path) -> None:
    for split in ("train", "test"):
        (tmp_path / f"{split}-edges.csv").write_text("graph,from,label,to\n7,a,r,b\n", encoding="utf-8")
        (tmp_path / f"{split}-queries.csv").write_text("graph,from,to,target\n7,a,c,x\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"train-\*.csv, graph 7: found \[\"a\", \"c\"\]"):
        read_folder(tmp_path)


def test_folder(tmp_path: Path) -> None:
    assert csv_files(tmp_path) == {}
    (tmp_path / "1.2,1.3_train.csv").write_text("id,story_edges\n", encoding="utf-8")  # CLUTRR's
    assert csv_files(tmp_path) == {}
    for split in ("train", "test"):
        (tmp_path / f"{split}-edges.csv").write_text(EDGES, encoding="utf-8")
        (tmp_path / f"{split}-queries.csv").write_text(QUERIES, encoding="utf-8")
    assert {split: list(files) for split, files in csv_files(tmp_path).items()} == {
        "train": ["edges", "queries"],
        "test": ["edges", "queries"],
    }
    assert read_csv_split(tmp_path, "train") == read_csv_split(tmp_path, "test") == ROWS
    with pytest.raises(UserError, match=r"found no valid-edges.csv"):
        read_csv_split(tmp_path, "valid")
    (tmp_path / "test-query.csv").write_text("", encoding="utf-8")
    with pytest.raises(
        UserError, match=r"test-query.csv: found a file that is not read; expected no other than test-ed"
    ):
        csv_files(tmp_path)
    (tmp_path / "test-query.csv").unlink()
    (tmp_path / "test-edges.csv").unlink()
    with pytest.raises(UserError, match=r"found test-queries.csv but no test-edges.csv; expected both"):
        csv_files(tmp_path)
    with pytest.raises(UserError, match=r"no such folder; expected one with train-edges.csv"):
        csv_files(tmp_path / "none")


def test_training_files_say_how_all_splits_are_read(tmp_path: Path) -> None:
    for split, (first, second), columns in (("train", ("0.5", "1"), "w,v"), ("test", ("1", "2"), "v,w")):
        cells = "1,2" if columns == "w,v" else "2,1"
        edges = f"graph,from,label,to,{columns}\na,x,l,y,{cells}\nb,x,l,y,{cells}\n"
        (tmp_path / f"{split}-edges.csv").write_text(edges, encoding="utf-8")
        (tmp_path / f"{split}-queries.csv").write_text(f"graph,target\na,{first}\nb,{second}\n", encoding="utf-8")
    train, test = (read_csv_split(tmp_path, split) for split in ("train", "test"))
    assert train[0]["edges"] == test[0]["edges"] == [["x", "l", "y", [2.0, 1.0]]]
    assert [row["target"] for row in train] == [0.5, 1.0]
    assert [row["target"] for row in test] == [1.0, 2.0]
    (tmp_path / "test-edges.csv").write_text("graph,from,label,to,u\na,x,l,y,1\nb,x,l,y,1\n", encoding="utf-8")
    with pytest.raises(
        DataError, match=r"test-edges.csv:1: found the features u; expected those of the training files: v"
    ):
        read_csv_split(tmp_path, "test")
    (tmp_path / "train-edges.csv").unlink()
    (tmp_path / "train-queries.csv").unlink()
    assert [row["target"] for row in read_csv_split(tmp_path, "test")] == ["1", "2"]
    assert [row["target"] for row in read_csv_split(tmp_path, "test", numbers=True)] == [1.0, 2.0]


# --- round trips and broken files -------------------------------------------------------------------------------------

words = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc", "Zs", "Zl", "Zp")), min_size=1, max_size=4)
floats = st.floats(allow_nan=False, allow_infinity=False, width=32)


@st.composite
def graphs(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rows that tables can hold, all with the same kind of targets and the same features."""
    kind = draw(st.sampled_from(("pairs", "nodes", "graph")))
    width, node_width, numeric = draw(st.integers(0, 2)), draw(st.integers(0, 2)), draw(st.booleans())
    target = floats if numeric else words.filter(lambda text: not any(each.isdecimal() for each in text))
    rows = []
    for name in draw(st.lists(words, min_size=1, max_size=3, unique=True)):
        nodes = draw(st.lists(words, min_size=1, max_size=4, unique=True))
        node = st.sampled_from(nodes)
        features = st.lists(floats, min_size=width, max_size=width)
        edge = st.tuples(node, words, node, features)
        row: dict[str, Any] = {"id": name, "nodes": nodes}
        if node_width:
            numbers = st.lists(floats, min_size=node_width, max_size=node_width)
            row["nodes"] = {
                each: {"labels": draw(st.lists(words, max_size=1)), "features": draw(numbers)} for each in nodes
            }
        row["edges"] = [
            list(each) if width else list(each[:3]) for each in draw(st.lists(edge, min_size=1, max_size=5))
        ]
        if kind == "pairs":
            pairs = draw(st.lists(st.tuples(node, node), min_size=1, max_size=3, unique=True))
            targets = [draw(target) for _ in pairs]
            row["query"] = list(pairs[0]) if len(pairs) == 1 else [list(pair) for pair in pairs]
            row["target"] = targets[0] if len(pairs) == 1 else targets
        elif kind == "nodes":
            row["target"] = {each: draw(target) for each in draw(st.lists(node, min_size=1, unique=True))}
        else:
            row["target"] = draw(target)
        rows.append(row)
    return rows


def tables_of(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The same rows as lines of tables."""
    tables: dict[str, list[dict[str, Any]]] = {"edges": [], "queries": [], "nodes": []}
    for row in rows:
        graph = row["id"]
        for start, label, end, *features in row["edges"]:
            numbers = {f"f{place}": number for place, number in enumerate(features[0] if features else ())}
            tables["edges"].append({"graph": graph, "from": start, "label": label, "to": end, **numbers})
        for name in row["nodes"]:
            about = row["nodes"][name] if isinstance(row["nodes"], dict) else {"labels": [], "features": []}
            numbers = {f"f{place}": number for place, number in enumerate(about["features"])}
            label = about["labels"][0] if about["labels"] else None
            tables["nodes"].append({"graph": graph, "node": name, "label": label, **numbers})
        if "query" in row:
            alone = not isinstance(row["query"][0], list)
            pairs, targets = ([row["query"]], [row["target"]]) if alone else (row["query"], row["target"])
            for pair, target in zip(pairs, targets, strict=True):
                tables["queries"].append({"graph": graph, "from": pair[0], "to": pair[1], "target": target})
        elif isinstance(row["target"], dict):
            tables["queries"] += [
                {"graph": graph, "node": node, "target": each} for node, each in row["target"].items()
            ]
        else:
            tables["queries"].append({"graph": graph, "target": row["target"]})
    return tables


def write(folder: Path, tables: dict[str, list[dict[str, Any]]]) -> dict[str, Path]:
    paths = {table: folder / f"{table}.csv" for table in tables}
    for table, lines in tables.items():
        with open(paths[table], "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(lines[0]))
            writer.writeheader()
            writer.writerows(lines)
    return paths


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=graphs())
def test_round_trip(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    tables = tables_of(rows)
    assert rows_from_csv(**write(tmp_path, tables)) == rows  # type: ignore[arg-type]
    assert rows_from_frames(**{table: pandas.DataFrame(lines) for table, lines in tables.items()}) == rows
    assert rows_from_frames(pandas.DataFrame(rows)) == rows


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=graphs(), seed=st.integers(0, 2**32))
def test_a_damaged_file_is_read_right_or_refused(tmp_path: Path, rows: list[dict[str, Any]], seed: int) -> None:
    chance = random.Random(seed)
    paths = write(tmp_path, tables_of(rows))
    path = paths[chance.choice(list(paths))]
    content = bytearray(path.read_bytes())
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(content) + 1)
        new = chance.choice(
            (b"", b",", b'"', b"\n", b"\r", b"\0", b"\xff", b"nan", b"inf", b"-1e999", b"from", b"9" * 5000)
        )
        content[place : place + chance.randint(0, 6)] = new
    path.write_bytes(bytes(content))
    try:
        found, refused = rows_from_csv(**paths), ""  # type: ignore[arg-type]
    except UserError as error:
        found, refused = [], str(error)
    assert found or ".csv" in refused
    if found:  # the same edges as those of another reading of the file
        with open(paths["edges"], encoding="utf-8-sig") as file:
            lines = [
                {str(column).strip(): str(cell or "").strip() for column, cell in line.items()}
                for line in csv.DictReader(StringIO(file.read()))
            ]
        told = [
            [line["from"], line.get("label") or line["relation"], line["to"]] for line in lines if any(line.values())
        ]
        assert sorted(edge[:3] for row in found for edge in row["edges"]) == sorted(told)
