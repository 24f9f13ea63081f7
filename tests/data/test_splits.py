"""CFQ's split files: the official ones are read, broken ones are named."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from edge_transformer.data.splits import read_split_file, split_file_text
from edge_transformer.errors import DataError, UserError
from official_data import benchmark

OFFICIAL = benchmark("cfq/splits")
SPLIT = {"trainIdxs": [3, 0], "devIdxs": [1], "testIdxs": []}


def test_official_split() -> None:
    path = OFFICIAL / "mcd1.json.gz"
    if not path.is_file():
        pytest.skip(f"needs CFQ's official split {path}")
    rows = read_split_file(path)
    assert {name: len(numbers) for name, numbers in rows.items()} == {"train": 95_743, "dev": 11_968, "test": 11_968}
    assert max(max(numbers) for numbers in rows.values()) < 239_357


def test_what_is_written_is_read(tmp_path: Path) -> None:
    rows = {"train": [3, 0], "dev": [1], "test": []}
    (tmp_path / "split.json").write_text(split_file_text(rows))
    assert json.loads((tmp_path / "split.json").read_text()) == SPLIT
    assert read_split_file(tmp_path / "split.json") == rows
    (tmp_path / "split.json.gz").write_bytes(gzip.compress(json.dumps(SPLIT).encode()))
    assert read_split_file(tmp_path / "split.json.gz") == rows


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ([], "list"),
        ({}, "none"),
        ({"trainIdxs": [1]}, "the keys trainIdxs"),
        (SPLIT | {"testIdxs": [0]}, "row 0 in trainIdxs and in testIdxs"),
        (SPLIT | {"testIdxs": [-1]}, r"testIdxs\[0\] = -1"),
        (SPLIT | {"testIdxs": [2, "2"]}, r'testIdxs\[1\] = "2"'),
        (SPLIT | {"testIdxs": [True]}, "true"),
    ],
)
def test_broken_splits(value: object, found: str, tmp_path: Path) -> None:
    path = tmp_path / "split.json"
    path.write_text(json.dumps(value))
    with pytest.raises(DataError, match=rf"split.json: found {found}|split.json: found .*{found}"):
        read_split_file(path)


def test_files_that_are_no_json(tmp_path: Path) -> None:
    path = tmp_path / "split.json"
    path.write_text('{\n"a": }')
    with pytest.raises(DataError, match=r"split.json:2: found no JSON"):
        read_split_file(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="UTF-8"):
        read_split_file(path)
    for content in (b"no archive", gzip.compress(b"{}" * 999)[:-9]):
        (tmp_path / "split.json.gz").write_bytes(content)
        with pytest.raises(DataError, match="broken archive"):
            read_split_file(tmp_path / "split.json.gz")
    with pytest.raises(UserError, match="No such file"):
        read_split_file(tmp_path / "absent.json")
