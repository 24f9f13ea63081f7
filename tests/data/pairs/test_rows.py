"""Files of pairs: plain and gzipped, the official MCD1 split of CFQ, and broken ones, which are named."""

from __future__ import annotations

import gzip
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_transformer.data.pairs.folder import pair_files
from edge_transformer.data.pairs.rows import Pair, plain_or_gzipped, read_pair_file, read_pair_lines
from edge_transformer.errors import DataError, UserError
from edge_transformer.io.streams import MAX_CHARACTERS as MAX_LINE
from official_data import benchmark

CFQ = benchmark("cfq/mcd1")
TEXT = "walk left\tLEFT WALK\nrun\tRUN\n"
PAIRS = (Pair(("walk", "left"), ("LEFT", "WALK")), Pair(("run",), ("RUN",)))


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name}.tsv").write_text(text, encoding="utf-8")


def test_the_prepared_split_of_cfq() -> None:
    if not CFQ.is_dir():
        pytest.skip(f"needs the MCD1 split of CFQ in {CFQ}")
    told: list[int] = []
    rows = pair_files(CFQ).read(["train", "dev", "test"], told.append)
    assert {split: len(pairs) for split, pairs in rows.items()} == {"train": 95_743, "dev": 11_968, "test": 11_968}
    assert sum(told) == 95_743 + 2 * 11_968
    lengths = [len(pair.target) for pair in rows["train"]]
    assert (sum(length < 50 for length in lengths), sum(length < 30 for length in lengths)) == (92_353, 61_933)
    assert max(len(pair.source) for pair in rows["train"]) == 29
    assert max(lengths) == 95


def test_plain_and_gzipped(tmp_path: Path) -> None:
    write(tmp_path, train=TEXT)
    (tmp_path / "dev.tsv.gz").write_bytes(gzip.compress(TEXT.encode()))
    rows = pair_files(tmp_path).read(["train", "dev"])
    assert rows == {"train": PAIRS, "dev": PAIRS}
    assert (rows["train"][1].path, rows["train"][1].line) == (str(tmp_path / "train.tsv"), 2)


def test_byte_order_mark_blank_lines_and_line_ends(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes("\ufeff".encode() + TEXT.replace("\n", "\r\n\r\n").encode())
    pairs = tuple(read_pair_file(tmp_path / "a.tsv"))
    assert pairs == PAIRS
    assert pairs[1].line == 3


@pytest.mark.parametrize("header", ["source\ttarget", "Input\tOutput", " question\tSPARQL "])
def test_a_first_line_that_names_the_columns_is_no_row(header: str, tmp_path: Path) -> None:
    notes: list[str] = []
    write(tmp_path, train=f"{header}\n{TEXT}", other=TEXT + header)
    pairs = tuple(read_pair_file(tmp_path / "train.tsv", notes.append))
    assert pairs == PAIRS
    assert pairs[0].line == 2
    assert notes == [f"{tmp_path / 'train.tsv'}: its first line names the columns and is skipped"]
    assert len(tuple(read_pair_file(tmp_path / "other.tsv", notes.append))) == 3  # only the first line can
    assert len(notes) == 1
    assert tuple(read_pair_lines([header, *TEXT.splitlines()], "x")) == PAIRS


def test_a_third_column_is_counted() -> None:
    with pytest.raises(DataError, match=r"x:1: found 3 columns: .*; expected two texts with a tab"):
        next(read_pair_lines(["a\tb\t0.5\n"], "x"))


def test_missing_and_doubled_files(tmp_path: Path) -> None:
    assert plain_or_gzipped(tmp_path, "train.tsv") is None
    write(tmp_path, train=TEXT)
    assert plain_or_gzipped(tmp_path, "train.tsv") == tmp_path / "train.tsv"
    (tmp_path / "train.tsv.gz").write_bytes(gzip.compress(TEXT.encode()))
    with pytest.raises(UserError, match=r"found train.tsv and train.tsv.gz; expected one"):
        plain_or_gzipped(tmp_path, "train.tsv")
    with pytest.raises(UserError, match="No such file"):
        list(read_pair_file(tmp_path / "other.tsv"))


@pytest.mark.parametrize(
    ("line", "found", "expected"),
    [
        ("walk", "'walk'", "a tab"),
        ("a\tb\tc", "c", "a tab"),
        ("a\t ", "second text of 0 words", "1 to 4096"),
        ("\tb", "first text of 0 words", "1 to 4096"),
        ("a " * 5000 + "\tb", "5000 words", "1 to 4096"),
        ("a" * (MAX_LINE + 1), "a line of more than", f"at most {MAX_LINE}"),
    ],
)
def test_broken_lines_are_named(line: str, found: str, expected: str, tmp_path: Path) -> None:
    write(tmp_path, train=f"{TEXT}{line}\n")
    with pytest.raises(DataError) as error:
        list(read_pair_file(tmp_path / "train.tsv"))
    assert (error.value.path, error.value.line) == (tmp_path / "train.tsv", 3)
    assert found in error.value.found
    assert expected in error.value.expected


def test_files_without_rows_or_text(tmp_path: Path) -> None:
    write(tmp_path, train="\n")
    with pytest.raises(DataError, match="no rows"):
        list(read_pair_file(tmp_path / "train.tsv"))
    (tmp_path / "dev.tsv").write_bytes(TEXT.encode() + b"\xff\xfe\n")
    with pytest.raises(DataError, match=r"dev.tsv:\d: .*UTF-8"):
        list(read_pair_file(tmp_path / "dev.tsv"))


@pytest.mark.parametrize(
    "content",
    [
        TEXT.encode(),
        gzip.compress(1000 * TEXT.encode(), mtime=0)[:-10],
        gzip.compress(TEXT.encode(), mtime=0)[:10] + b"\xff" * 60,
    ],
    ids=["not packed", "cut off", "damaged"],  # the bytes are no names
)
def test_broken_gzip_files_are_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "train.tsv.gz").write_bytes(content)
    with pytest.raises(DataError, match=r"train.tsv.gz: found bytes that cannot be unpacked .* a whole gzip file"):
        list(read_pair_file(tmp_path / "train.tsv.gz"))


@settings(max_examples=200, deadline=None)
@given(line=st.text(max_size=30) | st.lists(st.sampled_from(["a", " ", "\t", "\n", "b"]), max_size=8).map("".join))
def test_any_line_is_refused_or_read(line: str) -> None:
    with suppress(DataError):
        for pair in read_pair_lines([line], "rows"):
            source, target = line.rstrip("\r\n").split("\t")
            assert (list(pair.source), list(pair.target)) == (source.split(), target.split())
