"""Arc diagrams as text: tokens side by side or, where the width is too small, one below the other.

A line that meets another without a corner or branch passes behind it. Side by side:

     ╭─agent─╮ ╭──xcomp──╮
     ▼       │●│         ▼
    Emma    wanted  to  eat  .

One below the other:

    ╭► Emma    agent
    ├● wanted
    │  to
    ╰► eat     xcomp
       .

Graphs with several arcs a token have arcs below the tokens too, where they would cross others. Without room for them
side by side, they are told in words.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from .arcs import Arc, ArcDiagram, Beam, GraphDiagram, Placing, Post, Span, levels, place

GAP = 2  # between tokens, and between columns


def draw_text(
    diagram: ArcDiagram | GraphDiagram, width: int | None = None, *, ascii: bool = False, encoding: str = "utf-8"
) -> str:
    """Draw a diagram in lines of at most `width` cells.

    Args:
        width: of the terminal; None for any. One below the other, longer rows are cut off with a mark.
        ascii: draw lines with ASCII characters, as is done where the encoding lacks the others.
        encoding: of the output; characters that it lacks are escaped.
    """
    strokes = ASCII if ascii or not _speaks(encoding) else UNICODE
    shown = diagram.visible(encoding)
    graph = shown.as_graph() if isinstance(shown, ArcDiagram) else shown
    rows = None if _right_to_left(shown.tokens) else side_by_side(graph, width, strokes, GAP)
    if rows is None:
        rows = one_below_the_other(shown, strokes, GAP) if isinstance(shown, ArcDiagram) else in_words(graph, strokes)
    rows = [row.rstrip() for row in rows]
    if width is not None:
        rows = [_cut(row, max(1, width), strokes.cut) for row in rows]
    return "\n".join(rows)


def _cut(row: str, width: int, mark: str) -> str:
    return row if cell_len(row) <= width else set_cell_size(row, width - 1) + mark


def _speaks(encoding: str) -> bool:
    try:
        UNICODE.text().encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def _right_to_left(tokens: Sequence[str]) -> bool:
    """Whether a terminal might reverse the order of tokens in a row."""
    return any(unicodedata.bidirectional(letter) in ("R", "AL") for token in tokens for letter in token)


@dataclass(frozen=True)
class Strokes:
    """The characters of lines. Branches are keyed by their arms: up, down, left, right."""

    down: str
    along: str
    arms: dict[str, str]
    arrow_down: str
    arrow_right: str
    arrow_up: str
    arrow_left: str
    root: str
    cut: str

    def text(self) -> str:
        """All of them."""
        arrows = (self.arrow_down, self.arrow_right, self.arrow_up, self.arrow_left)
        return "".join((self.down, self.along, *self.arms.values(), *arrows, self.root, self.cut))


UNICODE = Strokes(
    "│",
    "─",
    {"dr": "╭", "dl": "╮", "ur": "╰", "ul": "╯", "udr": "├", "udl": "┤", "dlr": "┬", "ulr": "┴", "udlr": "┼"},
    *"▼►▲◄●…",
)
ASCII = Strokes(
    "|",
    "-",
    {"dr": ".", "dl": ".", "ur": "'", "ul": "'", "udr": "+", "udl": "+", "dlr": "+", "ulr": "+", "udlr": "+"},
    *"v>^<*~",
)


class Canvas:
    """Rows of cells. The first cell of a text holds all of it; the other cells it covers are empty."""

    def __init__(self, height: int, width: int) -> None:
        self.width = width
        self._cells = [[" "] * width for _ in range(height)]

    def put(self, row: int, column: int, text: str) -> None:
        if text:
            self._cells[row][column : column + cell_len(text)] = [text, *[""] * (cell_len(text) - 1)]

    def is_free(self, row: int, column: int) -> bool:
        return self._cells[row][column] == " "

    def rows(self) -> list[str]:
        return ["".join(row) for row in self._cells]


PostKey = tuple[int, str]  # token and side: "<" to heads' dependents on the left, "^" from heads or a root's mark, ">"


class Side:
    """The arcs above the tokens, or those below, as posts over tokens and beams between them."""

    def __init__(self, arcs: Sequence[Arc], roots: Iterable[int] = ()) -> None:
        self.arcs, self.roots = arcs, frozenset(roots)
        self.levels = levels([arc.span for arc in arcs])
        self.tops: dict[PostKey, int] = {}  # the highest level of each post
        for arc, level in zip(arcs, self.levels, strict=True):
            for key in _ends(arc):
                self.tops[key] = max(level, self.tops.get(key, 0))
        self.height = max(self.levels, default=0)
        self.offsets: dict[PostKey, int] = {}

    def sides(self, token: int) -> list[str]:
        """The posts of a token, from the left."""
        return [side for side in "<^>" if (token, side) in self.tops or (side == "^" and token in self.roots)]

    def stand(self, widths: Sequence[int]) -> tuple[list[Post], list[Beam]]:
        """Put the posts close together over the middle of their tokens."""
        self.offsets = {
            (token, side): (width - len(found)) // 2 + number
            for token, width in enumerate(widths)
            for found in [self.sides(token)]
            for number, side in enumerate(found)
        }
        self.posts = {key: Post(key[0], self.offsets[key], top) for key, top in self.tops.items()}
        self.beams = []
        for arc, level in zip(self.arcs, self.levels, strict=True):
            label = cell_len(arc.label)
            left, right = sorted(self.posts[key] for key in _ends(arc))
            self.beams.append(Beam(left, right, level, label + 3 if label else 0))  # one dash at least on either side
        return list(self.posts.values()), self.beams


def _ends(arc: Arc) -> tuple[PostKey, PostKey]:
    """The post of the dependent and that of the head."""
    return (arc.dependent, "^"), (arc.head, ">" if arc.head < arc.dependent else "<")


def side_by_side(diagram: GraphDiagram, width: int | None, strokes: Strokes, gap: int) -> list[str] | None:
    """Tokens in a row, notes below, and arcs above and below all that; None if it is wider than `width`."""
    if width is not None and sum(map(cell_len, diagram.tokens)) + gap * (diagram.size - 1) > width:
        return None  # saves the work of placing arcs
    texts = [diagram.tokens, *diagram.notes]
    above, below = sides = Side(diagram.above, diagram.roots), Side(diagram.below)
    widths = [
        max(*(len(side.sides(token)) for side in sides), *(cell_len(row[token]) for row in texts))
        for token in range(diagram.size)
    ]
    placing = place(widths, gap, *(side.stand(widths) for side in sides))
    whole = placing.tokens[-1] + widths[-1]
    if width is not None and whole > width:
        return None

    # Rows from the top: the highest level of arcs first and the lowest last, then arrowheads, tokens and notes; below
    # them the same upside down.
    foot = above.height
    first = foot + 1 if foot else 0
    after = first + len(texts)
    canvas = Canvas(after + (below.height + 1 if below.height else 0), whole)
    parts = placing.labels[: len(above.arcs)], placing.labels[len(above.arcs) :]
    _draw_side(canvas, above, placing, parts[0], foot, -1, strokes)
    _draw_side(canvas, below, placing, parts[1], after, 1, strokes)
    for root in diagram.roots:
        canvas.put(foot, placing.tokens[root] + above.offsets[root, "^"], strokes.root)
    for number, row in enumerate(texts):
        for token, text in enumerate(row):
            canvas.put(first + number, placing.tokens[token] + (widths[token] - cell_len(text)) // 2, text)
    return canvas.rows()


def _draw_side(
    canvas: Canvas,
    side: Side,
    placing: Placing,
    labels: Sequence[tuple[int, int]],
    foot: int,
    away: int,
    strokes: Strokes,
) -> None:
    """Draw arcs; row `foot` has the arrowheads, and level l is l rows `away` from it, -1 for upwards."""
    toward, apart = ("d", "u") if away < 0 else ("u", "d")  # to the tokens, and from them
    for beam in side.beams:
        for column in range(placing.position(beam.left) + 1, placing.position(beam.right)):
            canvas.put(foot + away * beam.level, column, strokes.along)
    for post in side.posts.values():  # over the beams, which pass behind them
        for level in range(post.top + 1):
            canvas.put(foot + away * level, placing.position(post), strokes.down)
    arms: dict[tuple[int, int], str] = {}
    for beam in side.beams:
        for post, arm in ((beam.left, "r"), (beam.right, "l")):
            place_of = foot + away * beam.level, placing.position(post)
            arms[place_of] = arms.get(place_of, "") + toward + (apart if post.top > beam.level else "") + arm
    for (row, column), found in arms.items():
        canvas.put(row, column, strokes.arms["".join(arm for arm in "udlr" if arm in found)])
    for arc, beam, (start, end) in zip(side.arcs, side.beams, labels, strict=True):
        middle = start + 1 + (end - start - 1 - cell_len(arc.label)) // 2
        canvas.put(foot + away * beam.level, middle, arc.label)
        canvas.put(
            foot, placing.position(side.posts[_ends(arc)[0]]), strokes.arrow_down if away < 0 else strokes.arrow_up
        )


def in_words(diagram: GraphDiagram, strokes: Strokes) -> list[str]:
    """A token a row, with its notes, and below it its arcs, each as a label and the head that it comes from."""
    names = [f"{number} {token}" for number, token in enumerate(diagram.tokens, start=1)]
    rows = _beside([""] * diagram.size, [tuple(names), *diagram.notes], GAP)
    told = []
    for token, row in enumerate(rows):
        arcs = [arc for arc in sorted((*diagram.above, *diagram.below)) if arc.dependent == token]
        told += [row, *(f"{'':{2 * GAP}}{arc.label} {strokes.arrow_left} {names[arc.head]}" for arc in arcs)]
    return told


def one_below_the_other(diagram: ArcDiagram, strokes: Strokes, gap: int) -> list[str]:
    """A token a row, with arcs at its left and its label and notes at its right."""
    reach: dict[int, Span] = {}  # parent -> the first and the last row of its line
    for arc in diagram.arcs:
        parent = diagram.parents[arc]
        first, last = reach.get(parent, (parent, parent))
        reach[parent] = (min(first, arc), max(last, arc))
    heights = _heights(diagram, reach)
    most = max(heights.values(), default=0)
    columns = {parent: 2 * (most - height) for parent, height in heights.items()}
    canvas = Canvas(diagram.size, 2 * most)
    for parent, (first, last) in reach.items():
        for token in range(first, last + 1):
            canvas.put(token, columns[parent], strokes.down)
    for token, parent in enumerate(diagram.parents):
        lines = [token] if token in reach else []
        if parent != token:
            lines.append(parent)
        if lines:
            _draw_row(canvas, token, {columns[line]: reach[line] for line in lines}, strokes)
        if parent != token:
            canvas.put(token, columns[parent] + 1, strokes.arrow_right)
        elif token in diagram.roots:
            canvas.put(token, canvas.width - 1, strokes.root)
    return _beside(canvas.rows(), _columns_of_texts(diagram), gap)


def _heights(diagram: ArcDiagram, reach: dict[int, Span]) -> dict[int, int]:
    """Distance of each line from the tokens, from 1: beyond all lines of descendants beside it.

    A projective tree then has no crossings. Lines of equal height do not touch, so that each token's line is clear.
    """
    depth = {parent: _depth(diagram, parent) for parent in reach}
    heights: dict[int, int] = {}
    for line in sorted(reach, key=lambda line: (-depth[line], reach[line][1] - reach[line][0], line)):
        first, last = reach[line]
        along, touching = 0, set()
        for other, height in heights.items():
            start, end = reach[other]
            if start < last and first < end:
                along = max(along, height)
            elif start <= last and first <= end:
                touching.add(height)
        heights[line] = next(height for height in range(along + 1, along + 2 + len(touching)) if height not in touching)
    return heights


def _depth(diagram: ArcDiagram, token: int) -> int:
    """Steps from a token to one without parent; on a cycle, the number of tokens."""
    for steps in range(diagram.size):
        if diagram.parents[token] == token:
            return steps
        token = diagram.parents[token]
    return diagram.size


def _draw_row(canvas: Canvas, token: int, lines: dict[int, Span], strokes: Strokes) -> None:
    """Draw a row from the leftmost line that joins the token to the token, behind all other lines."""
    leftmost = min(lines)
    for column in range(leftmost, canvas.width):
        if column in lines:
            first, last = lines[column]
            arms = "u" * (token > first) + "d" * (token < last) + "l" * (column > leftmost) + "r"
            canvas.put(token, column, strokes.arms[arms])
        elif canvas.is_free(token, column):
            canvas.put(token, column, strokes.along)


def _columns_of_texts(diagram: ArcDiagram) -> list[tuple[str, ...]]:
    pairs = zip(diagram.labels, diagram.parents, strict=True)
    on_arcs = tuple(label if parent != token else "" for token, (label, parent) in enumerate(pairs))
    return [diagram.tokens, *([on_arcs] if any(on_arcs) else []), *diagram.rows_below()]


def _beside(rows: list[str], columns: list[tuple[str, ...]], gap: int) -> list[str]:
    """Append columns of texts to the rows."""
    rows = [f"{row} " if row else "" for row in rows]
    for column in columns:
        width = max(map(cell_len, column)) + gap
        rows = [row + text + " " * (width - cell_len(text)) for row, text in zip(rows, column, strict=True)]
    return rows
