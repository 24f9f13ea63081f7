"""The examples of docs/your-own-data.md, taken from the page and run (with fewer epochs); numbers of other pages."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from edge_transformer.cli import app

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/your-own-data.md").read_text(encoding="utf-8")
SMALLER = ["--set", "model.dim=16", "--set", "train.epochs=1", "--threads", "1"]


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def run(command: str, *more: str) -> str:
    done = CliRunner().invoke(app, [*shlex.split(command)[1:], *more], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_graphs_over_sentences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = section("Graphs over sentences")
    [line] = re.findall(r"```json\n(.*)\n```", text)
    train, evaluate, parse = re.findall(r"^    (edge-transformer .*)", text, flags=re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "my-sentences"
    folder.mkdir()
    for name in ("train", "dev", "test"):
        (folder / f"{name}.jsonl").write_text(f"{line}\n" * 10)
    run(train, *SMALLER)
    assert "test" in run(evaluate, "--threads", "1")
    assert json.loads(run(parse, "--json", "--threads", "1"))["tokens"] == json.loads(line)["tokens"]
    for setting in re.findall(r"--set (\S+=\S+)`", text):
        run(train.replace("runs/parser", f"runs/{setting}"), "--set", setting, *SMALLER)


def test_relations_in_graphs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = section("Relations in graphs")
    [line] = re.findall(r"```json\n(.*)\n```", text)
    commands = re.findall(r"^    (edge-transformer .*)", text, flags=re.MULTILINE)
    info, train, evaluate, elsewhere, _ = commands
    monkeypatch.chdir(tmp_path)
    for name in ("my-data", "new-data"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "test.jsonl").write_text(f"{line}\n" * 3)
    (tmp_path / "my-data/train.jsonl").write_text(f"{line}\n" * 10)
    assert "son" in run(info)
    run(train, *SMALLER)
    assert "100.0" in run(evaluate, "--threads", "1")  # there is but one answer
    assert "100.0" in run(elsewhere, "--threads", "1")


def test_the_numbers_of_explanations_are_those_that_were_measured() -> None:
    columns = ("accuracy", "precision", "random_precision", "known_rules", "changed", "changed_random")
    measured = [json.loads(line) for line in (ROOT / "benchmarks/explanations.jsonl").read_text().splitlines()]
    expected = [
        f"| {k} | {scores['rows']} | {' | '.join(f'{100 * scores[name]:.1f}' for name in columns)} |"
        for record in measured
        for k, scores in ((name.removeprefix("k="), scores) for name, scores in record["scores"].items())
    ]
    lines = (ROOT / "docs/explain.md").read_text().splitlines()
    assert len(expected) == 18
    assert [line for line in lines if line.startswith("| ") and line[2].isdigit()] == expected
