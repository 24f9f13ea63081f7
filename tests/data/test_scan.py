"""SCAN's files: the official MCD1 split is read as it is, splits are found by name, broken lines are named."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_transformer.data.pairs import Pair
from edge_transformer.data.scan import read_scan, read_scan_lines
from edge_transformer.errors import DataError, UserError
from official_data import benchmark

OFFICIAL = benchmark("scan")
LINE = "IN: jump twice OUT: I_JUMP I_JUMP"
PAIR = Pair(("jump", "twice"), ("I_JUMP", "I_JUMP"))


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"tasks_{name}.txt").write_text(text + "\n", encoding="utf-8")


def test_the_official_split() -> None:
    if not OFFICIAL.is_dir():
        pytest.skip(f"needs the MCD1 split of SCAN in {OFFICIAL}")
    data = read_scan(OFFICIAL)
    assert {split: len(rows) for split, rows in data.splits.items()} == {"train": 8_365, "test": 1_045}
    assert data.name == "scan-mcd1"
    words = {word for rows in data.splits.values() for pair in rows for word in pair.source}
    actions = {word for rows in data.splits.values() for pair in rows for word in pair.target}
    assert (len(words), len(actions)) == (13, 6)


def test_splits_are_found_by_name(tmp_path: Path) -> None:
    write(tmp_path, train_mcd1=LINE, test_mcd1=LINE)
    assert read_scan(tmp_path).splits == {"train": (PAIR,), "test": (PAIR,)}
    write(tmp_path, train_addprim_jump=LINE, test_addprim_jump=LINE, dev_addprim_jump=LINE)
    data = read_scan(tmp_path, "addprim_jump")
    assert (data.name, list(data.splits)) == ("scan-addprim_jump", ["train", "dev", "test"])
    with pytest.raises(UserError, match="found the splits addprim_jump, mcd1; expected one, or its name"):
        read_scan(tmp_path)
    with pytest.raises(UserError, match=r"expected tasks_train_length.txt"):
        read_scan(tmp_path, "length")


def test_missing_folders_and_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="absent: no such folder"):
        read_scan(tmp_path / "absent")
    with pytest.raises(UserError, match="found the splits none"):
        read_scan(tmp_path)
    write(tmp_path, train_mcd1=LINE)
    with pytest.raises(UserError, match=r"found the splits mcd1; expected tasks_test_mcd1.txt"):
        read_scan(tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        "jump OUT: I_JUMP",
        "IN: jump I_JUMP",
        "IN: jump IN: jump OUT: I_JUMP",
        "IN: a OUT: b OUT: c",
        "IN: OUT: b",
        "IN: a OUT:",
    ],
)
def test_broken_lines_are_named(line: str, tmp_path: Path) -> None:
    write(tmp_path, train_mcd1=f"{LINE}\n\n{line}", test_mcd1=LINE)
    with pytest.raises(DataError) as error:
        read_scan(tmp_path)
    assert (error.value.path.name, error.value.line) == ("tasks_train_mcd1.txt", 3)


def test_files_without_rows(tmp_path: Path) -> None:
    write(tmp_path, train_mcd1="", test_mcd1=LINE)
    with pytest.raises(DataError, match="no rows"):
        read_scan(tmp_path)


@settings(max_examples=200, deadline=None)
@given(words=st.lists(st.sampled_from(["IN:", "OUT:", "jump", "I_JUMP"]) | st.text(max_size=5), max_size=8))
def test_any_line_is_refused_or_read(words: list[str]) -> None:
    with suppress(DataError):
        for pair in read_scan_lines([" ".join(words)], "rows"):
            assert ["IN:", *pair.source, "OUT:", *pair.target] == " ".join(words).split()
