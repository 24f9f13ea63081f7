"""Whatever data in any form hold after random changes: training reads them right or refuses them with a message.

FUZZ_ROWS says how many inputs every reader is given. What it reads is trained on and scored.
"""

from __future__ import annotations

import csv
import json
import os
import random
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pandas
import pytest
import torch

from clutrr_rows import ROW
from edge_transformer.data.facts import describe
from edge_transformer.data.relations.folder import asks_of, read_folder
from edge_transformer.data.relations.sources import rows_of
from edge_transformer.errors import UserError
from edge_transformer.tasks.relations.data import GraphLabelData, NodeLabelData, RelationData, RelationSettings
from fuzzed_rows import ODD, ROWS, check_story, mutate, valid_row

geometric = pytest.importorskip("torch_geometric.data")
pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore"),  # of pandas and PyTorch Geometric about what is done to them here
]

EACH = ROWS // 3 if "FUZZ_ROWS" in os.environ else 40  # of every reader and kind of answer
TASKS: dict[str, type[RelationData]] = {
    "pairs": RelationData,
    "nodes": NodeLabelData,
    "graph": GraphLabelData,
}
NAMES = {"pairs": "relations", "nodes": "node-labels", "graph": "graph-labels"}
SETTINGS = RelationSettings(valid_share=0.2)
MODEL = {"kind": "edge", "dim": 8, "heads": 2, "layers": 1, "dropout": 0.0, "inverse_edges": True}
THINGS: list[Any] = [
    *ODD,
    *(b"bytes", 1j, Decimal("1.5"), Fraction(1, 3), date(2020, 1, 1), range(3), {"a", "b"}, frozenset([1]), object()),
    *(
        np.float32(1.5),
        np.int64(3),
        np.bool_(True),
        np.array([1, 2]),
        np.array([]),
        np.array("a"),
        np.nan,
        np.str_("x"),
    ),
    *(torch.tensor(1), torch.tensor([1.5, 2]), torch.zeros(2, 2), torch.tensor(True), torch.tensor(float("inf"))),
    *(pandas.NA, pandas.NaT, pandas.Timestamp("2020"), int, len, np.datetime64("2020"), np.longdouble(1)),
]


def use(data: RelationData) -> None:
    """Train a step on data that were read, and score them."""
    for story in [*data._train, *(story for rows in data._splits.values() for story in rows)]:
        check_story(story, data.Model.asks, needs_target=True)
    facts = data.facts()
    assert facts is not None
    assert facts.rows > 0
    data.notes()
    torch.manual_seed(1)
    model = data.new_model(MODEL)
    rows = torch.arange(data.train_rows)
    total = sum(data.loss(model, batch, torch.device("cpu")) for batch in data.batches(rows))
    assert torch.is_tensor(total)
    assert total.isfinite()
    total.backward()
    scores = data.evaluate(model.eval(), torch.device("cpu"))
    assert all(np.isfinite(score) for score in scores.values())


def is_read(make: Callable[[], RelationData]) -> bool:
    """Whether data are read; they are used then, and else refused in words."""
    try:
        data = make()
    except UserError as error:
        assert "found" in str(error), error  # noqa: PT017
        return False
    use(data)
    return True


def tried(seed: object, count: int = EACH) -> Iterator[random.Random]:
    """As many generators of random numbers as changes are to be tried."""
    for number in range(count):
        yield random.Random(f"{seed} {number}")


def rows_alike(asks: str, chance: random.Random, count: int) -> list[dict[str, Any]]:
    """Rows that go together: with the same kind of answer and the same features."""
    first = valid_row(asks, chance)
    while "target" not in first:
        first = valid_row(asks, chance)
    return [json.loads(json.dumps(first)) for _ in range(count)]


@pytest.mark.parametrize("asks", TASKS)
def test_rows_in_memory(asks: str) -> None:
    read = 0
    for chance in tried(f"memory {asks}"):
        rows = rows_alike(asks, chance, 5)
        mutate(chance.choice(rows), chance)
        splits = {"train": rows, "test": rows[:2]}
        read += is_read(partial(TASKS[asks].from_rows, splits, SETTINGS, 1))
    assert 0 < read < EACH


# --- files ------------------------------------------------------------------------------------------------------------


def damage(path: Path, chance: random.Random) -> None:
    """Change some bytes of a file."""
    content = bytearray(path.read_bytes())
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        place = chance.randrange(len(content) + 1)
        odd = chance.choice(
            [b"", b"\xff", b"\x00", b'"', b",", b"\n", b"\r", b"[", b"}", b"9" * 30, b"nan", b"-", b" "]
        )
        how = chance.randrange(4)
        if how == 0:
            content[place:place] = odd
        elif how == 1:
            content[place : place + chance.randint(1, 4)] = odd
        elif how == 2:
            other = chance.randrange(len(content) + 1)
            content[place:place] = content[other : other + chance.randint(1, 20)]
        else:
            content[place : place + 1] = bytes([chance.choice([*b"ab01", chance.randrange(256)])])
    path.write_bytes(content)


def is_folder_read(folder: Path, asks: str) -> bool:
    """The same for a folder; `data info` does what training does."""

    def told() -> RelationData:
        describe(read_folder(folder, asks=asks_of(folder)))
        return TASKS[asks].load(folder, SETTINGS, 1)

    return is_read(told)


@pytest.mark.parametrize("asks", TASKS)
def test_json_lines(asks: str, tmp_path: Path) -> None:
    read = 0
    for chance in tried(f"lines {asks}"):
        rows = rows_alike(asks, chance, 4)
        for split in ("train", "test"):
            (tmp_path / f"{split}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        damage(tmp_path / f"{chance.choice(['train', 'test'])}.jsonl", chance)
        read += is_folder_read(tmp_path, asks)
    assert 0 < read < EACH


def csv_tables(asks: str, chance: random.Random) -> dict[str, list[dict[str, Any]]]:
    """Edges, queries and nodes of four graphs, as lines."""
    numbers = chance.random() < 0.3
    tables: dict[str, list[dict[str, Any]]] = {"edges": [], "queries": [], "nodes": []}
    for graph in range(4):
        for start, end in (("a", "b"), ("b", "c")):
            edge = {"graph": graph, "from": start, "label": chance.choice("rs"), "to": end}
            tables["edges"].append({**edge, "weight": chance.choice([1, 0.5])})
        for node in "abc":
            tables["nodes"].append({"graph": graph, "node": node, "label": chance.choice("xy")})
        asked = {"pairs": {"from": "a", "to": "c"}, "nodes": {"node": "b"}, "graph": {}}[asks]
        target = chance.choice([0.5, 1.25, -2]) if numbers else chance.choice("pq")
        tables["queries"].append({"graph": graph, **asked, "target": target})
    return tables


def write_csv(path: Path, lines: list[dict[str, Any]]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)


@pytest.mark.parametrize("asks", TASKS)
def test_csv_tables(asks: str, tmp_path: Path) -> None:
    read = 0
    for chance in tried(f"csv {asks}"):
        for name, lines in csv_tables(asks, chance).items():
            for split in ("train", "test"):
                write_csv(tmp_path / f"{split}-{name}.csv", lines)
        damage(
            tmp_path / f"{chance.choice(['train', 'test'])}-{chance.choice(['edges', 'queries', 'nodes'])}.csv", chance
        )
        read += is_folder_read(tmp_path, asks)
    assert 0 < read < EACH


def test_clutrr_files(tmp_path: Path) -> None:
    read = 0
    for chance in tried("clutrr", 3 * EACH):
        for split in ("train", "test"):
            write_csv(tmp_path / f"1.2_{split}.csv", [ROW, ROW, ROW, ROW])
        path = tmp_path / f"1.2_{chance.choice(['train', 'test'])}.csv"
        if chance.random() < 0.5:
            damage(path, chance)
        else:
            columns = ("target", "proof_state", "story_edges", "edge_types", "query_edge", "genders")
            column = chance.choice(columns)
            cell = list(ROW[column])
            for _ in range(chance.randint(1, 3)):
                cell[chance.randrange(len(cell)) :][:1] = chance.choice(["", "(", ")", "1", "'", ",", "x", "-", "[]"])
                place = chance.randrange(len(cell) + 1)
                cell[place : place + chance.randint(0, 2)] = chance.choice(["", "(", ")", "1", "'", ",", "x", "9" * 9])
            write_csv(path, [ROW | {column: "".join(cell)}, ROW, ROW, ROW])
        read += is_folder_read(tmp_path, "pairs")
    assert 0 < read < 3 * EACH  # one kind of answer, where others have three


# --- values of other libraries ----------------------------------------------------------------------------------------


def is_value_read(value: Any, test: Any, asks: str) -> bool:
    """The same for values that stand for rows."""

    def converted() -> RelationData:
        splits = {"train": rows_of(value, NAMES[asks]), "test": rows_of(test, NAMES[asks])}
        return TASKS[asks].from_rows(splits, SETTINGS, 1)

    return is_read(converted)


@pytest.mark.parametrize("asks", TASKS)
def test_frames(asks: str) -> None:
    read = 0
    for chance in tried(f"frames {asks}"):
        tables = csv_tables(asks, chance)
        frames = {name: pandas.DataFrame(lines) for name, lines in tables.items()}
        name = chance.choice(list(frames))
        frames[name] = changed_frame(frames[name], chance)
        read += is_value_read(frames, {each: pandas.DataFrame(lines) for each, lines in tables.items()}, asks)
    assert 0 < read < EACH


def changed_frame(frame: pandas.DataFrame, chance: random.Random) -> pandas.DataFrame:
    column = chance.choice(list(frame.columns))
    how = chance.randrange(8)
    if how <= 2:
        cells = frame[column].astype(object).tolist()
        cells[chance.randrange(len(cells))] = chance.choice(THINGS)
        return frame.assign(**{column: pandas.Series(cells, dtype=object)})
    if how == 3:
        return frame.drop(columns=column)
    if how == 4:
        other = chance.choice([*frame.columns, "new", "", "id", 3, None, ("a", "b"), "relation", "features"])
        return frame.rename(columns={column: other})
    if how == 5:
        kind = chance.choice(["category", "string", "str", "object"])
        return frame.astype({column: kind})
    if how == 6:
        return chance.choice(
            [frame.iloc[:0], frame.set_index(column), frame.T, pandas.concat([frame, frame]), frame[[]]]
        )
    return frame.assign(**{column: chance.choice([*THINGS[:20], pandas.Timestamp("2020"), True, 1.5])})


@pytest.mark.parametrize("asks", TASKS)
def test_graphs_of_networkx(asks: str) -> None:
    read = 0
    for chance in tried(f"networkx {asks}"):
        graphs = [networkx_graph(asks, chance) for _ in range(5)]
        test = [networkx_graph(asks, chance) for _ in range(2)]
        change_graph(graphs, chance)
        read += is_value_read(graphs, test, asks)
    assert 0 < read < EACH


def networkx_graph(asks: str, chance: random.Random) -> Any:
    kind = chance.choice([networkx.Graph, networkx.DiGraph, networkx.MultiGraph, networkx.MultiDiGraph])
    graph = kind()
    graph.add_node("a", label="x", size=1.5)
    graph.add_node(2, label=["x", "y"])
    graph.add_edge("a", 2, label="r", weight=1)
    graph.add_edge(2, "c", label="s", weight=np.float32(0.5))
    if asks == "pairs":
        graph.graph |= {"query": ("a", "c"), "target": chance.choice("pq")}
    elif asks == "graph":
        graph.graph["target"] = chance.choice("pq")
    else:
        networkx.set_node_attributes(graph, {"a": "p", "c": "q"}, "target")
    return graph


def change_graph(graphs: list[Any], chance: random.Random) -> None:
    place = chance.randrange(len(graphs))
    graph, thing = graphs[place], chance.choice(THINGS)
    how = chance.randrange(7)
    attribute = chance.choice(["label", "target", "weight", "size", "new", "query", "absent", "id", 3, ""])
    if how == 0:
        graph.graph[attribute] = thing
    elif how == 1:
        graph.nodes[chance.choice(list(graph.nodes))][attribute] = thing
    elif how == 2:
        chance.choice([given for *_, given in graph.edges(data=True)])[attribute] = thing
    elif how == 3:
        name = chance.choice(
            [0.5, ("a", 1), "2", "", -1, 10**30, True, b"a", frozenset([1]), float("nan"), np.int64(7)]
        )
        graph.add_edge("a", name, label="r", weight=2)
    elif how == 4:
        graph.remove_node(chance.choice(list(graph.nodes)))
    elif how == 5:
        graphs[place] = thing
    else:
        graph.clear()


@pytest.mark.parametrize("asks", TASKS)
def test_data_of_pyg(asks: str) -> None:
    read = 0
    for chance in tried(f"pyg {asks}"):
        graphs, test = ([pyg_data(asks) for _ in range(count)] for count in (5, 2))
        change_data(graphs, chance)
        read += is_value_read(graphs, test, asks)
    assert 0 < read < EACH


def pyg_data(asks: str) -> Any:
    given: dict[str, Any] = {"x": torch.tensor([[0.5, 1], [1, 2], [2, 0]]), "edge_attr": torch.tensor([0, 1])}
    if asks == "pairs":
        given |= {"edge_label_index": torch.tensor([[0], [2]]), "edge_label": torch.tensor([1])}
    elif asks == "nodes":
        given["y"] = torch.tensor([0, 1, 1])
    else:
        given["y"] = torch.tensor([1])
    return geometric.Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3, **given)


def change_data(graphs: list[Any], chance: random.Random) -> None:
    place = chance.randrange(len(graphs))
    names = ["x", "edge_attr", "y", "edge_index", "edge_label", "edge_label_index", "edge_type", "num_nodes"]
    name, how = chance.choice([*names, "train_mask", "ptr", "node_types"]), chance.randrange(4)
    if how == 0:
        graphs[place] = chance.choice([*THINGS, geometric.HeteroData(), geometric.Data(), geometric.Batch()])
    elif how == 1:
        setattr(graphs[place], name, chance.choice(THINGS))
    elif how == 2:
        setattr(graphs[place], name, None)
    else:
        shape = chance.choice([(), (0,), (1,), (2,), (3,), (3, 1), (2, 2), (3, 2), (2, 3), (1, 1, 1), (2, 0)])
        kinds = [torch.long, torch.float32, torch.bool, torch.complex64, torch.uint8, torch.float16, torch.bfloat16]
        tensor = (torch.rand(shape) * 3).to(chance.choice(kinds))
        if tensor.is_floating_point() and chance.random() < 0.3:
            tensor.fill_(chance.choice([float("nan"), float("inf")]))
        setattr(graphs[place], name, tensor.to_sparse() if shape and chance.random() < 0.1 else tensor)
