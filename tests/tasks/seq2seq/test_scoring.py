"""Scoring translators: the split and the queries that are asked for, and queries that mean the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from edge_transformer.cli.app import app
from edge_transformer.errors import UserError
from edge_transformer.io.records import read_records
from edge_transformer.tasks.seq2seq.data import Seq2SeqData, Seq2SeqSettings
from pair_cases import ROWS, make_trainer, write

pytestmark = pytest.mark.usefixtures("one_thread")
CPU = torch.device("cpu")


def test_a_model_is_scored_on_the_split_that_was_asked_for(tmp_path: Path) -> None:
    def write_scan(split: str, rows: list[tuple[str, str]]) -> None:
        for part in ("train", "test"):
            lines = "".join(f"IN: {source} OUT: {target}\n" for source, target in rows)
            (tmp_path / "scan" / f"tasks_{part}_{split}.txt").write_text(lines)

    (tmp_path / "scan").mkdir()
    write_scan("one", ROWS)
    out, results = tmp_path / "run", tmp_path / "records.jsonl"
    trainer = make_trainer(tmp_path / "scan", out, **{"train.epochs": 1, "data.test_max_target": 2})
    assert trainer.train() is not None
    trainer.release_folder()
    options = ["evaluate", str(out), "--threads", "1", "--results", str(results)]
    for split, message in (("two", "found the splits one; expected two to be one of them"), ("one", "its record has")):
        result = CliRunner().invoke(app, [*options, "--split", split])
        assert isinstance(result.exception, UserError)
        assert message in str(result.exception)
    write_scan("two", [(source, "JUMP JUMP JUMP") for source, _ in ROWS])
    result = CliRunner().invoke(app, [*options, "--split", "two"])
    assert result.exit_code == 0, result
    assert "have changed" not in result.output
    [record] = read_records(results)
    assert record.data["tested"] == "scan two"
    assert "scored" not in record.data  # in training it was targets of at most 2 words; now it is all
    assert "--split two" in record.command
    # The split that was trained on is taken where several are there, however the folder is written.
    result = CliRunner().invoke(app, ["evaluate", str(out), "--data", str(out / ".." / "scan")])
    assert result.exit_code == 0, result
    result = CliRunner().invoke(app, ["evaluate", str(out), "--results", str(tmp_path)])
    assert "found a folder at" in str(result.exception)


def test_pairs_in_columns_have_one_split(tmp_path: Path) -> None:
    folder, out = write(tmp_path / "pairs", train=ROWS, test=ROWS), tmp_path / "run"
    assert make_trainer(folder, out, **{"train.epochs": 1}).train() is not None
    result = CliRunner().invoke(app, ["evaluate", str(out), "--split", "other"])
    found = f"split other: found the rows of {folder.name} alone in {folder}; expected others"
    assert str(result.exception) == found


def test_queries_of_the_field_that_was_trained_on_are_scored(tmp_path: Path) -> None:
    def query(name: str) -> str:
        return f"SELECT count(*) WHERE {{ {name} a film.actor }}"

    rows = [
        {"questionPatternModEntities": f"Is M0 {n}", "sparqlPatternModEntities": query("M0"), "sparql": query("ns:m.1")}
        for n in range(6)
    ]
    (tmp_path / "dataset.json").write_text(json.dumps(rows))
    splits = {"trainIdxs": [0, 1, 2, 3], "devIdxs": [4], "testIdxs": [5]}
    (tmp_path / "one.json").write_text(json.dumps(splits))
    (tmp_path / "two.json").write_text(json.dumps({**splits, "devIdxs": [5], "testIdxs": [4]}))
    changes = {"train.epochs": 1, "data.query": "sparql", "data.split": "one"}
    trainer = make_trainer(tmp_path, tmp_path / "run", **changes)
    assert trainer.train() is not None
    trainer.release_folder()
    said = tmp_path / "said.jsonl"
    options = ["--split", "two", "--predictions", str(said)]
    result = CliRunner().invoke(app, ["evaluate", str(tmp_path / "run"), *options])
    assert result.exit_code == 0, result
    golds = {json.loads(line)["gold"] for line in said.read_text().splitlines()}
    assert len(golds) == 1
    assert "M0" not in golds.pop()


def test_queries_that_mean_the_same_are_counted_beside_the_exact_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = ["?x0 a film.actor", "?x0 people.person.gender m_05zppz"]
    rows = [(f"Which actor {n}", f"SELECT DISTINCT ?x0 WHERE {{ {' . '.join(body)} }}") for n in range(4)]
    write(tmp_path, train=rows, test=rows)
    data = Seq2SeqData.load(tmp_path, Seq2SeqSettings(lower_case=True), 1)
    assert data.identity()["corpus"] == "cfq"
    model = data.new_model({"kind": "edge", "dim": 16, "heads": 2, "layers": 2})
    swapped = f"select distinct ?x0 where {{ {body[1]} . {body[0]} }}".lower().split()
    repeated = f"select distinct ?x0 where {{ {body[0]} . {body[1]} . {body[0]} }}".lower().split()
    numbers = [[data.source.number(word) + 2 for word in words] for words in (swapped, repeated)]  # type: ignore[operator]
    said = [data._numbers(data._splits["test"][0])[1], *numbers, []]

    class Said:
        def __init__(self, tokens: list[int]) -> None:
            self.tokens, self.finished = tuple(tokens), True

    monkeypatch.setattr(model, "decode", lambda *args, **named: [[Said(tokens)] for tokens in said])
    assert data.evaluate(model, CPU) == {"EM": 1 / 4, "query EM": 2 / 4}
    data.write_predictions(tmp_path / "said.jsonl")
    answers = [json.loads(line) for line in (tmp_path / "said.jsonl").read_text().splitlines()]
    assert [(answer["exact"], answer["same_query"]) for answer in answers] == [
        (True, True),
        (False, True),
        (False, False),
        (False, False),
    ]
    # Too long is wrong, whatever else is decoded beside it and how far that goes.
    cut = " ".join(repeated[: len(swapped)])
    assert [answer["said"] for answer in answers] == [rows[0][1].lower(), " ".join(swapped), cut, ""]
    assert [answer["finished"] for answer in answers] == [True, True, False, True]
