"""The command line: what it prints, what it writes, and one line instead of a traceback for what a user can act on."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import command_line
import edge_transformer as et
from command_line import SETTINGS, TINY, Result, refused, run, scores
from edge_transformer.cli import app as cli

pytestmark = pytest.mark.usefixtures("one_thread")
families, trained = command_line.families, command_line.trained  # the fixtures
QUESTION = {"edges": [["Ann", "son", "Bob"], ["Bob", "sister", "Eve"]], "query": ["Ann", "Eve"]}


# --- help -------------------------------------------------------------------------------------------------------------


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name)


COMMANDS = list(commands(get_command(cli.app)))


def test_commands() -> None:
    assert {" ".join(path) for path in COMMANDS} >= {
        *("train", "evaluate", "predict", "experiment", "sweep", "report", "data generate", "data info"),
    }


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_of_every_command_has_an_example(path: tuple[str, ...], option: str) -> None:
    result = run(*path, option)
    assert result.code == 0
    assert "Example" in result.out
    assert f"edge-transformer {' '.join(path)}" in " ".join(result.out.split())


@pytest.mark.parametrize("path", [(), ("data",)])
def test_groups_without_a_command_show_their_help(path: tuple[str, ...]) -> None:
    result = run(*path)
    assert "Usage" in result.out + result.err
    for command in COMMANDS:
        if command[:-1] == path:
            assert command[-1] in result.out + result.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["fly"],
        ["data", "eat"],
        ["train"],
        ["train", "relations"],
        ["train", "relations", "--data", "x", "--seed", "-1"],
        ["train", "relations", "--data", "x", "--seed", "many"],
        ["train", "relations", "--data", "x", "--sede", "1"],
        ["data", "generate", "clutrr", "--out", "x", "--rows", "0"],
        ["predict"],
    ],
)
def test_wrong_usage(arguments: list[str]) -> None:
    result = run(*arguments)
    assert result.code == 2
    assert "Usage" in result.err
    assert "Traceback" not in result.err


# --- train, predict ---------------------------------------------------------------------------------------------------


def test_train(trained: tuple[Path, Result], families: Path) -> None:
    folder, result = trained
    assert {"config.json", "model.safetensors", "record.json", "run.json"} <= {path.name for path in folder.iterdir()}
    assert f"saved in {folder} after " in result.out
    assert "relations/cpu, seed 4" in result.out
    assert set(scores(result.out)) == {"accuracy", "k=2", "k=3", "k=4", "loss"}
    [line] = (folder.parent / "results.jsonl").read_text().splitlines()
    record = json.loads(line)
    assert record["seed"] == 4
    assert record["overrides"] == TINY
    assert record["data"]["name"] == "families"
    assert record["command"].startswith(
        f"edge-transformer train relations --data {families} --preset relations/cpu --set "
    )
    shown = scores(result.out)
    assert shown["k=4"] == f"{100 * record['metrics']['k=4']:.1f}"
    assert shown["loss"] == f"{record['metrics']['loss']:.4f}"


def test_the_same_command_again_is_done_at_once(trained: tuple[Path, Result], families: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"  # a folder of its own: the process that trained still holds the other one
    shutil.copytree(trained[0], folder)
    result = run("train", "relations", "--data", str(families), "--out", str(folder), *SETTINGS, "--seed", "4")
    assert result.code == 0
    assert f"resuming {folder} at step 6 of 6\n" in result.err
    assert scores(result.out) == scores(trained[1].out)


def test_the_same_command_again_adds_no_second_record(
    trained: tuple[Path, Result], families: Path, tmp_path: Path
) -> None:
    results = tmp_path / "results.jsonl"
    for copy in ("run", "again"):  # two folders: this process still holds the first one
        shutil.copytree(trained[0], tmp_path / copy)
        arguments = ["--data", str(families), "--out", str(tmp_path / copy), "--results", str(results), *SETTINGS]
        assert run("train", "relations", *arguments, "--seed", "4").code == 0
    assert results.read_text() == (trained[0].parent / "results.jsonl").read_text()


def test_another_run_in_the_folder_is_refused(trained: tuple[Path, Result], families: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(trained[0], folder)
    message = refused("train", "relations", "--data", str(families), "--out", str(folder), *SETTINGS, "--seed", "5")
    assert message.startswith(f"{folder}: holds another run")


def test_version() -> None:
    assert run("--version").out == f"edge-transformer {et.__version__}\n"
    assert et.__version__ == metadata.version("edge-transformer")


def test_predict(trained: tuple[Path, Result]) -> None:
    other = {"edges": [[1, "father", 2]], "query": [2, 1]}
    stdin = f"{json.dumps(QUESTION)}\n\n{json.dumps(other)}\n{json.dumps(QUESTION)}\n"
    result = run("predict", str(trained[0]), "--threads", "1", stdin=stdin)
    assert (result.code, result.err) == (0, "")
    answers = [json.loads(line) for line in result.out.splitlines()]
    assert [answer["query"] for answer in answers] == [["Ann", "Eve"], ["2", "1"], ["Ann", "Eve"]]
    assert answers[0] == answers[2]
    assert answers[0]["answer"] in answers[0]["probabilities"]


@pytest.mark.parametrize("stdin", ["", "\n \n"])
def test_predict_without_a_question(stdin: str, trained: tuple[Path, Result]) -> None:
    message = refused("predict", str(trained[0]), stdin=stdin)
    assert message == "standard input: found no question; expected one per line"


def test_predict_does_not_wait_for_the_end_of_its_input(trained: tuple[Path, Result]) -> None:
    command = [sys.executable, "-m", "edge_transformer", "predict", str(trained[0]), "--threads", "1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        deadline = threading.Timer(300, process.kill)  # instead of waiting for ever
        deadline.start()
        for text in (json.dumps(QUESTION) + "\n", "\n" + json.dumps(QUESTION) + "\n\n"):
            process.stdin.write(text.encode())
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["query"] == ["Ann", "Eve"]
        process.stdin.close()
        assert process.stdout.read() == b""
        deadline.cancel()
    assert process.returncode == 0


@pytest.mark.parametrize("name", ["Åsa", "数"])
def test_predict_answers_in_letters_that_the_output_has(name: str, trained: tuple[Path, Result]) -> None:
    question = json.dumps({"edges": [[name, "son", "b"]], "query": [name, "b"]})
    result = run("predict", str(trained[0]), stdin=question)
    assert result.code == 0
    assert json.loads(result.out)["query"] == [name, "b"]
    assert name in result.out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nonsense", "found 'nonsense'; expected one JSON object a line"),
        ("{}", 'found no "edges"; expected "edges"'),
        ('{"edges": [["a", "boss", "b"]], "query": ["a", "b"]}', 'found ["a", "boss", "b"]; expected a relation that'),
        (
            '{"edges": [["a", "son", "b"]], "colour": 3}',
            'found the field "colour"; expected no other than "nodes", "edges"',
        ),
        ('{"edges": [["a", "son", "b"]], "query": ["a", "c"]}', 'found ["a", "c"]; expected nodes that some edge'),
    ],
)
def test_predict_names_the_broken_line(line: str, message: str, trained: tuple[Path, Result]) -> None:
    stdin = f"{json.dumps(QUESTION)}\n{line}\n"
    assert refused("predict", str(trained[0]), stdin=stdin).startswith(f"standard input:2: {message}")


# --- mistakes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["chess"], "unknown task 'chess'; known are relations"),
        (["relations", "--preset", "clutrr/huge"], "unknown preset 'clutrr/huge'; known are "),
        (["relations", "--preset", "none.yaml"], "none.yaml: No such file or directory"),
        (["relations", "--set", "model.dims=8"], "model: unknown setting 'dims'; did you mean dim? Known are dim, "),
        (["relations", "--set", "model.dim=9"], "model: dim=9 is not divisible by heads="),
        (["relations", "--set", "model.dim=big"], "model.dim: found 'big'; expected a whole number"),
        (["relations", "--set", "train.lr=-1"], "train: lr must not be negative"),
        (["relations", "--set", "dims=8"], "unknown setting 'dims'; did you mean dim?"),
        (["relations", "--set", "model.dim"], "--set model.dim: found no '='"),
        (["relations", "--set", "model.dim=[8"], "--set model.dim=[8: found '[8'; expected a YAML value"),
        (["relations", "--set", "data.held_out=0.999"], "data.held_out = 0.999: leaves none of 60 rows to train on"),
        (["relations", "--set", "data.train_k=[9]"], "data.train_k = [9]: no training story"),
        (["relations", "--precision", "half"], "hardware: precision='half' is not known"),
    ],
)
def test_mistakes_in_training(arguments: list[str], message: str, families: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert refused("train", *arguments, "--data", str(families), "--out", str(out)).startswith(message)
    assert not out.exists()


def test_missing_data_folder(trained: tuple[Path, Result], tmp_path: Path) -> None:
    missing = str(tmp_path / "none")
    assert refused("train", "relations", "--data", missing).startswith(f"{missing}: no such folder")
    assert refused("evaluate", str(trained[0]), "--data", missing).startswith(f"{missing}: no such folder")


def test_folder_of_something_else(families: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    message = refused("train", "relations", "--data", str(families), "--out", str(tmp_path), *SETTINGS)
    assert message.startswith(f"{tmp_path}: not empty and not a run")
    assert (tmp_path / "thesis.txt").read_text() == "precious"


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("model.safetensors", b""),
        ("model.safetensors", b"zeros".ljust(100, b"\0")),
        ("model.safetensors", None),
        ("config.json", b"{"),
        ("config.json", b"[]"),
        ("config.json", b"\xff\xfe"),
        ("config.json", b'{"format": "something else"}'),
        ("config.json", b'{"format": "edge-transformer model 1", "task": "chess"}'),
        ("config.json", b'{"format": "edge-transformer model 1", "task": "relations"}'),
        ("config.json", None),
    ],
)
def test_damaged_models(
    file: str, content: bytes | None, trained: tuple[Path, Result], families: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(trained[0], folder)
    (folder / file).unlink()
    if content is not None:
        (folder / file).write_bytes(content)
    message = refused("predict", str(folder), stdin=json.dumps(QUESTION))
    assert file in message or "unknown task 'chess'" in message
    assert refused("evaluate", str(folder), "--data", str(families)) == message


def test_cut_off_model_file(trained: tuple[Path, Result], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(trained[0], folder)
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    assert "model.safetensors: not the weights" in refused("predict", str(folder))


def test_no_such_run(tmp_path: Path) -> None:
    assert refused("predict", str(tmp_path / "none")).startswith(f"{tmp_path}/none: no such folder")


def test_report_without_results(tmp_path: Path) -> None:
    arguments = ["report", "--results", str(tmp_path), "--out", str(tmp_path / "R.md")]
    assert refused(*arguments).startswith(f"{tmp_path}: no finished runs")
    assert not (tmp_path / "R.md").exists()


def test_missing_experiment_file(tmp_path: Path) -> None:
    assert refused("experiment", str(tmp_path / "none.yaml")) == f"{tmp_path}/none.yaml: No such file or directory"


def test_other_errors_keep_their_traceback(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def break_down(*arguments: Any, **named: Any) -> None:
        raise ZeroDivisionError("a bug of ours")

    (tmp_path / "train.jsonl").write_text("{}")
    monkeypatch.setattr("edge_transformer.data.relations.folder.read_folder", break_down)
    with pytest.raises(ZeroDivisionError, match="a bug of ours"):
        run("data", "info", str(tmp_path))


def test_as_a_process(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "edge_transformer", "data", "info", "/nonexistent"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: /nonexistent: no such folder; expected ")
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr
