"""`edge-transformer data derive`: what it prints and writes, and how it ends where it cannot."""

from __future__ import annotations

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
        ("cfq-trees", "train.tsv", "error: unknown kind of data 'cfq-trees'; known is cfq-dependencies"),
        ("cfq-dependencies", "absent.tsv", "absent.tsv: No such file"),
        ("cfq-dependencies", "", "found no .tsv"),
        ("cfq-dependencies", "strange.txt", "the grammar covers none of its 1 questions"),
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
