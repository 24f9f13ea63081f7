"""Arc diagrams as SVG, without any library; equal diagrams give equal bytes."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape

from ..io import html
from .arcs import Arc, ArcDiagram, Beam, GraphDiagram, Placing, Post, levels, place, visible

# All in pixels.
FONT, LABEL_FONT, NOTE_FONT = 16, 12, 11
MARGIN, GAP = 14, 14
POST_GAP = 9  # between the lines over one token
CORNER = 8  # radius
LEVEL = 24  # from one height of arcs to the next
ARROW = 7
LINE_OF_NOTES = 15

# Follows a page's dark mode; the class keeps these rules from the rest of the page.
STYLE = """
.arc-diagram { color: #1a1a1a; font-family: "Helvetica Neue", Arial, "DejaVu Sans", sans-serif; }
.arc-diagram .paper { fill: #ffffff; }
@media (prefers-color-scheme: dark) {
  .arc-diagram { color: #e8e8e8; }
  .arc-diagram .paper { fill: #16181c; }
}
"""

# Letter widths in units of the font size, rather too wide than too narrow, as the font is not known.
NARROW, WIDE = frozenset("fijlrtI.,:;'!|()[]{}/\\ "), frozenset("mwMW@%")
NARROW_EM, LETTER_EM, CAPITAL_EM, WIDE_EM, SQUARE_EM = 0.38, 0.6, 0.72, 0.95, 1.0


class Side:
    """The arcs above the tokens, or those below, each with an end of its own over its tokens."""

    def __init__(self, arcs: Sequence[Arc], size: int, roots: Iterable[int] = ()) -> None:
        self.arcs = arcs
        self.levels = levels([arc.span for arc in arcs])
        self.height = max(self.levels, default=0)
        self.ports, self.count = _ports(arcs, self.levels, size, roots)
        self.beams: list[Beam] = []

    def stand(self, widths: Sequence[int]) -> tuple[list[Post], list[Beam]]:
        """Put the ends of arcs side by side over the middle of their tokens."""
        for number, (arc, level) in enumerate(zip(self.arcs, self.levels, strict=True)):
            label = text_width(arc.label, LABEL_FONT)
            left, right = (Post(token, (widths[token] + self.between(number, token)) // 2, level) for token in arc.span)
            self.beams.append(Beam(left, right, level, label + 2 * CORNER + 4 if label else 2 * CORNER))
        return [end for beam in self.beams for end in (beam.left, beam.right)], self.beams

    def between(self, number: int, token: int) -> int:
        """Twice the distance of an end from the middle of its token; a root's mark has the number -1."""
        return POST_GAP * (2 * self.ports[number, token] - self.count[token] + 1)


def draw_svg(diagram: ArcDiagram | GraphDiagram, title: str | None = None) -> str:
    """Draw a diagram as the text of an SVG file; screen readers and tooltips show `title`, or the sentence."""
    shown = diagram.visible()
    graph = shown.as_graph() if isinstance(shown, ArcDiagram) else shown
    above, below = sides = Side(graph.above, graph.size, graph.roots), Side(graph.below, graph.size)
    rows = graph.notes
    widths = [
        max(
            *(POST_GAP * side.count[token] for side in sides),
            text_width(graph.tokens[token], FONT),
            *(text_width(row[token], NOTE_FONT) for row in rows),
        )
        for token in range(graph.size)
    ]
    placing = place(widths, GAP, *(side.stand(widths) for side in sides))

    foot = MARGIN + LABEL_FONT // 2 + LEVEL * above.height  # where arcs end
    width = placing.tokens[-1] + widths[-1] + 2 * MARGIN
    under = foot + FONT + 6 + LINE_OF_NOTES * len(rows)  # where those below end
    deep = 2 + LEVEL * below.height + LABEL_FONT // 2 if below.arcs else 0
    height = under + deep + MARGIN
    middles = [MARGIN + placing.tokens[token] + widths[token] / 2 for token in range(graph.size)]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="arc-diagram" role="img" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" color="#1a1a1a" font-family="sans-serif">',
        f"<title>{escape(' '.join(graph.tokens) if title is None else visible(title))}</title>",
        f"<desc>{escape(graph.describe())}</desc>",
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    parts += _side(above, placing, placing.labels[: len(above.arcs)], foot, -1)
    parts += _side(below, placing, placing.labels[len(above.arcs) :], under + 2, 1)
    for root in sorted(graph.roots):
        x = middles[root] + above.between(-1, root) / 2
        parts.append(f'<circle class="root" cx="{_number(x)}" cy="{foot - 4}" r="3.5" fill="currentColor"/>')
    parts += [_text("token", token, middles[number], foot + FONT, FONT) for number, token in enumerate(graph.tokens)]
    for line, row in enumerate(rows, start=1):
        y = foot + FONT + 4 + LINE_OF_NOTES * line
        parts += [_text("note", note, middles[token], y, NOTE_FONT) for token, note in enumerate(row) if note]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _side(side: Side, placing: Placing, labels: Sequence[tuple[int, int]], foot: int, away: int) -> list[str]:
    """All lines before all labels, the highest at the back, so that no line covers a label."""
    arcs = list(zip(side.arcs, side.beams, labels, strict=True))
    lines = [_arc(arc, beam, placing, foot, away) for arc, beam, _ in sorted(arcs, key=lambda each: -each[1].level)]
    return lines + [_label(arc.label, beam, between, foot, away) for arc, beam, between in arcs if arc.label]


def draw_html(diagram: ArcDiagram | GraphDiagram, above: str = "", below: str = "") -> str:
    """Draw a diagram for a notebook, with a line of code above and a remark below; a wide one can be scrolled."""
    code = f"<div><code>{html.escape(visible(above))}</code></div>" if above else ""
    remark = f"<div>{html.escape(visible(below))}</div>" if below else ""
    return f'<div style="overflow-x: auto">{code}{draw_svg(diagram)}{remark}</div>'


def text_width(text: str, size: int) -> int:
    """Approximate width of a text in pixels."""
    return math.ceil(size * sum(map(_letter_width, text)))


def _letter_width(letter: str) -> float:
    if unicodedata.combining(letter) or unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0.0
    if unicodedata.east_asian_width(letter) in "WF":
        return SQUARE_EM
    if letter in NARROW:
        return NARROW_EM
    if letter in WIDE or ord(letter) > 0x2E7F:  # beyond the alphabets, letters of any width
        return WIDE_EM
    return CAPITAL_EM if letter.isupper() else LETTER_EM


def _ports(
    arcs: Sequence[Arc], heights: Sequence[int], size: int, roots: Iterable[int]
) -> tuple[dict[tuple[int, int], int], list[int]]:
    """The order of lines over each token, (number of the arc, token) -> place from the left, and their count.

    Lines to the left come first, short before long, then lines to the right, long before short, so that arcs cross only
    where they must. A root's mark, with the number -1, stands between them.
    """
    ends: list[list[tuple[int, int, int]]] = [[] for _ in range(size)]  # (side, order, arc)
    for number, (arc, level) in enumerate(zip(arcs, heights, strict=True)):
        left, right = arc.span
        ends[left].append((1, -level, number))
        ends[right].append((-1, level, number))
    for root in roots:
        ends[root].append((0, 0, -1))
    ports = {(arc, token): n for token, found in enumerate(ends) for n, (_, _, arc) in enumerate(sorted(found))}
    return ports, [len(found) for found in ends]


def _arc(arc: Arc, beam: Beam, placing: Placing, foot: int, away: int) -> str:
    """A line with round corners from the head away from the tokens, across and back to an arrowhead."""
    x, end = (MARGIN + placing.position(post) for post in (beam.left, beam.right))
    top = foot + away * LEVEL * beam.level
    round_ = min(CORNER, (end - x) // 2)
    tip = x if arc.dependent == beam.left.token else end
    start_y, end_y = (
        foot + away * (ARROW - 1) if arc.dependent == post.token else foot for post in (beam.left, beam.right)
    )
    corner = top - away * round_
    path = f"M{x} {start_y}V{corner}Q{x} {top} {x + round_} {top}H{end - round_}Q{end} {top} {end} {corner}V{end_y}"
    base = foot + away * ARROW
    points = f"{tip - 3.5},{base} {tip + 3.5},{base} {tip},{foot}"
    return (
        f'<path class="arc" d="{path}" fill="none" stroke="currentColor" stroke-width="1.3"/>'
        f'<polygon class="head" points="{points}" fill="currentColor"/>'
    )


def _label(label: str, beam: Beam, between: tuple[int, int], foot: int, away: int) -> str:
    """A label on its arc, with a background that hides the line."""
    x, y = MARGIN + sum(between) / 2, foot + away * LEVEL * beam.level
    width = text_width(label, LABEL_FONT) + 4
    paper = (
        f'<rect class="paper" x="{_number(x - width / 2)}" y="{y - LABEL_FONT // 2 - 1}" width="{width}" '
        f'height="{LABEL_FONT + 2}" fill="#ffffff"/>'
    )
    return paper + _text("label", label, x, y + 4, LABEL_FONT)


def _text(kind: str, text: str, x: float, y: int, size: int) -> str:
    return (
        f'<text class="{kind}" x="{_number(x)}" y="{y}" font-size="{size}" text-anchor="middle" '
        f'fill="currentColor">{escape(text)}</text>'
    )


def _number(value: float) -> str:
    return f"{value:g}" if value < 100_000 else f"{value:.1f}"
