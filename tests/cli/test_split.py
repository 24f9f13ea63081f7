"""The commands `data split` and `data divergence`: what they write and print, and what they refuse."""

from __future__ import annotations

import gzip
import json
from itertools import islice, product
from pathlib import Path

import pytest

import command_line
from edge_transformer.data.trees.folder import derived_kind
from official_data import benchmark

MCD1 = benchmark("cfq/mcd1")


def run(*arguments: object) -> command_line.Result:
    """What `edge-transformer data ARGUMENTS` does, in this process."""
    return command_line.run("data", *map(str, arguments))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    verbs, things = ("saw", "met", "knew", "left", "found", "heard"), ("a", "b", "c", "d", "e", "f")
    path.write_text("".join(f"{who} {verb} {what}\tx\n" for who, verb, what in product(things, verbs, things)))
    return path


def test_split_and_measure(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "split"
    arguments = ("split", data, "--train", 100, "--dev", 20, "--test", 30, "--atoms", 0.05, "--out", folder)
    code, out, err = run(*arguments)
    assert (code, err) == (0, "")
    assert "100 training, 20 validation and 30 test rows of 216" in out
    assert sorted(path.name for path in folder.iterdir()) == [
        "dev.tsv",
        "report.json",
        "split.json",
        "test.tsv",
        "train.tsv",
    ]
    lines, numbers = data.read_text().splitlines(), json.loads((folder / "split.json").read_text())
    assert list(numbers) == ["trainIdxs", "devIdxs", "testIdxs"]
    for part, size in (("train", 100), ("dev", 20), ("test", 30)):
        written = (folder / f"{part}.tsv").read_text().splitlines()
        assert written == [lines[row] for row in numbers[f"{part}Idxs"]]
        assert len(written) == size
    report = json.loads((folder / "report.json").read_text())
    assert report["rows"] == {"all": 216, "train": 100, "dev": 20, "test": 30}
    chance = report["random test set of the same size"]["compound_divergence"]
    assert report["test"]["compound_divergence"] > chance
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert run(*arguments)[0] == 0
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before

    code, out, err = run("divergence", data, "--split", folder / "split.json", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["test"] == {"rows": 30, **report["test"]}
    code, out, _ = run("divergence", folder, "--json")  # has the files of the split alone: unused rows weigh nothing
    assert code == 0
    again = json.loads(out)
    assert {name: again[name] for name in ("test", "dev")} == {
        "test": {"rows": 30, **report["test"]},
        "dev": {"rows": 20, **report["dev"]},
    }
    assert again["a random test set"] == {"rows": 30, **report["random test set of the same size"]}
    assert "divergence from the 100 rows of train" in run("divergence", folder)[1]


def test_without_validation_rows_there_is_no_file_of_them(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "split"
    assert run("split", data, "--dev", 20, "--test", 30, "--out", folder)[0] == 0
    code, out, _ = run("split", data, "--test", 30, "--compounds", 0.999, "--out", folder)
    assert code == 0
    assert "wanted at least 0.999; this is the best that was found" in out
    assert not (folder / "dev.tsv").exists()
    assert json.loads((folder / "split.json").read_text())["devIdxs"] == []
    assert len((folder / "train.tsv").read_text().splitlines()) == 186


def test_what_cannot_be_is_said_before_the_search(data: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, _, err = run("split", data, "--test", 30, "--out", tmp_path / "file")
    assert code == 2
    assert f"--out {tmp_path}/file: found {tmp_path}/file, which is no folder; expected a folder to write to" in err
    folder = tmp_path / "split"
    assert run("split", data, "--train", 100, "--test", 30, "--out", folder)[0] == 0
    code, _, err = run("divergence", folder, "--split", folder / "split.json")  # whose rows are those of the data
    assert code == 2
    assert "expected the data that were split, whose rows it numbers; its own folder needs no --split" in err
    whole, again = (
        json.loads(run("divergence", *said, "--json")[1])
        for said in ([folder], [data, "--split", folder / "split.json"])
    )
    assert whole == again
    assert whole["test"]["atoms_that_train_lacks"] == whole["test"]["rows_with_such_atoms"] == 0


def test_limits_that_are_not_kept_are_said(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"  # no two rows share anything
    path.write_text("".join(json.dumps({"atoms": [f"a{n}"], "compounds": [f"c{n}"]}) + "\n" for n in range(30)))
    wanted = ("split", path, "--dev", 5, "--test", 5, "--atoms", 0.05, "--out", tmp_path / "split")
    code, _, err = run(*wanted)
    assert code == 2
    assert "in 5 rows of train leaves 0 rows for these; expected at least 10, or a smaller --seen" in err
    code, out, _ = run(*wanted, "--seen", 0)
    assert code == 0
    assert "note: test: 5 rows have one of 5 atoms that train lacks" in out
    for name in ("test", "dev"):
        assert f"note: {name}: atoms 1.0000, wanted at most 0.05; this is the best that was found" in out
    report = json.loads((tmp_path / "split/report.json").read_text())
    assert report["missed"] == {name: ["atoms 1.0000, wanted at most 0.05"] for name in ("test", "dev")}
    assert report["wanted"]["reached"] is False


def tree(words: str, comment: str) -> str:
    first, second = words.split()
    return f"# {comment}\n1\t{first}\t_\tN\t_\t_\t2\tdep\t_\t_\n2\t{second}\t_\tV\t_\t_\t0\troot\t_\t_\n\n"


TREES = [tree(f"{who} {what}", f"row = {number}") for number, (who, what) in enumerate(product("abcdef", "uvwxyz"))]


@pytest.mark.parametrize("order", [slice(None, None, -1), slice(3, None), slice(None, None, 1)])
def test_trees_that_say_their_row_are_found_by_it(order: slice, tmp_path: Path) -> None:
    split = {"trainIdxs": [*range(12, 36)], "devIdxs": [], "testIdxs": [*range(6, 12)]}
    (tmp_path / "split.json").write_text(json.dumps(split))
    (tmp_path / "apart").mkdir()
    for name in ("train", "test"):
        (tmp_path / f"apart/{name}.conllu").write_text("".join(TREES[row] for row in split[f"{name}Idxs"]))
    (tmp_path / "corpus.conllu").write_text("".join(TREES[order]))
    expected = json.loads(run("divergence", tmp_path / "apart", "--json")[1])
    code, out, _ = run("divergence", tmp_path / "corpus.conllu", "--split", tmp_path / "split.json", "--json")
    found = json.loads(out)
    assert (code, found["test"]) == (0, expected["test"])
    assert found["train"] == {"rows": 24}


def test_a_hole_in_the_corpus(tmp_path: Path) -> None:
    (tmp_path / "corpus.conllu").write_text("".join(TREES[:20] + TREES[21:]))
    (tmp_path / "split.json").write_text(json.dumps({"trainIdxs": [*range(30)], "devIdxs": [], "testIdxs": [35]}))
    code, out, _ = run("divergence", tmp_path / "corpus.conllu", "--split", tmp_path / "split.json", "--json")
    assert (code, json.loads(out)["train"]) == (0, {"rows": 29})
    (tmp_path / "corpus.conllu").write_text("".join(TREES[:20] + TREES[30:]))
    code, _, err = run("divergence", tmp_path / "corpus.conllu", "--split", tmp_path / "split.json")
    assert (code, "found row 20 in train; expected rows that the trees name" in err) == (2, True)


def test_a_split_of_trees_has_the_numbers_that_they_say(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.conllu"
    corpus.write_text("".join(TREES[:2:-1]))
    (tmp_path / "derived.json").write_text('{"kind": "cfq-dependencies"}')
    assert run("split", corpus, "--train", 20, "--test", 6, "--seen", 1, "--out", tmp_path / "out")[0] == 0
    numbers = json.loads((tmp_path / "out/split.json").read_text())
    for name in ("train", "test"):
        written = (tmp_path / f"out/{name}.conllu").read_text()
        assert written == "".join(TREES[row] for row in numbers[f"{name}Idxs"])
    described = json.loads((tmp_path / "out/derived.json").read_text())
    made = {"seed": 1, "train": 20, "dev": 0, "test": 6}
    assert described == {"kind": "cfq-dependencies", "split anew": made, "from": {"kind": "cfq-dependencies"}}
    assert derived_kind(tmp_path / "out") == "cfq-dependencies-split-anew"
    assert derived_kind(tmp_path) == "cfq-dependencies"


def test_texts_that_are_in_train_too_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "rows.conllu"
    path.write_text("".join(tree("a b", f"sent_id = s{number}") for number in range(12)))
    code, out, _ = run("split", path, "--dev", 2, "--test", 3, "--out", tmp_path / "out")
    assert code == 0
    assert "note: test: 3 rows are word for word in train too" in out
    assert "note: dev: 2 rows" in out


def test_files_of_another_split_are_not_mixed_in(data: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/train.conllu").write_text("")
    code, _, err = run("split", data, "--test", 30, "--out", tmp_path / "out")
    assert (code, "found train.conllu; expected no files of another split" in err) == (2, True)


def test_what_is_refused(data: Path, tmp_path: Path) -> None:
    for arguments, message in (
        (("split", data, "--test", 300, "--out", tmp_path / "x"), "found 216 examples, 0 for train beside"),
        (("split", data, "--train", 200, "--test", 30, "--out", tmp_path / "x"), "found 216 examples"),
        (("split", tmp_path / "absent.tsv", "--test", 3, "--out", tmp_path / "x"), "no such file"),
        (("divergence", data), "found no rows for train"),
    ):
        code, _, err = run(*arguments)
        assert code == 2
        assert err.startswith("error: ")
        assert message in err
    assert not (tmp_path / "x").exists()
    own = tmp_path / "own"
    own.mkdir()
    data.rename(own / "train.tsv")
    for source in (own, own / "train.tsv"):
        code, _, err = run("split", source, "--test", 3, "--out", own)
        assert (code, "holds the data that are to be split" in err) == (2, True)
    (tmp_path / "split.json").write_text('{"trainIdxs": [0], "devIdxs": [], "testIdxs": [999]}')
    code, _, err = run("divergence", own / "train.tsv", "--split", tmp_path / "split.json")
    assert (code, "found row 999 in test; expected rows of the data, 0 to 215" in err) == (2, True)


@pytest.fixture
def mcd1(tmp_path: Path) -> Path:
    """Every sixteenth row of CFQ's MCD1, for the time it takes."""
    if not MCD1.is_dir():
        pytest.skip(f"needs CFQ's MCD1 in {MCD1}")
    folder = tmp_path / "mcd1"
    folder.mkdir()
    for part in ("train", "test"):
        with gzip.open(MCD1 / f"{part}.tsv.gz", "rt", encoding="utf-8") as lines:
            (folder / f"{part}.tsv").write_text("".join(islice(lines, 0, None, 16)), encoding="utf-8")
    return folder


def test_official_mcd1_is_far_from_random(mcd1: Path) -> None:
    code, out, _ = run("divergence", mcd1, "--json")
    found = json.loads(out)
    assert (code, found["train"]["rows"], found["test"]["rows"]) == (0, 5_984, 748)
    assert found["test"]["compound_divergence"] > 0.1
    assert found["test"]["compound_divergence"] > 3 * found["a random test set"]["compound_divergence"]
    assert found["test"]["atom_divergence"] < 0.05


def test_derived_mcd1_is_far_from_random(mcd1: Path, tmp_path: Path) -> None:
    assert run("derive", "cfq-dependencies", "--questions", mcd1, "--out", tmp_path / "trees")[0] == 0
    found = json.loads(run("divergence", tmp_path / "trees", "--json")[1])
    assert (found["train"]["rows"], found["test"]["rows"]) == (5_984, 748)
    assert found["test"]["compound_divergence"] > 0.12
    assert found["test"]["compound_divergence"] > 3 * found["a random test set"]["compound_divergence"]
    assert found["test"]["atom_divergence"] < 0.05


def test_hold_out(tmp_path: Path) -> None:
    names = ("Ann", "Bob", "Cem", "Dan", "Eva", "Fay")
    rows = [
        f"{who} saw {whom} .\tsee . agent ( x _ 1 , {who} ) AND see . theme ( x _ 1 , {whom} )\tplain"
        for who in names
        for whom in names
        if whom != who
    ]
    (tmp_path / "train.tsv").write_text("\n".join(rows) + "\n")
    code, out, err = run("hold-out", tmp_path / "train.tsv", "--words", 2, "--out", tmp_path / "held")
    assert (code, err) == (0, "")
    parts = {name: (tmp_path / f"held/{name}.jsonl").read_text().splitlines() for name in ("train", "dev", "test")}
    numbers = [len(lines) for lines in parts.values()]
    assert out.startswith("{} training, {} validation and {} test rows".format(*numbers))
    assert {json.loads(line)["group"] for line in parts["test"]} <= {"agent", "theme"}
    again = run("hold-out", tmp_path / "held/train.jsonl", "--words", 1, "--out", tmp_path / "again")
    assert (again[0], again[2]) == (0, "")
    (tmp_path / "one.tsv").write_text(rows[0])
    (tmp_path / "empty.jsonl").touch()
    for arguments, message in (
        ((tmp_path / "train.txt",), "found the ending .txt; expected .jsonl or .tsv"),
        ((tmp_path / "none.tsv",), "none.tsv"),
        ((tmp_path / "train.tsv", "--column", "kind"), "train.tsv: column of places: found kind; expected one of the"),
        ((tmp_path / "one.tsv",), "one.tsv: found no words with several places in role to hold out; expected"),
        ((tmp_path / "empty.jsonl",), "empty.jsonl:1: found no rows; expected at least one graph a line"),
    ):
        code, out, err = run("hold-out", *arguments, "--out", tmp_path / "no")
        assert (code, out) == (2, "")
        assert message in err
    assert not (tmp_path / "no").exists()
