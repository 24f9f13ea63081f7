"""SLOG's files: official rows come back from their graphs, other folders are not SLOG, broken rows are named."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from edge_transformer.data.graphs.edges import SentenceGraph
from edge_transformer.data.graphs.slog import holds_slog, logical_form_of, read_slog, slog_files, tokens_of
from edge_transformer.errors import DataError
from official_data import benchmark

OFFICIAL = benchmark("slog")
QUESTION = "Who saw Ann ?\tsee . agent ( x _ 1 , ? ) AND see . theme ( x _ 1 , Ann )\twh_Q_simple_trans\n"
STATEMENT = "Ann slept .\tsleep . agent ( x _ 1 , Ann )\tin_distribution\n"
OTHER_ORDER = "Ann saw Bob .\tsee . theme ( x _ 1 , Bob ) AND see . agent ( x _ 1 , Ann )\tin_distribution\n"


@pytest.mark.skipif(not OFFICIAL.is_dir(), reason=f"needs SLOG in {OFFICIAL}")
@pytest.mark.parametrize(("split", "rows"), [("train", 32_722), ("dev", 4_046), ("test", 4_046)])
def test_official_forms_come_back_from_their_graphs(split: str, rows: int) -> None:
    found = list(read_slog(slog_files(OFFICIAL)[split]))
    assert len(found) == rows
    wrong = [form for graph, form in found if logical_form_of(graph) != form]
    assert not wrong
    groups = Counter(graph.group for graph, _ in found)
    assert min(groups["center_embed_4"], groups["wh_Q_simple_trans"]) > 10
    two_places = [graph for graph, _ in found if len({edge[1] for edge in graph.edges}) < len(graph.edges)]
    assert len(two_places) > rows // 5


def write(folder: Path, **files: str) -> Path:
    for split, text in files.items():
        (folder / f"{split}.tsv").write_text(text)
    return folder


def test_rows_are_graphs_with_their_category(tmp_path: Path) -> None:
    [(graph, form)] = read_slog(write(tmp_path, train=QUESTION) / "train.tsv")
    assert graph == SentenceGraph(
        ("Who", "saw", "Ann", "?"),
        ((1, 0, "agent"), (1, 2, "theme")),
        {"category": ("WH", "VERB", "PNOUN", ""), "noun_type": ("",) * 4, "verb_name": ("", "see", "", "")},
    )
    assert graph.group == "wh_Q_simple_trans"
    assert form == QUESTION.split("\t")[1]


@pytest.mark.parametrize(("text", "holds"), [(STATEMENT, False), (STATEMENT + QUESTION, True), ("a\tb\n", False)])
def test_questions_and_relative_clauses_tell_slog_from_cogs(text: str, holds: bool, tmp_path: Path) -> None:
    assert not holds_slog(tmp_path)
    assert not holds_slog(tmp_path / "absent")
    assert holds_slog(write(tmp_path, train=text)) == holds
    (tmp_path / "train.jsonl").write_text("{}\n")
    assert not holds_slog(tmp_path)


def test_files_that_are_no_text_are_not_slog(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_bytes(b"\xff , ? )")
    assert not holds_slog(tmp_path)


def test_a_training_row_without_a_graph_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path, train=STATEMENT + OTHER_ORDER)
    with pytest.raises(DataError, match=r"train.tsv:2: .*order of the sentence"):
        list(read_slog(folder / "train.tsv"))


@pytest.mark.parametrize("form", [OTHER_ORDER.split("\t")[1], "no form at all", "see . agent ( x _ 9 , Ann )"])
def test_other_files_keep_the_form_of_a_row_without_a_graph(form: str, tmp_path: Path) -> None:
    folder = write(tmp_path, gen=f"Ann saw Bob .\t{form}\tnew\n" + STATEMENT)
    (empty, found), (graph, _) = read_slog(folder / "gen.tsv")
    assert (empty.tokens, empty.edges, empty.group, found) == (("Ann", "saw", "Bob", "."), (), "new", form)
    assert logical_form_of(empty) is None
    assert set(empty.labels) == set(graph.labels)


def test_lines_that_are_no_rows_are_refused_everywhere(tmp_path: Path) -> None:
    folder = write(tmp_path, gen=STATEMENT + "Ann slept .\tsleep\n")
    with pytest.raises(DataError, match=r"gen.tsv:2: .*a sentence, its logical form and its category"):
        list(read_slog(folder / "gen.tsv"))


def test_a_question_mark_stands_alone() -> None:
    assert tokens_of(["Who", "slept?"]) == tokens_of(["Who", "slept", "?"]) == ("Who", "slept", "?")
    assert tokens_of(["Ann", "slept", "."]) == ("Ann", "slept", ".")
