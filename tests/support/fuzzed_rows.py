"""Rows that are changed at random, as slips of hands and programs do; FUZZ_ROWS says how many a test tries."""

from __future__ import annotations

import copy
import math
import os
import random
from collections.abc import Iterator
from typing import Any

from edge_transformer.data.relations.fields import FIELDS, WHOLE_GRAPH, graph_from_json
from edge_transformer.data.relations.rows import Story
from edge_transformer.data.relations.schema import KINDS

ROWS = int(os.environ.get("FUZZ_ROWS", "2000"))

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
