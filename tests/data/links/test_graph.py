"""Graphs of facts against plain Python over lists of facts."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_transformer.data.links.graph import HEAD, TAIL, Graph, Known, fact_numbers, ragged
from edge_transformer.data.links.rows import Fact
from edge_transformer.data.tensors import Vocab

NODES, RELATIONS = 6, 3
FACT = st.tuples(st.integers(0, NODES - 1), st.integers(0, RELATIONS - 1), st.integers(0, NODES - 1))
FACTS = st.lists(FACT, max_size=15, unique=True)
quick = settings(max_examples=60, deadline=None)


def tensor(facts: list[tuple[int, int, int]]) -> torch.Tensor:
    return torch.tensor(facts, dtype=torch.long).view(-1, 3)


@quick
@given(FACTS, st.lists(FACT, max_size=6))
def test_known_answers(facts: list[tuple[int, int, int]], asked: list[tuple[int, int, int]]) -> None:
    known = Known(tensor(facts), NODES, RELATIONS)
    for side in (TAIL, HEAD):
        answers = known.answers(tensor(asked), side)
        assert answers.shape == (len(asked), NODES)
        for row, (head, relation, tail) in enumerate(asked):
            made = [(head, relation, node) if side == TAIL else (node, relation, tail) for node in range(NODES)]
            assert answers[row].tolist() == [fact in facts for fact in made]


@quick
@given(FACTS, st.lists(FACT, max_size=6))
def test_known_relations(facts: list[tuple[int, int, int]], asked: list[tuple[int, int, int]]) -> None:
    between = Known(tensor(facts), NODES, RELATIONS).between(tensor(asked))
    assert between.shape == (len(asked), RELATIONS)
    for row, (head, _, tail) in enumerate(asked):
        assert between[row].tolist() == [(head, relation, tail) in facts for relation in range(RELATIONS)]


def test_memory_is_for_facts_not_for_all_questions() -> None:
    nodes, relations = 10**9, 10**6  # a table of all questions would be one of 10^15 rows
    fact = torch.tensor([[nodes - 1, relations - 1, nodes - 2]])
    between = Known(fact, nodes, relations).between(fact)
    assert between.nonzero().tolist() == [[0, relations - 1]]


@quick
@given(
    FACTS,
    st.lists(st.integers(0, NODES - 1), min_size=1, max_size=3),
    st.integers(1, NODES),
    st.lists(st.booleans(), min_size=15, max_size=15),
)
def test_neighbourhoods(facts: list[tuple[int, int, int]], seeds: list[int], most: int, hide: list[bool]) -> None:
    """All seeds, then all nodes of each distance that fits, then some of the next one."""
    hidden = torch.tensor(hide[: len(facts)], dtype=torch.bool)
    found = Graph(tensor(facts), NODES, RELATIONS).around(torch.tensor(seeds), most, hidden).tolist()
    assert len(found) == len(set(found))
    distance = dict.fromkeys(seeds, 0)
    walked = [(head, tail) for (head, _, tail), gone in zip(facts, hide, strict=False) if not gone]
    for step in range(NODES):
        ends = [(a, b) for one, other in walked for a, b in ((one, other), (other, one)) if distance.get(a) == step]
        for _, end in ends:
            distance.setdefault(end, step + 1)
    assert len(found) == max(len(set(seeds)), min(most, len(distance)))
    steps = [distance[node] for node in found]
    assert steps == sorted(steps)
    assert set(found[: len(set(seeds))]) == set(seeds)
    farthest = steps[-1]
    assert {node for node, far in distance.items() if far < farthest} <= set(found)


def test_chance_chooses_by_its_generator() -> None:
    star = Graph(tensor([(0, 0, node) for node in range(1, 50)]), 50, 1)

    def around(seed: int) -> list[int]:
        return star.around(torch.tensor([0]), 9, generator=torch.Generator().manual_seed(seed)).tolist()

    assert around(0) == around(0)
    assert {tuple(around(seed)) for seed in range(5)} != {tuple(around(0))}


@quick
@given(FACTS, st.lists(st.integers(0, NODES - 1), max_size=NODES, unique=True))
def test_facts_within_some_nodes(facts: list[tuple[int, int, int]], nodes: list[int]) -> None:
    within, which = Graph(tensor(facts), NODES, RELATIONS).within(torch.tensor(nodes, dtype=torch.long))
    inside = [number for number, (head, _, tail) in enumerate(facts) if head in nodes and tail in nodes]
    assert which.tolist() == inside
    assert [(nodes[head], relation, nodes[tail]) for head, relation, tail in within.tolist()] == [
        facts[number] for number in inside
    ]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), max_size=6))
def test_ranges_one_after_another(ranges: list[tuple[int, int]]) -> None:
    first = torch.tensor([start for start, _ in ranges], dtype=torch.long)
    last = torch.tensor([start + count for start, count in ranges], dtype=torch.long)
    assert ragged(first, last).tolist() == [n for start, count in ranges for n in range(start, start + count)]


def test_facts_as_numbers() -> None:
    people, relations = Vocab(["Ann", "Eve"]), Vocab(["aunt", "niece"])
    assert fact_numbers([Fact("Eve", "niece", "Ann")], people, relations).tolist() == [[1, 1, 0]]
    assert fact_numbers([], people, relations).shape == (0, 3)
