"""Parsers of sentence graphs: scores by plain counts, models saved and loaded, answers as rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import edge_transformer as et
from edge_cases import edge_rows
from edge_transformer.data.graphs.edges import SentenceGraph
from edge_transformer.errors import UserError

pytestmark = pytest.mark.usefixtures("one_thread")
TINY = {
    "model.dim": 16,
    "model.heads": 2,
    "model.layers": 2,
    "train.epochs": 3,
    "train.batch_size": 60,
    "train.warmup_steps": 5,
    "train.evaluate_every": 3,
}
ROWS = {"train": edge_rows(150, seed=1), "test": edge_rows(30, seed=2)}


def trained(**settings: Any) -> et.GraphParser:
    model = et.train("graphs", ROWS, preset="graphs/edges", progress=False, **{**TINY, **settings})
    assert isinstance(model, et.GraphParser)
    return model


@pytest.fixture(scope="module")
def model() -> et.GraphParser:
    return trained()


def test_scores_are_plain_counts(model: et.GraphParser) -> None:
    assert model.record is not None
    scores = model.record.metrics
    gold = [SentenceGraph.from_json(row) for row in ROWS["test"]]
    found = [SentenceGraph.from_json(row) for row in model.predict([row["tokens"] for row in ROWS["test"]])]
    assert scores["test"] == pytest.approx(sum(a == b for a, b in zip(gold, found, strict=True)) / len(gold))

    def f1(name: str, wanted: list[set[Any]], given: list[set[Any]]) -> None:
        hits = sum(len(a & b) for a, b in zip(wanted, given, strict=True))
        assert scores[name] == pytest.approx(2 * hits / sum(map(len, wanted + given)))

    f1("test edges F1", [set(each.edges) for each in gold], [set(each.edges) for each in found])
    bare = [[{edge[:2] for edge in each.edges if edge[0] != edge[1]} for each in those] for those in (gold, found)]
    f1("test unlabelled F1", *bare)
    right = [
        a == b
        for wanted, given in zip(gold, found, strict=True)
        for a, b in zip(wanted.labels["kind"], given.labels["kind"], strict=True)
    ]
    assert scores["test column kind"] == pytest.approx(sum(right) / len(right))
    for group in "ab":
        exact = [a == b for a, b in zip(gold, found, strict=True) if a.group == group]
        assert scores[f"test/{group}"] == pytest.approx(sum(exact) / len(exact))


def test_a_saved_parser_answers_the_same(model: et.GraphParser, tmp_path: Path) -> None:
    model.save(tmp_path / "parser")
    sentences = [row["tokens"] for row in ROWS["test"]]
    loaded = et.GraphParser.load(tmp_path / "parser")
    assert loaded.predict(sentences) == model.predict(sentences)
    assert model.record is not None
    assert et.evaluate(loaded, ROWS["test"], progress=False)["test"] == model.record.metrics["test"]


def test_a_row_with_other_columns_is_refused(model: et.GraphParser) -> None:
    with pytest.raises(UserError, match="columns none; expected those of the model: kind"):
        et.evaluate(model, [{"tokens": ["Ann"], "edges": []}], progress=False)


def test_a_parser_of_edges_reads_no_parents(model: et.GraphParser) -> None:
    with pytest.raises(UserError, match=r'"parents".*expected "edges"'):
        et.evaluate(model, [{"tokens": ["Ann"], "parents": [-1]}], progress=False)


@pytest.mark.parametrize("constraint", ["one-head", "forest", "acyclic"])
def test_constraints_hold_for_parses(constraint: str) -> None:
    parser = trained(**{"model.constraint": constraint, "model.root": "root", "train.epochs": 1})
    for row in parser.predict([row["tokens"] for row in ROWS["test"]]):
        heads = [edge[1] for edge in {(head, dependent) for head, dependent, _ in row["edges"] if head != dependent}]
        assert constraint == "acyclic" or len(heads) == len(set(heads))
        assert sum(edge[2] == "root" for edge in row["edges"]) == 1


def test_the_label_of_a_root_must_be_known() -> None:
    with pytest.raises(UserError, match=r"model.root: found 'top'; expected one of the labels of tokens: past, root"):
        trained(**{"model.root": "top"})


def test_pairs_with_two_labels_are_no_single_labels() -> None:
    with pytest.raises(UserError, match=r"model.edges: found 'one', and pairs with 2 labels; expected 'several'"):
        trained(**{"model.edges": "one"})
