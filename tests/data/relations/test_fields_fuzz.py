"""Rows that were changed at random are read right or refused with a message; nothing else happens, whoever reads them.

FUZZ_ROWS says how many rows to try.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_transformer.data.relations.fields import ASKS, graph_from_json, read_graph_lines
from edge_transformer.data.relations.rows import Story
from edge_transformer.data.relations.schema import Schema
from edge_transformer.data.relations.table import GraphTable
from edge_transformer.errors import DataError, UserError
from edge_transformer.io.streams import is_text
from edge_transformer.tasks.relations.model import (
    GraphLabelModel,
    LabelledGraphModel,
    NodeLabelModel,
    RelationModel,
)
from fuzzed_rows import ROWS, check_story, mutated_rows, valid_row

MODELS: dict[str, type[LabelledGraphModel]] = {
    "pairs": RelationModel,
    "nodes": NodeLabelModel,
    "graph": GraphLabelModel,
}
MODEL = {"kind": "edge", "dim": 8, "heads": 2, "layers": 1, "dropout": 0.0, "inverse_edges": True}
TOGETHER = 40  # rows a model is made for


def read(row: Any, asks: str, needs_target: bool = False) -> Story | None:
    """The story of a row, checked; None if it is refused."""
    try:
        story = graph_from_json(row, "rows", 3, needs_target, asks=asks)
    except DataError as error:
        assert str(error).startswith("rows:3: found ")  # noqa: PT017
        assert "; expected " in str(error)  # noqa: PT017
        return None
    check_story(story, asks, needs_target)
    return story


@pytest.mark.parametrize("asks", ASKS)
def test_rows_before_they_are_changed_are_right(asks: str) -> None:
    rng = random.Random(1)
    for _ in range(200):
        row = valid_row(asks, rng)
        assert read(row, asks, "target" in row) is not None


@pytest.mark.parametrize("asks", ASKS)
def test_changed_rows_are_read_right_or_refused(asks: str) -> None:
    counts = {True: 0, False: 0}
    for row in mutated_rows(asks, ROWS // 3, seed=1):
        story = read(row, asks)
        counts[story is not None] += 1
        with_target = read(row, asks, needs_target=True)
        assert story is not None or with_target is None  # whoever needs an answer takes no more
        assert with_target in (None, story)
        # A file says the same as memory.
        line = json.dumps(row)
        try:
            [again] = read_graph_lines([line], "rows", asks=asks)
        except DataError:
            assert story is None or not is_text(row)  # memory may hold halves of characters, files may not
        else:
            assert again == story
    assert min(counts.values()) > ROWS // 30  # both happen often


def alike(stories: Sequence[tuple[dict[str, Any], Story]]) -> Iterator[list[tuple[dict[str, Any], Story]]]:
    """Rows that one schema can have: of one kind of target, and with as many features."""
    groups: dict[object, list[tuple[dict[str, Any], Story]]] = {}
    for row, story in stories:
        kinds = frozenset(type(target) for _, target in story.questions)
        lengths = [
            next((len(numbers) for numbers in features if numbers), 0)
            for features in (story.node_features, story.edge_features)
        ]
        if len(kinds) == 1 and any(target != () for _, target in story.questions):
            groups.setdefault((kinds, *lengths), []).append((row, story))
    for rows in groups.values():
        yield from (rows[start : start + TOGETHER] for start in range(0, len(rows), TOGETHER))


def finite(value: Any) -> bool:
    """Whether all numbers within an answer are finite."""
    if isinstance(value, dict | list):
        return all(map(finite, value.values() if isinstance(value, dict) else value))
    return not isinstance(value, float) or math.isfinite(value)


@pytest.mark.parametrize("asks", ASKS)
def test_changed_rows_that_are_read_are_answered(asks: str, one_thread: None) -> None:
    """Schema, table and model take all rows of one kind that were read, and none of them ends in another error."""
    read_right = []
    for row in mutated_rows(asks, ROWS // 3, seed=2):
        story = read(row, asks, needs_target=True)
        if story is not None:
            read_right.append((row, story))
    known: LabelledGraphModel | None = None
    answered = 0
    for rows in alike(read_right):
        schema = Schema.of([story for _, story in rows])
        table = GraphTable(schema)
        assert all(table.add(story) for _, story in rows)
        for batch in table.batches(max_edges=100):
            assert int(batch.labels.max()) <= schema.labels
            assert batch.asked.any(1).all()  # each row has an answer to learn
            assert batch.targets.isfinite().all()
            for features in (batch.node_features, batch.edge_features):
                assert features is None or features.isfinite().all()
        torch.manual_seed(1)
        model = MODELS[asks](MODEL, Schema.from_json(json.loads(json.dumps(schema.to_json())))).eval()
        answers = model.predict([row for row, _ in rows])
        check_answers(asks, model, [story for _, story in rows], answers)
        answered += len(rows)
        if known is not None:  # a model of other rows answers or says what it does not know
            for row, story in rows[:5]:
                try:
                    [answer] = known.predict([row])
                except UserError as error:
                    assert "found" in str(error)  # noqa: PT017
                else:
                    check_answers(asks, known, [story], [answer])
        known = model
    assert answered > ROWS // 30


def check_answers(asks: str, model: LabelledGraphModel, stories: list[Story], answers: list[dict[str, Any]]) -> None:
    assert len(answers) == len(stories)
    for story, answer in zip(stories, answers, strict=True):
        assert json.dumps(answer.get("id")) == json.dumps(story.id)  # as it was given, whatever it is
        assert finite({name: value for name, value in answer.items() if name != "id"})
        if asks == "nodes":
            assert list(answer["answers"]) == [story.names[node] for (node, _), _ in story.questions]
            found = list(answer["answers"].values())
        elif story.more:
            pairs = [[story.names[node] for node in pair] for pair, _ in story.questions]
            assert [one["query"] for one in answer["answers"]] == pairs
            found = answer["answers"]
        else:
            found = [answer]
        for one in found:
            expected = {"one": str, "several": list, "number": float}[model.schema.kind]
            assert isinstance(one["answer"], expected)
            if model.schema.kind != "number":
                assert sorted(one["probabilities"]) == sorted(model.answers)


# --- any JSON ---------------------------------------------------------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda values: st.lists(values, max_size=4) | st.dictionaries(st.text(max_size=3), values, max_size=3),
    max_leaves=12,
)
edge_lists = st.lists(st.lists(json_values, min_size=3, max_size=4), max_size=3)


@settings(max_examples=200, deadline=None)
@given(
    row=st.fixed_dictionaries(
        {"edges": json_values | edge_lists},
        optional={
            "nodes": json_values,
            "absent": json_values | edge_lists,
            "query": json_values,
            "target": json_values,
            "id": json_values,
        },
    ),
    asks=st.sampled_from(ASKS),
    needs_target=st.booleans(),
)
def test_any_json_is_read_or_refused(row: dict[str, Any], asks: str, needs_target: bool) -> None:
    read(json.loads(json.dumps(row)), asks, needs_target)
