"""Folders of pairs: each of the three forms is found and read, others are refused by name."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from edge_transformer.data.pairs.folder import all_pair_files, pair_files, pair_paths
from edge_transformer.errors import UserError
from official_data import benchmark

QUERY = "SELECT count(*) WHERE {\nM0 ns:film.editor.film M1\n}"
WORDS = "SELECT count ( * ) WHERE { M0 film.editor.film M1 }"


def write_tsv(folder: Path, **texts: str) -> Path:
    folder.mkdir(exist_ok=True, parents=True)
    for split, text in texts.items():
        (folder / f"{split}.tsv").write_text(text, encoding="utf-8")
    return folder


def write_scan(folder: Path, *names: str) -> Path:
    folder.mkdir(exist_ok=True, parents=True)
    for name in names:
        (folder / f"tasks_train_{name}.txt").write_text(f"IN: {name} jump OUT: I_JUMP\n")
        (folder / f"tasks_test_{name}.txt").write_text("IN: run OUT: I_RUN\n")
    return folder


def write_cfq(folder: Path, *names: str) -> Path:
    (folder / "splits").mkdir(parents=True, exist_ok=True)
    rows = [{"questionPatternModEntities": f"Did M0 edit {n}", "sparqlPatternModEntities": QUERY} for n in range(4)]
    (folder / "dataset.json").write_text(json.dumps(rows))
    for name in names:
        (folder / f"splits/{name}.json").write_text(json.dumps({"trainIdxs": [2, 0], "devIdxs": [1], "testIdxs": [3]}))
    return folder


def test_two_columns(tmp_path: Path) -> None:
    folder = write_tsv(tmp_path / "mine", train="a b\tc\n", dev="a\tc c\n")
    (folder / "test.tsv.gz").write_bytes(gzip.compress(b"b\tc\n"))
    files = pair_files(folder)
    assert files.split == "mine"
    assert list(files.by_split) == ["train", "dev", "test"]
    told: list[int] = []
    rows = files.read(["train", "test"], told.append)
    assert [(pair.source, pair.target) for pair in rows["train"] + rows["test"]] == [
        (("a", "b"), ("c",)),
        (("b",), ("c",)),
    ]
    assert sum(told) == 2
    assert files.corpus(pair.target for pair in rows["train"]) == "pairs"
    assert files.corpus([]) == "pairs"
    assert files.corpus([tuple(WORDS.split())] * 3) == "cfq"
    assert files.corpus([tuple(WORDS.split()), ("c",)]) == "pairs"
    assert pair_files(folder, "mcd1").split == "mcd1"  # a name for it
    assert [path.name for path in pair_paths(folder)] == ["dev.tsv", "test.tsv.gz", "train.tsv"]


def test_the_field_of_queries(tmp_path: Path) -> None:
    folder = write_cfq(tmp_path / "cfq", "mcd1")
    rows = [{"questionPatternModEntities": "Did M0", "sparql": QUERY, "mine": "b"} for _ in range(4)]
    (folder / "dataset.json").write_text(json.dumps(rows))
    notes: list[str] = []
    assert pair_files(folder).read(["dev"], query="mine", note=notes.append)["dev"][0].target == ("b",)
    assert notes == []
    assert " ".join(pair_files(folder).read(["dev"], note=notes.append)["dev"][0].target) == WORDS
    assert "name entities" in notes[0]
    for other in (write_tsv(tmp_path / "mine", train="a\tb\n"), write_scan(tmp_path / "scan", "mcd1")):
        with pytest.raises(UserError, match=r"data\.query=sparql: found .*train.*; expected dataset\.json"):
            pair_files(other).read(["train"], query="sparql")


def test_all_splits_of_a_folder(tmp_path: Path) -> None:
    assert all_pair_files(tmp_path) == []
    for folder, names in (
        (write_tsv(tmp_path / "mine", train="a\tb\n"), ["mine"]),
        (write_scan(tmp_path / "scan", "mcd1", "simple"), ["mcd1", "simple"]),
        (write_cfq(tmp_path / "cfq", "mcd1", "mcd2"), ["mcd1", "mcd2"]),
    ):
        assert [files.split for files in all_pair_files(folder)] == names
    write_scan(tmp_path / "mine", "mcd1")
    with pytest.raises(UserError, match="found TSV files and SCAN"):
        all_pair_files(tmp_path / "mine")


def test_scan(tmp_path: Path) -> None:
    folder = write_scan(tmp_path, "mcd1")
    files = pair_files(folder)
    assert (files.split, list(files.by_split)) == ("mcd1", ["train", "test"])
    assert files.read(["train"])["train"][0].source == ("mcd1", "jump")
    assert files.corpus([("I_JUMP",)]) == "scan"
    write_scan(tmp_path, "simple")
    assert pair_files(folder, "simple").read(["train"])["train"][0].source == ("simple", "jump")
    with pytest.raises(UserError, match=r"found the splits mcd1, simple; expected one of them to be named"):
        pair_files(folder)
    for find in (pair_files, pair_paths):
        with pytest.raises(UserError, match="found the splits mcd1, simple; expected mcd2 to be one of them"):
            find(folder, "mcd2")
    assert [path.name for path in pair_paths(folder, "mcd1")] == ["tasks_test_mcd1.txt", "tasks_train_mcd1.txt"]
    assert len(pair_paths(folder)) == 4


def test_cfq(tmp_path: Path) -> None:
    folder = write_cfq(tmp_path, "mcd1", "mcd2")
    files = pair_files(folder, "mcd1")
    rows = files.read(["dev", "train"])
    assert [pair.source[-1] for pair in rows["train"]] == ["2", "0"]
    assert rows["dev"][0].target == tuple(WORDS.split())
    assert files.corpus(pair.target for pair in rows["dev"]) == "cfq"
    assert {path.name for path in pair_paths(folder)} == {"dataset.json", "mcd1.json", "mcd2.json"}
    with pytest.raises(UserError, match="found the splits mcd1, mcd2"):
        pair_files(folder)


def test_folders_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        pair_files(tmp_path / "nowhere")
    for find in (pair_files, pair_paths):
        with pytest.raises(UserError, match=r"found no pairs; expected one of train\.tsv"):
            find(tmp_path)
    write_tsv(tmp_path, train="a\tb\n")
    write_scan(tmp_path, "mcd1")
    with pytest.raises(UserError, match="found TSV files and SCAN; expected one of"):
        pair_files(tmp_path)
    both = write_tsv(tmp_path / "both", train="a\tb\n")
    (both / "train.tsv.gz").write_bytes(gzip.compress(b"a\tb\n"))
    with pytest.raises(UserError, match=r"train\.tsv and train\.tsv\.gz"):
        pair_files(both)
    empty = write_cfq(tmp_path / "cfq")
    with pytest.raises(UserError, match="found the splits none"):
        pair_files(empty)


@pytest.mark.parametrize(
    ("folder", "split", "corpus", "count"), [("scan", "mcd1", "scan", 1045), ("cfq/mcd1", "mcd1", "cfq", 11_968)]
)
def test_shared_folders(folder: str, split: str, corpus: str, count: int) -> None:
    if not benchmark(folder).is_dir():
        pytest.skip(f"needs the official pairs in {benchmark(folder)}")
    files = pair_files(benchmark(folder))
    rows = files.read(["test"])["test"]
    assert (files.split, files.corpus(pair.target for pair in rows), len(rows)) == (split, corpus, count)
