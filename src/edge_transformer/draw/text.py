"""Arc diagrams as text. Where the width is too small for tokens side by side they go one below the other.

In both forms a line that meets another without a corner or a branch goes on behind it. Side by side:

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

from rich.cells import cell_len, set_cell_size

from .arcs import ArcDiagram
from .canvas import ASCII, UNICODE
from .horizontal import side_by_side
from .vertical import one_below_the_other

GAP = 2  # between tokens, and between columns


def draw_text(diagram: ArcDiagram, width: int | None = None, *, ascii: bool = False, encoding: str = "utf-8") -> str:
    """Draw a diagram in lines of at most `width` cells.

    Args:
        width: of the terminal; None for any. Tokens side by side need all of theirs; one below the other, what does
            not fit is cut off with a mark.
        ascii: draw lines with ASCII characters. Also done where the encoding does not have the others.
        encoding: of the output; texts that it does not have are written as escapes.
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
