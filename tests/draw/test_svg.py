"""SVG diagrams: well-formed whatever the texts are, with everything that is to be seen."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st

from edge_transformer.draw.arcs import ArcDiagram, visible
from edge_transformer.draw.svg import draw_html, draw_svg, text_width

SVG = "{http://www.w3.org/2000/svg}"
DIAGRAM = ArcDiagram(
    ("Tom", "&", "<Ann>", "saw", "国", "."),
    (3, 2, 0, 3, 3, 5),
    ("agent", "cc", "conj", "", "theme", ""),
    (("PNOUN", "", "PNOUN", "VERB", "", ""), ("", "", "", "", "", "")),
)


def texts(root: ElementTree.Element, kind: str) -> list[str]:
    return [element.text or "" for element in root.iter(f"{SVG}text") if element.get("class") == kind]


def test_everything_is_there() -> None:
    text = draw_svg(DIAGRAM)
    root = ElementTree.fromstring(text)
    assert texts(root, "token") == list(DIAGRAM.tokens)
    assert sorted(texts(root, "label")) == ["agent", "cc", "conj", "theme"]
    assert texts(root, "note") == ["PNOUN", "PNOUN", "VERB"]
    assert root.findtext(f"{SVG}title") == "Tom & <Ann> saw 国 ."
    assert root.findtext(f"{SVG}desc") == ("saw -agent-> Tom; <Ann> -cc-> &; Tom -conj-> <Ann>; saw -theme-> 国")
    assert root[0].tag == f"{SVG}title"
    assert len(list(root.iter(f"{SVG}polygon"))) == 4
    assert len(list(root.iter(f"{SVG}circle"))) == 1
    assert "currentColor" in text
    assert "prefers-color-scheme: dark" in text
    assert draw_svg(DIAGRAM) == text
    assert ElementTree.fromstring(draw_svg(DIAGRAM, "a < b")).findtext(f"{SVG}title") == "a < b"


def ends_of_arcs(root: ElementTree.Element) -> list[tuple[float, float, float]]:
    """Left end, right end and top of each arc."""
    found = []
    for path in root.iter(f"{SVG}path"):
        match = re.fullmatch(r"M(\d+) \d+V\d+Q\d+ (\d+) \d+ \d+H\d+Q(\d+) \d+ \d+ \d+V\d+", path.get("d", ""))
        assert match, path.get("d")
        found.append((float(match[1]), float(match[3]), float(match[2])))
    return found


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_any_graph_with_any_text(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 12))
    parents = data.draw(st.lists(st.integers(0, size - 1), min_size=size, max_size=size).map(tuple))
    rows = st.lists(st.text(max_size=8), min_size=size, max_size=size).map(tuple)
    diagram = ArcDiagram(data.draw(rows), parents, data.draw(rows), (data.draw(rows),))
    text = draw_svg(diagram)
    root = ElementTree.fromstring(text.encode())
    assert texts(root, "token") == [visible(token) for token in diagram.tokens]
    assert sorted(texts(root, "label")) == sorted(visible(diagram.labels[a]) for a in diagram.arcs if diagram.labels[a])
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    arcs = ends_of_arcs(root)
    assert len(arcs) == len(diagram.arcs)
    assert len({end for arc in arcs for end in arc[:2]}) == 2 * len(arcs)  # no line lies on another
    for left, right, top in arcs:
        assert 0 < left < right < width
        assert 0 < top < height
    for one in arcs:
        for other in arcs:
            if one is not other and one[2] == other[2]:
                assert one[1] < other[0] or other[1] < one[0]


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.integers(0, 11), min_size=12, max_size=12),
    st.lists(st.text("abM", max_size=12), min_size=12, max_size=12),
)
def test_labels_do_not_lie_on_each_other_nor_on_lines_down(parents: list[int], labels: list[str]) -> None:
    diagram = ArcDiagram(tuple("abcdefghijkl"), tuple(parents), tuple(labels))
    root = ElementTree.fromstring(draw_svg(diagram))
    papers = [element for element in root.iter(f"{SVG}rect") if element.get("x")]
    boxes = [
        (float(p.get("x", 0)), float(p.get("x", 0)) + float(p.get("width", 0)), float(p.get("y", 0)) + 7)
        for p in papers
    ]
    for left, right, middle in boxes:
        for start, end, top in ends_of_arcs(root):
            for post in (start, end):
                assert not (left < post < right and top <= middle)
    for one in boxes:
        for other in boxes:
            assert one is other or one[2] != other[2] or one[1] <= other[0] or other[1] <= one[0]


def test_widths_of_texts() -> None:
    assert text_width("", 16) == 0
    assert text_width("ill", 16) < text_width("abc", 16) < text_width("WWW", 16)
    assert text_width("国国", 16) == 32
    assert text_width("e\u0301", 16) == text_width("e", 16)


def test_a_notebook_gets_texts_around_the_diagram() -> None:
    page = draw_html(DIAGRAM, "cat ( x ) <script>", "a guess: <script>\ud800")
    root = ElementTree.fromstring(page)
    assert [element.tag for element in root] == ["div", f"{SVG}svg", "div"]
    assert root.findtext("div/code") == "cat ( x ) <script>"
    assert root[2].text == r"a guess: <script>\ud800"
    assert [element.tag for element in ElementTree.fromstring(draw_html(DIAGRAM))] == [f"{SVG}svg"]
