"""`edge-transformer data derive`: what it prints and writes, and how it ends where it cannot."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from edge_transformer import __main__ as cli


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["edge-transformer", "data", "derive", *arguments])
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit) as end:
        cli.main()
    return int(end.value.code or 0)


def test_questions_become_treebanks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.tsv").write_text("Did M0 influence M1\tSELECT\nWho ate M0\tSELECT\n", encoding="utf-8")
    (tmp_path / "more.txt").write_text("Was M0 French\n", encoding="utf-8")
    sources = [f"--questions={tmp_path / name}" for name in ("train.tsv", "more.txt")]
    assert run(monkeypatch, "cfq-dependencies", *sources, f"--out={tmp_path / 'out'}") == 0
    printed = capsys.readouterr().out
    rows = [line.split() for line in printed.splitlines()]
    assert ["train", "2", "50.00%", "4", "4", "100%", "1.00", "1"] in rows
    assert ["all", "3", "66.67%", "7", "4", "100%", "1.00", "1"] in rows
    assert "5 relations: nsubj 2, root 2, " in printed
    assert "1 questions not covered; see" in printed
    assert "warning: the grammar covers 66.67%, less than 99%" in printed
    assert "questions a second" in printed
    assert (tmp_path / "out/more.conllu").read_text(encoding="utf-8").startswith("# sent_id = more-1\n")


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        (
            "cfq-trees",
            "train.tsv",
            "error: unknown kind of data 'cfq-trees'; known are cfq-dependencies and cfq-graphs",
        ),
        ("cfq-dependencies", "absent.tsv", "absent.tsv: No such file"),
        ("cfq-dependencies", "", "found no .tsv"),
        ("cfq-dependencies", "strange.txt", "the grammar covers none of its 1 questions"),
        ("cfq-graphs", "absent", "absent: no such folder; expected one with train.tsv"),
        ("cfq-graphs", "", "found no pairs; expected one of train.tsv"),
    ],
)
def test_mistakes_end_with_one_line(
    kind: str,
    name: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if name == "strange.txt":
        (tmp_path / name).write_text("How are you\n", encoding="utf-8")
    assert run(monkeypatch, kind, f"--questions={tmp_path / name}", f"--out={tmp_path / 'out'}") == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith("error: ")
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "out").exists()


QUERY = "SELECT count ( * ) WHERE { M0 film.director.film M1 }"


def test_questions_and_queries_become_graphs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cfq").mkdir()
    (tmp_path / "cfq/train.tsv").write_text(f"Did M0 direct M1\t{QUERY}\n", encoding="utf-8")
    (tmp_path / "cfq/test.tsv").write_text(f"Did M0 direct M1\t{QUERY}\nDid M0 direct M2\t{QUERY}\n", encoding="utf-8")
    out = tmp_path / "out"
    options = (f"--questions={tmp_path / 'cfq'}", f"--out={out}")
    assert run(monkeypatch, "cfq-graphs", *options, "--form=words") == 0
    printed = capsys.readouterr().out
    rows = [line.split() for line in printed.splitlines()]
    assert ["train", "1", "100%", "4", "0.75", "0.00%"] in rows
    assert ["test", "2", "50.00%", "8", "0.38", "0.00%"] in rows
    assert "3 labels; 1 questions not covered; see" in printed
    assert "warning: the graphs cover 66.67%, less than 99%" in printed
    [train] = map(json.loads, (out / "train.jsonl").read_text(encoding="utf-8").splitlines())
    assert train == {
        "tokens": ["Did", "M0", "direct", "M1"],
        "edges": [[2, 1, "subject"], [2, 2, "film.director.film"], [2, 3, "object"]],
        "sentence": {"asks": "count"},
        "sparql": QUERY,
    }
    assert len((out / "test.jsonl").read_text(encoding="utf-8").splitlines()) == 2  # the other one counts as wrong
    assert (out / "not-covered.txt").read_text(encoding="utf-8") == f"test.tsv:2\tDid M0 direct M2\t{QUERY}\n"
    assert json.loads((out / "derived.json").read_text(encoding="utf-8"))["form"] == "words"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("cfq-graphs", "--form=words"), "train.tsv:2: found the conjunct 'M0 OPTIONAL"),
        (("cfq-graphs", "--form=bushes"), "--form bushes: found no such form; expected triples or words"),
        (("cfq-graphs", "--questions=other"), "--questions: found 2 of them; expected one folder"),
        (("cfq-dependencies", "--form=words"), "--form: found it with cfq-dependencies"),
    ],
)
def test_mistakes_with_graphs(
    options: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    broken = QUERY.replace("film.director.film M1", "OPTIONAL film")
    (tmp_path / "train.tsv").write_text(f"Did M0 direct M1\t{QUERY}\nDid M0 direct M1\t{broken}\n", encoding="utf-8")
    assert run(monkeypatch, *options, f"--questions={tmp_path}", f"--out={tmp_path / 'out'}") == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1
    assert not list((tmp_path / "out").glob("*"))
