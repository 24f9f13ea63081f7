"""What text diagrams are drawn with: characters of lines, and rows of cells to put them in."""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import cell_len


@dataclass(frozen=True)
class Strokes:
    """The characters of lines. A branch is named by its arms: up, down, left, right."""

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
    """Rows of cells. A text stands in its first cell, and the other cells that it covers are empty."""

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
