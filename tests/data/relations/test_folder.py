"""Folders of relations: which files are taken, and what is said of those that cannot be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edge_transformer.data.relations.clutrr import write_clutrr
from edge_transformer.data.relations.folder import graph_files, read_folder
from edge_transformer.data.relations.rows import Story
from edge_transformer.errors import DataError, UserError

EDGES = [["Ann", "daughter", "Lil"], ["Lil", "brother", "Bob"]]
GRAPH = {"edges": EDGES, "query": ["Ann", "Bob"], "target": "son"}
LINE = json.dumps(GRAPH)


def write_lines(path: Path, *targets: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(GRAPH | {"target": target}) + "\n\n" for target in targets), encoding="utf-8")


def test_folder_of_json_lines(tmp_path: Path) -> None:
    write_lines(tmp_path / "train.jsonl", "a", "b")
    write_lines(tmp_path / "valid.jsonl", "c")
    write_lines(tmp_path / "easy_test.jsonl", "d")
    write_lines(tmp_path / "hard_test.jsonl", "e", "ü")
    told: list[int] = []
    data = read_folder(tmp_path, told.append)
    assert data.name == tmp_path.name
    assert [story.target for story in data.train] == ["a", "b"]
    assert [story.target for story in data.valid] == ["c"]
    assert [story.target for story in data.tests[2]] == ["d", "e", "ü"]
    assert sum(told) == 6


def test_tests_are_keyed_by_the_number_of_edges(tmp_path: Path) -> None:
    write_lines(tmp_path / "train.jsonl", "a")
    lines = [{"edges": [["a", "r", str(node)] for node in range(edges)], "query": ["a", "0"]} for edges in (3, 1, 3)]
    text = "\n".join(json.dumps({**line, "target": "t"}) for line in lines)
    (tmp_path / "test.jsonl").write_text(text)
    assert {k: len(stories) for k, stories in read_folder(tmp_path).tests.items()} == {1: 1, 3: 2}


def test_json_lines_come_before_csv(tmp_path: Path) -> None:
    story = Story(((0, 1),), ("r",), (1, 0), "from csv", ("a", "b"))
    write_clutrr(tmp_path, [story], {1: [story]})
    assert {path.suffix for paths in graph_files(tmp_path).values() for path in paths} == {".csv"}
    assert read_folder(tmp_path).train[0].target == "from csv"
    write_lines(tmp_path / "train.jsonl", "from json")
    write_lines(tmp_path / "test.jsonl", "from json")
    assert {path.suffix for paths in graph_files(tmp_path).values() for path in paths} == {".jsonl"}
    assert read_folder(tmp_path).train[0].target == "from json"


def test_byte_order_mark(tmp_path: Path) -> None:
    for name in ("train.jsonl", "test.jsonl"):
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + LINE.encode() + b"\r\n")
    assert len(read_folder(tmp_path).train) == 1


def test_errors_name_the_file_and_the_line(tmp_path: Path) -> None:
    write_lines(tmp_path / "train.jsonl", "a")
    (tmp_path / "test.jsonl").write_text(f"{LINE}\n\n{LINE}\nbroken\n")
    with pytest.raises(DataError, match=r"test\.jsonl:4: found 'broken'; expected one JSON object a line"):
        read_folder(tmp_path)
    (tmp_path / "test.jsonl").write_text(f"{LINE}\n" + json.dumps({"edges": EDGES, "query": ["Ann", "Bob"]}))
    with pytest.raises(DataError, match=r'test\.jsonl:2: found no "target"; expected "target"'):
        read_folder(tmp_path)


@pytest.mark.parametrize("before", [0, 1, 700])
def test_bytes_that_are_no_text(before: int, tmp_path: Path) -> None:
    write_lines(tmp_path / "test.jsonl", "a")
    (tmp_path / "train.jsonl").write_bytes(f"{LINE}\n".encode() * before + b'{"edges": "\xff"}\n' + LINE.encode())
    with pytest.raises(DataError, match=rf"train\.jsonl:{before + 1}: found bytes that are no text"):
        read_folder(tmp_path)


def test_folders_that_hold_no_data(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere: no such folder"):
        read_folder(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"found neither \*train\.jsonl nor \*train\.csv"):
        read_folder(tmp_path)
    write_lines(tmp_path / "train.jsonl", "a")
    with pytest.raises(UserError, match=r"found no rows in \*test\.jsonl"):
        read_folder(tmp_path)
    (tmp_path / "test.jsonl").write_text("\n\n")
    with pytest.raises(UserError, match=r"found no rows in \*test\.jsonl"):
        read_folder(tmp_path)
    write_lines(tmp_path / "test.jsonl", "a")
    (tmp_path / "train.jsonl").write_text("")
    with pytest.raises(UserError, match=r"found no rows in \*train\.jsonl"):
        read_folder(tmp_path)


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_test_files_are_enough_without_training(suffix: str, tmp_path: Path) -> None:
    story = Story(((0, 1),), ("r",), (1, 0), "t", ("a", "b"))
    if suffix == "csv":
        write_clutrr(tmp_path, [story], {1: [story]})
    else:
        write_lines(tmp_path / "1.1_train.jsonl", "t", "t")
        write_lines(tmp_path / "1.1_test.jsonl", "t")
    whole = read_folder(tmp_path)
    told: list[int] = []
    tests = read_folder(tmp_path, told.append, training=False)
    assert (tests.train, tests.tests, tests.fingerprint) == ((), whole.tests, whole.fingerprint)
    assert sum(told) == 1
    (tmp_path / f"1.1_train.{suffix}").unlink()
    alone = read_folder(tmp_path, training=False)
    assert (alone.train, alone.tests) == ((), whole.tests)
    assert alone.fingerprint != whole.fingerprint
    with pytest.raises(
        UserError, match=r"found neither \*train\.jsonl nor \*train\.csv; expected one of them, and test"
    ):
        read_folder(tmp_path)
    (tmp_path / f"1.1_test.{suffix}").unlink()
    with pytest.raises(UserError, match=r"found neither \*test\.jsonl nor \*test\.csv; expected one of them$"):
        read_folder(tmp_path, training=False)


def test_training_files_decide_which_files_are_read(tmp_path: Path) -> None:
    story = Story(((0, 1),), ("r",), (1, 0), "from csv", ("a", "b"))
    write_clutrr(tmp_path, [story], {1: [story]})
    write_lines(tmp_path / "test.jsonl", "from json")
    for training in (True, False):
        assert [story.target for story in read_folder(tmp_path, training=training).tests[1]] == ["from csv"]


def test_file_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").mkdir()
    write_lines(tmp_path / "test.jsonl", "a")
    with pytest.raises(UserError, match=r"train\.jsonl: Is a directory"):
        read_folder(tmp_path)


def test_fingerprint_follows_the_files_that_are_read(tmp_path: Path) -> None:
    write_lines(tmp_path / "train.jsonl", "a")
    write_lines(tmp_path / "test.jsonl", "a")
    before = read_folder(tmp_path).fingerprint
    (tmp_path / "notes.txt").write_text("not read")
    assert read_folder(tmp_path).fingerprint == before
    write_lines(tmp_path / "valid.jsonl", "a")
    assert read_folder(tmp_path).fingerprint != before
