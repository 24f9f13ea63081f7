"""Folders of token graphs: which files there must be, and that all have the same columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge_transformer.data.graphs.folder import holds_token_graphs, read_split_graphs, read_splits
from edge_transformer.data.graphs.rows import TokenGraph, write_token_graphs
from edge_transformer.data.jsonl import jsonl_files
from edge_transformer.errors import DataError, UserError

GRAPH = TokenGraph(("Ann", "ran"), (1, 1), {"role": ("agent", "")})


def make_folder(folder: Path, *names: str) -> Path:
    for name in names:
        write_token_graphs(folder / f"{name}.jsonl", [GRAPH])
    return folder


def test_files_by_split(tmp_path: Path) -> None:
    make_folder(tmp_path, "train", "dev", "test", "test-long", "notes")
    assert list(jsonl_files(tmp_path)) == ["train", "dev", "test", "test-long"]
    told: list[int] = []
    splits = read_splits(jsonl_files(tmp_path), progress=told.append)
    assert splits == {split: [GRAPH] for split in ("train", "dev", "test", "test-long")}
    assert sum(told) == 4
    one_by_one = read_split_graphs(jsonl_files(tmp_path))
    assert [next(one_by_one) for _ in range(2)] == [("train", GRAPH), ("dev", GRAPH)]


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ('\n \n{"tokens": []}\n', True),
        ('\ufeff{"labels": {}, "tokens": "broken"}', True),
        ('{"edges": [["a", "b", "c"]]}', False),
        ('["tokens"]', False),
        ('{"tokens": [}', False),
        ("", False),
    ],
)
def test_the_first_line_says_whether_a_folder_holds_token_graphs(text: str, holds: bool, tmp_path: Path) -> None:
    assert not holds_token_graphs(tmp_path)
    (tmp_path / "test-x.jsonl").write_text(text, encoding="utf-8")
    assert holds_token_graphs(tmp_path) == holds


@pytest.mark.parametrize(
    ("names", "training", "testing", "message"),
    [
        ((), True, True, "found no train.jsonl"),
        (("test",), True, True, "found no train.jsonl"),
        (("train", "dev"), True, True, r"found no test\*.jsonl"),
        (("train",), False, True, r"found no test\*.jsonl"),
    ],
)
def test_files_that_must_be_there(
    names: tuple[str, ...], training: bool, testing: bool, message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message):
        jsonl_files(make_folder(tmp_path, *names), training, testing)


def test_files_that_need_not_be_there(tmp_path: Path) -> None:
    assert list(jsonl_files(make_folder(tmp_path / "a", "train"), testing=False)) == ["train"]
    assert list(jsonl_files(make_folder(tmp_path / "b", "test-x"), training=False)) == ["test-x"]
    assert list(jsonl_files(make_folder(tmp_path / "c", "dev"), training=False)) == ["dev"]
    with pytest.raises(UserError, match="no such folder"):
        jsonl_files(tmp_path / "d")


def test_all_files_have_the_same_columns(tmp_path: Path) -> None:
    make_folder(tmp_path, "train", "test")
    other = TokenGraph(("Ann",), (0,), {"kind": ("N",)})
    write_token_graphs(tmp_path / "dev.jsonl", [GRAPH, other])
    with pytest.raises(DataError, match=r"dev\.jsonl:2: found the columns kind; expected those of train\.jsonl: role"):
        read_splits(jsonl_files(tmp_path))
    with pytest.raises(DataError, match=r"train\.jsonl:1: found the columns role; expected those of the model: kind"):
        read_splits(jsonl_files(tmp_path), columns=["role", "kind"])
    write_token_graphs(tmp_path / "train.jsonl", [GRAPH, GRAPH, other])
    with pytest.raises(
        DataError, match=r"train\.jsonl:3: found the columns kind; expected those of the first graph: role"
    ):
        read_splits(jsonl_files(tmp_path))
    write_token_graphs(tmp_path / "train.jsonl", [TokenGraph(("Ann",), (0,), {})])
    with pytest.raises(DataError, match=r"dev\.jsonl:1: found the columns role; expected those of train\.jsonl: none"):
        read_splits(jsonl_files(tmp_path))
    make_folder(tmp_path, "train")
    (tmp_path / "dev.jsonl").write_text("\n")
    with pytest.raises(DataError, match=r"dev\.jsonl:1: found no rows"):
        read_splits(jsonl_files(tmp_path))
