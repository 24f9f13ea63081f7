"""HTML for notebooks: well-formed, escaped, and without anything from elsewhere."""

from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from edge_transformer.io.html import escape, table

HOSTILE = "<script>alert(1)</script>\"'&"


def test_texts_are_escaped() -> None:
    assert escape(HOSTILE) == "&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#x27;&amp;"
    assert escape("\ud800 Éva 国") == r"\ud800 Éva 国"


def test_a_table() -> None:
    page = ElementTree.fromstring(table([("k=2", "99.0 %"), (HOSTILE, HOSTILE)], HOSTILE))
    assert page.findtext("caption") == HOSTILE
    assert [[cell.text for cell in row] for row in page.iter("tr")] == [["k=2", "99.0 %"], [HOSTILE, HOSTILE]]
    assert ElementTree.fromstring(table([])).tag == "table"
    assert "caption" not in table([])


@given(st.lists(st.tuples(st.text(), st.text())), st.text())
def test_nothing_gets_out_of_its_cell(rows: list[tuple[str, str]], title: str) -> None:
    page = table(rows, title)
    page.encode()
    assert page.count("<") == 2 * (1 + bool(title) + 3 * len(rows))
    assert page.count('"') == 2 * (bool(title) + 3 * len(rows))
