"""Figures of links: what they say, and that no text covers another however many reasons there are."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise
from xml.etree import ElementTree

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

import edge_transformer as et
from edge_transformer.data.links.rows import Fact
from edge_transformer.explain import LinkExplanation
from edge_transformer.explain.links.claims import LinkReason, Step
from edge_transformer.explain.links.figure import CAPTION, draw_link_explanation, lay_out_link
from edge_transformer.explain.links.view import Standing
from links_of_rules import ASKED, PROOF, transitive

NAMES = ["Ann", "Eve", "the youngest of all brothers", "Bo", "Tom"]


def walk(*nodes: int, both: bool = False) -> Step:
    """A reason through these nodes."""
    steps = []
    for start, end in pairwise(nodes):
        facts = [Fact(NAMES[start], "a relation with a long name", NAMES[end])]
        facts += [Fact(NAMES[end], f"back {end}", NAMES[start])] if both else []
        steps.append(Step(start, end, tuple(facts)))
    step = steps[0]
    for layer, other in enumerate(steps[1:], start=1):
        step = Step(step.start, other.end, (), layer, 0.5, 0.5, (step, other))
    return step


def explanation(*steps: Step) -> LinkExplanation:
    standing = Standing(-0.1, (1, 3))
    reasons = tuple(LinkReason(step, standing) for step in steps)
    link = Fact(NAMES[0], "aunt", NAMES[1])
    return LinkExplanation(link, (0, 1), "link", False, standing, reasons, standing, (), dict(enumerate(NAMES)), (5, 5))


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


CASES = {
    "none": (),
    "direct": (walk(0, 1),),
    "both ways": (walk(0, 1, both=True), walk(0, 2, 1, both=True)),
    "many": (walk(0, 2, 1), walk(0, 3, 4, 1, both=True), walk(1, 4, 0), walk(0, 2, 3, 4, 1), walk(0, 3, 1)),
}


@pytest.mark.parametrize("steps", CASES.values(), ids=CASES.keys())
def test_no_text_covers_another(steps: tuple[Step, ...]) -> None:
    figure = draw_link_explanation(explanation(*steps))
    FigureCanvasAgg(figure).draw()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    for (first, one), (second, other) in combinations(zip(texts(figure), boxes, strict=True), 2):
        assert not one.overlaps(other), (first, second)


@pytest.mark.parametrize("steps", CASES.values(), ids=CASES.keys())
def test_boxes_of_the_layout_are_apart_and_lines_avoid_labels(steps: tuple[Step, ...]) -> None:
    layout = lay_out_link(explanation(*steps))
    for one, other in combinations(layout.boxes(), 2):
        assert not one.overlaps(other), (one.text, other.text)
    for lane in layout.lanes:
        for part in lane.parts:
            for box in (*part.forth, *part.back):
                assert part.left < box.x - box.width / 2
                assert box.x + box.width / 2 < part.right
                assert abs(box.y - lane.y) > 0.5 * box.height - 0.01  # beside the line


def test_facts_are_arrows_in_their_direction() -> None:
    figure = draw_link_explanation(explanation(walk(0, 2, 1, both=True), walk(1, 3, 0)))
    tips = [patch for patch in figure.axes[0].patches if isinstance(patch, FancyArrowPatch)]
    starts_left = [tip._posA_posB[0][0] < tip._posA_posB[1][0] for tip in tips]  # type: ignore[attr-defined]
    assert starts_left == [True, True, False, True, False, False, False]  # the link, forth and back twice, back twice


def test_it_says_what_the_explanation_says() -> None:
    explained = et.explain(transitive(), ASKED)
    shown = texts(draw_link_explanation(explained))
    assert {"city 0", "region 0", "continent 0", f"in ({explained.probability:.2f})", explained.title()} <= set(shown)
    assert shown.count("in") == len(PROOF)
    note = " ".join(shown[-1].split())
    assert note == f"without these facts {explained.stands(explained.without)} {CAPTION}"
    empty = " ".join(texts(draw_link_explanation(replace(explained, reasons=())))[-1].split())
    assert empty == f"note: {replace(explained, reasons=()).note} {CAPTION}"


def test_a_notebook_shows_the_figure() -> None:
    made = explanation(walk(0, 2, 1))
    svg = replace(made, names={**made.names, 2: "--><script>"})._repr_svg_()
    assert "<script" not in svg
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert made.svg() == made._repr_svg_()  # the same bytes
    assert len(made.svg()) < 30_000  # letters are text, not paths
    assert "'DejaVu Sans', 'Verdana', 'Geneva', sans-serif" in made.svg()
