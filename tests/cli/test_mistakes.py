"""Wrong inputs end with one sentence that says what was found and what was expected, before any work is done."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import command_line
import edge_transformer as et
from command_line import Result, refused, run

pytestmark = pytest.mark.usefixtures("one_thread")
families, trained = command_line.families, command_line.trained  # the fixtures
Here = Callable[..., str]
NO_DEVICE = "unknown; known are auto, cpu, cuda, mps; here are auto, cpu"


@pytest.fixture
def here(families: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder with files of several kinds."""
    shutil.copytree(families, tmp_path / "families")
    (tmp_path / "empty").mkdir()
    (tmp_path / "nothing").touch()
    (tmp_path / "noise").write_bytes(b"\xa5\xff\x00" * 50 + b"\n")
    (tmp_path / "noise.yaml").write_bytes(b"a: 1\n\xa5\xff")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--device tpu", f"--device tpu: {NO_DEVICE}"),
        ("--device cuda:0", f"--device cuda:0: {NO_DEVICE}"),
        ("--out noise", "--out noise: found noise, which is no folder; expected a folder that can be written to"),
        ("--out noise/run", "--out noise/run: found noise, which is no folder; expected a folder that can be"),
        ("--out /proc/run", "--out /proc/run: found that /proc cannot be written to"),
        ("--data noise", "noise: found a file; expected one with train and test files"),
        ("--data empty", "empty: found neither *train.jsonl nor *train.csv"),
        ("--preset noise.yaml", "noise.yaml:2: found bytes that are no text (invalid start byte); expected UTF-8"),
        ("--preset clutrr/pape", "unknown preset 'clutrr/pape'; known are "),
        ("--set model.kind=foo", "model.kind: found 'foo'; expected one of edge, rat, rrat, gat, transformer, univ"),
        ("--set train.epochs=-3", "train: epochs must be at least 1, but is -3"),
        ("--set train.epoch=3", "train: unknown setting 'epoch'; did you mean epochs? Known are epochs, "),
        ("--set train.lr=nan", "train.lr: found 'nan'; expected a number"),
        ("--set =3", "unknown setting ''; known are "),
        ("--recompute all", "hardware: recompute='all' is not known"),
        ("--results /proc/x", "--results /proc/x: found that /proc cannot be written to"),
    ],
)
def test_training(options: str, message: str, here: Path) -> None:
    given = ["--data", "families", "--out", "run", *options.split()]
    assert refused("train", "relations", *given).startswith(message)
    assert not (here / "run").exists()


@pytest.mark.parametrize(("name", "near"), [("--preset=clutrr/pape", "clutrr/paper"), ("--set=model.kind=edg", "edge")])
def test_the_nearest_name_is_told(name: str, near: str, here: Path) -> None:
    assert refused("train", "relations", "--data", "families", name).endswith(f"; did you mean {near}?")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            "train relation --data families",
            "unknown task 'relation'; known are relations, node-labels",
        ),
        ("predict clutrr-smal", "clutrr-smal: no such folder; expected a folder with config.json and model.safetens"),
        ("predict noise", "noise: found a file; expected a folder with config.json"),
        ("predict empty", "empty: found no config.json; expected the folder of a trained model"),
        ("predict clutrr-small --input noise", "noise:1: found bytes that are no text"),
        ("predict clutrr-small --input empty", "empty: found a folder; expected a file of questions"),
        ("predict clutrr-small --input none", "none: No such file or directory; expected a file of questions"),
        ("predict clutrr-small --input nothing", "nothing: found no question; expected one per line"),
        ("predict clutrr-small", "standard input: found no question; expected one per line"),
        ("explain clutrr-small --input empty", "empty: found a folder; expected a file of questions"),
        ("parse --input empty", "empty: found a folder; expected a file of sentences"),
        ("evaluate clutrr-small --data noise", "noise: found a file; expected one with train and test files"),
        ("translate clutrr-small x", "clutrr-small: found a RelationModel; expected a model that translates"),
        ("experiment noise", "noise:1: found bytes that are no text"),
        ("experiment nothing", "nothing: found nothing; expected settings as key: value"),
        ("report --results noise", "noise:1: found bytes that are no text"),
        ("bench --device tpu", "--device tpu: unknown; known are cpu, cuda, mps; here are cpu"),
        ("bench --json /proc/x", "--json /proc/x: found that /proc cannot be written to"),
        ("bench --plot empty", "--plot empty: found a folder at empty; expected a place where a file can be written"),
        ("demo --out noise", "--out noise: found noise, which is no folder"),
        ("data generate clutrr --out noise", "--out noise: found noise, which is no folder"),
        ("data info noise", "noise: found a file; expected a folder of data"),
    ],
)
def test_commands(command: str, message: str, here: Path) -> None:
    assert refused(*command.split()).startswith(message)


@pytest.mark.parametrize("threads", ["0", "99999"])  # the latter crashed
@pytest.mark.parametrize("command", ["predict clutrr-small", "demo", "train relations --data families"])
def test_threads(command: str, threads: str, here: Path) -> None:
    result = run(*command.split(), "--threads", threads)
    assert result.code == 2
    assert "Invalid value for '--threads'" in result.err


def test_a_model_of_an_unknown_kind(trained: tuple[Path, Result], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(trained[0], folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model": {**config["model"], "kind": "edg"}}))
    expected = "model.kind: found 'edg'; expected one of edge, rat, rrat, gat, transformer, universal"
    assert refused("predict", str(folder)) == f"{folder}/config.json: {expected}; did you mean edge?"


def test_python_raises_the_same(here: Path) -> None:
    for options, message in (
        ({"device": "tpu"}, f"^--device tpu: {NO_DEVICE}"),
        ({"out": "noise"}, "^--out noise: found noise, which is no folder"),
        ({"threads": 99999}, "^hardware: threads must be at most 1024, but is 99999"),
    ):
        with pytest.raises(et.UserError, match=message):
            et.train("relations", "families", progress=False, **options)
