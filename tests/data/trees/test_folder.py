"""Folders of trees: files by split, and a corpus with CFQ's split files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from edge_transformer.data.trees.folder import (
    read_treebank,
    treebank_files,
    treebank_paths,
    treebank_split_names,
    treebank_splits,
)
from edge_transformer.errors import DataError, UserError
from edge_transformer.io.files import fingerprint
from edge_transformer.tasks.trees.data import TreeData
from official_data import benchmark

EWT = benchmark("ud/EWT")


def sentence(name: str, *comments: str) -> str:
    """A sentence of the form of the CFQ corpus: arcs and labels, nothing else."""
    lines = [*comments, "1\tDid\t_\t_\t_\t_\t2\taux\t_\t_", f"2\t{name}\t_\t_\t_\t_\t0\troot\t_\t_"]
    return "\n".join(lines) + "\n\n"


def corpus(folder: Path, *sentences: str) -> Path:
    (folder / "parsed-CFQ-corpus.conllu").write_text("".join(sentences))
    return folder


def split(path: Path, train: list[int], dev: list[int], test: list[int]) -> None:
    text = json.dumps({"trainIdxs": train, "devIdxs": dev, "testIdxs": test}).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


def names(folder: Path, **options: str) -> dict[str, list[str]]:
    data = read_treebank(folder, **options)  # type: ignore[arg-type]
    return {part: [sentence.words[1] for sentence in sentences] for part, sentences in data.splits.items()}


def test_ewt() -> None:
    if not EWT.is_dir():
        pytest.skip(f"needs Universal Dependencies English EWT in {EWT}")
    told: list[int] = []
    data = read_treebank(EWT, ["dev", "test"], progress=told.append)
    assert data.fingerprint == TreeData.fingerprint(EWT)  # whichever splits were read
    assert treebank_split_names(EWT) == [None]
    assert {part: len(sentences) for part, sentences in data.splits.items()} == {"dev": 2_001, "test": 2_077}
    assert (data.name, len(data.fingerprint), sum(told)) == ("EWT", 16, 4_078)


def test_files_by_split(tmp_path: Path) -> None:
    for name in ("train", "dev", "test"):
        (tmp_path / f"xx_some-ud-{name}.conllu").write_text(sentence(name))
    assert names(tmp_path) == {"train": ["train"], "dev": ["dev"], "test": ["test"]}
    split(tmp_path / "split.json", [0], [], [])  # of the corpus that the files were made from
    assert names(tmp_path)["dev"] == ["dev"]
    (tmp_path / "dev.conllu").write_text(sentence("other"))
    with pytest.raises(UserError, match=r"found dev.conllu, xx_some-ud-dev.conllu; expected one file for dev"):
        read_treebank(tmp_path)
    assert list(read_treebank(tmp_path, ["test"]).splits) == ["test"]


@pytest.mark.parametrize("file", ["mcd1.json", "mcd1.json.gz"])
def test_a_corpus_and_a_split_file(file: str, tmp_path: Path) -> None:
    corpus(tmp_path, *map(sentence, "abcdef"))
    split(tmp_path / file, [5, 0], [2], [3, 1])
    assert names(tmp_path) == {"train": ["f", "a"], "dev": ["c"], "test": ["d", "b"]}
    data = read_treebank(tmp_path)
    assert (data.name, data.split, data.missing) == (f"{tmp_path.name}-mcd1", "mcd1", {})
    split(tmp_path / file, [5, 0], [2], [3])
    assert read_treebank(tmp_path).fingerprint != data.fingerprint


def test_several_split_files(tmp_path: Path) -> None:
    corpus(tmp_path, *map(sentence, "abc"))
    split(tmp_path / "mcd1.json", [0], [1], [2])
    split(tmp_path / "mcd2.json.gz", [2], [1], [0])
    assert names(tmp_path, split="mcd2")["train"] == ["c"]
    assert treebank_split_names(tmp_path) == ["mcd1", "mcd2"]
    there = treebank_paths(tmp_path, "mcd2")
    assert [path.name for path in there] == ["parsed-CFQ-corpus.conllu", "mcd2.json.gz"]
    assert read_treebank(tmp_path, split="mcd2").fingerprint == fingerprint(there)
    with pytest.raises(UserError, match=r"found mcd1.json, mcd2.json.gz; expected the choice of one"):
        treebank_files(tmp_path)
    with pytest.raises(UserError, match=r"found mcd1.json, mcd2.json.gz; expected mcd3.json or"):
        treebank_files(tmp_path, split="mcd3")


@pytest.mark.parametrize("key", ["row", "question_id", "questionIdx", "sent_id"])
def test_sentences_that_say_their_row(key: str, tmp_path: Path) -> None:
    corpus(tmp_path, *(sentence(name, f"# {key} = {row}") for row, name in ((7, "h"), (2, "c"), (0, "a"))))
    split(tmp_path / "mcd1.json", [0], [2], [7])
    assert names(tmp_path) == {"train": ["a"], "dev": ["c"], "test": ["h"]}


def test_sentences_that_are_only_counted(tmp_path: Path) -> None:
    corpus(tmp_path, *(sentence(name, f"# sent_id = {number}") for number, name in enumerate("abc", start=1)))
    split(tmp_path / "mcd1.json", [0], [1], [2])
    assert names(tmp_path) == {"train": ["a"], "dev": ["b"], "test": ["c"]}


def test_rows_without_a_tree(tmp_path: Path) -> None:
    corpus(tmp_path, *(sentence(f"w{row}", f"# row = {row}") for row in range(1, 60) if row != 7))
    (tmp_path / "derived.json").write_text("{}")  # tells where the trees come from, and splits nothing
    split(tmp_path / "mcd1.json", list(range(40)), [40, 41], list(range(42, 60)))
    data = read_treebank(tmp_path)
    assert (data.split, data.missing) == ("mcd1", {"train": 2})  # the rows 0 and 7 of 40
    assert names(tmp_path)["train"] == [f"w{row}" for row in range(1, 40) if row != 7]
    split(tmp_path / "mcd1.json", list(range(40)), [40, 60], list(range(42, 60)))
    with pytest.raises(DataError, match="none is row 60 of devIdxs"):  # half of dev
        read_treebank(tmp_path)


def test_rows_that_happen_to_be_counted_from_one(tmp_path: Path) -> None:
    corpus(tmp_path, *(sentence(name, f"# row = {row}") for row, name in enumerate("abc", start=1)))
    split(tmp_path / "mcd1.json", [1], [2], [3])
    assert names(tmp_path) == {"train": ["a"], "dev": ["b"], "test": ["c"]}


def test_a_split_of_another_corpus(tmp_path: Path) -> None:
    corpus(tmp_path, *map(sentence, "abc"))
    split(tmp_path / "mcd1.json", [0], [1], [3])
    with pytest.raises(DataError, match=r"CFQ-corpus.conllu: found 3 sentences, of which none is row 3 of testIdxs"):
        read_treebank(tmp_path)


def test_a_file_in_the_place_of_a_folder(tmp_path: Path) -> None:
    path = tmp_path / "some.conllu"
    path.write_text(sentence("a") + sentence("b"))
    assert names(path) == {"test": ["a", "b"]}
    assert (treebank_splits(path), treebank_paths(path)) == (["test"], [path])
    dev = path.rename(tmp_path / "xx-ud-dev.conllu")
    assert (treebank_splits(dev), names(dev)) == (["dev"], {"dev": ["a", "b"]})


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        treebank_files(tmp_path / "absent")
    with pytest.raises(UserError, match=r"found no .conllu file"):
        treebank_files(tmp_path)
    corpus(tmp_path, sentence("a"))
    with pytest.raises(UserError, match=r"found no split file; expected train\.conllu, .*, or mcd1\.json"):
        treebank_files(tmp_path)
    (tmp_path / "train.conllu").write_text(sentence("a"))
    with pytest.raises(UserError, match=r"expected one file for dev, such as dev.conllu"):
        treebank_files(tmp_path)
