"""Arc diagrams as text with the tokens side by side and arcs above them.

A token has up to three posts: one to children on its left, one of its own arc, with the arrowhead, and one to children
on its right. In this order, arcs of a tree that can be drawn without crossings have none.
"""

from __future__ import annotations

from rich.cells import cell_len

from .arcs import ArcDiagram, levels
from .canvas import Canvas, Strokes
from .placing import Beam, Placing, Post, place

PostKey = tuple[int, str]  # token and side: "<" to children on the left, "^" the own arc or the mark of a root, ">"


def side_by_side(diagram: ArcDiagram, width: int | None, strokes: Strokes, gap: int) -> list[str] | None:
    """Tokens in a row with arcs above and notes below; None if that is wider than `width`."""
    if width is not None and sum(map(cell_len, diagram.tokens)) + gap * (diagram.size - 1) > width:
        return None  # without the work of placing arcs
    below = [diagram.tokens, *diagram.rows_below()]
    heights = dict(zip(diagram.arcs, levels([diagram.span(arc) for arc in diagram.arcs]), strict=True))
    tops: dict[PostKey, int] = {}  # the posts that there are, and the highest level of each
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
    for post in posts:  # over the beams, which go on behind them
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
