"""The figure of an explanation: people along the chain of told edges, the composed edges as bars above them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..draw.style import COLOURS, GREY, STYLE
from .claims import Explanation
from .layout import LABEL_SIZE, NAME_SIZE, Arrow, Bar, Box, Layout, lay_out, text_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CAPTION = (
    "arrows: told; bars: composed, from left to right, as the head reads them (probability), with layer: strength / "
    "attention weight; the darker, the stronger; a dot marks the pivot"
)
AGAIN = "dotted frame: the same once more"
STEP_COLOURS = tuple(COLOURS[number] for number in (0, 2, 3, 4, 5))
QUERY_COLOUR = COLOURS[1]
LEAST_WIDTH = 4.6
TITLE_SIZE = 11.5
AROUND = 0.15
INSET = 0.04  # of a bar, so that bars that meet stay apart


def draw_explanation(explanation: Explanation) -> Figure:
    """Draw the proof: told edges from the first node of the query to the second, and what they compose above.

    Where no proof was found, it draws all told edges.
    """
    import matplotlib
    from matplotlib.figure import Figure

    explanation = explanation.visible()
    layout = lay_out(explanation)
    title = _title(explanation)
    boxes = list(layout.boxes())
    left = min(box.x - box.width / 2 for box in boxes)
    right = max(box.x + box.width / 2 for box in boxes)
    spare = max(LEAST_WIDTH, text_width(title, TITLE_SIZE, bold=True)) - (right - left)
    left, right = left - max(0.0, spare / 2), right + max(0.0, spare / 2)
    bottom = min(box.y - box.height / 2 for box in boxes) - AROUND
    top = max(box.y + box.height / 2 for box in boxes) + AROUND
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(right - left, top - bottom))
        axes = figure.add_axes((0, 0, 1, 1), xlim=(left, right), ylim=(bottom, top))
        axes.set_axis_off()
        _Proof(axes, layout).draw()
        axes.text(left, top, title, fontsize=TITLE_SIZE, fontweight="bold", va="bottom")
        notes = "\n".join(line for note in _notes(explanation, layout) for line in wrapped(note, right - left))
        axes.text(left, bottom, notes, fontsize=LABEL_SIZE, color=GREY, va="top", linespacing=1.5)
    return figure


def _title(explanation: Explanation) -> str:
    start, end = (explanation.story.names[node] for node in explanation.story.query)
    title = f"{start} -{explanation.answer}-> {end}"
    return f"{title}  {explanation.reading.likelihood()}" if explanation.reading.second else title


def _notes(explanation: Explanation, layout: Layout) -> list[str]:
    """What is written below the drawing, in paragraphs."""
    again = any(map(layout.is_again, range(len(layout.nodes))))
    edges = f"{layout.left_out} told edge{'s' * (layout.left_out != 1)}"
    return [
        *([f"note: {explanation.note}"] if explanation.note else []),
        *([f"not drawn: {edges} that the proof does not use"] if layout.left_out else []),
        f"{CAPTION}; {AGAIN}" if again else CAPTION,
    ]


def wrapped(text: str, width: float) -> list[str]:
    """The lines of a text in this width."""
    lines: list[str] = []
    for word in text.split():
        if lines and text_width(f"{lines[-1]} {word}", LABEL_SIZE) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


class Picture:
    """Draws names, lines and labels."""

    def __init__(self, axes: Axes) -> None:
        self.axes = axes

    def write_name(self, name: Box, again: bool) -> None:
        frame = {
            "boxstyle": "round,pad=0.35",
            "facecolor": "white",
            "edgecolor": GREY,
            "linestyle": ":" if again else "-",
        }
        self.axes.text(name.x, name.y, name.text, fontsize=NAME_SIZE, ha="center", va="center", bbox=frame, zorder=6)

    def point(self, start: tuple[float, float], end: tuple[float, float], before: float, after: float) -> None:
        """Draw an arrow that begins and ends this many points from two points."""
        from matplotlib.patches import FancyArrowPatch

        style: dict[str, Any] = {"arrowstyle": "-|>", "mutation_scale": 10, "color": GREY, "linewidth": 1.4}
        self.axes.add_patch(FancyArrowPatch(start, end, shrinkA=before, shrinkB=after, zorder=2, **style))

    def line(
        self, points: list[tuple[float, float]], colour: str, *, width: float, style: str = "-", order: int = 1
    ) -> None:
        xs, ys = zip(*points, strict=True)
        self.axes.plot(xs, ys, color=colour, linewidth=width, linestyle=style, zorder=order, solid_capstyle="butt")

    def write(self, box: Box, colour: str, bold: bool = False) -> None:
        """Write a label before a white ground."""
        from matplotlib.colors import to_rgb

        ground = {"boxstyle": "round,pad=0.12", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}
        self.axes.text(
            box.x,
            box.y,
            box.text,
            color=[0.65 * part for part in to_rgb(colour)],  # the lighter colours are hard to read
            fontsize=LABEL_SIZE,
            fontweight="bold" if bold else "normal",
            ha="center",
            va="center",
            bbox=ground,
            zorder=5,
        )


class _Proof(Picture):
    """Draws the layout of a proof."""

    def __init__(self, axes: Axes, layout: Layout) -> None:
        super().__init__(axes)
        self.layout = layout

    def draw(self) -> None:
        """Draw everything; lines stand behind all texts."""
        for place, name in enumerate(self.layout.names):
            self.write_name(name, self.layout.is_again(place))
        for arrow in self.layout.arrows:
            self.draw_arrow(arrow)
        for arc in self.layout.arcs:
            self.draw_arc(arc)
        for bar in self.layout.bars:
            for place in {bar.left, bar.right} | ({bar.pivot} if bar.pivot is not None else set()):
                name, top = self.layout.names[place], self.layout.base if bar.claim else bar.y
                self.line([(name.x, name.y), (name.x, top)], GREY, width=0.6, style=":", order=0)
        for number, bar in enumerate(self.layout.bars):
            self.draw_bar(bar, QUERY_COLOUR if not number else STEP_COLOURS[(number - 1) % len(STEP_COLOURS)])

    def draw_arrow(self, arrow: Arrow) -> None:
        """A told edge between neighbours."""
        start, end = self.layout.names[arrow.start], self.layout.names[arrow.end]
        self.point((start.x, start.y), (end.x, end.y), _shrink(start, end), _shrink(end, start))
        self.write(arrow.label, GREY)

    def draw_arc(self, arc: Arrow) -> None:
        """A told edge below everyone: down, across and up again."""
        start, end = self.layout.names[arc.start], self.layout.names[arc.end]
        y = arc.label.y
        self.line([(start.x, start.y), (start.x, y), (end.x, y)], GREY, width=1.2, order=1)
        if start is not end:
            self.point((end.x, y), (end.x, end.y), 0.0, 72 * end.height / 2)
        self.write(arc.label, GREY)

    def draw_bar(self, bar: Bar, colour: str) -> None:
        """A composed edge, and below it a face that reaches down to its premises."""
        left, right = (self.layout.names[place].x for place in (bar.left, bar.right))
        ends = (left + INSET, right - INSET) if left < right else (left, right)
        if bar.claim is not None and bar.pivot is not None:
            from matplotlib.patches import Polygon

            assert bar.claim.strength is not None
            middle, (first, second) = self.layout.names[bar.pivot].x, bar.below
            low = [(ends[1], second), (middle, second), (middle, first), (ends[0], first)]
            face = [(ends[0], bar.y), (ends[1], bar.y), *low]
            shade = 0.06 + 0.34 * bar.claim.strength
            self.axes.add_patch(Polygon(face, facecolor=colour, alpha=shade, linewidth=0, zorder=1))
            joint = max(first, second)
            self.axes.plot([middle], [joint], "o", color=colour, markersize=4, zorder=4)
        style = "-" if bar.claim else "--"
        self.line([(ends[0], bar.y), (ends[1], bar.y)], colour, width=2.0, style=style, order=3)
        for number, text in enumerate(bar.texts):
            self.write(text, colour, bold=not number)


def _shrink(box: Box, towards: Box) -> float:
    """The distance, in points, from the middle of a box to its border in the direction of another."""
    across, up = abs(towards.x - box.x), abs(towards.y - box.y)
    sides = [half / step for half, step in ((box.width / 2, across), (box.height / 2, up)) if step]
    return 72 * min([*sides, 1.0]) * (across**2 + up**2) ** 0.5 + 1
