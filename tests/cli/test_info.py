"""`edge-transformer data`: what it generates, and what it says of a folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from command_line import SMALL, cells, generate_small, refused, run
from edge_transformer.cli import data as data_cli
from edge_transformer.data.relations.clutrr import read_clutrr


@pytest.fixture(scope="module")
def families(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate_small(tmp_path_factory.mktemp("data") / "families")


def test_generate_writes_files(families: Path) -> None:
    names = ["1.2,1.3_train.csv", "1.2_test.csv", "1.3_test.csv", "1.4_test.csv", "generated.json"]
    assert sorted(path.name for path in families.iterdir()) == sorted(names)
    data = read_clutrr(families)
    assert len(data.train) == 60
    assert {k: len(stories) for k, stories in data.tests.items()} == {2: 8, 3: 8, 4: 8}


def test_generate_says_what_it_wrote(tmp_path: Path) -> None:
    folder = tmp_path / "a folder [of] data"
    result = run(*SMALL, "--out", str(folder))
    assert result.out.splitlines()[0] == f"60 training and 24 test stories in {folder}:"
    assert [line.strip() for line in result.out.splitlines()[1:]] == [
        *("1.2,1.3_train.csv", "1.2_test.csv", "1.3_test.csv", "1.4_test.csv")
    ]


def test_generate_validation_stories(tmp_path: Path) -> None:
    result = run(*SMALL, "--valid-k", "5-6", "--valid-rows", "4", "--out", str(tmp_path / "x"))
    assert result.out.splitlines()[0] == f"60 training, 8 validation and 24 test stories in {tmp_path / 'x'}:"
    assert sorted(story.k for story in read_clutrr(tmp_path / "x").valid) == [5, 5, 5, 5, 6, 6, 6, 6]


def test_same_seed_same_bytes(families: Path, tmp_path: Path) -> None:
    run(*SMALL, "--out", str(tmp_path / "same"), "--seed", "1")
    run(*SMALL, "--out", str(tmp_path / "other"), "--seed", "2")
    for path in families.iterdir():
        assert (tmp_path / "same" / path.name).read_bytes() == path.read_bytes()
    train = "1.2,1.3_train.csv"
    assert (tmp_path / "other" / train).read_bytes() != (families / train).read_bytes()


def test_generate_does_not_mix_two_data_sets(families: Path, tmp_path: Path) -> None:
    folder = tmp_path / "families"
    shutil.copytree(families, folder)
    arguments = ["--rows", "20", "--test-rows", "2", "--train-k", "2", "--test-k", "2"]
    message = refused("data", "generate", "clutrr", *arguments, "--out", str(folder))
    assert message.startswith(f"{folder}: has other data in it, 1.2,1.3_train.csv, 1.3_test.csv, 1.4_test.csv;")
    assert read_clutrr(folder) == read_clutrr(families)


@pytest.mark.parametrize("name", ["train.jsonl", "test.tsv", "dev.conllu"])
def test_generate_does_not_mix_families_with_data_of_another_kind(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("")
    arguments = ["--rows", "20", "--test-rows", "2", "--train-k", "2", "--test-k", "2"]
    message = refused("data", "generate", "clutrr", *arguments, "--out", str(tmp_path))
    assert message.startswith(f"{tmp_path}: has other data in it, {name};")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_info_needs_a_folder_of_data(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    expected = "train.conllu, train.tsv, train.jsonl, train.nt or CLUTRR's *_train.csv, and files to test on beside it"
    message = f"{tmp_path}: found no data; expected {expected} (docs/your-own-data.md)"
    assert refused("data", "info", str(tmp_path)) == message
    message = f"{tmp_path}/notes.txt: found a file; expected a folder of data"
    assert refused("data", "info", f"{tmp_path}/notes.txt") == message


@pytest.mark.parametrize("option", ["--train-k", "--test-k"])
@pytest.mark.parametrize("value", ["", "two", "2,,3", "2-", "-3", "4-2", "2.5", "2,3,x", "0-99999", "9" * 5000, "²"])
def test_lengths_that_are_none(option: str, value: str, tmp_path: Path) -> None:
    message = refused("data", "generate", "clutrr", "--out", str(tmp_path / "x"), f"{option}={value}")
    assert message.startswith(f"{option} {value}: found ")
    assert "expected" in message
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("value", ["1", "0-3", "2,500"])
def test_lengths_that_no_story_has(value: str, tmp_path: Path) -> None:
    message = refused("data", "generate", "clutrr", "--out", str(tmp_path / "x"), "--train-k", value)
    assert "a story has from 2 to" in message
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("text", "lengths"), [("2,3,4", [2, 3, 4]), ("2-5", [2, 3, 4, 5]), ("7, 2-3,3", [2, 3, 7]), ("4-4", [4])]
)
def test_lengths(text: str, lengths: list[int]) -> None:
    assert data_cli._lengths("--train-k", text) == lengths


def test_unknown_kind_of_data(tmp_path: Path) -> None:
    assert refused("data", "generate", "chess", "--out", str(tmp_path / "x")) == (
        "unknown kind of data 'chess'; known are clutrr, clutrr-sample, organisation, permissions, spatial, family, "
        "graph, molecules, relatives"
    )


def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    message = refused(*SMALL, "--out", str(tmp_path / "file" / "x"))
    assert message.startswith(f"--out {tmp_path}/file/x: found {tmp_path}/file, which is no folder")


def test_info_prints_the_counts(families: Path) -> None:
    result = run("data", "info", str(families))
    assert (result.code, result.err) == (0, "")
    rows = {row[0]: row for row in map(cells, result.out.splitlines()) if row}
    data = read_clutrr(families)
    assert rows["train"][1:3] == ["60", str(len({story.graph for story in data.train}))]
    for k in (2, 3, 4):
        assert rows[f"test k={k}"][1] == "8"
        assert rows[f"test k={k}"][5] == ("8" if k == 2 else "0")  # graph in train
    assert f"families ({data.fingerprint})" in result.out
    relations = {relation for story in data.train for relation in story.relations}
    [listed] = [line for line in result.out.splitlines() if "relations in train" in line]
    assert listed.startswith(f"{len(relations)} relations in train: ")
    for relation in relations:
        count = sum(story.relations.count(relation) for story in data.train)
        assert f"{relation} {count}" in listed


def test_info_shows_names_as_they_are(tmp_path: Path) -> None:
    folder = tmp_path / "a [red]folder[bold] :smile:"
    folder.mkdir()
    line = json.dumps({"edges": [["a", "[/bold] :smile:", "b"]], "query": ["a", "b"], "target": "[blue]ü"})
    for name in ("train.jsonl", "test.jsonl"):
        (folder / name).write_text(line, encoding="utf-8")
    result = run("data", "info", str(folder))
    assert result.code == 0
    assert "a [red]folder[bold] :smile: (" in result.out
    assert "1 relations in train: [/bold] :smile: 1\n" in result.out
    assert "1 answers in train: [blue]ü 1\n" in result.out


def test_info_on_numbers_as_answers(tmp_path: Path) -> None:
    for name, target in (("train", 12.5), ("test", 3)):
        row = {"edges": [["a", "r", "b"]], "query": ["a", "b"], "target": target}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(row), encoding="utf-8")
    result = run("data", "info", str(tmp_path))
    assert result.code == 0
    assert "numbers as answers in train: from 12.5 to 12.5, mean 12.5\n" in result.out


def test_info_on_pairs(tmp_path: Path) -> None:
    for split, text in (
        ("train", "source\ttarget\njump\tJUMP\nrun twice\tRUN RUN\n"),
        ("test", "jump\tJUMP\nfly\tFLY\n"),
    ):
        (tmp_path / f"{split}.tsv").write_text(text)
    result = run("data", "info", str(tmp_path))
    assert (result.code, result.err) == (0, "")
    rows = {row[0]: row for row in map(cells, result.out.splitlines()) if row}
    assert rows["rows"][1:] == ["train", "test"]
    assert rows["all"][1:] == ["2", "2"]
    assert rows["words of sources: mean, most"][1:] == ["1.5, 2", "1.0, 1"]
    assert rows["with a target under 25 words"][1:] == ["2", "2"]
    assert rows["in train"][1:] == rows["with a source that is in train"][1:] == ["2", "1"]
    assert rows["with a word that is not in train"][1:] == ["0", "1"]
    assert "3 words in sources of train, 2 in targets, 0 in both" in result.out
    assert "train.tsv: its first line names the columns" in result.out


def test_info_on_a_knowledge_graph(tmp_path: Path) -> None:
    folder = tmp_path / "my [red]graph"
    folder.mkdir()
    (folder / "train.tsv").write_text("Ann\tmother\tEve\nEve\tchild\tAnn\nBob\t[b]mother\tEve\nAnn\tmother\tEve\n")
    (folder / "test.jsonl").write_text('["Eve", "child", "Bob"]\n["Eve", "boss", "Ann"]\n["Ida", "child", "Ann"]\n')
    (folder / "entities.jsonl").write_text('{"entity": "Ann", "types": ["person"], "features": [1]}')
    result = run("data", "info", str(folder))
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("my [red]graph (")
    rows = {row[0]: row[1:] for row in map(cells, result.out.splitlines()) if row}
    assert rows["facts"] == ["train", "test"]
    assert rows["all"] == ["4", "3"]
    assert rows["entities"] == ["3", "4"]
    assert rows["relations"] == ["3", "2"]
    assert rows["duplicates"] == ["1", "0"]
    assert rows["in train"] == ["", "0"]
    assert rows["entities that are not in train"] == ["0", "1"]
    assert rows["with an entity that is not in train"] == ["0", "1"]
    assert rows["relations that are not in train"] == ["0", "1"]
    assert rows["with a relation that is not in train"] == ["0", "1"]
    assert "test: train has a fact between the same nodes the other way round for 66.7% (a reliable" in result.out
    assert "\n  boss 1: 1 the other way round, most by mother, right in 0%; 1 the same way, most by child" in result.out
    assert "\n  child 2: 1 the other way round, most by [b]mother, right in 0%\n" in result.out
    assert "3 relations in train: mother 2, child 1, [b]mother 1\n" in result.out
    assert result.out.endswith("1 entities with types, 1 with features\n")
    (folder / "test.jsonl").unlink()
    assert run("data", "info", str(folder)).code == 0
    (folder / "train.tsv").write_text("Ann\tmother\tEve\nAnn\tEve\n")
    message = refused("data", "info", str(folder))
    assert message.startswith(f"{folder}/train.tsv:2: found 2 columns: 'Ann\\tEve'; expected head, relation and tail")


def test_info_on_countries(tmp_path: Path) -> None:
    places = "ghana\tlocatedIn\twest\nwest\tlocatedIn\tafrica\n"
    for name, text in (("countries_S1.tsv", places), ("countries_S2.tsv", places), ("regions.txt", "africa\nasia\n")):
        (tmp_path / name).write_text(text)
    for name in ("dev.txt", "test.txt"):
        (tmp_path / name).write_text("ghana\n")
    result = run("data", "info", str(tmp_path))
    assert (result.code, result.err) == (0, "")
    named = [line.partition(" ")[0] for line in result.out.splitlines() if line.startswith(tmp_path.name)]
    assert named == [f"{tmp_path.name}-S1", f"{tmp_path.name}-S2"]
    assert result.out.count("2 candidates: africa, asia\n") == 2


def test_info_on_graphs_over_sentences(tmp_path: Path) -> None:
    folder = tmp_path / "my sentences"
    folder.mkdir()
    for name, tokens, role, groups in (
        ("train", ["Ann", "ran"], "agent", ("", "")),
        ("test-[bold]long", ["Ann", "fell", "down"], "theme", ("falls", "falls again")),
    ):
        value = {"tokens": tokens, "parents": [1] + [-1] * (len(tokens) - 1)}
        labels = {"role": [role, *[""] * (len(tokens) - 1)], "[red]x": [""] * len(tokens)}
        rows = [json.dumps(value | {"labels": labels} | ({"group": group} if group else {})) for group in groups]
        (folder / f"{name}.jsonl").write_text("\n".join(rows))
    result = run("data", "info", str(folder))
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("my sentences (")
    rows_of_table = {row[0]: row[1:] for row in map(cells, result.out.splitlines()) if row}
    assert rows_of_table == {
        "rows": ["train", "test-[bold]long"],
        "all": ["2", "2"],
        "words of a sentence: fewest, mean, most": ["2, 2.0, 2", "3, 3.0, 3"],
        "with a sentence that is in train": ["2", "0"],
        "words that are not in train": ["0", "2"],
        "with a word that is not in train": ["0", "2"],
        "labels of role": ["1", "1"],
        "labels of [red]x": ["0", "0"],
        "with a label that is not in train": ["0", "2"],
    }
    assert [line for line in result.out.splitlines() if "groups in" in line] == [
        "2 groups in test-[bold]long: falls 1, falls again 1"
    ]
    (folder / "dev.jsonl").write_text("\n{}")
    assert refused("data", "info", str(folder)).startswith(f"{folder}/dev.jsonl:2: found {{}}; expected an object with")


def test_info_on_cogs(tmp_path: Path) -> None:
    ann, bob = (f"{name} ran .\trun . agent ( x _ 1 , {name} )\t" for name in ("Ann", "Bob"))
    (tmp_path / "train.tsv").write_text(f"{ann}in_distribution\n")
    (tmp_path / "gen.tsv").write_text(f"{ann}one\n{bob}two\n{bob}two\n")
    result = run("data", "info", str(tmp_path))
    assert (result.code, result.err) == (0, "")
    rows = {row[0]: row[1:] for row in map(cells, result.out.splitlines()) if row}
    assert rows["rows"] == ["train", "gen"]
    assert rows["all"] == ["1", "3"]
    assert rows["with a sentence that is in train"] == ["1", "1"]
    assert rows["words that are not in train"] == ["0", "1"]
    assert rows["with a word that is not in train"] == ["0", "2"]
    assert rows["labels of verb_name"] == ["1", "1"]
    assert result.out.splitlines()[-1] == "2 groups in gen: two 2, one 1"
    with open(tmp_path / "gen.tsv", "a") as file:
        file.write("Ann ran .\trun\n")
    assert refused("data", "info", str(tmp_path)).startswith(f"{tmp_path}/gen.tsv:4: found 'Ann ran .\\trun'; expected")


def test_info_on_a_treebank(tmp_path: Path) -> None:
    for split, word in (("train", "ran"), ("test", "sat")):
        tree = f"1\tAnn\t_\t_\t_\t_\t2\tnsubj\t_\t_\n2\t{word}\t_\t_\t_\t_\t0\troot\t_\t_\n\n"
        (tmp_path / f"{split}.conllu").write_text(tree)
    result = run("data", "info", str(tmp_path))
    assert (result.code, result.err) == (0, "")
    rows = {row[0]: row for row in map(cells, result.out.splitlines()) if row}
    assert rows["sentences"][1:] == ["train", "test"]
    assert rows["words of a sentence: mean, most"][1:] == ["2.0, 2", "2.0, 2"]
    assert rows["words that are not in train"][1:] == ["0.0%", "50.0%"]
    assert "2 relations in train: nsubj 1, root 1\n" in result.out


def test_info_on_several_splits_of_scan(tmp_path: Path) -> None:
    for name in ("mcd1", "simple"):
        for part in ("train", "test"):
            (tmp_path / f"tasks_{part}_{name}.txt").write_text("IN: jump OUT: JUMP\n")
    result = run("data", "info", str(tmp_path))
    assert result.code == 0
    assert [line for line in result.out.splitlines() if line.endswith(".txt)")] == [
        f"{name} (tasks_test_{name}.txt, tasks_train_{name}.txt)" for name in ("mcd1", "simple")
    ]


def test_info_on_broken_data(tmp_path: Path) -> None:
    assert refused("data", "info", str(tmp_path / "none")).startswith(f"{tmp_path}/none: no such folder")
    (tmp_path / "train.csv").write_text("a,b\n")
    (tmp_path / "test.csv").write_text("a,b\n")
    assert refused("data", "info", str(tmp_path)).startswith(
        f"{tmp_path}/train.csv:1: found a, b; expected the columns"
    )


@pytest.mark.parametrize(
    ("task", "row"),
    [
        ("relations", {"edges": [["a", "r", "b"]], "query": ["a", "b"], "target": 0.5}),
        ("node-labels", {"nodes": ["a"], "edges": [], "target": {"a": "x"}}),
        ("graph-labels", {"nodes": {"a": "C"}, "edges": [], "target": ["x", "y"]}),
    ],
)
def test_info_on_labelled_graphs_of_every_task(
    task: str, row: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, rows in (("train", 5), ("test", 2)):
        (tmp_path / f"{name}.jsonl").write_text(f"{json.dumps(row)}\n" * rows)
    result = run("data", "info", str(tmp_path))
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines()[0].endswith(f"), rows of {task}")
    rows_of_table = {line[0]: line[1:] for line in map(cells, result.out.splitlines()) if line}
    assert (rows_of_table["train"][0], rows_of_table["test"][0], rows_of_table["test"][4]) == ("5", "2", "2")
    monkeypatch.setattr("edge_transformer.data.relations.folder.STREAM_ROWS", 3)
    assert run("data", "info", str(tmp_path)).out == result.out  # of streamed rows


@pytest.mark.parametrize(
    ("task", "queries"),
    [
        ("relations", "graph,from,to,target\n1,a,b,x\n"),
        ("node-labels", "graph,node,target\n1,a,x\n"),
        ("graph-labels", "graph,target\n1,x\n"),
    ],
)
def test_info_on_tables_of_every_task(task: str, queries: str, tmp_path: Path) -> None:
    for split in ("train", "test"):
        (tmp_path / f"{split}-edges.csv").write_text("graph,from,label,to\n1,a,r,b\n")
        (tmp_path / f"{split}-queries.csv").write_text(queries)
    result = run("data", "info", str(tmp_path))
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines()[0].endswith(f"), rows of {task}")
