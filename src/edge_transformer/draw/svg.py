"""Arc diagrams as SVG, without any library; equal diagrams give equal bytes."""

from __future__ import annotations

import math
import unicodedata
from xml.sax.saxutils import escape

from ..io import html
from .arcs import ArcDiagram, Beam, Placing, Post, levels, place, visible

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


def draw_svg(diagram: ArcDiagram, title: str | None = None) -> str:
    """Draw a diagram as the text of an SVG file; screen readers and tooltips show `title`, or the sentence."""
    shown = diagram.visible()
    heights = dict(zip(shown.arcs, levels([shown.span(arc) for arc in shown.arcs]), strict=True))
    rows = shown.rows_below()
    ports, count = _ports(shown, heights)
    widths = [
        max(
            POST_GAP * count[token],
            text_width(shown.tokens[token], FONT),
            *(text_width(row[token], NOTE_FONT) for row in rows),
        )
        for token in range(shown.size)
    ]

    def post(arc: int, token: int) -> Post:
        between = POST_GAP * (2 * ports[arc, token] - count[token] + 1)
        return Post(token, (widths[token] + between) // 2, heights[arc])

    beams = []
    for arc, level in heights.items():
        left, right = shown.span(arc)
        label = text_width(shown.labels[arc], LABEL_FONT)
        beams.append(Beam(post(arc, left), post(arc, right), level, label + 2 * CORNER + 4 if label else 2 * CORNER))
    placing = place(widths, GAP, [end for beam in beams for end in (beam.left, beam.right)], beams)

    foot = MARGIN + LABEL_FONT // 2 + LEVEL * max(heights.values(), default=0)  # where arcs end
    width = placing.tokens[-1] + widths[-1] + 2 * MARGIN
    height = foot + FONT + 6 + LINE_OF_NOTES * len(rows) + MARGIN
    middles = [MARGIN + placing.tokens[token] + widths[token] / 2 for token in range(shown.size)]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="arc-diagram" role="img" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" color="#1a1a1a" font-family="sans-serif">',
        f"<title>{escape(' '.join(shown.tokens) if title is None else visible(title))}</title>",
        f"<desc>{escape(shown.describe())}</desc>",
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    arcs = list(zip(heights, beams, placing.labels, strict=True))
    # All lines before all labels, the highest at the back, so that no line covers a label.
    parts += [_arc(shown, arc, beam, placing, foot) for arc, beam, _ in sorted(arcs, key=lambda each: -each[1].level)]
    parts += [_label(shown.labels[arc], beam, between, foot) for arc, beam, between in arcs if shown.labels[arc]]
    for root in sorted(shown.roots):
        x = middles[root] + POST_GAP * (ports[root, root] - (count[root] - 1) / 2)
        parts.append(f'<circle class="root" cx="{_number(x)}" cy="{foot - 4}" r="3.5" fill="currentColor"/>')
    parts += [_text("token", token, middles[number], foot + FONT, FONT) for number, token in enumerate(shown.tokens)]
    for line, row in enumerate(rows, start=1):
        y = foot + FONT + 4 + LINE_OF_NOTES * line
        parts += [_text("note", note, middles[token], y, NOTE_FONT) for token, note in enumerate(row) if note]
    return "\n".join([*parts, "</svg>"]) + "\n"


def draw_html(diagram: ArcDiagram, above: str = "", below: str = "") -> str:
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


def _ports(diagram: ArcDiagram, heights: dict[int, int]) -> tuple[dict[tuple[int, int], int], list[int]]:
    """The order of lines over each token, (arc, token) -> number from the left, and their count.

    Lines to the left come first, short before long, then lines to the right, long before short, so that arcs cross only
    where they must. A root's mark stands between them.
    """
    ends: list[list[tuple[int, int, int]]] = [[] for _ in diagram.tokens]  # (side, order, arc)
    for arc, level in heights.items():
        left, right = diagram.span(arc)
        ends[left].append((1, -level, arc))
        ends[right].append((-1, level, arc))
    for root in diagram.roots:
        ends[root].append((0, 0, root))
    ports = {(arc, token): n for token, found in enumerate(ends) for n, (_, _, arc) in enumerate(sorted(found))}
    return ports, [len(found) for found in ends]


def _arc(diagram: ArcDiagram, arc: int, beam: Beam, placing: Placing, foot: int) -> str:
    """A line with round corners from the parent up, across and down to an arrowhead at the child."""
    x, end = (MARGIN + placing.position(post) for post in (beam.left, beam.right))
    top = foot - LEVEL * beam.level
    round_ = min(CORNER, (end - x) // 2)
    head = x if arc == beam.left.token else end
    start_y, end_y = (foot - ARROW + 1 if arc == post.token else foot for post in (beam.left, beam.right))
    path = (
        f"M{x} {start_y}V{top + round_}Q{x} {top} {x + round_} {top}H{end - round_}"
        f"Q{end} {top} {end} {top + round_}V{end_y}"
    )
    points = f"{head - 3.5},{foot - ARROW} {head + 3.5},{foot - ARROW} {head},{foot}"
    return (
        f'<path class="arc" d="{path}" fill="none" stroke="currentColor" stroke-width="1.3"/>'
        f'<polygon class="head" points="{points}" fill="currentColor"/>'
    )


def _label(label: str, beam: Beam, between: tuple[int, int], foot: int) -> str:
    """A label on its arc, with a background that hides the line."""
    x, y = MARGIN + sum(between) / 2, foot - LEVEL * beam.level
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
