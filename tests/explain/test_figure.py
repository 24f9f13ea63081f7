"""Figures of explanations: what they say, and that it can be read however long the story."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Polygon

from edge_transformer.data.relations.families import RELATIONS, TARGETS
from edge_transformer.data.relations.schema import Schema
from edge_transformer.data.tensors import Vocab
from edge_transformer.explain import explain, explain_stories
from edge_transformer.explain.claims import Reading
from edge_transformer.explain.figure import CAPTION, draw_explanation
from edge_transformer.explain.layout import LABEL_SIZE, text_width
from edge_transformer.tasks.relations.model import RelationModel
from story_cases import stories_of

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


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def test_people_relations_weights_and_the_answer_are_shown() -> None:
    graph = {"edges": [["Ann", "son", "Bob"], ["Bob", "sister", "Éva"], ["Éva", "son", "Tom"]], "query": ["Ann", "Tom"]}
    explained = explain(model(), graph)
    figure = draw_explanation(explained)
    assert {"Ann", "Bob", "Éva", "Tom", "son", "sister"} <= set(texts(figure))
    assert CAPTION in [" ".join(text.split()) for text in texts(figure)]
    assert f"{explained.answer} ({explained.probability:.2f})" in texts(figure)
    assert explained.proof is not None
    for step in explained.proof.steps():
        assert f"{step.layer}: {step.strength:.2f} / {step.weight:.2f}" in texts(figure)
    patches = figure.axes[0].patches
    assert sum(isinstance(patch, Polygon) for patch in patches) == len(explained.triangles) == 2
    assert sum(isinstance(patch, FancyArrowPatch) for patch in patches) == 3  # told


def test_a_second_answer_is_named_in_the_title() -> None:
    explained = explain(model(), chain("Ann", "Bob", "Eve"))

    def read_as(reading: Reading) -> set[str]:
        assert explained.proof is not None
        proof = replace(explained.proof, relation=reading.answer, reading=reading)
        return set(texts(draw_explanation(replace(explained, reading=reading, proof=proof))))

    unsure = read_as(Reading("mother", 0.52, ("aunt", 0.44)))
    assert {"Ann -mother-> Eve  (0.52; or aunt, 0.44)", "mother (0.52)", "or aunt (0.44)"} <= unsure
    assert {"Ann -mother-> Eve", "mother (0.96)"} <= read_as(Reading("mother", 0.96))


def assert_readable(figure: Figure) -> None:
    """No text covers another, nothing is written outside, and arrows can be seen."""
    FigureCanvasAgg(figure).draw()
    axes = figure.axes[0]
    boxes = [text.get_window_extent() for text in axes.texts]
    for (first, one), (second, other) in combinations(zip(texts(figure), boxes, strict=True), 2):
        assert not one.overlaps(other), (first, second)
    for patch in axes.patches:
        if isinstance(patch, FancyArrowPatch):
            line = np.asarray(patch.get_path().vertices, dtype=float)
            assert np.linalg.norm(line[:3].max(0) - line[:3].min(0)) > 0.3  # inches between the two boxes


@pytest.mark.parametrize("people", [PEOPLE[:5], PEOPLE, [*PEOPLE[:4], *PEOPLE[1:9]]])
def test_no_text_covers_another_and_no_arrow_is_hidden(people: list[str]) -> None:
    """Also where the chain comes back to somebody, here from Ellen to Patrice."""
    assert_readable(draw_explanation(explain(model(), chain(*people))))


@pytest.mark.parametrize("people", [3, 8, 14])
def test_rendered_stories_can_be_read(people: int) -> None:
    [story] = stories_of(people, 1)
    figure = draw_explanation(explain_stories(model(), [story])[0])
    assert set(story.names) <= set(texts(figure))
    assert_readable(figure)
    width, height = figure.get_size_inches()
    assert width <= 1.3 * max(people, 4)
    assert height <= 9


def test_the_figure_grows_with_the_story_and_with_names() -> None:
    small, large, wide = (
        draw_explanation(explain(model(), chain(*people))).get_size_inches()
        for people in (PEOPLE[:5], PEOPLE, [f"{name} the second" for name in PEOPLE])
    )
    assert (large > small).all()
    assert wide[0] > large[0]


@pytest.mark.parametrize("query", [["a", "b"], ["b", "a"], ["a", "a"], ["c", "a"]])
def test_every_graph_can_be_drawn(query: list[str]) -> None:
    graph = {"edges": [["a", "son", "b"], ["b", "son", "a"], ["c", "son", "c"]], "query": query}
    for inverse_edges in (False, True):
        assert_readable(draw_explanation(explain(model(inverse_edges=inverse_edges), graph)))


def test_without_a_proof_all_told_edges_are_drawn() -> None:
    edges = [["Ann", "son", "Bob"], ["Bob", "sister", "Eve"], ["Eve", "son", "Ann"], ["Lil", "wife", "Tom"]]
    explained = explain(model(), {"edges": edges, "query": ["Ann", "Tom"]})
    assert explained.proof is None
    figure = draw_explanation(explained)
    assert texts(figure).count("son") == 2
    assert {"sister", "wife", f"{explained.answer} ({explained.probability:.2f})"} <= set(texts(figure))
    assert_readable(figure)


def test_edges_that_the_proof_does_not_use_are_counted() -> None:
    graph = chain("Ann", "Bob", "Eve")
    graph["edges"] += [["Eve", "son", "Tom"], ["Tom", "son", "Jon"]]
    shown = texts(draw_explanation(explain(model(), graph)))
    assert "Tom" not in shown
    assert any("not drawn: 2 told edges that the proof does not use" in text for text in shown)


def test_a_notebook_shows_the_figure() -> None:
    graph = chain("<script>", "--><script>", "]]>&\"'")
    svg = explain(model(), graph)._repr_svg_()
    assert "<script" not in svg
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert svg == explain(model(), graph).svg()  # the same bytes
    assert len(svg) < 30_000  # letters are text, not paths
    assert "'DejaVu Sans', 'Verdana', 'Geneva', sans-serif" in svg


def test_edges_used_backwards_and_guesses_are_marked() -> None:
    graph = {"edges": [["Bob", "mother", "Ann"], ["Bob", "sister", "Eve"]], "query": ["Ann", "Eve"]}
    explained = explain(model(inverse_edges=True), graph)
    shown = texts(draw_explanation(explained))
    assert "mother, used backwards" in shown
    assert "sister" in shown
    assert any(" ".join(text.split()) == f"note: {explained.note} {CAPTION}" for text in shown)


def test_names_that_cannot_be_shown_are_escaped() -> None:
    graph = {"edges": [["Ann\n", "son", "\ud800"], ["\ud800", "son", "\x1bEve"]], "query": ["Ann\n", "\x1bEve"]}
    figure = draw_explanation(explain(model(), graph))
    FigureCanvasAgg(figure).draw()
    assert {r"Ann\x0a", r"\ud800", r"\x1bEve"} <= set(texts(figure))


def test_long_notes_are_wrapped() -> None:
    graph = {"edges": [["Bob", "mother", "Ann"], ["Bob", "sister", "Bob"]], "query": ["Ann", "Bob"]}
    explained = explain(model(), graph)
    figure = draw_explanation(explained)
    [shown] = [text for text in texts(figure) if text.startswith("note:")]
    assert " ".join(shown.splitlines()) == f"note: {explained.note} {CAPTION}"
    width = figure.get_size_inches()[0]
    assert max(text_width(line, LABEL_SIZE) for line in shown.splitlines()) <= width
    assert len(shown.splitlines()) > 3
