"""Examples to be split: every format is read and comes back line for line, broken lines are named."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from edge_transformer.errors import DataError, UserError
from edge_transformer.splits.rows import read_split_input
from official_data import benchmark

SENTENCE = "# a comment\n1\tAnn\t_\tN\t_\t_\t2\tnsubj\t_\t_\n2\tran\t_\tV\t_\t_\t0\troot\t_\t_\n\n"
CONTENTS = {
    "rows.conllu": [SENTENCE, SENTENCE],
    "rows.tsv": ["who ran\tSELECT x\n", "a b\tc d\tmore\n"],
    "rows.txt": ["IN: jump twice OUT: I_JUMP I_JUMP\n", "IN: turn left OUT: I_TURN_LEFT\n"],
    "rows.jsonl": ['{"atoms": ["a", "a"], "compounds": {"x": 0.5}, "id": 7}\n', '{"compounds": [], "atoms": []}\n'],
}


@pytest.mark.parametrize("name", CONTENTS)
@pytest.mark.parametrize("packed", [False, True])
def test_formats(name: str, packed: bool, tmp_path: Path) -> None:
    content = ("\ufeff" + "".join(CONTENTS[name])).replace("\n", "\r\n").encode()
    path = tmp_path / (f"{name}.gz" if packed else name)
    path.write_bytes(gzip.compress(content) if packed else content)
    data = read_split_input([path])
    assert data.kind == Path(name).suffix
    assert data.texts == CONTENTS[name]
    assert len(data.parts) == 2
    assert {key: rows.tolist() for key, rows in data.by_file.items()} == {path.name: [0, 1]}
    data.write(lambda name: tmp_path / f"written-{name}", {"train": np.array([1, 0])})
    written = tmp_path / f"written-train{data.kind}"
    assert written.read_text(encoding="utf-8") == "".join(CONTENTS[name][::-1])


def test_lists_are_counted_and_weights_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(CONTENTS["rows.jsonl"]))
    parts = read_split_input([path]).parts
    assert parts.atoms.totals().tolist() == [2.0, 0.0]
    assert parts.compounds.totals().tolist() == [0.5, 0.0]


def test_folders(tmp_path: Path) -> None:
    for name in ("tasks_test_mcd1", "tasks_train_mcd1", "notes"):
        (tmp_path / f"{name}.txt").write_text("".join(CONTENTS["rows.txt"]))
    told: list[int] = []
    data = read_split_input([tmp_path], told.append)
    assert {name: rows.tolist() for name, rows in data.by_file.items()} == {"train": [0, 1], "test": [2, 3]}
    assert sum(told) == 4
    (tmp_path / "train.tsv").write_text("a\tb\n")
    with pytest.raises(UserError, match=r"found tasks_train_mcd1.txt, train.tsv; expected one file for train"):
        read_split_input([tmp_path])


def test_scan() -> None:
    if not benchmark("scan").is_dir():
        pytest.skip(f"needs SCAN in {benchmark('scan')}")
    data = read_split_input([benchmark("scan")], keep_texts=False)
    assert {name: len(rows) for name, rows in data.by_file.items()} == {"train": 8_365, "test": 1_045}
    official = data.parts.divergences(data.by_file["train"], data.by_file["test"])
    order = np.random.default_rng(1).permutation(len(data.parts))
    chance = data.parts.divergences(order[:8_365], order[8_365:])
    assert official.compounds > 5 * chance.compounds


@pytest.mark.parametrize(
    ("name", "line", "found", "expected"),
    [
        ("x.tsv", "no tab", "no tab", "tab"),
        ("x.tsv", "a " * 6000 + "\tb", "6000 tokens", "at most 5000"),
        ("x.txt", "IN: jump", "IN: jump", "OUT: words"),
        ("x.jsonl", "[]", "[]", '"atoms"'),
        ("x.jsonl", "{", "{", "JSON"),
        ("x.jsonl", '{"atoms": [1], "compounds": []}', '"atoms": [1]', "a list of names"),
        ("x.jsonl", '{"atoms": ["a"]}', '"compounds": null', "a list of names"),
        ("x.jsonl", '{"atoms": {"a": 0}, "compounds": []}', '{"a": 0}', "above 0"),
        ("x.jsonl", '{"atoms": {"a": NaN}, "compounds": []}', "NaN", "above 0"),
        ("x.jsonl", '{"atoms": {"a": true}, "compounds": []}', "true", "above 0"),
        ("x.conllu", "1\tw", "2 columns", "10 columns"),
    ],
)
def test_broken_lines_are_named(name: str, line: str, found: str, expected: str, tmp_path: Path) -> None:
    first = {".conllu": "", ".tsv": "a\tb", ".txt": "IN: a OUT: b", ".jsonl": '{"atoms": [], "compounds": []}'}
    (tmp_path / name).write_text(f"{first[Path(name).suffix]}\n{line}\n")
    with pytest.raises(DataError) as error:
        read_split_input([tmp_path / name])
    assert (error.value.path, error.value.line) == (tmp_path / name, 2)
    assert found in error.value.found
    assert expected in error.value.expected


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file or folder"):
        read_split_input([tmp_path / "absent.tsv"])
    with pytest.raises(UserError, match="found no file for train, dev or test"):
        read_split_input([tmp_path])
    for name, content, message in (
        ("x.csv", b"a,b", r"found the ending .csv; expected one of .conllu"),
        ("x.tsv", b"\n", "no examples"),
        ("x.tsv", b"a\tb\n\xff\tb\n", r"x.tsv:2: .*UTF-8"),
        ("x.tsv.gz", b"no archive", "broken archive"),
        ("x.tsv.gz", gzip.compress(b"a\tb\n" * 99, mtime=0)[:-9], "broken archive"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match=message):
            read_split_input([tmp_path / name])
    (tmp_path / "x.tsv").write_text("a\tb\n")
    (tmp_path / "x.txt").write_text("IN: a OUT: b\n")
    with pytest.raises(UserError, match=r"different kinds, .tsv, .txt"):
        read_split_input([tmp_path / "x.tsv", tmp_path / "x.txt"])
    with pytest.raises(UserError, match="found no files"):
        read_split_input([])
