"""Text diagrams: what they look like, and that the graph can be read back from every drawing."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from edge_transformer.data.graphs.rows import TokenGraph
from edge_transformer.draw.arcs import ArcDiagram, diagram_of_graph, visible
from edge_transformer.draw.text import draw_text
from edge_transformer.errors import UserError

LEFT_ENDS, RIGHT_ENDS = "╭├", "╮┤"


def diagram(tokens: str, parents: list[int], labels: str = "", *notes: str) -> ArcDiagram:
    """Labels and notes have "-" for none."""
    words = tuple(tokens.split())

    def row(text: str) -> tuple[str, ...]:
        return tuple("" if label == "-" else label for label in text.split())

    return ArcDiagram(words, tuple(parents), row(labels) if labels else ("",) * len(words), tuple(map(row, notes)))


def drawn(text: str) -> str:
    """A drawing in the source of a test: its margin is a bar."""
    return "\n".join(line.strip()[1:] for line in text.strip().splitlines())


NESTED = diagram(
    "The dog on a TV saw Liam .",
    [0, 5, 1, 3, 2, 5, 5, 7],
    "- agent PREP - PP_NOUN - theme -",
    "- CNOUN - - CNOUN VERB PNOUN -",
    "- DEF - - INDEF - - -",
)
CROSSING = diagram("A hearing is set on this today", [1, 3, 3, 3, 1, 4, 3], "det subj aux - nmod obj tmod")
ROOTED = diagram("ROOT she left", [0, 2, 0], "- nsubj root")


@pytest.mark.parametrize(
    ("given_diagram", "width", "expected"),
    [
        (
            NESTED,
            None,
            """
            |      ╭─────────agent─────────╮
            |      │╭─PREP─╮╭─PP_NOUN─╮    │ ╭─theme─╮
            |      ▼│      ▼│         ▼    │●│       ▼
            |The   dog     on  a     TV    saw     Liam   .
            |     CNOUN             CNOUN  VERB    PNOUN
            |      DEF              INDEF
            """,
        ),
        (
            NESTED,
            40,
            """
            |       The
            |╭►┬─── dog   agent    CNOUN  DEF
            |│ ╰►┬─ on    PREP
            |│   │  a
            |│   ╰► TV    PP_NOUN  CNOUN  INDEF
            |├────● saw            VERB
            |╰►──── Liam  theme    PNOUN
            |       .
            """,
        ),
        (
            CROSSING,
            None,
            """
            |        ╭─────nmod──────╮
            |       ╭│───subj───╮ ╭──│────tmod─────╮
            |╭─det─╮││    ╭─aux─┤ │  │╭─obj─╮      │
            |▼     │▼│    ▼     │●│  ▼│     ▼      ▼
            |A   hearing  is    set  on    this  today
            """,
        ),
        (
            CROSSING,
            30,
            """
            |  ╭►── A        det
            |╭►┼─── hearing  subj
            |├►│─── is       aux
            |├─│──● set
            |│ ╰►┬─ on       nmod
            |│   ╰► this     obj
            |╰►──── today    tmod
            """,
        ),
        (
            ROOTED,
            None,
            """
            |  ╭────root─────╮
            |  │    ╭─nsubj─╮│
            | ●│    ▼       │▼
            |ROOT  she     left
            """,
        ),
        (
            ROOTED,
            12,
            """
            |╭──● ROOT
            |│ ╭► she   …
            |╰►┴─ left  …
            """,
        ),
        (
            diagram("a b c", [0, 1, 2]),
            None,
            """
            |a  b  c
            """,
        ),
        (
            diagram("a b c", [0, 1, 2]),
            3,
            """
            |a
            |b
            |c
            """,
        ),
        (
            diagram("a b", [1, 1], "extraordinarily -"),
            None,
            """
            |╭─extraordinarily─╮
            |▼                 │●
            |a                 b
            """,
        ),
        (
            diagram("a b", [1, 0], "x y"),
            None,
            """
            | ╭─y──╮
            |╭│─x─╮│
            |▼│   │▼
            |a    b
            """,
        ),
        (
            diagram("a b", [1, 0], "x y"),
            5,
            """
            |╭►┬─…
            |╰─┴►…
            """,
        ),
        (
            diagram("a b c d", [0, 0, 1, 2], "- x y z"),
            9,
            """
            |  ╭● a
            |╭─┴► b  x
            |╰►┬─ c  y
            |  ╰► d  z
            """,
        ),
        (
            diagram("日本 は 国", [2, 0, 2], "主語 格 -"),
            None,
            """
            | ╭──主語───╮
            | │╭─格─╮   │
            | ▼│    ▼   │●
            |日本   は  国
            """,
        ),
        (
            diagram("ran", [0], "root", "VERB"),
            None,
            """
            |ran
            |root
            |VERB
            """,
        ),
    ],
)
def test_drawings(given_diagram: ArcDiagram, width: int | None, expected: str) -> None:
    assert draw_text(given_diagram, width) == drawn(expected)


def test_in_ascii() -> None:
    assert draw_text(NESTED, ascii=True) == drawn(
        """
        |      .---------agent---------.
        |      |.-PREP-..-PP_NOUN-.    | .-theme-.
        |      v|      v|         v    |*|       v
        |The   dog     on  a     TV    saw     Liam   .
        |     CNOUN             CNOUN  VERB    PNOUN
        |      DEF              INDEF
        """
    )
    assert draw_text(diagram("a b c", [1, 1, 1], "x - y"), 8, ascii=True) == drawn(
        """
        |.> a  x
        |+* b
        |'> c  y
        """
    )


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437", "koi8-r"])
def test_an_encoding_without_the_lines_gets_others(encoding: str) -> None:
    text = draw_text(diagram("Zoë ran", [1, 1], "主 -"), encoding=encoding)
    assert text.encode(encoding)
    assert "v" in text
    assert "─" not in text
    assert "\\u4e3b" in text
    assert ("Zoë" if encoding in ("latin-1", "cp437") else "Zo\\xeb") in text


def test_words_from_right_to_left_stand_one_below_the_other() -> None:
    assert draw_text(diagram("כלב רץ", [1, 1], "nsubj -")).splitlines() == ["╭► כלב  nsubj", "╰● רץ"]


def test_what_does_not_fit_is_cut_off_with_a_mark() -> None:
    assert draw_text(diagram("Constantinople fell", [1, 1]), 10).splitlines() == ["╭► Consta…", "╰● fell"]
    assert draw_text(diagram("日本国憲法", [0]), 6, ascii=True) == "日本 ~"


# --- reading drawings -------------------------------------------------------------------------------------------------


def graphs(size: int) -> st.SearchStrategy[list[int]]:
    """Parents of any kind: trees, forests, circles."""
    return st.lists(st.integers(0, size - 1), min_size=size, max_size=size)


any_graph = st.integers(1, 14).flatmap(graphs)


@st.composite
def trees_without_crossings(draw: st.DrawFn) -> list[int]:
    size, chance = draw(st.integers(1, 30)), random.Random(draw(st.integers(0, 2**32)))
    parents = [0] * size

    def hang(first: int, end: int, parent: int | None) -> None:
        """Make one of these tokens the head of the others, and cut what is on its two sides into subtrees."""
        head = chance.randrange(first, end)
        parents[head] = head if parent is None else parent
        for start, stop in ((first, head), (head + 1, end)):
            cuts = sorted({start, stop, *(chance.randint(start, stop) for _ in range(chance.randint(0, 3)))})
            for left, right in pairwise(cuts):
                hang(left, right, head)

    hang(0, size, None)
    return parents


def made(parents: list[int], labels: list[str] | None = None) -> ArcDiagram:
    names = tuple(f"t{number:02}" for number in range(len(parents)))  # as wide as three posts
    return ArcDiagram(names, tuple(parents), tuple(labels or [""] * len(parents)))


def read_side_by_side(text: str, size: int) -> tuple[list[int], list[str], int]:
    """Parents, labels and the number of crossings."""
    rows = text.split("\n")
    rows = [row.ljust(max(map(len, rows))) for row in rows]
    places = [rows[-1].index(f"t{number:02}") for number in range(size)]
    parents, labels, crossings = list(range(size)), [""] * size, 0
    for token, place in enumerate(places):
        column = rows[-2].find("▼", place, place + 3) if len(rows) > 1 else -1
        if column < 0:
            continue
        row = len(rows) - 3
        while rows[row][column] == "│":
            row -= 1
        step, ends = (1, RIGHT_ENDS) if rows[row][column] in LEFT_ENDS else (-1, LEFT_ENDS)
        assert rows[row][column] in "╭╮"  # an arc of one's own does not branch
        other = column + step
        while rows[row][other] not in ends:
            other += step
        beam = rows[row][min(column, other) + 1 : max(column, other)]
        crossings += beam.count("│")
        labels[token] = beam.replace("─", "").replace("│", "")
        assert not labels[token] or f"─{labels[token]}─" in beam
        assert all(rows[below][other] in "│├┤" for below in range(row + 1, len(rows) - 1))
        [parents[token]] = [number for number, place in enumerate(places) if place <= other < place + 3]
    return parents, labels, crossings


def read_one_below_the_other(text: str, size: int) -> tuple[list[int], int]:
    """Parents, and the number of crossings."""
    rows = [row[: row.index(f"t{number:02}")] for number, row in enumerate(text.split("\n"))]
    parents, crossings = list(range(size)), 0
    for token, row in enumerate(rows):
        crossings += sum(1 for left, here in pairwise(row) if here == "│" and left in "─►")
        if "►" not in row:
            continue
        column = row.index("►") - 1
        line = [token]
        while rows[line[0]][column] in "│╰├┴┼":
            line.insert(0, line[0] - 1)
        while rows[line[-1]][column] in "│╭├┬┼":
            line.append(line[-1] + 1)
        joined = [each for each in line if rows[each][column] != "│"]
        [parents[token]] = [each for each in joined if rows[each][column + 1] != "►"]
    return parents, crossings


@settings(max_examples=200, deadline=None)
@given(any_graph, st.lists(st.text("abcxyz", max_size=9), min_size=14, max_size=14))
def test_side_by_side_every_arc_connects_what_it_should(parents: list[int], texts: list[str]) -> None:
    labels = [text if parent != token else "" for token, (text, parent) in enumerate(zip(texts, parents, strict=False))]
    text = draw_text(made(parents, labels))
    found, read, _ = read_side_by_side(text, len(parents))
    assert (found, read) == (parents, labels)
    assert text.count("▼") == sum(parent != token for token, parent in enumerate(parents))
    assert text.count("●") == len(made(parents).roots)


@settings(max_examples=200, deadline=None)
@given(any_graph)
def test_one_below_the_other_every_arc_connects_what_it_should(parents: list[int]) -> None:
    text = draw_text(made([*parents, *range(len(parents), 40)]), 120)  # 40 tokens do not stand side by side there
    assert read_one_below_the_other(text, 40)[0][: len(parents)] == parents
    assert text.count("►") == sum(parent != token for token, parent in enumerate(parents))
    assert text.count("●") == len(made(parents).roots)


@settings(max_examples=100, deadline=None)
@given(trees_without_crossings())
def test_trees_that_need_no_crossing_have_none(parents: list[int]) -> None:
    size = len(parents)
    found, _, crossings = read_side_by_side(draw_text(made(parents)), size)
    assert (found, crossings) == (parents, 0)
    longer = made([*parents, *range(size, 40)])
    read, crossings = read_one_below_the_other(draw_text(longer, 120), 40)
    assert (read[:size], crossings) == (parents, 0)


@settings(max_examples=100, deadline=None)
@given(st.data(), st.integers(1, 60), st.booleans(), st.sampled_from(["utf-8", "latin-1", "shift_jis"]))
def test_any_text_in_any_width(data: st.DataObject, width: int, ascii: bool, encoding: str) -> None:
    parents = data.draw(any_graph)
    texts = st.lists(st.text(max_size=6), min_size=len(parents), max_size=len(parents)).map(tuple)
    given_diagram = ArcDiagram(data.draw(texts), tuple(parents), data.draw(texts), (data.draw(texts),))
    text = draw_text(given_diagram, width, ascii=ascii, encoding=encoding)
    assert all(cell_len(row) <= width for row in text.split("\n"))
    text.encode(encoding)  # does not fail
    assert all(letter == "\n" or letter.isprintable() or letter in "\u200c\u200d" for letter in text)


def test_the_longest_sentence() -> None:
    parents = [max(0, token - 1 - token % 7) for token in range(512)]
    text = draw_text(made(parents), 80)
    assert len(text.splitlines()) == 512
    assert text.count("►") == 511


# --- diagrams ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("dog", "dog"),
        ("a b\u00a0c", "a b c"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\nb\tc", "a\\x0ab\\x09c"),
        ("\u202eabc", "\\u202eabc"),
        ("\ud800", "\\ud800"),
        ("\u0301", "\u25cc\u0301"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("\u200d", "\\u200d"),
        ("", ""),
    ],
)
def test_visible_texts(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_the_diagram_of_a_graph() -> None:
    labels: dict[str, tuple[str, ...]] = {"category": ("N", "V"), "role": ("agent", "")}
    graph = TokenGraph(("Emma", "ran"), (1, 1), labels)
    assert diagram_of_graph(graph) == ArcDiagram(("Emma", "ran"), (1, 1), ("agent", ""), (("N", "V"),))
    assert diagram_of_graph(graph, "category").labels == ("N", "V")
    assert diagram_of_graph(TokenGraph(("a",), (0,), {})).labels == ("",)
    first: dict[str, tuple[str, ...]] = {"x": ("1", "2"), "y": ("3", "4")}
    assert diagram_of_graph(TokenGraph(("Emma", "ran"), (1, 1), first)).notes == (("3", "4"),)
    with pytest.raises(UserError, match="found no column 'pos'; the graph has category, role"):
        diagram_of_graph(graph, "pos")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((), (), ()), "at least one token"),
        ((("a", "b"), (0,), ("", "")), "found 1 parents; expected one for each of the 2 tokens"),
        ((("a",), (0,), ("",), (("x", "y"),)), "found 2 notes"),
        ((("a",), (-1,), ("",)), r"found parents \[-1\]; expected numbers from 0 to 0"),
    ],
)
def test_diagrams_that_are_none(arguments: tuple, message: str) -> None:
    with pytest.raises(UserError, match=message):
        ArcDiagram(*arguments)
