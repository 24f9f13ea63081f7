"""The commands and snippets of the README and of the docs, run as printed (with fewer rows and epochs)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from edge_transformer.cli.app import app
from edge_transformer.training.presets import preset_names

REPOSITORY = Path(__file__).parents[2]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
SMALLER = {  # what makes the commands short enough for a test; the rest stays as printed
    "--rows 15000": "--rows 200 --test-rows 10",
    "train clutrr --data families": "train clutrr --set model.dim=16 --set train.epochs=1 --data families",
}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder where the commands of the README have been run."""
    folder = tmp_path_factory.mktemp("readme")
    commands = next(block for block in blocks("sh") if "data generate" in block)
    for printed, smaller in SMALLER.items():
        assert printed in commands, f"the README no longer says {printed!r}"
        commands = commands.replace(printed, smaller)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-e", "-c", commands],
        cwd=folder,
        env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (folder / "printed.txt").write_text(done.stdout)
    return folder


def test_the_commands_run(folder: Path) -> None:
    printed = (folder / "printed.txt").read_text()
    assert "answers in train: " in printed
    assert '"answer": ' in printed
    assert "Lil -brother-> Bob  (told)" in printed
    assert (folder / "runs/families/model.safetensors").exists()


def test_the_snippets_run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(folder)
    names: dict[str, object] = {}
    for snippet in blocks("python"):
        exec(compile(snippet, "README.md", "exec"), names)
    printed = capsys.readouterr().out
    for line in re.findall(r"^print\(.*  # (.*)", README, flags=re.MULTILINE):
        assert line in printed
    assert "Bob -sister-> Eve  (told)" in printed
    assert "like . ccomp ( x _ 2 , x _ 6 )" in printed


def test_the_parsed_sentence() -> None:
    [(sentence, shown)] = re.findall(r'^edge-transformer parse "(.*)"\n```\n\n```\n(.*?)^```', README, re.M | re.S)
    done = CliRunner().invoke(app, ["parse", sentence, "--threads", "1"], catch_exceptions=False)
    assert [line.rstrip() for line in done.output.splitlines()] == shown.splitlines()


def test_the_make_targets_exist() -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", README, flags=re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_the_named_presets_and_files_exist() -> None:
    for preset in re.findall(r"`(clutrr/[a-z-]+)`", README):
        assert preset in preset_names()
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert link.startswith("https://") or (REPOSITORY / link).exists(), link
    for path in re.findall(r"\b((?:experiments|benchmarks|docs)/[\w./-]+)", README):
        assert (REPOSITORY / path).exists(), path


def test_every_command_of_the_readme_is_a_command() -> None:
    known = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    known |= {group.name for group in app.registered_groups if group.name}
    for command in re.findall(r"edge-transformer ([a-z]+)", README):
        assert command in known, command
    assert CliRunner().invoke(app, ["--help"]).exit_code == 0


def test_the_speeds_are_those_of_the_benchmark_files() -> None:
    def seconds(name: str) -> tuple[float, float]:
        measured = json.loads((REPOSITORY / f"benchmarks/{name}-step.json").read_text())
        assert measured["command"] in README
        return measured["seconds a step"]["plain"], measured["seconds a step"]["ours"]

    plain, ours = seconds("clutrr")
    assert f"| plain PyTorch, padded, einsum | {plain:.2f} |\n" in README
    assert f"| this project | {ours:.2f} ({ours / plain:.2f} of it) |\n" in README
    plain, ours = seconds("cogs")
    assert f"takes {ours / plain:.2f} of the plain one's time ({ours:.3f} against {plain:.3f} seconds)" in README
    parsing = json.loads((REPOSITORY / "benchmarks/parse-speed.json").read_text())
    words = " ".join(README.split())
    assert f"does {parsing['test sentences a second']:.0f} sentences a second" in words
    assert f"and {parsing['gen sentences a second']:.0f} of its longer `gen`" in words
    assert f"answers after {parsing['seconds to the first answer']:.1f} seconds" in words


def test_the_scores_are_those_of_the_results() -> None:
    lines = (REPOSITORY / "RESULTS.md").read_text(encoding="utf-8").splitlines()
    results = [line for line in lines if line.startswith("| ")]
    scores = re.findall(r"(\d+\.\d ± \d+\.\d) \((?:[\w ]+, )?`([\w/-]+)`", README)
    assert len(scores) >= 15
    for score, preset in scores:
        assert any(f"`{preset}`" in line and f" {score} " in line for line in results), (preset, score)
