"""Tables of labelled graphs: every row is in exactly one batch, as it was added, and no graph is computed twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from edge_transformer.data.relations.rows import Pair, Story, Target
from edge_transformer.data.relations.schema import Scale, Schema
from edge_transformer.data.relations.table import NOT_ASKED, GraphBatch, GraphTable
from edge_transformer.data.tensors import Vocab

RELATIONS, NODE_LABELS, ANSWERS = ("r", "s", "t"), ("p", "q"), ("a", "b", "c")
UNKNOWN_ANSWERS: dict[str, Target] = {"one": "z", "several": ("a", "z"), "number": "z"}
NODES, EDGES, NUMBER = Scale((1.0, -2.0), (0.5, 4.0)), Scale((3.0,), (2.0,)), Scale((10.0,), (4.0,))
SCHEMAS = {
    kind: Schema(
        Vocab(RELATIONS),
        Vocab(ANSWERS if kind != "number" else ()),
        kind,
        Vocab(NODE_LABELS),
        True,
        NODES,
        EDGES,
        NUMBER,
    )
    for kind in ("one", "several", "number")
}


def story(
    edges: Iterable[tuple[int, str, int]], query: Pair = (0, 1), target: Target = "a", size: int = 3, **more: Any
) -> Story:
    edges = list(edges)
    pairs = tuple((start, end) for start, _, end in edges)
    return Story(pairs, tuple(edge[1] for edge in edges), query, target, tuple(map(str, range(size))), **more)


def plain_schema() -> Schema:
    """Relations and one label as answer, as CLUTRR has them."""
    return Schema(Vocab(RELATIONS), Vocab(ANSWERS))


def table_of(schema: Schema, stories: Iterable[Story]) -> GraphTable:
    table = GraphTable(schema)
    assert all(table.add(each) for each in stories)
    return table


def only(batches: Iterable[GraphBatch]) -> GraphBatch:
    [batch] = list(batches)
    return batch


# --- any rows, against plain loops ------------------------------------------------------------------------------------


def answers(kind: str) -> st.SearchStrategy[Target]:
    label = st.sampled_from(ANSWERS)
    several = st.lists(label, unique=True, max_size=3).map(tuple)
    known: dict[str, st.SearchStrategy[Any]] = {
        "one": label,
        "several": several,
        "number": st.floats(-100, 100),
    }
    return known[kind] | st.just(UNKNOWN_ANSWERS[kind])


@st.composite
def graphs(draw: st.DrawFn) -> Story:
    """A small graph with all that a row may tell, and some questions."""
    size = draw(st.integers(1, 4))
    node, relation = st.integers(0, size - 1), st.sampled_from(RELATIONS)
    told = draw(st.lists(st.tuples(node, relation, node), max_size=6, unique=True))
    numbers = st.floats(-10, 10)
    of_pair = draw(st.dictionaries(st.tuples(node, node), st.tuples(numbers), max_size=4))
    asked = draw(st.lists(st.tuples(node, node), min_size=1, max_size=4, unique=True))
    return story(
        told,
        asked[0],
        size=size,
        more=tuple((pair, "a") for pair in asked[1:]),
        node_labels=tuple(draw(st.lists(st.tuples(node, st.sampled_from(NODE_LABELS)), max_size=4, unique=True))),
        absent=tuple(draw(st.lists(st.tuples(node, node, relation), max_size=3, unique=True))),
        node_features=tuple(
            draw(st.just([]) | st.lists(st.none() | st.tuples(numbers, numbers), min_size=size, max_size=size))
        ),
        edge_features=tuple(of_pair.get((start, end)) for start, _, end in told) if of_pair else (),
    )


@st.composite
def rows(draw: st.DrawFn, kind: str | None = None) -> tuple[str, list[Story]]:
    """A kind of target, and rows of which many have the same graph, told in another order."""
    kind = kind or draw(st.sampled_from(sorted(SCHEMAS)))
    drawn = draw(st.lists(graphs(), min_size=1, max_size=5))
    found = []
    for _ in range(draw(st.integers(1, 15))):
        graph = draw(st.sampled_from(drawn))
        order = draw(st.permutations(range(len(graph.edges))))
        targets = [draw(answers(kind)) for _ in graph.questions]
        found.append(
            replace(
                graph,
                edges=tuple(graph.edges[edge] for edge in order),
                relations=tuple(graph.relations[edge] for edge in order),
                edge_features=tuple(graph.edge_features[edge] for edge in order if graph.edge_features),
                node_labels=tuple(draw(st.permutations(graph.node_labels))),
                absent=tuple(draw(st.permutations(graph.absent))),
                target=targets[0],
                more=tuple((pair, target) for (pair, _), target in zip(graph.more, targets[1:], strict=True)),
            )
        )
    return kind, found


def labels_of(row: Story, start: int, end: int) -> list[int]:
    """The labels of a pair: relations come first, then labels of nodes, then absent relations."""
    told = [
        RELATIONS.index(name) + 1 for pair, name in zip(row.edges, row.relations, strict=True) if pair == (start, end)
    ]
    of_node = [4 + NODE_LABELS.index(name) for node, name in row.node_labels if node == start == end]
    absent = [6 + RELATIONS.index(name) for *pair, name in row.absent if pair == [start, end]]
    return sorted({*told, *of_node, *absent})


def units(numbers: tuple[float, ...] | None, scale: Scale) -> list[float]:
    if numbers is None:
        return [0.0] * len(scale.mean)
    return [(x - mean) / deviation for x, mean, deviation in zip(numbers, scale.mean, scale.deviation, strict=True)]


def check_graph(batch: GraphBatch, graph: int, row: Story) -> None:
    """That a graph of a batch is the one of this row."""
    assert batch.labels.shape[1:3] == (row.size, row.size)  # no padding of nodes
    assert batch.node_features is not None
    assert batch.edge_features is not None
    assert batch.node_features.shape == (len(batch.labels), row.size, 2)
    assert batch.edge_features.shape == (len(batch.labels), row.size, row.size, 1)
    of_edge = dict(zip(row.edges, row.edge_features, strict=False))
    for start in range(row.size):
        of_node = row.node_features[start] if row.node_features else None
        assert batch.node_features[graph, start].tolist() == pytest.approx(units(of_node, NODES), abs=1e-5)
        for end in range(row.size):
            found = batch.labels[graph, start, end].reshape(-1).tolist()
            expected = labels_of(row, start, end)
            assert found == expected + [0] * (len(found) - len(expected))
            expected_units = units(of_edge.get((start, end)), EDGES)
            assert batch.edge_features[graph, start, end].tolist() == pytest.approx(expected_units, abs=1e-5)


def check_answers(kind: str, batch: GraphBatch, place: int, row: Story) -> None:
    """That the questions and answers of a row of a batch are those of this row, and the rest is padding."""
    pairs = batch.pairs[batch.row_graph[place]].tolist()
    count = len(row.questions)
    assert pairs[:count] == [list(pair) for pair, _ in row.questions]
    assert batch.asked[place, count:].tolist() == [False] * (len(pairs) - count)
    for column, (_, target) in enumerate(row.questions):
        known = target != UNKNOWN_ANSWERS[kind]
        assert bool(batch.asked[place, column]) == known
        found: Any = batch.targets[place, column].tolist()
        if kind == "one":
            assert found == (ANSWERS.index(str(target)) if known else NOT_ASKED)
        elif kind == "several" and known:
            assert isinstance(target, tuple)
            assert found == [float(name in target) for name in ANSWERS]
        elif kind == "number" and known:
            assert isinstance(target, float)
            assert found == pytest.approx((target - 10) / 4, abs=1e-5)
    if kind == "one":
        assert batch.targets[place, count:].tolist() == [NOT_ASKED] * (len(pairs) - count)


@settings(max_examples=150, deadline=None)
@given(drawn=rows(), max_edges=st.none() | st.integers(1, 40), merge=st.booleans(), data=st.data())
def test_all_rows_come_back_once(
    drawn: tuple[str, list[Story]], max_edges: int | None, merge: bool, data: st.DataObject
) -> None:
    kind, stories = drawn
    chosen = data.draw(st.none() | st.lists(st.integers(0, len(stories) - 1), max_size=20))  # repetitions included
    table = table_of(SCHEMAS[kind], stories)
    assert (len(table), table.questions) == (len(stories), sum(len(row.questions) for row in stories))
    seen = []
    for batch in table.batches(None if chosen is None else torch.tensor(chosen, dtype=torch.long), max_edges, merge):
        assert merge or len(batch.labels) == len(batch.rows)
        assert batch.labels.dtype == batch.pairs.dtype == batch.rows.dtype == torch.long
        assert batch.asked.dtype == torch.bool
        assert batch.asked.shape == batch.targets.shape[:2]
        assert batch.targets.dtype == (torch.long if kind == "one" else torch.float32)
        assert batch.pairs.shape[1] == max(len(stories[number].questions) for number in batch.rows.tolist())
        for place, (number, graph) in enumerate(zip(batch.rows.tolist(), batch.row_graph.tolist(), strict=True)):
            check_graph(batch, graph, stories[number])
            check_answers(kind, batch, place, stories[number])
        seen += batch.rows.tolist()
    assert sorted(seen) == sorted(range(len(stories)) if chosen is None else chosen)


def score(batch: GraphBatch) -> Tensor:
    """A number for each question (G, P) that hangs on every label and feature of its graph, and on their places."""
    count, size = batch.labels.shape[:2]
    places = torch.arange(1, size * size + 1).reshape(size, size)
    assert batch.node_features is not None
    assert batch.edge_features is not None
    total = (batch.labels.reshape(count, size, size, -1).double().sqrt().sum(-1) * places).sum((-1, -2))
    total = total + (batch.edge_features.double().sum(-1) * places).sum((-1, -2))
    total = total + (batch.node_features.double().sum(-1) * torch.arange(1, size + 1)).sum(-1)
    return total[:, None] + 1000 * batch.pairs[..., 0] + 10_000 * batch.pairs[..., 1]


def total_of(kind: str, table: GraphTable, *how: Any) -> float:
    """The sum over all asked questions of their score times a number for the answer."""
    total = 0.0
    for batch in table.batches(*how):
        targets = batch.targets.double()
        targets = (targets * torch.tensor([1.0, 2.0, 4.0])).sum(-1) if kind == "several" else targets
        total += (score(batch)[batch.row_graph] * (1 + targets) * batch.asked).sum().item()
    return total


@settings(max_examples=80, deadline=None)
@given(drawn=rows(), max_edges=st.none() | st.integers(1, 40), merge=st.booleans(), data=st.data())
def test_batches_sum_up_to_what_single_rows_give(
    drawn: tuple[str, list[Story]], max_edges: int | None, merge: bool, data: st.DataObject
) -> None:
    kind, stories = drawn
    chosen = data.draw(st.lists(st.integers(0, len(stories) - 1), max_size=20))
    table = table_of(SCHEMAS[kind], stories)
    total = total_of(kind, table, torch.tensor(chosen, dtype=torch.long), max_edges, merge)
    alone = sum(total_of(kind, table_of(SCHEMAS[kind], [stories[number]])) for number in chosen)
    assert total == pytest.approx(alone, rel=1e-6, abs=1e-3)


@settings(max_examples=60, deadline=None)
@given(drawn=rows(), max_edges=st.integers(1, 40))
def test_batches_are_bounded_and_never_repeat_a_graph(drawn: tuple[str, list[Story]], max_edges: int) -> None:
    kind, stories = drawn
    table = table_of(SCHEMAS[kind], stories)
    found: Counter[tuple[object, ...]] = Counter()
    for batch in table.batches(max_edges=max_edges):
        count, size = batch.labels.shape[:2]
        assert count * size**2 <= max_edges or count == 1
        assert sorted(set(batch.row_graph.tolist())) == list(range(count))  # each graph has a row
        for graph in range(count):
            [key] = {stories[row].graph for row in batch.rows[batch.row_graph == graph].tolist()}
            found[key] += 1
    assert set(found.values()) == {1}
    assert len(found) == table.distinct == len({row.graph for row in stories})
    assert len(table) == len(stories)


# --- some rows --------------------------------------------------------------------------------------------------------


def test_equal_graphs_are_computed_once_whatever_their_answers() -> None:
    edges = [(0, "t", 1), (1, "s", 2)]
    told = [story(edges, (0, 2), answer) for answer in ("c", "b", "c")]  # conflicting answers
    told.append(story(edges[::-1], (0, 2), "b"))  # the order of the edges does not matter
    told.append(story([*edges, edges[0]], (0, 2), "b"))  # nor does an edge that is told twice
    told.append(story(edges, (2, 0), "a"))  # but the question does
    table = table_of(plain_schema(), told)
    assert (len(table), table.distinct, table.questions) == (6, 2, 6)
    batch = only(table.batches())
    assert batch.targets.tolist() == [[2], [1], [2], [1], [1], [0]]
    assert batch.asked.tolist() == [[True]] * 6
    assert batch.labels[0].tolist() == [[0, 3, 0], [0, 0, 2], [0, 0, 0]]
    assert batch.pairs.tolist() == [[[0, 2]], [[2, 0]]]
    assert batch.row_graph.tolist() == [0, 0, 0, 0, 0, 1]
    assert batch.labels.dtype == torch.long
    assert batch.node_features is None
    assert batch.edge_features is None
    alone = only(table.batches(merge_equal=False))
    assert (len(alone.labels), alone.row_graph.tolist()) == (6, [0, 1, 2, 3, 4, 5])


@pytest.mark.parametrize(
    "change",
    [
        {"size": 4},  # a node more, alone
        {"more": (((1, 2), "a"),)},
        {"node_labels": ((0, "p"),)},
        {"absent": ((0, 1, "s"),)},
        {"node_features": (None, None, (1.0, 1.0))},
        {"edge_features": ((4.0,),)},
    ],
)
def test_all_that_a_row_tells_tells_graphs_apart(change: dict[str, Any]) -> None:
    rows = [story([(0, "r", 1)]), story([(0, "r", 1)], **change), story([(0, "r", 1)], **change)]
    table = table_of(SCHEMAS["one"], rows)
    assert (len(table), table.distinct) == (3, 2)
    assert sum(len(batch.labels) for batch in table.batches()) == 2


def test_graphs_of_other_sizes_are_in_other_batches() -> None:
    table = table_of(plain_schema(), [story([(0, "r", 1)], size=3), story([(0, "r", 1)], size=2)])
    assert [list(batch.labels.shape) for batch in table.batches()] == [[1, 2, 2], [1, 3, 3]]


def test_some_rows() -> None:
    table = table_of(
        plain_schema(), [story([(0, name, 1)], target=name_of) for name, name_of in zip("rst", "bab", strict=True)]
    )
    batch = only(table.batches(torch.tensor([2, 0, 2])))
    assert batch.labels[:, 0, 1].tolist() == [1, 3]
    assert batch.targets.tolist() == [[1], [1], [1]]
    assert batch.rows.tolist() == [2, 0, 2]
    assert batch.row_graph.tolist() == [1, 0, 1]


def test_a_graph_without_edges_and_an_empty_table() -> None:
    table = GraphTable(plain_schema())
    assert list(table.batches()) == []
    assert table.add(story([], size=2))
    assert only(table.batches()).labels.tolist() == [[[0, 0], [0, 0]]]
    assert list(table.batches(torch.tensor([], dtype=torch.long))) == []


def test_rows_can_be_added_after_reading() -> None:
    table = table_of(plain_schema(), [story([(0, "r", 1)])])
    assert only(table.batches()).rows.tolist() == [0]
    table.add(story([(0, "s", 1)]))
    assert only(table.batches()).labels[:, 0, 1].tolist() == [1, 2]


def test_to_moves_every_tensor() -> None:
    for schema in (plain_schema(), SCHEMAS["several"]):
        batch = only(table_of(schema, [story([(0, "r", 1)], target=("a",))]).batches())
        moved = batch.to(torch.device("meta"))
        for field in fields(GraphBatch):
            before, after = getattr(batch, field.name), getattr(moved, field.name)
            assert (before is None) == (after is None)
            assert before is None or (after.device.type, after.shape) == ("meta", before.shape)


def test_several_labels_a_pair() -> None:
    """Labels stand in the order of their numbers; graphs of one size share the number of slots."""
    both = story(
        [(0, "t", 1), (0, "r", 1)], node_labels=((1, "q"), (1, "p")), absent=((0, 1, "s"), (1, 0, "r")), size=2
    )
    one = story([(0, "s", 1)], size=2)
    batch = only(table_of(SCHEMAS["one"], [both, one]).batches())
    assert batch.labels.tolist() == [
        [[[0, 0, 0], [1, 3, 7]], [[6, 0, 0], [4, 5, 0]]],
        [[[0, 0, 0], [2, 0, 0]], [[0, 0, 0], [0, 0, 0]]],
    ]
    assert only(table_of(SCHEMAS["one"], [one]).batches()).labels.shape == (1, 2, 2)  # one slot is none


def test_questions_of_different_number_share_a_batch() -> None:
    few = story([(0, "r", 1)], (0, 1), "b")
    many = story([(0, "r", 1)], (2, 0), "c", more=(((1, 1), "z"), ((0, 2), "a")))
    batch = only(table_of(plain_schema(), [few, many, few]).batches())
    assert batch.pairs.tolist() == [[[0, 1]] * 3, [[2, 0], [1, 1], [0, 2]]]
    assert batch.row_graph.tolist() == [0, 1, 0]
    assert batch.targets.tolist() == [[1, -1, -1], [2, -1, 0], [1, -1, -1]]
    assert batch.asked.tolist() == [[True, False, False], [True, False, True], [True, False, False]]


def test_several_labels_and_numbers_as_answers() -> None:
    row = story([(0, "r", 1)], (0, 1), ("c", "a"), more=(((1, 2), ()), ((2, 2), ("b", "z"))))
    batch = only(table_of(SCHEMAS["several"], [row]).batches())
    assert batch.targets.tolist() == [[[1.0, 0.0, 1.0], [0.0] * 3, [0.0] * 3]]
    assert batch.asked.tolist() == [[True, True, False]]
    row = story([(0, "r", 1)], (0, 1), 14.0, more=(((1, 2), 8.0), ((2, 2), "a")))
    batch = only(table_of(SCHEMAS["number"], [row]).batches())
    assert batch.targets.tolist() == [[1.0, -0.5, 0.0]]
    assert batch.asked.tolist() == [[True, True, False]]


def test_features_are_in_units_and_zero_where_not_given() -> None:
    row = story(
        [(0, "r", 1), (0, "s", 1), (1, "r", 0)],
        size=2,
        node_features=(None, (2.0, 2.0)),
        edge_features=((7.0,), (7.0,), None),
    )
    batch = only(table_of(SCHEMAS["one"], [row]).batches())
    assert batch.node_features is not None
    assert batch.edge_features is not None
    assert batch.node_features.tolist() == [[[0.0, 0.0], [2.0, 1.0]]]
    assert batch.edge_features.tolist() == [[[[0.0], [2.0]], [[0.0], [0.0]]]]


@pytest.mark.parametrize(
    "row",
    [
        story([(0, "new", 1)]),
        story([], node_labels=((0, "new"),)),
        story([], absent=((0, 1, "new"),)),
        story([], node_features=((1.0,), None, None)),
        story([(0, "r", 1)], edge_features=((1.0, 2.0),)),
    ],
)
def test_rows_that_say_something_new_are_not_added(row: Story) -> None:
    table = table_of(SCHEMAS["one"], [story([(0, "r", 1)])])
    assert not table.add(row)
    assert (len(table), table.distinct, table.questions) == (1, 1, 1)
    assert only(table.batches()).rows.tolist() == [0]
