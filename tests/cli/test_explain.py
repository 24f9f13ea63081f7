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
from edge_transformer.tasks.relations.model import RelationModel

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
