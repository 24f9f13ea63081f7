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
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from .arcs import ArcDiagram, Beam, Placing, Post, Span, levels, place

GAP = 2  # between tokens, and between columns


def draw_text(diagram: ArcDiagram, width: int | None = None, *, ascii: bool = False, encoding: str = "utf-8") -> str:
    """Draw a diagram in lines of at most `width` cells.

    Args:
        width: of the terminal; None for any. One below the other, longer rows are cut off with a mark.
        ascii: draw lines with ASCII characters, as is done where the encoding lacks the others.
        encoding: of the output; characters that it lacks are escaped.
    """
    strokes = ASCII if ascii or not _speaks(encoding) else UNICODE
    shown = diagram.visible(encoding)
    rows = None if _right_to_left(shown) else side_by_side(shown, width, strokes, GAP)
    if rows is None:
        rows = one_below_the_other(shown, strokes, GAP)
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


def _right_to_left(diagram: ArcDiagram) -> bool:
    """Whether a terminal might reverse the order of tokens in a row."""
    return any(unicodedata.bidirectional(letter) in ("R", "AL") for token in diagram.tokens for letter in token)


@dataclass(frozen=True)
class Strokes:
    """The characters of lines. Branches are keyed by their arms: up, down, left, right."""

    down: str
    along: str
    arms: dict[str, str]
    arrow_down: str
    arrow_right: str
    root: str
    cut: str

    def text(self) -> str:
        """All of them."""
        return "".join(
            (self.down, self.along, *self.arms.values(), self.arrow_down, self.arrow_right, self.root, self.cut)
        )


UNICODE = Strokes(
    "│",
    "─",
    {"dr": "╭", "dl": "╮", "ur": "╰", "udr": "├", "udl": "┤", "dlr": "┬", "ulr": "┴", "udlr": "┼"},
    *"▼►●…",
)
ASCII = Strokes(
    "|",
    "-",
    {"dr": ".", "dl": ".", "ur": "'", "udr": "+", "udl": "+", "dlr": "+", "ulr": "+", "udlr": "+"},
    *"v>*~",
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


PostKey = tuple[int, str]  # token and side: "<" to children on the left, "^" the own arc or the mark of a root, ">"


def side_by_side(diagram: ArcDiagram, width: int | None, strokes: Strokes, gap: int) -> list[str] | None:
    """Tokens in a row with arcs above and notes below; None if that is wider than `width`."""
    if width is not None and sum(map(cell_len, diagram.tokens)) + gap * (diagram.size - 1) > width:
        return None  # saves the work of placing arcs
    below = [diagram.tokens, *diagram.rows_below()]
    heights = dict(zip(diagram.arcs, levels([diagram.span(arc) for arc in diagram.arcs]), strict=True))
    tops: dict[PostKey, int] = {}  # the highest level of each post
    for arc, level in heights.items():
        for key in ((arc, "^"), _post_of_parent(diagram, arc)):
            tops[key] = max(level, tops.get(key, 0))
    sides = [
        [side for side in "<^>" if (token, side) in tops or (side == "^" and token in diagram.roots)]
        for token in range(diagram.size)
    ]
    widths = [max(len(sides[token]), *(cell_len(row[token]) for row in below)) for token in range(diagram.size)]
    offsets = {  # posts stand close together over the middle of their token
        (token, side): (widths[token] - len(found)) // 2 + number
        for token, found in enumerate(sides)
        for number, side in enumerate(found)
    }
    posts = {key: Post(key[0], offsets[key], top) for key, top in tops.items()}
    beams = []
    for arc, level in heights.items():
        label = cell_len(diagram.labels[arc])
        left, right = sorted((posts[arc, "^"], posts[_post_of_parent(diagram, arc)]))
        beams.append(Beam(left, right, level, label + 3 if label else 0))  # one dash at least on either side
    placing = place(widths, gap, list(posts.values()), beams)
    whole = placing.tokens[-1] + widths[-1]
    if width is not None and whole > width:
        return None

    # Rows from the top: the highest level of arcs first and the lowest last, then arrowheads, tokens and notes.
    height = max(tops.values(), default=0)
    arrows = height + 1 if height else 0
    canvas = Canvas(arrows + len(below), whole)
    _draw_lines(canvas, height, list(posts.values()), beams, placing, strokes)
    for arc, beam, (start, end) in zip(diagram.arcs, beams, placing.labels, strict=True):
        text = diagram.labels[arc]
        canvas.put(height - beam.level, start + 1 + (end - start - 1 - cell_len(text)) // 2, text)
        canvas.put(height, placing.position(posts[arc, "^"]), strokes.arrow_down)
    for root in diagram.roots:
        canvas.put(height, placing.tokens[root] + offsets[root, "^"], strokes.root)
    for number, texts in enumerate(below):
        for token, text in enumerate(texts):
            canvas.put(arrows + number, placing.tokens[token] + (widths[token] - cell_len(text)) // 2, text)
    return canvas.rows()


def _draw_lines(
    canvas: Canvas, height: int, posts: list[Post], beams: list[Beam], placing: Placing, strokes: Strokes
) -> None:
    for beam in beams:
        for column in range(placing.position(beam.left) + 1, placing.position(beam.right)):
            canvas.put(height - beam.level, column, strokes.along)
    for post in posts:  # over the beams, which pass behind them
        for row in range(height - post.top, height + 1):
            canvas.put(row, placing.position(post), strokes.down)
    for beam in beams:
        for post, arm in ((beam.left, "r"), (beam.right, "l")):
            arms = ("d" if post.top == beam.level else "ud") + arm
            canvas.put(height - beam.level, placing.position(post), strokes.arms[arms])


def _post_of_parent(diagram: ArcDiagram, arc: int) -> PostKey:
    """The other end of an arc."""
    parent = diagram.parents[arc]
    return parent, ">" if parent < arc else "<"


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
