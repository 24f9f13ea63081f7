"""CLUTRR's files that are broken: what was found is named, with its line, and nothing in them is run."""

from __future__ import annotations

from pathlib import Path

import pytest

from clutrr_rows import ROW, STORY, read_row, write_rows
from edge_transformer.data.relations.clutrr import MAX_CELL, MAX_PEOPLE, REQUIRED_COLUMNS, read_clutrr, read_stories
from edge_transformer.errors import DataError, UserError


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        *(
            ("story_edges", cell)
            for cell in (
                "",
                "[]",
                "(0, 1)",
                "[0, 1]",
                "[(0, 1), 2]",
                "[(0, 1), (1,)]",
                "[(0, 1), (1, 2, 3)]",
                "[[0, 1], [1, 2]]",
                "[(0, 1), (1, 'a')]",
                "[(0, 1), (1, 2.0)]",
                "[(0, 1), (1, True)]",
                "[(0, 1), (1, -1)]",
                "[(0, 1), (1, None)]",
                f"[(0, 1), (1, {MAX_PEOPLE})]",
                "[(0, 1), (1, 99999999999999999999999)]",
                f"[(0, 1), (1, {'9' * 5000})]",
                "[(0, 1), (1, 3)]",  # the story has three persons
                "[(0, 1), (1, 2)",
            )
        ),
        *(
            ("edge_types", cell)
            for cell in (
                "",
                "son",
                "('son', 'sister')",
                "['son']",
                "['son', 'sister', 'aunt']",
                "['son', 3]",
                "['son', '']",
                "['son', None]",
            )
        ),
        *(("query_edge", cell) for cell in ("", "0", "[0, 2]", "(0, 1, 2)", "(0, 3)", "(-1, 2)", "(False, 2)", "(0,")),
        ("target", ""),
        *(("genders", cell) for cell in ("Ann", "Ann:female,Bob", ",", ",".join(["x:male"] * (MAX_PEOPLE + 1)))),
        *(
            ("proof_state", cell)
            for cell in (
                "{",
                "{}",
                "[1]",
                "[[]]",
                "[{('Ann', 'aunt', 'Eve'): []}]",
                "[{('Ann', 'aunt', 'Eve'): [('Ann', 'son', 'Bob')]}]",
                "[{('Ann', 'aunt', 'Eve'): 7}]",
                "[{('Ann', 'aunt'): [('Ann', 'son', 'Bob'), ('Bob', 'sister', 'Eve')]}]",
                "[{('Ann', 'aunt', 'Zoe'): [('Ann', 'son', 'Bob'), ('Bob', 'sister', 'Zoe')]}]",
                "[{('Ann', 1, 'Eve'): [('Ann', 'son', 'Bob'), ('Bob', 'sister', 'Eve')]}]",
                "[{('Ann', 'aunt', 'Eve'): [(['Ann'], 'son', 'Bob'), ('Bob', 'sister', 'Eve')]}]",
            )
        ),
    ],
)
def test_broken_cells_are_named_with_their_line(column: str, cell: str, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "train.csv", [ROW, ROW | {column: cell}, ROW])
    with pytest.raises(DataError) as caught:
        read_stories(path)
    assert str(caught.value).startswith(f"{path}:3: found {column} = ")
    assert "; expected " in str(caught.value)
    assert (caught.value.path, caught.value.line) == (path, 3)
    assert len(str(caught.value)) < len(str(path)) + 500


def test_largest_node_number(tmp_path: Path) -> None:
    unnamed = {"genders": "", "proof_state": ""}
    assert read_row(tmp_path, story_edges=f"[(0, 1), (1, {MAX_PEOPLE - 1})]", **unnamed).size == MAX_PEOPLE
    with pytest.raises(DataError, match=rf"train\.csv:2: found story_edges = .*{MAX_PEOPLE}"):
        read_row(tmp_path, story_edges=f"[(0, 1), (1, {MAX_PEOPLE})]", **unnamed)


def test_two_relations_for_one_edge(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"train\.csv:2: found edge_types = .*expected one relation an edge"):
        read_row(tmp_path, story_edges="[(0, 1), (1, 2), (0, 1)]", edge_types="['son', 'sister', 'nephew']")


def test_proof_over_two_nodes_of_one_name(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"train\.csv:2: found proof_state = .*all different"):
        read_row(tmp_path, genders="Ann:female,Ann:female,Eve:female,Bob:male")


@pytest.mark.parametrize(
    "code",
    [
        "[" * 10_000,
        "(" * 10_000 + ")" * 10_000,
        "{" * 5000,
        "-" * 50_000 + "1",
        "1+" * 20_000 + "1",
        "__import__('pathlib').Path(TRACE).touch()",
        "[__import__('pathlib').Path(TRACE).touch()]",
        "[(0, __import__('pathlib').Path(TRACE).touch())]",
        "[(0, 1) for _ in [open(TRACE, 'w')]]",
        "(lambda: open(TRACE, 'w'))()",
        "f'{open(TRACE, chr(119))}'",
        "2**99999999",
        "'a' * 10**9",
        "\x00",
    ],
)
@pytest.mark.parametrize("column", ["story_edges", "edge_types", "query_edge", "proof_state"])
def test_code_is_refused_and_not_run(column: str, code: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    with pytest.raises(DataError, match=rf"train\.csv:2: found {column} = "):
        read_row(tmp_path, **{column: code.replace("TRACE", repr(str(trace)))})
    assert not trace.exists()


@pytest.mark.parametrize("column", REQUIRED_COLUMNS)
def test_missing_column(column: str, tmp_path: Path) -> None:
    columns = [name for name in ROW if name != column]
    path = write_rows(tmp_path / "train.csv", [{name: ROW[name] for name in columns}], columns)
    with pytest.raises(DataError) as caught:
        read_stories(path)
    assert str(caught.value) == (
        f"{path}:1: found {', '.join(columns)}; expected the columns {', '.join(REQUIRED_COLUMNS)}"
    )


def test_empty_file(tmp_path: Path) -> None:
    (tmp_path / "train.csv").touch()
    with pytest.raises(DataError, match=r"train\.csv:1: found no header; expected the columns story_edges"):
        read_stories(tmp_path / "train.csv")


def test_header_only(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"train\.csv:1: found no rows; expected at least one story"):
        read_stories(write_rows(tmp_path / "train.csv", []))


@pytest.mark.parametrize(("extra", "cells"), [(",one more", 10), ("", 9)])
def test_row_with_another_number_of_cells(extra: str, cells: int, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "train.csv", [ROW])
    text = path.read_text()
    last = text.splitlines()[-1]
    broken = last + extra if extra else last.removeprefix("0,")
    path.write_text(text + broken + "\n")
    found = cells if extra else cells - 1
    with pytest.raises(DataError, match=rf"train\.csv:3: found a row of {found} cells; expected 9,"):
        read_stories(path)


def test_line_of_a_broken_row_after_rows_of_several_lines(tmp_path: Path) -> None:
    tale = 'First line.\nSecond, "quoted" line.\r\nThird line.'
    rows = [ROW | {"story": tale}, ROW, ROW | {"story": tale, "target": ""}]
    path = write_rows(tmp_path / "train.csv", rows)
    with pytest.raises(DataError, match=r"train\.csv:6: found target = ''"):
        read_stories(path)


def test_line_of_a_broken_row_after_blank_lines(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "train.csv", [ROW, ROW | {"target": ""}])
    header, first, second = path.read_text().splitlines()
    path.write_text("\n".join([header, "", first, "", "", second, ""]))
    with pytest.raises(DataError, match=r"train\.csv:6: found target = ''"):
        read_stories(path)
    path.write_text("\n".join([header, "", first, "", "", first, "", ""]))
    assert read_stories(path) == [STORY, STORY]


def test_quote_that_is_never_closed(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "train.csv", [ROW, ROW])
    path.write_text(path.read_text() + '1,"no end\nand on\nand on\n')
    with pytest.raises(DataError, match=r"train\.csv:4: found unexpected end of data; expected a CSV file"):
        read_stories(path)


def test_cell_of_more_than_a_million_characters(tmp_path: Path) -> None:
    assert read_row(tmp_path, story="x" * (MAX_CELL - 1)) == STORY
    with pytest.raises(DataError, match=r"train\.csv:2: found field larger than field limit .*; expected a CSV file"):
        read_row(tmp_path, story="x" * (MAX_CELL + 1))


@pytest.mark.parametrize("before", [0, 1, 500])
def test_bytes_that_are_no_text(before: int, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "train.csv", [ROW] * before)
    good = path.read_bytes()
    path.write_bytes(good + b"0,caf\xe9,...\n" + good)
    with pytest.raises(DataError, match=rf"train\.csv:{before + 2}: found bytes that are no text .*; expected UTF-8"):
        read_stories(path)


def test_folders_that_hold_no_data(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere: no such folder; expected .*train\.csv"):
        read_clutrr(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"found no \*train\.csv"):
        read_clutrr(tmp_path)
    write_rows(tmp_path / "train.csv", [ROW])
    with pytest.raises(UserError, match=r"found no \*test\.csv"):
        read_clutrr(tmp_path)
    with pytest.raises(UserError, match=r"found no \*test\.csv; expected a CLUTRR folder with test files"):
        read_clutrr(tmp_path, training=False)
    with pytest.raises(UserError, match=r"train\.csv: found a file; expected a CLUTRR folder"):
        read_clutrr(tmp_path / "train.csv")


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.csv: No such file"):
        read_stories(tmp_path / "none.csv")
    (tmp_path / "a_train.csv").mkdir()
    write_rows(tmp_path / "a_test.csv", [ROW])
    with pytest.raises(UserError, match=r"a_train\.csv: Is a directory"):
        read_clutrr(tmp_path)
