"""SCAN's files: the official MCD1 split is read as it is, splits are found by name, broken lines are named."""

from __future__ import annotations

import gzip
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_transformer.data.pairs.rows import Pair
from edge_transformer.data.pairs.scan import read_scan_file, read_scan_lines, scan_files
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
    [(name, files)] = scan_files(OFFICIAL).items()
    rows = {part: list(read_scan_file(path)) for part, path in files.items()}
    assert (name, {part: len(pairs) for part, pairs in rows.items()}) == ("mcd1", {"train": 8_365, "test": 1_045})
    words = {word for pairs in rows.values() for pair in pairs for word in pair.source}
    actions = {word for pairs in rows.values() for pair in pairs for word in pair.target}
    assert (len(words), len(actions)) == (13, 6)


def test_splits_are_found_by_name(tmp_path: Path) -> None:
    write(tmp_path, train_mcd1=LINE, test_mcd1=LINE)
    write(tmp_path, train_addprim_jump=LINE, test_addprim_jump=LINE, dev_addprim_jump=LINE)
    found = scan_files(tmp_path)
    assert {name: set(files) for name, files in found.items()} == {
        "mcd1": {"train", "test"},
        "addprim_jump": {"train", "dev", "test"},
    }
    assert list(read_scan_file(found["addprim_jump"]["dev"])) == [PAIR]
    (tmp_path / "tasks_dev_addprim_jump.txt.gz").write_bytes(gzip.compress(LINE.encode()))
    both = "found tasks_dev_addprim_jump.txt and tasks_dev_addprim_jump.txt.gz; expected one of them"
    with pytest.raises(UserError, match=both):
        scan_files(tmp_path)


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
    write(tmp_path, train_mcd1=f"{LINE}\n\n{line}")
    with pytest.raises(DataError) as error:
        list(read_scan_file(tmp_path / "tasks_train_mcd1.txt"))
    assert (error.value.path.name, error.value.line) == ("tasks_train_mcd1.txt", 3)


def test_files_without_rows(tmp_path: Path) -> None:
    write(tmp_path, train_mcd1="")
    with pytest.raises(DataError, match="no rows"):
        list(read_scan_file(tmp_path / "tasks_train_mcd1.txt"))


@settings(max_examples=200, deadline=None)
@given(words=st.lists(st.sampled_from(["IN:", "OUT:", "jump", "I_JUMP"]) | st.text(max_size=5), max_size=8))
def test_any_line_is_refused_or_read(words: list[str]) -> None:
    with suppress(DataError):
        for pair in read_scan_lines([" ".join(words)], "rows"):
            assert ["IN:", *pair.source, "OUT:", *pair.target] == " ".join(words).split()
