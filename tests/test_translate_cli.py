"""The command `translate`, with a small model that was trained on nothing: what it prints, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner, Result

from edge_transformer.checkpoint import save_model
from edge_transformer.cli import app
from edge_transformer.data.vocab import Vocab
from edge_transformer.errors import UserError
from edge_transformer.tasks.translator import Translator

WORDS = Vocab.of(["jump", "run", "twice", "JUMP", "RUN"])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("models") / "run"
    save_model(Translator({"kind": "edge", "dim": 8, "heads": 2, "layers": 2}, WORDS, longest=2), "seq2seq", folder)
    return str(folder)


def ask(*arguments: str, text: str | None = None) -> Result:
    result = CliRunner().invoke(app, ["translate", *arguments], input=text)
    if isinstance(result.exception, UserError):
        raise result.exception
    return result


def test_one_line_for_each_text(run: str, tmp_path: Path) -> None:
    lines = 'jump twice\n\n{"source": "run"}\n["run", "twice"]\n'
    result = ask(run, text=lines)
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) == 3
    (tmp_path / "lines.txt").write_text(lines)
    assert ask(run, "--input", str(tmp_path / "lines.txt")).stdout == result.stdout
    assert ask(run, "jump twice").stdout.splitlines() == result.stdout.splitlines()[:1]


def test_json_and_several_translations(run: str) -> None:
    values = [json.loads(line) for line in ask(run, "--json", "--nbest", "3", text="jump\nfly\n").stdout.splitlines()]
    assert [value["source"] for value in values] == ["jump", "fly"]
    assert values[1]["unknown"] == ["fly"]
    for value in values:
        scores = [each["score"] for each in value["candidates"] if each.get("finished", True)]
        assert len(value["candidates"]) == 3
        assert scores == sorted(scores, reverse=True)
    text = ask(run, "--nbest", "2", "--beam", "3", text="jump\nrun\n").stdout
    blocks = text.removesuffix("\n\n").split("\n\n")
    assert [len(block.splitlines()) for block in blocks] == [2, 2]
    assert all(float(line.split("\t")[0]) <= 0 for block in blocks for line in block.splitlines())


def test_remarks_go_to_standard_error(run: str) -> None:
    result = ask(run, "fly")
    assert "warning: the model does not know fly: fly" in result.stderr
    assert len(result.stdout.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["jump", "--input", "x.txt"], "found a text as well"),
        ([" "], "found no word in the text"),
        (["--nbest", "3", "--beam", "2"], "3 translations of a beam of 2; expected 1 to 2"),
        (["--beam", "0"], "a beam of 0; expected 1 to"),
        (["--limit", "0"], "a limit of 0 words"),
        (["--input", "no-such-file"], "no-such-file: No such file"),
    ],
)
def test_what_is_refused(arguments: list[str], message: str, run: str) -> None:
    with pytest.raises(UserError, match=message):
        ask(run, *arguments, text="")


def test_broken_lines_are_named(run: str) -> None:
    with pytest.raises(UserError, match="standard input:2: found"):
        ask(run, text='jump\n{"text": "jump"}\n')


def test_models_of_other_tasks() -> None:
    with pytest.raises(UserError, match="clutrr-small: found a RelationModel; expected a model that translates"):
        ask("clutrr-small", "jump")
    with pytest.raises(UserError, match="no such folder"):
        ask("nowhere", "jump")
