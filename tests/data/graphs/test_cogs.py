"""COGS's files: the official set is read as it is, its graphs are those that were published, broken lines are named."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_transformer.data.graphs.cogs import (
    GENERALISATIONS,
    MAX_LINE,
    SPLITS,
    CogsData,
    CogsRow,
    cogs_files,
    holds_cogs,
    read_cogs,
    read_cogs_graphs,
    read_row_lines,
    read_rows,
)
from edge_transformer.data.graphs.logical_forms import COLUMNS, form_of_graph, graph_of_form
from edge_transformer.data.graphs.rows import read_token_graphs, write_token_graphs
from edge_transformer.errors import DataError, UserError
from official_data import benchmark

OFFICIAL = benchmark("cogs")
LINE = "Emma ran .\trun . agent ( x _ 1 , Emma )\tin_distribution"
ROW = CogsRow(("Emma", "ran", "."), "run . agent ( x _ 1 , Emma )", "in_distribution")


# --- the official set -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def official() -> CogsData:
    if not OFFICIAL.is_dir():
        pytest.skip(f"needs the official COGS set in {OFFICIAL}")
    return read_cogs(OFFICIAL)


def test_official_counts(official: CogsData) -> None:
    counts = {split: len(rows) for split, rows in official.splits.items()}
    assert counts == {"train": 24_155, "dev": 3_000, "test": 3_000, "gen": 21_000}
    assert (official.name, len(official.fingerprint)) == ("cogs", 16)
    assert Counter(row.category for row in official.splits["train"])["primitive"] == 143
    assert max(len(row.tokens) for row in official.splits["train"]) == 22
    assert max(len(row.tokens) for row in official.splits["gen"]) == 61


def test_official_generalisations(official: CogsData) -> None:
    assert Counter(row.category for row in official.splits["gen"]) == dict.fromkeys(GENERALISATIONS, 1000)
    structural = {category for category, kind in GENERALISATIONS.items() if kind == "structural"}
    assert structural == {"obj_pp_to_subj_pp", "cp_recursion", "pp_recursion"}
    assert set(GENERALISATIONS.values()) == {"lexical", "structural"}


def test_official_forms_come_back_from_their_graphs(official: CogsData) -> None:
    verbs_alone = 0
    for row in (row for rows in official.splits.values() for row in rows):
        graph = row.graph()
        form = form_of_graph(graph)
        if form != row.logical_form:  # the graph of a verb alone does not tell which arguments it waits for
            assert row.category == "primitive"
            assert graph.labels["verb_name"] == row.tokens
            assert graph_of_form(row.tokens, form) == graph
            verbs_alone += 1
    assert verbs_alone == 41


def test_official_graphs_are_those_of_the_paper(official: CogsData) -> None:
    path = OFFICIAL / "test_seqtag.jsonl"
    if not path.is_file():
        pytest.skip(f"needs {path}")
    with open(path, encoding="utf-8") as lines:
        for line, row in zip(lines, official.splits["test"], strict=True):
            theirs, graph = json.loads(line), row.graph()
            ours = graph.to_json()
            assert theirs == {
                "tokens": ours["tokens"],
                "parent": ours["parents"],
                **{column: ours["labels"][column] for column in COLUMNS},
                "distribution": graph.group,
            }


def test_official_rows_as_token_graphs(official: CogsData, tmp_path: Path) -> None:
    graphs = [row.graph() for row in official.splits["dev"]]
    assert write_token_graphs(tmp_path / "dev.jsonl", graphs) == 3_000
    again = list(read_token_graphs(tmp_path / "dev.jsonl"))
    assert again == graphs
    assert [graph.group for graph in again] == [row.category for row in official.splits["dev"]]


# --- files ------------------------------------------------------------------------------------------------------------


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.tsv").write_text(text, encoding="utf-8")
    return folder


def test_a_folder(tmp_path: Path) -> None:
    write(tmp_path, train=LINE + "\n\n" + LINE, dev=LINE, test=LINE + "\r\n", gen="\ufeff" + LINE, train_100=LINE)
    told: list[int] = []
    data = read_cogs(tmp_path, progress=told.append)
    assert data.splits == {"train": (ROW, ROW), "dev": (ROW,), "test": (ROW,), "gen": (ROW,)}
    assert sum(told) == 5
    assert tuple(data.splits) == SPLITS
    assert data.splits["train"][1].line == 3
    assert read_cogs(tmp_path, ["train_100"]).splits == {"train_100": (ROW,)}


def test_graphs_one_by_one(tmp_path: Path) -> None:
    files = cogs_files(write(tmp_path, dev=LINE, gen=f"{LINE}\n{LINE}"), training=False)
    assert [path.name for path in files] == ["dev.tsv", "gen.tsv"]
    told: list[int] = []
    graphs = list(read_cogs_graphs(files, told.append))
    assert graphs == [("dev", ROW.graph()), ("gen", ROW.graph()), ("gen", ROW.graph())]
    assert sum(told) == 3
    with pytest.raises(UserError, match=r"found no train\.tsv; expected a COGS folder with train\.tsv, dev\.tsv"):
        cogs_files(tmp_path)


@pytest.mark.parametrize(
    ("line", "holds"),
    [(f"\n{LINE}\n", True), ("jump\tJUMP", False), ("jump\tJUMP JUMP\tsimple", False), ("", False)],
)
def test_the_first_row_says_whether_a_folder_holds_cogs(line: str, holds: bool, tmp_path: Path) -> None:
    assert not holds_cogs(tmp_path)
    assert holds_cogs(write(tmp_path, train=line, dev=LINE)) == holds


def test_the_fingerprint_is_of_what_was_read(tmp_path: Path) -> None:
    write(tmp_path, dev=LINE, test=LINE)
    before = read_cogs(tmp_path, ["dev"]).fingerprint
    write(tmp_path, test=LINE + "\n")
    assert read_cogs(tmp_path, ["dev"]).fingerprint == before
    write(tmp_path, dev=LINE + "\n")
    assert read_cogs(tmp_path, ["dev"]).fingerprint != before


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"absent: no such folder; .* train.tsv, dev.tsv"):
        read_cogs(tmp_path / "absent")
    write(tmp_path, train=LINE)
    with pytest.raises(UserError, match=r"found train.tsv; expected dev.tsv"):
        read_cogs(tmp_path)
    with pytest.raises(UserError, match="No such file"):
        list(read_rows(tmp_path / "gen.tsv"))


@pytest.mark.parametrize(
    ("line", "found", "expected"),
    [
        ("Emma ran .", "Emma ran .", "tabs"),
        ("Emma ran .\tform", "Emma ran .", "tabs"),
        (LINE + "\tmore", "more", "tabs"),
        ("\tform\tcategory", "form", "tabs"),
        ("Emma\t\tcategory", "Emma", "tabs"),
        ("Emma  ran\tform\tcategory", "'Emma  ran'", "one space"),
        ("a " * 600 + "\tform\tcategory", "601 tokens", "at most 512"),
        ("a" * (MAX_LINE + 1), "characters", f"at most {MAX_LINE}"),
    ],
)
def test_broken_lines_are_named(line: str, found: str, expected: str, tmp_path: Path) -> None:
    write(tmp_path, train=f"{LINE}\n{line}\n")
    with pytest.raises(DataError) as error:
        read_cogs(tmp_path, ["train"])
    assert (error.value.path, error.value.line) == (tmp_path / "train.tsv", 2)
    assert found in error.value.found
    assert expected in error.value.expected


def test_broken_forms_are_named_with_their_line(tmp_path: Path) -> None:
    write(tmp_path, train=f"{LINE}\n{LINE}\nEmma ran .\trun . agent ( x _ 7 , Emma )\tprimitive\n")
    [*_, row] = read_rows(tmp_path / "train.tsv")
    with pytest.raises(DataError, match=r"train.tsv:3: found run . agent .* x _ 0 to x _ 2"):
        row.graph()


def test_files_without_rows_or_text(tmp_path: Path) -> None:
    write(tmp_path, train="\n")
    with pytest.raises(DataError, match="no rows"):
        read_cogs(tmp_path, ["train"])
    (tmp_path / "dev.tsv").write_bytes(LINE.encode() + b"\n\xff\xfe\n")
    with pytest.raises(DataError, match=r"dev.tsv:2: .*UTF-8"):
        read_cogs(tmp_path, ["dev"])


@settings(max_examples=300, deadline=None)
@given(
    line=st.text(max_size=30)
    | st.lists(st.sampled_from(["Emma", " ", "\t", "( x _ 0 )", "."]), max_size=8).map("".join)
)
def test_any_line_is_refused_or_read(line: str) -> None:
    with suppress(DataError):
        for row in read_row_lines([line], "rows"):
            assert "\t".join([" ".join(row.tokens), row.logical_form, row.category]) == line.rstrip("\r\n")
            row.graph()
