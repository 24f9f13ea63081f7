"""Arc diagrams as text with one token a line: for narrow terminals and long sentences.

All children of a token hang on one vertical line, and the token itself is joined to it. The arrowhead stands just
behind the line that a token hangs on, so that this line can be told from the one of its own children.
"""

from __future__ import annotations

from rich.cells import cell_len

from .arcs import ArcDiagram, Span
from .canvas import Canvas, Strokes


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
    """How far from the tokens each line stands, from 1: further than all lines of descendants that it runs along.

    A tree that can be drawn without crossings then has none. Lines of the same height do not even touch: one could not
    see which of them a token hangs on.
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
    """Steps from a token to one without parent; of parents in a circle, as many as there are tokens."""
    for steps in range(diagram.size):
        if diagram.parents[token] == token:
            return steps
        token = diagram.parents[token]
    return diagram.size


def _draw_row(canvas: Canvas, token: int, lines: dict[int, Span], strokes: Strokes) -> None:
    """Draw from the leftmost line that a token is joined to, at its column, to the token; behind all other lines."""
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
    """The rows with columns of texts at their right."""
    rows = [f"{row} " if row else "" for row in rows]
    for column in columns:
        width = max(map(cell_len, column)) + gap
        rows = [row + text + " " * (width - cell_len(text)) for row, text in zip(rows, column, strict=True)]
    return rows
