"""Drawings of graphs with several arcs a token: what they look like, and that all arcs are there, above or below."""

from __future__ import annotations

import re
from itertools import combinations
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from edge_transformer.data.graphs.edges import SentenceGraph
from edge_transformer.draw.arcs import Arc, GraphDiagram, diagram_of_edges
from edge_transformer.draw.svg import draw_svg
from edge_transformer.draw.text import draw_text

SVG = "{http://www.w3.org/2000/svg}"


def graph(tokens: str, *edges: tuple[int, int, str], **labels: tuple[str, ...]) -> SentenceGraph:
    return SentenceGraph(tuple(tokens.split()), edges, labels)


RELATIVE = graph(
    "The cat that Emma saw slept .",
    *((1, 0, "det"), (1, 2, "ref"), (4, 3, "nsubj"), (1, 4, "acl"), (4, 1, "obj"), (5, 1, "nsubj"), (5, 5, "root")),
)
QUERY = graph("M0 directed and edited M1", (1, 4, "film"), (3, 4, "film"), (3, 0, "by"), (1, 0, "by"), (1, 1, "film"))
SEVERAL = graph("a b", (0, 1, "x"), (0, 1, "y"), (1, 0, "z"), (0, 0, "p"), (0, 0, "q"), kind=("", "K"))


def drawn(text: str) -> str:
    """A drawing in the source of a test: its margin is a bar."""
    return "\n".join(line.strip()[1:] for line in text.strip().splitlines())


@pytest.mark.parametrize(
    ("given_graph", "width", "expected"),
    [
        (
            RELATIVE,
            None,
            """
            |        ╭───────────nsubj───────────╮
            |        │╭────────acl─────────╮     │
            | ╭─det─╮│├─ref─╮     ╭─nsubj─╮│     │
            | ▼     │▼│     ▼     ▼       │▼     │
            |The    cat    that  Emma     saw  slept  .
            |                                  root
            |        ▲                     │
            |        ╰─────────obj─────────╯
            """,
        ),
        (
            SEVERAL,
            None,
            """
            |╭─x, y─╮
            |│      ▼
            |a      b
            |p
            |q
            |       K
            |▲      │
            |╰──z───╯
            """,
        ),
        (
            SEVERAL,
            6,
            """
            |1 a  …
            |    z…
            |2 b  …
            |    x…
            """,
        ),
    ],
)
def test_drawings(given_graph: SentenceGraph, width: int | None, expected: str) -> None:
    assert draw_text(diagram_of_edges(given_graph), width) == drawn(expected)


def test_arcs_that_cross_are_on_two_sides() -> None:
    diagram = diagram_of_edges(QUERY)
    assert {arc.span for arc in diagram.below} == {(0, 3)}
    assert not any(_cross(*pair) for side in (diagram.above, diagram.below) for pair in combinations(side, 2))


def test_in_words_every_arc_is_told_at_its_dependent() -> None:
    rows = draw_text(diagram_of_edges(QUERY), 20, ascii=True).splitlines()
    assert rows[:3] == ["1 M0", "    by < 2 directed", "    by < 4 edited"]
    assert rows[-2:] == ["    film < 2 direct~", "    film < 4 edited"]


def _cross(one: Arc, other: Arc) -> bool:
    (left, right), (start, end) = one.span, other.span
    return left < start < right < end or start < left < end < right


@st.composite
def graphs(draw: st.DrawFn) -> SentenceGraph:
    size = draw(st.integers(1, 8))
    token = st.integers(0, size - 1)
    edges = draw(st.lists(st.tuples(token, token, st.text("abcdefgh", min_size=1, max_size=4)), max_size=12))
    return SentenceGraph(tuple(f"w{number}" for number in range(size)), tuple(edges))


@settings(max_examples=100, deadline=None)
@given(graphs())
def test_every_edge_is_drawn_once(given_graph: SentenceGraph) -> None:
    diagram = diagram_of_edges(given_graph)
    told = [
        (arc.head, arc.dependent, label) for arc in (*diagram.above, *diagram.below) for label in arc.label.split(", ")
    ]
    own = [(token, token, label) for row in diagram.notes for token, label in enumerate(row) if label]
    assert sorted(told + own) == list(given_graph.edges)
    text = draw_text(diagram)
    for arc in (*diagram.above, *diagram.below):
        assert arc.label in text
    rows = text.splitlines()
    assert sum(row.count("▼") for row in rows) == len({arc.dependent for arc in diagram.above})
    assert sum(row.count("▲") for row in rows) == len({arc.dependent for arc in diagram.below})
    assert not {cell_len(row) for row in draw_text(diagram, 20).splitlines()} - set(range(21))


@settings(max_examples=100, deadline=None)
@given(graphs())
def test_svg_has_every_arc_with_its_own_ends(given_graph: SentenceGraph) -> None:
    diagram = diagram_of_edges(given_graph)
    root = ElementTree.fromstring(draw_svg(diagram).encode())
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    found = []
    for path in root.iter(f"{SVG}path"):
        match = re.fullmatch(r"M(\d+) (\d+)V\d+Q\d+ (\d+) \d+ \d+H\d+Q(\d+) \d+ \d+ \d+V\d+", path.get("d", ""))
        assert match, path.get("d")
        start, foot, top, end = map(float, match.groups())
        assert 0 < start < end < width
        assert 0 < top < height
        found.append((top < foot, start, end))
    assert sum(above for above, *_ in found) == len(diagram.above)
    assert len(found) == len(diagram.above) + len(diagram.below)
    for side in (True, False):
        ends = [end for above, *both in found if above == side for end in both]
        assert len(set(ends)) == len(ends)  # no line lies on another
    labels = sorted(each.text or "" for each in root.iter(f"{SVG}text") if each.get("class") == "label")
    assert labels == sorted(arc.label for arc in (*diagram.above, *diagram.below))


def test_texts_are_made_visible() -> None:
    diagram = GraphDiagram(("a\n", "b"), (Arc(0, 1, "x\ty"),), notes=(("\x1b", ""),)).visible()
    assert diagram == GraphDiagram(("a\\x0a", "b"), (Arc(0, 1, "x\\x09y"),), notes=(("\\x1b", ""),))
    assert diagram.describe() == "a\\x0a -x\\x09y-> b"
    assert GraphDiagram(("a",), ()).describe() == "no arcs"


def test_long_labels_are_cut() -> None:
    long = "people.person.spouse_s/ns:people.marriage.spouse"
    diagram = diagram_of_edges(graph("a b", (0, 1, long), (1, 1, long)))
    assert diagram.above[0].label == diagram.notes[0][1] == "people.person.spouse_s/ns..."
