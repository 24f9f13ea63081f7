"""Figures of explanations: what they say, and that it can be read however long the story."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, PathPatch

from edge_transformer.data.relations.families import RELATIONS, TARGETS
from edge_transformer.data.relations.fields import graph_from_json
from edge_transformer.data.relations.schema import Schema
from edge_transformer.data.tensors import Vocab
from edge_transformer.explain import explain
from edge_transformer.explain.claims import Reading
from edge_transformer.explain.figure import CAPTION, _arc, _covered, draw_explanation
from edge_transformer.tasks.relations.model import RelationModel

PEOPLE = [
    "Margaret",
    "Patrice",
    "Steven",
    "Ellen",
    "Cesar",
    "Constance",
    "Don",
    "Stanley",
    "Sidney",
    "Steve",
    "Beatrice",
]


def model(**settings: Any) -> RelationModel:
    torch.manual_seed(1)
    shape = {"kind": "edge", "dim": 8, "heads": 2, "layers": 4, **settings}
    return RelationModel(shape, Schema(Vocab(RELATIONS), Vocab(TARGETS))).eval()


def chain(*people: str) -> dict[str, Any]:
    edges = [[start, "grandmother", end] for start, end in pairwise(people)]
    return {"edges": edges, "query": [people[0], people[-1]]}


def angle(place: tuple[float, float]) -> float:
    """Counted from the bottom, where nobody stands."""
    return (math.degrees(math.atan2(place[1], place[0])) + 90) % 360


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def test_people_relations_weights_and_the_answer_are_shown() -> None:
    graph = {"edges": [["Ann", "son", "Bob"], ["Bob", "sister", "Éva"], ["Éva", "son", "Tom"]], "query": ["Ann", "Tom"]}
    explained = explain(model(), graph)
    figure = draw_explanation(explained)
    assert {"Ann", "Bob", "Éva", "Tom", "son", "sister", CAPTION} <= set(texts(figure))
    assert f"{explained.answer} ({explained.probability:.2f})" in texts(figure)
    assert explained.proof is not None
    for step in explained.proof.steps():
        assert f"{step.layer}: {step.strength:.2f} / {step.weight:.2f}" in texts(figure)
    patches = figure.axes[0].patches
    assert sum(type(patch) is PathPatch for patch in patches) == len(explained.triangles) == 2
    assert sum(isinstance(patch, FancyArrowPatch) for patch in patches) == 3 + 1 + 1  # told, composed, the query


def test_a_second_answer_is_named_in_the_title() -> None:
    explained = explain(model(), chain("Ann", "Bob", "Eve"))
    unsure = replace(explained, reading=Reading("mother", 0.52, ("aunt", 0.44)))
    assert "Ann -mother-> Eve  (0.52; or aunt, 0.44)" in texts(draw_explanation(unsure))
    sure = replace(explained, reading=Reading("mother", 0.96))
    assert {"Ann -mother-> Eve", "mother (0.96)"} <= set(texts(draw_explanation(sure)))


@pytest.mark.parametrize("people", [PEOPLE[:5], PEOPLE, [*PEOPLE[:4], *PEOPLE[1:9]]])
def test_no_text_covers_another_and_no_arrow_is_hidden(people: list[str]) -> None:
    """Also where the chain comes back to somebody, here from Ellen to Patrice."""
    figure = draw_explanation(explain(model(), chain(*people)))
    FigureCanvasAgg(figure).draw()
    axes = figure.axes[0]
    boxes = [text.get_window_extent() for text in axes.texts]
    for (first, one), (second, other) in combinations(zip(texts(figure), boxes, strict=True), 2):
        assert not one.overlaps(other), (first, second)
    for patch in axes.patches:
        if isinstance(patch, FancyArrowPatch):
            start, _, end = np.asarray(patch.get_path().vertices, dtype=float)[:3]
            assert np.linalg.norm(end - start) > 0.4  # inches between the two boxes


def test_the_figure_grows_with_the_story_and_with_names() -> None:
    small, large, wide = (
        draw_explanation(explain(model(), chain(*people))).get_size_inches()
        for people in (PEOPLE[:5], PEOPLE, [f"{name} the second" for name in PEOPLE])
    )
    assert (large > small).all()
    assert (wide > large).all()


def test_what_a_label_covers_is_the_sum_over_all_boxes() -> None:
    generator = np.random.default_rng(1)
    middles, sizes = generator.uniform(-2, 2, (200, 2)), generator.uniform(0, 0.4, (200, 2))
    label = ((0.5, 0.0), (0.8, 0.4))
    alone = [_covered(label, middles[[box]], sizes[[box]]) for box in range(200)]
    assert 0 < sum(area > 0 for area in alone) < 100
    assert _covered(label, middles, sizes) == pytest.approx(sum(alone))
    corner = np.array([[0.9 + 0.05, 0.2 + 0.1]])  # a box whose corner reaches 0.05 by 0.1 into the label
    assert _covered(label, corner, np.array([[0.2, 0.4]])) == pytest.approx(0.05 * 0.1)
    assert _covered(label, corner, np.array([[0.2, 0.1]])) == 0  # above it


@pytest.mark.parametrize("query", [["a", "b"], ["b", "a"], ["a", "a"], ["c", "a"]])
def test_every_graph_can_be_drawn(query: list[str]) -> None:
    graph = {"edges": [["a", "son", "b"], ["b", "son", "a"], ["c", "son", "c"]], "query": query}
    for inverse_edges in (False, True):
        assert draw_explanation(explain(model(inverse_edges=inverse_edges), graph)).axes
    assert len(set(_arc(graph_from_json(graph, "test")))) == 3


def test_people_stand_in_the_order_of_the_walk() -> None:
    """A detour from Eric and back stands before the way on, so that told edges are short."""
    edges = [["Ann", "son", "Eric"], ["Eric", "son", "Tom"], ["Lea", "son", "Eric"]]
    edges[1:1] = [["Eric", "brother", "Dan"], ["Dan", "sister", "Lea"]]
    story = graph_from_json({"edges": edges, "query": ["Ann", "Tom"]}, "test")
    clockwise = sorted(range(story.size), key=lambda node: -angle(_arc(story)[node]))
    assert [story.names[node] for node in clockwise] == ["Ann", "Eric", "Dan", "Lea", "Tom"]


def test_edges_used_backwards_and_guesses_are_marked() -> None:
    graph = {"edges": [["Bob", "mother", "Ann"], ["Bob", "sister", "Eve"]], "query": ["Ann", "Eve"]}
    explained = explain(model(inverse_edges=True), graph)
    shown = texts(draw_explanation(explained))
    assert "mother, used backwards" in shown
    assert "sister" in shown
    assert f"note: {explained.note}\n{CAPTION}" in shown


def test_names_that_cannot_be_shown_are_escaped() -> None:
    graph = {"edges": [["Ann\n", "son", "\ud800"], ["\ud800", "son", "\x1bEve"]], "query": ["Ann\n", "\x1bEve"]}
    figure = draw_explanation(explain(model(), graph))
    FigureCanvasAgg(figure).draw()
    assert {r"Ann\x0a", r"\ud800", r"\x1bEve"} <= set(texts(figure))


def test_long_notes_are_wrapped() -> None:
    graph = {"edges": [["Bob", "mother", "Ann"], ["Bob", "sister", "Bob"]], "query": ["Ann", "Bob"]}
    explained = explain(model(), graph)
    [shown] = [text for text in texts(draw_explanation(explained)) if text.endswith(CAPTION)]
    first, second, _ = shown.splitlines()
    assert f"{first} {second}" == f"note: {explained.note}"
    assert len(second) < len(first) <= len(CAPTION)
