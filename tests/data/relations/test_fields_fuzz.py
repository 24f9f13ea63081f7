"""Rows that were changed at random are read right or refused with a message; nothing else happens, whoever reads them.

FUZZ_ROWS says how many rows to try.
"""

from __future__ import annotations

import copy
import json
import math
import os
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_transformer.data.relations.fields import ASKS, FIELDS, WHOLE_GRAPH, graph_from_json, read_graph_lines
from edge_transformer.data.relations.rows import Story
from edge_transformer.data.relations.schema import KINDS, Schema
from edge_transformer.data.relations.table import GraphTable
from edge_transformer.errors import DataError, UserError
from edge_transformer.tasks.relations.model import (
    GraphLabelModel,
    LabelledGraphModel,
    NodeLabelModel,
    RelationModel,
)

ROWS = int(os.environ.get("FUZZ_ROWS", "2000"))
MODELS: dict[str, type[LabelledGraphModel]] = {
    "pairs": RelationModel,
    "nodes": NodeLabelModel,
    "graph": GraphLabelModel,
}
MODEL = {"kind": "edge", "dim": 8, "heads": 2, "layers": 1, "dropout": 0.0, "inverse_edges": True}
TOGETHER = 40  # rows a model is made for

GRAPHS: list[dict[str, Any]] = [
    {"edges": [["Ann", "daughter", "Lil"], ["Lil", "brother", "Bob"]]},
    {"edges": [[1, ["r", "s"], 2], [2, "r", 1], [3, "t", 3]], "absent": [[1, "t", 2], [2, ["s", "t"], 3]], "id": 7},
    {"nodes": ["Ann", "Bob", 3], "edges": []},
    {"nodes": {"Ann": "p", "Bob": ["p", "q"], "3": None}, "edges": [["Ann", "r", "Bob", 0.5], ["Bob", "s", 3, [2]]]},
    {
        "nodes": {"Ann": {"labels": ["p"], "features": [1.5, 0]}, "Bob": [-1, 1e-3], "Eve": {"labels": "q"}},
        "edges": [["Ann", "r", "Bob", [1, 2, 3]], ["Ann", "s", "Bob"], ["Bob", "r", "Eve", [0.1, 0, -4]]],
        "id": {"page": [1, 2]},
    },
]
ODD: list[Any] = [
    *(None, True, False, 0, 1, -1, 3, 10**25, 10**31, 0.5, -0.0, 1e-320, 1e29, 1e300),
    *(float("nan"), float("inf"), float("-inf")),
    *("", "Ann", "Bob", "r", "all", "ALL", "p", "son", " ", "\x00", "\ud800", "a" * 300, "3", "1", "labels"),
    *([], [[]], [None], [1, 2], ["Ann", "Bob"], [["Ann", "Bob"]], ["Ann", "r", "Bob"], [["Ann", "r", "Bob", 1]]),
    *({}, {"Ann": "p"}, {"labels": ["p"], "features": [1, 2]}, {"features": 1}, {"": None}),
]


def names_of(graph: dict[str, Any]) -> list[str]:
    return list(graph_from_json(graph, "base", asks="graph").names)


def valid_row(asks: str, rng: random.Random) -> dict[str, Any]:
    """A row of any kind that is read right."""
    row = copy.deepcopy(rng.choice(GRAPHS))
    names = names_of(row)

    def answer(kind: str) -> Any:
        labels = rng.sample(["son", "boss", "heir"], rng.randrange(3))
        return {"one": rng.choice(["son", "boss"]), "several": labels, "number": rng.choice([0, -2, 1.5])}[kind]

    kind = rng.choice(list(KINDS.values()))
    if asks == "graph":
        row["target"] = answer(kind)
    elif asks == "nodes":
        row["target"] = {name: answer(kind) for name in rng.sample(names, rng.randrange(1, len(names) + 1))}
    else:
        pairs = [[start, end] for start in names for end in names if start != end]
        asked = rng.sample(pairs, rng.randrange(1, 4))
        how = rng.choice(["pair", "pairs", "all"])
        row["query"] = {"pair": asked[0], "pairs": asked, "all": "all"}[how]
        row["target"] = answer(kind) if how == "pair" else [answer(kind) for _ in asked]
        if how == "all":
            label = [2.5] if kind == "number" else ["son", ["boss", "heir"]]
            row["target"] = [[start, rng.choice(label), end] for start, end in asked]
    if rng.random() < 0.2:
        del row["target"]
    return row


def containers(value: Any) -> Iterator[Any]:
    """All lists and objects within a value, itself included."""
    if isinstance(value, list | dict):
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from containers(inner)


def mutate(row: dict[str, Any], rng: random.Random) -> None:
    """Change a row somewhere, as slips of hands and programs do."""
    place = rng.choice(list(containers(row)))
    odd = copy.deepcopy(
        rng.choice([*ODD, *containers(row)]) if rng.random() < 0.7 else rng.choice(list(row.values()) or [1])
    )
    keys = list(place) if isinstance(place, dict) else list(range(len(place)))
    how = rng.randrange(6)
    if how == 0 or not keys:
        if isinstance(place, dict):
            name = (
                rng.choice(FIELDS) if place is row else rng.choice(["Ann", "Bob", "3", "", "labels", "features", "x"])
            )
            place[name] = odd
        else:
            place.insert(rng.randrange(len(place) + 1), odd)
        return
    key = rng.choice(keys)
    if how == 1:
        del place[key]
    elif how == 2:
        place[key] = [place[key]]
    elif how == 3 and isinstance(place, list):
        place.insert(key, copy.deepcopy(place[key]))
    elif how == 4:
        other = rng.choice(keys)
        place[key], place[other] = place[other], place[key]
    else:
        place[key] = odd


def mutated_rows(asks: str, count: int, seed: int) -> Iterator[dict[str, Any]]:
    rng = random.Random(f"{asks} {seed}")
    for _ in range(count):
        row = valid_row(asks, rng)
        for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
            mutate(row, rng)
        yield row


def check_story(story: Story, asks: str, needs_target: bool) -> None:
    """That the fields of a story go together."""
    size = len(story.names)
    assert size == len(set(story.names)) == story.size >= 1
    nodes = [node for pair in story.edges for node in pair] + [node for node, _ in story.node_labels]
    nodes += [node for *pair, _ in story.absent for node in pair] + [n for pair, _ in story.questions for n in pair]
    assert all(type(node) is int and 0 <= node < size for node in nodes)
    labels = [*story.relations, *(name for *_, name in (*story.node_labels, *story.absent))]
    assert all(isinstance(label, str) and label for label in labels)
    assert len(story.edges) == len(story.relations)
    assert not {(*pair, name) for pair, name in zip(story.edges, story.relations, strict=True)} & set(story.absent)
    assert len(story.node_features) in (0, size)
    assert len(story.edge_features) in (0, len(story.edges))
    for features in (story.node_features, story.edge_features):
        given = [numbers for numbers in features if numbers is not None]
        assert len({len(numbers) for numbers in given}) == (1 if features else 0)
        assert all(numbers and all(type(x) is float and math.isfinite(x) for x in numbers) for numbers in given)
    pairs = [pair for pair, _ in story.questions]
    assert len(set(pairs)) == len(pairs)
    if asks != "pairs":
        assert all(start == end for start, end in pairs) if asks == "nodes" else pairs == [WHOLE_GRAPH]
    for _, target in story.questions:
        assert type(target) in KINDS
        if isinstance(target, float):
            assert math.isfinite(target)
        elif isinstance(target, tuple):
            assert len(set(target)) == len(target)
            assert all(isinstance(label, str) and label for label in target)
        else:
            assert target or not needs_target
    assert hash(story.graph) == hash(copy.deepcopy(story).graph)


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
            assert story is None
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
        assert answer.get("id") is story.id  # as it was given, whatever it is
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
