"""The layout of proofs: no two texts overlap, people stand by generation, bars above what they are composed from."""

from __future__ import annotations

import random
from itertools import combinations, pairwise

import pytest

from edge_transformer.data.relations.families import GENERATIONS, RELATIONS, TARGETS
from edge_transformer.data.relations.fields import graph_from_json
from edge_transformer.data.relations.generate import generate_valid
from edge_transformer.explain.claims import Claim, Explanation, Reading
from edge_transformer.explain.layout import GENERATION, Layout, lay_out
from story_cases import stories_of, with_random_proof


def check(layout: Layout) -> None:
    for one, other in combinations(layout.boxes(), 2):
        assert not one.overlaps(other), (one, other)
    assert all(left.x < right.x for left, right in pairwise(layout.names))


@pytest.mark.parametrize("people", range(3, 15))
def test_no_texts_overlap(people: int) -> None:
    rng = random.Random(people)
    for story in stories_of(people, 12, seed=people):
        explanation = with_random_proof(story, rng)
        layout = lay_out(explanation)
        check(layout)
        texts = {box.text for box in layout.boxes()}
        assert {*story.names, *story.relations} <= texts
        assert len(layout.bars) == len(story.edges) - 1
        check(lay_out(Explanation(story, explanation.reading, None, ())))  # all edges, without a proof


def test_no_texts_overlap_where_stories_come_back() -> None:
    rng = random.Random(1)
    for stories in generate_valid([6, 13, 20], 20, 2, revisits=1.0).values():
        for story in stories:
            layout = lay_out(with_random_proof(story, rng))
            check(layout)
            again = [place for place in range(len(layout.nodes)) if layout.is_again(place)]
            assert len(layout.names) == len(story.edges) + 1 == story.size + len(again)
            check(lay_out(Explanation(story, Reading("son", 1.0), None, ())))


def test_no_texts_overlap_in_any_graph() -> None:
    rng = random.Random(3)
    for people in range(2, 15):
        names = [rng.choice(("Jo", "Constance", "Maximiliane the second", "安娜")) + str(n) for n in range(people)]
        edges = [[rng.choice(names), rng.choice(("is near", "x", "works for the boss of")), name] for name in names]
        edges += [[rng.choice(names), "is near", rng.choice(names)] for _ in range(people)]
        told = {(start, end): [start, relation, end] for start, relation, end in edges}
        value = {"edges": list(told.values()), "query": [names[0], names[-1]]}
        story = graph_from_json(value, "test")
        layout = lay_out(Explanation(story, Reading("x", 0.5, ("y", 0.4)), None, ()))
        check(layout)
        assert len(layout.arrows) + len(layout.arcs) == len(told)


def test_people_stand_at_the_height_of_their_generation() -> None:
    assert GENERATIONS.keys() == {*RELATIONS, *TARGETS}
    [story] = stories_of(9, 1)
    layout = lay_out(with_random_proof(story, random.Random(1)))
    heights = {node: name.y for node, name in zip(layout.nodes, layout.names, strict=True)}
    for (start, end), relation in zip(story.edges, story.relations, strict=True):
        assert heights[end] - heights[start] == pytest.approx(GENERATION * GENERATIONS[relation])
    assert min(heights.values()) == 0


@pytest.mark.parametrize("relations", [("son", "son"), ("likes", "son")])
def test_other_relations_and_contradictions_stand_in_a_row(relations: tuple[str, str]) -> None:
    """Ann's son's son is no sister of hers, and nobody knows what `likes` means for generations."""
    edges = [["Ann", relations[0], "Bob"], ["Bob", relations[1], "Eve"], ["Ann", "sister", "Eve"]]
    story = graph_from_json({"edges": edges, "query": ["Ann", "Eve"]}, "test")
    premises = Claim(0, 1, relations[0]), Claim(1, 2, relations[1])
    reading = Reading("son", 0.9)
    proof = Claim(0, 2, "son", False, reading, 1, 1, 1, 0.5, 0.5, premises)
    layout = lay_out(Explanation(story, reading, proof, ()))
    assert {name.y for name in layout.names} == {0.0}
    assert layout.left_out == 1
    check(layout)


def test_bars_stand_above_their_premises() -> None:
    for story in stories_of(12, 5):
        layout = lay_out(with_random_proof(story, random.Random(2)))
        by_span = {(bar.left, bar.right): bar for bar in layout.bars}
        assert (layout.bars[0].left, layout.bars[0].right) == (0, 11)
        for bar in layout.bars:
            assert bar.pivot is not None
            assert bar.claim is not None
            assert layout.nodes[bar.pivot] == bar.claim.pivot
            halves = (bar.left, bar.pivot), (bar.pivot, bar.right)
            for half, below in zip(halves, bar.below, strict=True):
                assert below == (by_span[half].y if half in by_span else layout.base) < bar.y
        lowest_text = min(box.y - box.height / 2 for bar in layout.bars for box in bar.texts)
        assert lowest_text > layout.base > max(name.y for name in layout.names)


def test_people_stand_in_the_order_of_the_walk() -> None:
    """A detour from Eric and back stands before the way on, so that told edges are short."""
    edges = [["Ann", "son", "Eric"], ["Eric", "son", "Tom"], ["Lea", "son", "Eric"]]
    edges[1:1] = [["Eric", "brother", "Dan"], ["Dan", "sister", "Lea"]]
    story = graph_from_json({"edges": edges, "query": ["Ann", "Tom"]}, "test")
    layout = lay_out(Explanation(story, Reading("son", 1.0), None, ()))
    assert [name.text for name in layout.names] == ["Ann", "Eric", "Dan", "Lea", "Tom"]
    assert sorted(arc.label.text for arc in layout.arcs) == ["son", "son"]
