"""SLOG and enhanced dependencies as corpora: what is read, how it is scored, and that models read more files."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import edge_transformer as et
from edge_transformer.cli.app import app
from edge_transformer.data.graphs.edge_folder import read_sentence_folder
from edge_transformer.data.graphs.edges import SentenceGraph
from edge_transformer.data.graphs.enhanced import enhanced_graph, enhanced_scores, with_enhanced
from edge_transformer.data.trees.conllu import read_conllu
from edge_transformer.errors import UserError
from slog_sentences import Speaker

pytestmark = pytest.mark.usefixtures("one_thread")
TINY = {"model.dim": 16, "model.heads": 2, "model.layers": 2, "train.epochs": 1, "train.evaluate_every": 1}
AUGMENTED = {
    "data.augmented": 1.0,
    "data.augmented_kind": "category",
    "data.augmented_words": 0.1,
    "data.augmented_gaps": 0.4,
    "data.augmented_nested": 0.3,
    "data.name_column": "verb_name",
}
TREE = """\
1	Ann	_	_	_	_	2	nsubj	{first}	_
2	ran	_	_	_	_	0	root	0:root	_
3	fell	_	_	_	_	2	conj	{last}	_

"""


def rows(count: int, seed: int, category: str = "in_distribution") -> str:
    """Rows in the official form."""
    chance = random.Random(seed)
    said = [
        Speaker(chance, 1).question() if number % 3 == 0 else Speaker(chance, 1).statement() for number in range(count)
    ]
    return "".join(f"{' '.join(each.tokens)}\t{each.form}\t{category}\n" for each in said)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("slog")
    (made / "train.tsv").write_text(rows(200, 1) + "Emma\tEmma\tprimitive\n")
    (made / "dev.tsv").write_text(rows(12, 2))
    (made / "test.tsv").write_text(rows(12, 3))
    return made


def train_parser(folder: Path, preset: str, **settings: Any) -> et.GraphParser:
    model = et.train("graphs", folder, preset=preset, progress=False, **TINY, **settings)
    assert isinstance(model, et.GraphParser)
    assert model.record is not None
    return model


def test_a_generalisation_set_is_scored_by_category(folder: Path, tmp_path: Path) -> None:
    model = et.train("graphs", folder, preset="slog/cpu", out=tmp_path / "run", progress=False, **TINY)
    assert model.record is not None
    assert model.record.data["corpus"] == "slog"
    assert {"dev", "dev graph", "dev edges F1", "test", "test column verb_name"} <= model.record.metrics.keys()
    gen = tmp_path / "new" / "gen.tsv"
    gen.parent.mkdir()
    gen.write_text(rows(6, 4, "pp_in_subject") + rows(6, 5, "new_gap") + "Ann ran .\tno form\tnew_gap\n")
    scores = et.evaluate(tmp_path / "run", gen.parent, progress=False)
    assert {"gen", "gen/new_gap", "gen/pp_in_subject", "gen graph"} <= scores.keys()
    assert scores == et.evaluate(model, gen, progress=False)
    assert model.predict(["Who saw Emma ?"])[0].keys() >= {"edges", "logical_form"}


def test_augmented_rows_are_counted(folder: Path) -> None:
    model = train_parser(folder, preset="slog/cpu", **AUGMENTED)
    data = model.record.data
    assert data["augmented_rows"] > 100
    assert data["train_rows"] == 201 + data["augmented_rows"]


@pytest.mark.parametrize(("option", "value"), [("data.augmented_place", "x"), ("data.augmented_evenly", True)])
def test_settings_of_rows_with_parents_are_refused(folder: Path, option: str, value: object) -> None:
    with pytest.raises(UserError, match=f'{option}: found .*expected rows with "parents"'):
        et.train("graphs", folder, preset="slog/cpu", progress=False, **TINY, **{option: value})


def test_augmentation_needs_a_column_of_the_rows(folder: Path) -> None:
    with pytest.raises(UserError, match=r"data.augmented_kind: found kind; expected one of the columns"):
        et.train(
            "graphs",
            folder,
            preset="slog/cpu",
            progress=False,
            **TINY,
            **{"data.augmented": 1.0, "data.augmented_kind": "kind"},
        )


def test_enhanced_dependencies_are_scored_as_the_shared_tasks_do(tmp_path: Path) -> None:
    text = TREE.format(first="2:nsubj|3:nsubj", last="2:conj:and") + TREE.format(first="2:nsubj", last="2:conj:or")
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.conllu").write_text(text * (20 if split == "train" else 2))
    model = train_parser(tmp_path, preset="ewt-enhanced/cpu")
    model.save(tmp_path / "parser")
    scores = model.record.metrics
    assert scores["test"] == scores["test ELAS"] == pytest.approx(scores["test edges F1"])
    assert scores["test EULAS"] >= scores["test ELAS"]
    assert "test exact match" in scores
    gold = [enhanced_graph(sentence) for sentence in read_conllu(tmp_path / "test.conllu", trees=False)]
    found = [SentenceGraph.from_json(row) for row in model.predict([graph.tokens for graph in gold])]
    assert enhanced_scores(gold, found)["ELAS"] == pytest.approx(scores["test ELAS"])
    assert et.evaluate(model, tmp_path / "dev.conllu", progress=False)["dev"] == scores["dev"]
    command = ["parse", "--model", str(tmp_path / "parser"), "--input", str(tmp_path / "test.conllu")]
    written = CliRunner().invoke(app, command)
    assert written.exit_code == 0, written.output
    sentences = read_conllu(tmp_path / "test.conllu", trees=False)
    expected = [with_enhanced(*each).text for each in zip(sentences, found, strict=True)]
    assert written.output.strip() == "".join(expected).strip()


def test_trees_alone_are_no_graphs(tmp_path: Path) -> None:
    for split in ("train", "test"):
        (tmp_path / f"{split}.conllu").write_text(TREE.format(first="_", last="_").replace("0:root", "_"))
    with pytest.raises(UserError, match="expected"):
        read_sentence_folder(tmp_path)
    shutil.rmtree(tmp_path)
