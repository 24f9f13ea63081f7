"""The command `translate`, with a small model that was trained on nothing: what it prints, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner, Result

from edge_transformer.cli.app import app
from edge_transformer.data.tensors import Vocab
from edge_transformer.errors import UserError
from edge_transformer.nn.generation import Generated
from edge_transformer.tasks.seq2seq.model import Translator

WORDS = Vocab.of(["jump", "run", "twice", "JUMP", "RUN"])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    torch.manual_seed(11)  # it says something to everything, and not the same
    folder = tmp_path_factory.mktemp("models") / "run"
    Translator({"kind": "edge", "dim": 8, "heads": 2, "layers": 2}, WORDS, longest=2).save(folder)
    return str(folder)


def ask(*arguments: str, text: str | None = None) -> Result:
    result = CliRunner().invoke(app, ["translate", *arguments], input=text)
    if isinstance(result.exception, UserError):
        raise result.exception
    return result


def test_one_line_for_each_text(run: str, tmp_path: Path) -> None:
    lines = 'jump twice\n\n{"source": "run"}\n["run", "twice"]\n  \n[jump]\n'
    result = ask(run, text=lines)
    assert result.exit_code == 0, result.output
    answers = result.stdout.split("\n")
    assert [bool(answer) for answer in answers] == [True, False, True, True, False, True, False]
    (tmp_path / "lines.txt").write_text(lines)
    assert ask(run, "--input", str(tmp_path / "lines.txt")).stdout == result.stdout
    assert ask(run, "jump twice").stdout.splitlines() == answers[:1]
    values = [json.loads(line) for line in ask(run, "--json", text=lines).stdout.splitlines()]
    assert [value["target"] for value in values] == answers[:-1]
    assert values[1] == {"source": "", "target": ""}
    blocks = ask(run, "--nbest", "2", text=lines).stdout.split("\n")
    assert [bool(line) for line in blocks] == [
        *(each for filled in (True, False, True, True, False, True) for each in [filled] * 2 * filled + [False]),
        False,
    ]
    assert json.loads(ask(run, "--json", "--nbest", "2", text="\n").stdout)["candidates"] == []


def test_fields_of_questions_come_back(run: str) -> None:
    line = '{"id": 7, "source": "run", "note": {"by": "Ann"}, "target": "ours wins"}'
    value = json.loads(ask(run, "--json", text=line).stdout)
    assert (value["id"], value["note"], value["source"]) == (7, {"by": "Ann"}, "run")
    assert value["target"] != "ours wins"


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
    assert "warning: the model does not know fly\n" in result.stderr
    assert len(result.stdout.splitlines()) == 1
    result = ask(run, text=f"jump ?\n{' '.join(f'w{n}' for n in range(500))}\n")
    assert "warning: standard input:1: left out ?, which the model does not know\n" in result.stderr
    known = "w0, w1, w2, w3, w4 and 495 more"
    assert f"warning: standard input:2: the model does not know {known}\n" in result.stderr
    assert max(map(len, result.stderr.splitlines())) < 120
    assert f"does not know {'x' * 50}…\n" in ask(run, "x" * 10_000).stderr


def test_random_translations(run: str) -> None:
    first = ask(run, "--sample", "4", text="jump\nrun twice\n").stdout
    assert first == ask(run, "--sample", "4", text="jump\nrun twice\n").stdout
    assert first.split("\n\n")[0] == ask(run, "--sample", "4", "jump").stdout.strip()
    assert first != ask(run, "--sample", "4", "--seed", "2", text="jump\nrun twice\n").stdout
    assert [len(block.splitlines()) for block in first.removesuffix("\n\n").split("\n\n")] == [4, 4]
    value = json.loads(ask(run, "--sample", "4", "--json", "--temperature", "2", "--top-p", "0.9", "jump").stdout)
    assert len(value["candidates"]) == 4
    greedy = ask(run, "jump").stdout
    assert ask(run, "--sample", "1", "--top-k", "1", "jump").stdout == greedy


def test_queries_that_can_be_run(run: str) -> None:
    words = ["select", "distinct", "?x0", "where", "{", "?x0", "film.director.film", "m0", "}"]
    model = Translator(
        {"kind": "edge", "dim": 8, "heads": 2, "layers": 2}, Vocab.of([*words, "who"]), lower_case=True, longest=9
    )
    model.decode = lambda sources, limits, how: [  # type: ignore[method-assign, assignment, misc]
        [Generated(tuple(model.target.number(word) + 2 for word in words), -1.0, True, -1.0)] * how.count  # type: ignore[operator]
        for _ in sources
    ]
    expected = "PREFIX ns: <http://rdf.freebase.com/ns/> SELECT DISTINCT ?x0 WHERE { ?x0 ns:film.director.film M0 }"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("edge_transformer.tasks.base.load", lambda run, trust=(): model)
        assert ask(run, "--sparql", text="who\n\nwho\n").stdout.splitlines() == [expected, "", expected]
        value = json.loads(ask(run, "--sparql", "--json", "--nbest", "2", "who").stdout)
        words = ["who", "who"]  # what is said from now on
        assert (ask(run, "--sparql", "who").stderr) == "warning: the translation is no query\n"
    assert value["target"] == "select distinct ?x0 where { ?x0 film.director.film m0 }"
    assert [each["sparql"] for each in (value, *value["candidates"])] == [expected] * 3
    with pytest.raises(UserError, match=r"--sparql: found no words of queries in .*run; expected a model"):
        ask(run, "--sparql", "jump")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["jump", "--input", "x.txt"], "found a text as well"),
        ([" "], "found no word in the text"),
        (["--nbest", "3", "--beam", "2"], "3 translations of a beam of 2; expected 1 to 2"),
        (["--beam", "0"], "a beam of 0; expected 1 to"),
        (["--beam", "4", "--length-penalty", "nan"], "a length penalty of nan; expected -5 to 5"),
        (["--length-penalty", "1"], "a length penalty of 1.0 with greedy decoding"),
        (["--top-k", "3"], "without samples"),
        (["--sample", "3", "--nbest", "2"], "found samples and a beam, n-best"),
        (["x " * 600], "the text:1: found 600 words; expected 1 to 512"),
        (["--limit", "0"], "a limit of 0 words"),
        (["--input", "no-such-file"], "no-such-file: No such file"),
        ([], "standard input: found no text; expected one per line"),
    ],
)
def test_what_is_refused(arguments: list[str], message: str, run: str) -> None:
    with pytest.raises(UserError, match=message):
        ask(run, *arguments, text="")


def test_broken_lines_do_not_end_the_others(run: str) -> None:
    lines = f'jump\n{{"id": 7}}\nrun\n{"run " * 600}\n{{"source": \njump\n'
    result = CliRunner().invoke(app, ["translate", run], input=lines)
    assert isinstance(result.exception, UserError)
    assert str(result.exception) == "standard input: 3 of 6 lines could not be translated"
    answers = result.stdout.split("\n")
    assert [bool(line) for line in answers] == [True, False, True, False, False, True, False]
    assert answers[0] == answers[5]
    told = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert [line.split(": found")[0] for line in told] == [f"error: standard input:{line}" for line in (2, 4, 5)]
    result = CliRunner().invoke(app, ["translate", run, "--json"], input=lines)
    values = [json.loads(line) for line in result.stdout.splitlines()]
    assert ["error" in value for value in values] == [False, True, False, True, True, False]
    assert values[1]["id"] == 7
    assert values[3]["error"].startswith("standard input:4: found 600 words")


def test_models_of_other_tasks() -> None:
    with pytest.raises(UserError, match="clutrr-small: found a RelationModel; expected a model that translates"):
        ask("clutrr-small", "jump")
    with pytest.raises(UserError, match="no such folder"):
        ask("nowhere", "jump")
