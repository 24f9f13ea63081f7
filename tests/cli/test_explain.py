"""The commands `explain` and `explain-score`: what they print and write, and one line for what a user can act on."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import command_line
from edge_transformer.data.relations.clutrr import write_clutrr
from edge_transformer.data.relations.families import RELATIONS, TARGETS
from edge_transformer.data.relations.generate import generate
from edge_transformer.data.relations.schema import Schema
from edge_transformer.data.tensors import Vocab
from edge_transformer.explain import explain
from edge_transformer.explain.faithfulness import score
from edge_transformer.explain.links.faithfulness import score_links
from edge_transformer.tasks.relations.model import RelationModel
from links_of_rules import ASKED, FACTS, HELD_OUT, link_model, transitive

QUESTION: dict[str, Any] = {"edges": [["Ann", "son", "Bob"], ["Bob", "sister", "Éva"]], "query": ["Ann", "Éva"]}
TOLD: dict[str, Any] = {"edges": [["Ann", "son", "Bob"]], "query": ["Ann", "Bob"]}
LARGE: dict[str, Any] = {"edges": [[node, "son", node + 1] for node in range(64)], "query": [0, 64]}
run = partial(command_line.run, columns=160)


@pytest.fixture(scope="module")
def model() -> RelationModel:
    torch.manual_seed(1)
    settings = {"kind": "edge", "dim": 8, "heads": 2, "layers": 3}
    return RelationModel(settings, Schema(Vocab(RELATIONS), Vocab(TARGETS))).eval()


@pytest.fixture(scope="module")
def saved(model: RelationModel, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("runs") / "mine"
    model.save(folder)
    return str(folder)


def test_questions_from_standard_input(saved: str, model: RelationModel) -> None:
    code, out, err = run("explain", saved, stdin=f"{json.dumps(QUESTION)}\n\n{json.dumps(TOLD)}")
    assert (code, err) == (0, "")
    assert out == f"{explain(model, QUESTION).text()}\n\n{explain(model, TOLD).text()}\n"
    assert "  because, through Bob (layer " in out


def test_questions_from_a_file_as_json(saved: str, model: RelationModel, tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    file.write_text(f"{json.dumps(QUESTION)}\n{json.dumps(TOLD)}\n", encoding="utf-8")
    code, out, err = run("explain", saved, "--input", str(file), "--json")
    assert (code, err) == (0, "")
    assert [json.loads(line) for line in out.splitlines()] == [
        explain(model, question).to_dict() for question in (QUESTION, TOLD)
    ]


def test_the_figure(saved: str, tmp_path: Path) -> None:
    for name in ("first.svg", "again.svg", "why.png"):
        code, _, err = run("explain", saved, "--figure", str(tmp_path / name), stdin=json.dumps(QUESTION))
        assert (code, err) == (0, f"written: {tmp_path / name}\n")
    assert (tmp_path / "first.svg").read_bytes() == (tmp_path / "again.svg").read_bytes()
    assert (tmp_path / "why.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        (["--figure", "why.pdf"], json.dumps(QUESTION), "--figure why.pdf: expected a name that ends in .svg or .png"),
        (["--figure", "why.svg"], f"{json.dumps(TOLD)}\n" * 2, "--figure why.svg: found 2 questions; expected one"),
        (["--figure", "why.svg"], "", "--figure why.svg: found 0 questions; expected one"),
        (["--input", "nowhere.jsonl"], "", "nowhere.jsonl: No such file or directory"),
        ([], "{", "standard input:1: found '{'; expected one JSON object a line"),
        ([], "", "standard input: found no question; expected one JSON object per line, such as {"),
        (["--json"], "\n \n", "standard input: found no question; expected one JSON object per line, such as {"),
        ([], f"\n{json.dumps(LARGE)}", "standard input:2: found a graph of 65 nodes; expected at most 64"),
    ],
)
def test_mistakes_end_with_one_line(saved: str, arguments: list[str], stdin: str, message: str) -> None:
    code, out, err = run("explain", saved, *arguments, stdin=stdin)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {message}")
    assert len(err.splitlines()) == 1


def test_errors_do_not_move_the_cursor(saved: str) -> None:
    question = {"edges": [["\x1b[2JAnn", "son", "Bob\n"]], "query": ["Ann", "Bob"]}
    code, _, err = run("explain", saved, stdin=json.dumps(question))
    assert code == 2
    assert err.endswith('expected nodes that some edge or "nodes" mentions: ' + r"\x1b[2JAnn, Bob\x0a" + "\n")


def test_scores_are_printed_and_added_to_a_file(saved: str, model: RelationModel, tmp_path: Path) -> None:
    train, tests = generate([2], [2, 3], 4, 1, test_rows=5)
    write_clutrr(tmp_path / "families", train, tests)
    records = tmp_path / "scores.jsonl"
    arguments = ["explain-score", saved, "--data", str(tmp_path / "families"), "--json", str(records)]
    for _ in range(2):
        code, out, err = run(*arguments)
        assert (code, err) == (0, "")
    first, second = (json.loads(line) for line in records.read_text().splitlines())
    assert first == second
    assert first["command"] == " ".join(["edge-transformer", *arguments])
    assert (first["run"], first["data"]["name"]) == ("mine", "families")
    expected, _ = score(model, [*tests[2], *tests[3]])
    assert first["scores"] == {f"k={k}": scores.to_dict() for k, scores in expected.items()}
    rows = [line.split() for line in out.splitlines() if line.split()[:2] == ["3", "5"]]
    fractions = expected[3].fractions()
    controls = ("", "balanced_", "random_")
    agreement = [f"{control}{name}" for name in ("precision", "recall") for control in (*controls, "uniform_")]
    rules = [f"{control}known_rules" for control in controls]
    removal = [f"{control}changed" for control in (*controls, "gold_", "other_")]
    assert [row[2:] for row in rows] == [
        [f"{100 * fractions[name]:.1f}" for name in names] for names in (["accuracy", *agreement], [*rules, *removal])
    ]


@pytest.fixture(scope="module")
def saved_links(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("runs") / "links"
    transitive().save(folder)
    return str(folder)


def test_links_are_explained(saved_links: str, tmp_path: Path) -> None:
    open_question = {"head": "city 0", "relation": "likes"}
    code, out, err = run("explain", saved_links, stdin=f"{json.dumps(ASKED)}\n\n{json.dumps(open_question)}\n")
    assert (code, err) == (0, "")
    expected = [explain(transitive(), question) for question in (ASKED, open_question)]
    assert out == "\n\n".join(each.text() for each in expected) + "\n"
    assert "  because (city 0, in, region 0) and (region 0, in, continent 0)\n" in out
    code, out, err = run(
        "explain", saved_links, "--json", "--figure", str(tmp_path / "why.svg"), stdin=json.dumps(ASKED)
    )
    assert (code, err) == (0, f"written: {tmp_path / 'why.svg'}\n")
    assert json.loads(out) == expected[0].to_dict()
    assert (tmp_path / "why.svg").read_text(encoding="utf-8") == expected[0].svg()
    code, out, err = run("explain", saved_links, "--layers", stdin=json.dumps(ASKED))
    assert out.splitlines()[-1].startswith("  layer 1: strongest pivots region 0 (strength ")


@pytest.mark.parametrize(
    ("stdin", "message"),
    [
        ("", 'standard input: found no question; expected one JSON object per line, such as {"head": '),
        ('\n{"head": "city 0"}', 'standard input:2: found head; expected "head", "relation" and "tail", or two of'),
        (json.dumps({**ASKED, "tail": "x"}), "standard input:1: found the node 'x'; expected one of the graph's 14"),
    ],
)
def test_mistakes_in_questions_about_links(saved_links: str, stdin: str, message: str) -> None:
    code, out, err = run("explain", saved_links, stdin=stdin)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {message}")
    assert len(err.splitlines()) == 1


def test_models_without_triangles_are_refused(tmp_path: Path) -> None:
    link_model(kind="gat").save(tmp_path / "gat")
    for arguments in (["explain"], ["explain-score", "--data", str(tmp_path)]):
        (tmp_path / "test.tsv").write_text("city 0\tin\tcontinent 0\n")
        code, _, err = run(arguments[0], str(tmp_path / "gat"), *arguments[1:], stdin=json.dumps(ASKED))
        assert code == 2
        assert "found a model of kind 'gat'; expected 'edge'" in err


def test_explanations_of_links_are_scored(saved_links: str, tmp_path: Path) -> None:
    data, records = tmp_path / "cities", tmp_path / "scores.jsonl"
    data.mkdir()
    for name, facts in (("train", FACTS), ("test", [*HELD_OUT, ("x", "in", "city 0")])):
        (data / f"{name}.tsv").write_text("".join("\t".join(fact) + "\n" for fact in facts))
    arguments = ["explain-score", saved_links, "--data", str(data), "--json", str(records)]
    code, out, err = run(*arguments)
    assert (code, err) == (0, "")
    assert out.startswith("note: 1 of 9 links are left out: unknown nodes or relations\n")
    [record] = map(json.loads, records.read_text().splitlines())
    assert record["format"] == "edge-transformer link explanations 1"
    assert (record["run"], record["data"]["name"], record["seed"]) == ("links", "cities", 0)
    expected = score_links(transitive(), HELD_OUT)
    assert record["scores"] == expected.to_dict()
    fractions = expected.fractions()
    rows = [line.split() for line in out.splitlines()]
    assert ["8", "100.0", "named", "2.0", f"{100 * fractions['named_changed']:.1f}"] in [row[:5] for row in rows]
    assert ["near", "2.0", f"{100 * fractions['near_changed']:.1f}"] in [row[:3] for row in rows]
    code, out, _ = run(*arguments, "--sample", "3")
    assert code == 0
    assert json.loads(records.read_text().splitlines()[1])["scores"]["sums"]["links"] in (2, 3)


def test_versions_are_of_links_alone(saved: str, tmp_path: Path) -> None:
    code, _, err = run("explain-score", saved, "--data", str(tmp_path), "--split", "S1")
    assert (code, err) == (2, "error: --split S1: found a model of relations; expected one of links\n")


def test_scores_need_gold_proofs(saved: str, tmp_path: Path) -> None:
    (tmp_path / "my-test.jsonl").write_text(json.dumps({**TOLD, "target": "son"}))
    code, _, err = run("explain-score", saved, "--data", str(tmp_path))
    assert code == 2
    assert err == "error: explain: found no gold proofs in 1 rows; expected CLUTRR rows with a proof_state\n"


@pytest.mark.parametrize("command", ["explain", "explain-score"])
def test_help_has_an_example(command: str) -> None:
    code, out, _ = run(command, "--help")
    assert code == 0
    assert f"edge-transformer {command} runs" in " ".join(out.split()).replace("│ ", "")
    assert "clutrr-small" in out
