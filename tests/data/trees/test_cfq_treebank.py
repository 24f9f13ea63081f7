"""Treebanks of CFQ's questions: files of every form are read, what is written is CoNLL-U, broken files are named."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import conllu
import pytest
from hypothesis import given, settings

from cfq_questions import cfq_questions
from edge_transformer.data.trees.cfq import CfqParser, NotCovered
from edge_transformer.data.trees.cfq_treebank import (
    MAX_LINE,
    Account,
    conllu_sentence,
    derive,
    question_files,
    read_questions,
)
from edge_transformer.errors import DataError, UserError

QUESTIONS = ["Did M0 influence M1", "Who ate M0", "Was M0 M1 ' s director"]
LISTED = [(1, QUESTIONS[0]), (2, QUESTIONS[1]), (3, QUESTIONS[2])]


def rows(*questions: object) -> str:
    return json.dumps([{"questionPatternModEntities": question, "sparql": "SELECT"} for question in questions])


# --- reading ----------------------------------------------------------------------------------------------------------


def test_every_form_of_file(tmp_path: Path) -> None:
    text = "\n".join(QUESTIONS)
    table = "".join(f"{question}\tSELECT *\r\n" for question in QUESTIONS)
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    (tmp_path / "b.tsv").write_text("\ufeff" + table, encoding="utf-8")
    (tmp_path / "c.tsv.gz").write_bytes(gzip.compress(table.encode()))
    (tmp_path / "d.json").write_text(rows(*QUESTIONS), encoding="utf-8")
    (tmp_path / "e.json.gz").write_bytes(gzip.compress(rows(*QUESTIONS).encode()))
    for path in tmp_path.iterdir():
        assert list(read_questions(path)) == LISTED, path
    (tmp_path / "f.txt").write_text("\n\n" + text + "\n \n", encoding="utf-8")
    assert list(read_questions(tmp_path / "f.txt")) == [(number + 2, question) for number, question in LISTED]


def test_files_and_folders_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "mcd1"
    folder.mkdir()
    for name in ("train.tsv.gz", "dev.tsv", "rows.json", "README.txt", ".hidden"):
        (folder / name).touch()
    files = question_files([folder, tmp_path / "more.questions.txt"])
    assert {name: path.name for name, path in files.items()} == {
        "dev": "dev.tsv",
        "rows": "rows.json",
        "train": "train.tsv.gz",
        "more.questions": "more.questions.txt",
    }
    with pytest.raises(UserError, match=r"dev.json: .*dev.tsv has the same name; both would become dev.conllu"):
        question_files([folder, tmp_path / "dev.json"])
    with pytest.raises(UserError, match=r"found no \.tsv"):
        question_files([tmp_path])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"", "no questions; expected at least one: lines"),
        ("a.tsv", b"Did M0\tx\n\tSELECT\n", r"a.tsv:2: found '\\tSELECT'"),
        ("a.txt", b"Did M0\nDid \xff\n", "a.txt:2: .*UTF-8"),
        ("a.txt", b"M" * (MAX_LINE + 1), f"at most {MAX_LINE}"),
        ("a.txt.gz", b"Did M0", "cannot be unpacked"),
        ("a.txt.gz", gzip.compress(b"Did M0 " * 50, mtime=0)[:-9], "cannot be unpacked"),
        ("a.json", b"[", r"a.json:1: found the end of the file; expected a JSON value"),
        ("a.json", b"[" * 100_000, r"a.json:1: found .*; expected a JSON value"),
        ("a.json", b"\xff", r"a.json:1: .*UTF-8"),
        ("a.json", b"[]", "no questions; expected at least one: JSON"),
        ("a.json", b"{}", r"a.json:1: found '{}'; expected a JSON array"),
        ("a.json", rows("Did M0", 3).encode(), "row 2 with questionPatternModEntities = 3"),
        ("a.json", b"[\n\n7]", "a.json:3: found row 1 with"),
    ],
)
def test_broken_files_are_named(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message) as error:
        list(read_questions(tmp_path / name))
    assert str(error.value).startswith(str(tmp_path / name))


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"absent.tsv: No such file"):
        list(read_questions(tmp_path / "absent.tsv"))


# --- writing ----------------------------------------------------------------------------------------------------------


def test_a_sentence() -> None:
    tree = CfqParser().parse("Did M0 ' s star executive produce M1")
    assert conllu_sentence(tree, "train-7") == (
        "# sent_id = train-7\n"
        "# text = Did M0 's star executive produce M1\n"
        "1\tDid\tdo\tAUX\tDid\t_\t6\taux\t_\t_\n"
        "2\tM0\tM0\tPROPN\tentity\t_\t4\tnmod:poss\t_\t_\n"
        "3\t's\t's\tPART\t's\t_\t2\tcase\t_\t_\n"
        "4\tstar\tstar\tNOUN\tROLE_SIMPLE\t_\t6\tnsubj\t_\t_\n"
        "5\texecutive\texecutive\tADJ\tVP_SIMPLE\t_\t6\tcompound\t_\t_\n"
        "6\tproduce\tproduce\tVERB\tVP_SIMPLE\t_\t0\troot\t_\t_\n"
        "7\tM1\tM1\tPROPN\tentity\t_\t6\tobj\t_\t_\n\n"
    )


@settings(max_examples=100, deadline=None)
@given(question=cfq_questions(depth=1))
def test_sentences_come_back_as_they_were(question: str) -> None:
    try:
        tree = CfqParser().parse(question)
    except NotCovered:
        return
    (sentence,) = conllu.parse(conllu_sentence(tree, "x-1"))
    assert sentence.metadata == {"sent_id": "x-1", "text": question}
    assert [(word["head"], word["deprel"]) for word in sentence] == tree.arcs()
    assert [(word["form"], word["lemma"], word["upos"], word["xpos"]) for word in sentence] == tree.columns()


def test_a_folder_of_treebanks(tmp_path: Path) -> None:
    source, out, told = tmp_path / "cfq", tmp_path / "out", list[int]()
    source.mkdir()
    (source / "train.tsv").write_text("\n".join(QUESTIONS), encoding="utf-8")
    (source / "rows.json").write_text(rows("Was M0 a actor that M1 was influenced by", "Was  M0"), encoding="utf-8")
    accounts = derive([source], out, told.append)
    assert sum(told) == 5
    assert sorted(path.name for path in out.iterdir()) == [
        "derived.json",
        "not-covered.txt",
        "rows.conllu",
        "train.conllu",
    ]
    assert (out / "not-covered.txt").read_text(encoding="utf-8") == (
        "rows.json:2\tWas M0\tno construction of the grammar fits the question at its end\n"
        "train.tsv:2\tWho ate M0\tword 2 is 'ate', which the grammar does not know\n"
    )
    sentences = conllu.parse((out / "train.conllu").read_text(encoding="utf-8"))
    assert [sentence.metadata["sent_id"] for sentence in sentences] == ["train-1", "train-3"]
    assert "row" not in sentences[0].metadata
    [first] = conllu.parse((out / "rows.conllu").read_text(encoding="utf-8"))
    assert first.metadata["row"] == "0", "as the files that split a dataset count"
    train, other = accounts["train"], accounts["rows"]
    assert (train.questions, train.covered, train.words, train.longest, train.projective) == (3, 2, 9, 5, 2)
    assert train.depths == {1: 1, 2: 1}
    assert train.relations == {"root": 2, "nsubj": 2, "aux": 1, "obj": 1, "cop": 1, "nmod:poss": 1, "case": 1}
    assert (other.covered, other.projective) == (1, 0)
    total = Account()
    total.merge(train)
    total.merge(other)
    assert (total.questions, total.covered, total.words, total.longest, total.projective) == (5, 3, 18, 9, 2)
    assert total.mean_depth == pytest.approx(2)
    described = json.loads((out / "derived.json").read_text(encoding="utf-8"))
    assert described["treebanks"]["train"] == json.loads(json.dumps(train.to_json()))
    assert described["questions"] == {"rows": "rows.json", "train": "train.tsv"}
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    derive([source], out)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_trees_of_other_questions_are_not_mixed_in_and_nothing_is_left_half_done(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("Did M0 influence M1\n")
    (tmp_path / "two.txt").write_text("Was M0 directed by M1\n")
    (tmp_path / "bad.txt").write_text("Hello there\n")
    with pytest.raises(UserError, match="covers none"):
        derive([tmp_path / "one.txt", tmp_path / "bad.txt"], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    derive([tmp_path / "one.txt"], tmp_path / "out")
    with pytest.raises(UserError, match=r"out: found one\.conllu; expected no trees but those of two"):
        derive([tmp_path / "two.txt"], tmp_path / "out")
    with pytest.raises(UserError, match="covers none"):
        derive([tmp_path / "one.txt", tmp_path / "bad.txt"], tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "derived.json",
        "not-covered.txt",
        "one.conllu",
    ]


def test_files_that_are_not_cfq_are_refused(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("How many films did Ann direct ?\nWhy ?\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"none of its 2 questions.*The first is words.txt:1: word 1 is 'How'"):
        derive([tmp_path / "words.txt"], tmp_path / "out")
    assert not (tmp_path / "out").exists()
