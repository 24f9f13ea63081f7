"""Schemas: what training rows say, numbered; what no training row said; and the way to JSON and back."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_transformer.data.relations.fields import graph_from_json
from edge_transformer.data.relations.rows import Story, Target
from edge_transformer.data.relations.schema import KINDS, MOST_UNITS, Moments, Scale, Schema
from edge_transformer.data.tensors import Vocab
from edge_transformer.errors import UserError
from edge_transformer.tasks.relations.data import RelationData, RelationSettings

PLAIN = {"edges": [["a", "r", "b"], ["b", "s", "c"]], "query": ["a", "c"], "target": "x"}
FULL = PLAIN | {
    "nodes": {"a": {"labels": ["p", "q"], "features": [1, 10]}, "b": [3, 10], "c": "q"},
    "edges": [["a", ["s", "r"], "b", 0.5], ["b", "r", "c", 1.5], ["c", "s", "c"]],
    "absent": [["a", "t", "c"]],
}


def story(row: dict[str, Any], **changes: Any) -> Story:
    return graph_from_json(row | changes, "test")


# --- learned from rows ------------------------------------------------------------------------------------------------


def test_plain_rows() -> None:
    schema = Schema.of([story(PLAIN), story(PLAIN, target="w"), story(PLAIN, edges=[["a", "o", "c"]])])
    assert (list(schema.relations), list(schema.answers)) == (["o", "r", "s"], ["w", "x"])
    assert (schema.kind, schema.labels, schema.outputs, schema.usual) == ("one", 3, 2, "x")
    assert (list(schema.node_labels), schema.absent) == ([], False)
    assert schema.node_features is schema.edge_features is schema.number is None
    assert schema.to_json() == {"relations": ["o", "r", "s"], "answers": ["w", "x"], "usual": "x"}


def test_rows_with_all_fields() -> None:
    schema = Schema.of([story(PLAIN), story(FULL)])
    assert list(schema.relations) == ["r", "s", "t"]  # absent ones are among them
    assert list(schema.node_labels) == ["p", "q"]
    assert schema.absent
    assert schema.labels == 3 + 2 + 3
    assert schema.node_features == Scale((2.0, 10.0), (1.0, 1.0))  # all are 10: a deviation of 1
    # A pair with two relations has its features twice.
    assert schema.edge_features is not None
    assert schema.edge_features.mean == pytest.approx((fmean([0.5, 0.5, 1.5]),))


def test_labels_of_a_row() -> None:
    schema = Schema.of([story(FULL)])
    edges = schema.edges(story(FULL))
    assert edges is not None
    relations = {(0, 1, 2), (0, 1, 1), (1, 2, 1), (2, 2, 2)}
    of_nodes = {(0, 0, 4), (0, 0, 5), (2, 2, 5)}
    assert set(edges) == {*relations, *of_nodes, (0, 2, 8)}
    assert len(edges) == len(set(edges))
    twice = story(PLAIN, edges=[["a", "r", "c"], ["a", "r", "c"]])
    assert schema.edges(twice) == [(0, 1, 1)]


@pytest.mark.parametrize(
    ("targets", "kind", "answers", "usual", "outputs"),
    [
        (["x", "w", "x"], "one", ["w", "x"], "x", 2),
        (["x", "w"], "one", ["w", "x"], "w", 2),  # as many: the first by name
        ([["x", "w"], ["w", "x"], []], "several", ["w", "x"], ("w", "x"), 2),
        ([[], ["w"], []], "several", ["w"], (), 1),
        ([1, 2.5, 4], "number", [], None, 1),
    ],
)
def test_kinds(targets: list[Any], kind: str, answers: list[str], usual: Any, outputs: int) -> None:
    schema = Schema.of([story(PLAIN, target=target) for target in targets])
    assert (schema.kind, list(schema.answers), schema.usual, schema.outputs) == (kind, answers, usual, outputs)
    if kind == "number":
        assert schema.number == Scale((2.5,), (math.sqrt(1.5),))
    else:
        assert schema.number is None


def test_answers_of_all_questions_count() -> None:
    rows = [story(PLAIN, query=[["a", "b"], ["a", "c"]], target=["x", "w"]), story(PLAIN, target="w")]
    assert (list(Schema.of(rows).answers), Schema.of(rows).usual) == (["w", "x"], "w")


@pytest.mark.parametrize(
    ("targets", "found"),
    [
        (["x", "x", ["x"]], "one label in row 1 of train, a list of labels in row 3 of train"),
        (["x", 3], "one label in row 1 of train, a number in row 2 of train"),
        ([3, ["x"]], "a number in row 1 of train, a list of labels in row 2 of train"),
        ([["x"], 1, "x"], "a list of labels in row 1 of train, a number in row 2 of train"),
    ],
)
def test_mixed_kinds_are_refused(targets: list[Any], found: str) -> None:
    with pytest.raises(UserError) as caught:
        Schema.of([story(PLAIN, target=target) for target in targets])
    assert str(caught.value) == f"target: found {found}; expected the same kind in all rows"


def test_mixed_kinds_within_a_row_are_refused() -> None:
    row = story(PLAIN, query=[["a", "b"], ["a", "c"]], target=["x", 3])
    with pytest.raises(UserError, match="one label in row 1 of train, a number in row 1 of train"):
        Schema.of([row])


def test_rows_without_any_label_are_refused() -> None:
    with pytest.raises(UserError, match="target: found no label in any row of train; expected at least one"):
        Schema.of([story(PLAIN, query="all", target=[]), story(PLAIN, target=[])])


@pytest.mark.parametrize(
    ("field", "few", "many"),
    [
        ("nodes", {"a": 1}, {"a": [1, 2]}),
        ("edges", [["a", "r", "c", 1]], [["a", "r", "c", [1, 2]]]),
    ],
)
def test_features_of_other_lengths_are_refused(field: str, few: Any, many: Any) -> None:
    rows = [story(PLAIN, **{field: given}) for given in (few, many, few)]
    with pytest.raises(UserError) as caught:
        Schema.of([story(PLAIN), *rows])
    assert str(caught.value) == f"row 3 of train: found 2 features in '{field}'; expected 1, as in the rows before"


# --- what no training row said ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "unknown"),
    [
        ({"edges": [["a", "z", "c"], ["a", "y", "c"]]}, ("the relations y, z", "those that the model knows: r, s, t")),
        ({"nodes": {"a": ["p", "y"]}}, ("the labels of nodes y", "those that the model knows: p, q")),
        ({"absent": [["a", "z", "c"]]}, ("the absent edges z", "those that the model knows: r, s, t")),
        ({"nodes": {"a": 1}}, ("other features", "2 numbers a node and 1 an edge, as in training")),
        ({"edges": [["a", "r", "c", [1, 2]]]}, ("other features", "2 numbers a node and 1 an edge, as in training")),
    ],
)
def test_what_is_unknown(change: dict[str, Any], unknown: tuple[str, str]) -> None:
    schema = Schema.of([story(FULL)])
    assert schema.unknown(story(FULL)) is schema.unknown(story(PLAIN)) is None  # features may miss
    assert schema.unknown(story(PLAIN, **change)) == unknown
    assert schema.edges(story(PLAIN, **change)) is None


@pytest.mark.parametrize(
    ("change", "unknown"),
    [
        ({"nodes": {"a": "p"}}, ("the labels of nodes p", "those that the model knows: none")),
        ({"absent": [["a", "r", "c"]]}, ("the absent edges r", "those that the model knows: none")),
        ({"nodes": {"a": 1}}, ("other features", "0 numbers a node and 0 an edge, as in training")),
        ({"edges": [["a", "r", "c", 1]]}, ("other features", "0 numbers a node and 0 an edge, as in training")),
    ],
)
def test_plain_models_know_plain_rows_only(change: dict[str, Any], unknown: tuple[str, str]) -> None:
    schema = Schema.of([story(PLAIN)])
    assert schema.unknown(story(PLAIN, **change)) == unknown
    assert schema.edges(story(PLAIN, **change)) is None


def test_numbers_of_answers() -> None:
    one = Schema.of([story(PLAIN, target=target) for target in ("x", "w")])
    assert [one.answer(target) for target in ("w", "x", "z", "", ("w",), 1.0)] == [0, 1, None, None, None, None]
    several = Schema.of([story(PLAIN, target=["x", "w"])])
    found = [several.answer(target) for target in (("x", "w"), (), ("x",), ("x", "z"), "x", 1.0)]
    assert found == [(0, 1), (), (1,), None, None, None]
    number = Schema.of([story(PLAIN, target=target) for target in (1, 5)])
    assert [number.answer(target) for target in (3.0, 7.0, "x", ())] == [0.0, 2.0, None, None]


@pytest.mark.parametrize("learned", [["x", "w"], [["x"], []], [1, 2]])
@pytest.mark.parametrize("scored", [["x", "z"], [[], ["z"]], [3]])
def test_rows_to_score_have_answers_of_the_same_kind(learned: list[Any], scored: list[Any]) -> None:
    splits = {
        name: [PLAIN | {"target": target} for target in of] for name, of in (("train", learned), ("test", scored))
    }
    schema = Schema.of([story(row) for row in splits["train"]])
    words = {str: "one label", list: "a list of labels", int: "a number"}
    found, expected = words[type(scored[0])], words[type(learned[0])]
    if found == expected:
        schema.require_kind(map(story, splits["test"]), "test")
        RelationData.from_rows(splits, RelationSettings(), seed=1)
        return
    message = f"^row 1 of test: found {found} as target; expected {expected}, as in the rows of training$"
    with pytest.raises(UserError, match=message):
        schema.require_kind(map(story, splits["test"]), "test")
    with pytest.raises(UserError, match=message):
        RelationData.from_rows(splits, RelationSettings(), seed=1)


# --- scales -----------------------------------------------------------------------------------------------------------

numbers = st.floats(-1e29, 1e29)


def scale_of(rows: list[tuple[float, ...]]) -> Scale:
    moments = Moments()
    assert all(moments.add(row) for row in rows)
    scale = moments.scale()
    assert scale is not None
    return scale


@settings(deadline=None)
@given(st.integers(1, 3).flatmap(lambda width: st.lists(st.tuples(*[numbers] * width), min_size=1, max_size=10)))
def test_training_numbers_have_mean_zero_and_deviation_one(rows: list[tuple[float, ...]]) -> None:
    scale = scale_of(rows)
    for column in zip(*map(scale.units, rows), strict=True):
        assert all(abs(x) <= MOST_UNITS for x in column)
        if max(map(abs, column)) < 100:  # else the deviation is within the rounding of the mean
            assert fmean(x * x for x in column) < 1 + 1e-6
    assert all(deviation > 0 for deviation in scale.deviation)
    assert Scale.from_json(json.loads(json.dumps(scale.to_json()))) == scale


def test_units() -> None:
    scale = scale_of([(1.0, 7.0), (5.0, 7.0)])
    assert scale == Scale((3.0, 7.0), (2.0, 1.0))
    assert scale.units((7.0, 6.0)) == [2.0, -1.0]
    with pytest.raises(ValueError, match="zip"):
        scale.units((1.0,))


def test_numbers_far_off_do_not_overflow() -> None:
    scale = scale_of([(0.0,), (1e-300,)])
    assert (scale.units((1e29,)), scale.units((-1e29,))) == ([MOST_UNITS], [-MOST_UNITS])


# --- JSON -------------------------------------------------------------------------------------------------------------

names = st.lists(st.text(min_size=1, max_size=4), unique=True, max_size=4)
finite = st.floats(allow_nan=False, allow_infinity=False)


def scales(width: st.SearchStrategy[int]) -> st.SearchStrategy[Scale]:
    lists = width.flatmap(lambda n: st.tuples(*[st.tuples(*[finite] * n)] * 2))
    return lists.map(lambda columns: Scale(*columns))


schemas = st.builds(
    Schema,
    names.map(Vocab),
    names.map(Vocab),
    st.sampled_from(sorted(KINDS.values())),
    names.map(Vocab),
    st.booleans(),
    st.none() | scales(st.integers(1, 3)),
    st.none() | scales(st.integers(1, 3)),
    st.none() | scales(st.just(1)),
    st.none() | st.text(max_size=3) | names.map(tuple),
)


def plain(schema: Schema) -> Schema:
    """The same with lists of names, which can be compared."""
    named = {name: tuple(getattr(schema, name)) for name in ("relations", "answers", "node_labels")}
    return replace(schema, **named)  # type: ignore[arg-type]


@settings(max_examples=200, deadline=None)
@given(schemas)
def test_json_and_back(schema: Schema) -> None:
    text = json.dumps(schema.to_json())
    again = Schema.from_json(json.loads(text))
    assert plain(again) == plain(schema)
    assert json.dumps(again.to_json()) == text
    assert (again.labels, again.outputs) == (schema.labels, schema.outputs)


targets: dict[str, st.SearchStrategy[Target]] = {
    "one": st.text(min_size=1, max_size=2),
    "several": st.lists(st.text(min_size=1, max_size=2), min_size=1, max_size=3, unique=True).map(tuple),
    "number": numbers,
}


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(sorted(targets)).flatmap(lambda kind: st.lists(targets[kind], min_size=1, max_size=6)), st.data()
)
def test_a_schema_knows_what_it_was_learned_from(drawn: list[Target], data: st.DataObject) -> None:
    rows = []
    for target in drawn:
        node, relation = st.integers(0, 2), st.sampled_from("rst")
        told = data.draw(st.lists(st.tuples(node, node, relation), max_size=4, unique=True))
        absent = data.draw(st.lists(st.tuples(node, node, relation), max_size=2, unique=True))
        labels = data.draw(st.lists(st.tuples(node, st.sampled_from("pq")), max_size=3, unique=True))
        pairs, relations = tuple((start, end) for start, end, _ in told), tuple(name for *_, name in told)
        rows.append(
            Story(pairs, relations, (0, 1), target, ("a", "b", "c"), node_labels=tuple(labels), absent=tuple(absent))
        )
    learned = Schema.of(rows)
    for schema in (learned, Schema.from_json(json.loads(json.dumps(learned.to_json())))):
        seen: dict[int, tuple[str, str]] = {}
        for row in rows:
            assert schema.unknown(row) is None
            edges = schema.edges(row)
            assert edges is not None
            said = [(*pair, ("told", name)) for pair, name in zip(row.edges, row.relations, strict=True)]
            said += [(node, node, ("node", name)) for node, name in row.node_labels]
            said += [(start, end, ("absent", name)) for start, end, name in row.absent]
            assert [edge[:2] for edge in edges] == [edge[:2] for edge in said]
            for (*_, number), (*_, meant) in zip(edges, said, strict=True):
                assert 1 <= number <= schema.labels
                assert seen.setdefault(number, meant) == meant  # a number has one meaning
            answer = schema.answer(row.target)
            assert answer is not None
            if isinstance(row.target, str):
                assert schema.answers.name(int(answer)) == row.target  # type: ignore[arg-type]
        assert len(set(seen.values())) == len(seen)  # and a meaning one number


@pytest.mark.parametrize("kind", ["two", None, 1, ""])
def test_other_kinds_are_refused(kind: Any) -> None:
    with pytest.raises(UserError, match=r"kind: found .*; expected one of one, several, number"):
        Schema.from_json({"relations": [], "answers": [], "kind": kind})
