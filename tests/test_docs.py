"""The examples of docs/your-own-data.md, taken from the page and run (with fewer epochs)."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from edge_transformer.cli import app

PAGE = (Path(__file__).parents[1] / "docs/your-own-data.md").read_text(encoding="utf-8")
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
