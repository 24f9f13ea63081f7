"""The figure of an explained link: head on the left, tail on the right, and a lane of known facts for each reason.

Every lane has a height of its own, with the labels of its facts above and below its line, and columns as wide as these;
lines fan out from head and tail where there are no labels. So no text covers another. Lengths are in inches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...draw.style import GREY, STYLE
from ..figure import AROUND, LEAST_WIDTH, QUERY_COLOUR, TITLE_SIZE, Picture, wrapped
from ..layout import ARROW, LABEL_SIZE, LINE, Box, label_box, name_box, text_width
from .claims import LinkExplanation, Step

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CAPTION = (
    "arrows: known facts; above a line those from left to right, below it those from right to left; dashed: the link "
    "that they speak for"
)
FAN = 0.5  # from head and tail to where lanes begin
BETWEEN = 0.16  # lanes
OFF = 0.14  # from a line to the middle of the label beside it


Texts = tuple[list[str], list[str]]  # facts from left to right, and from right to left


@dataclass
class Part:
    """A line between two places of a lane, with the facts of that pair."""

    left: float
    right: float
    forth: list[Box]  # labels of facts from left to right
    back: list[Box]


@dataclass
class Lane:
    """One reason, or the link itself."""

    y: float
    parts: list[Part]
    names: list[Box]  # between its parts
    is_link: bool = False


@dataclass
class LinkLayout:
    """Where everything stands."""

    head: Box
    tail: Box
    lanes: list[Lane] = field(default_factory=list)

    def boxes(self) -> Iterator[Box]:
        """All texts but title and caption."""
        yield from (self.head, self.tail)
        for lane in self.lanes:
            yield from lane.names
            for part in lane.parts:
                yield from (*part.forth, *part.back)


def lay_out_link(explanation: LinkExplanation) -> LinkLayout:
    """Lay out the link and its reasons, from top to bottom."""
    names, (head, _) = explanation.names, explanation.ends
    walks = [reason.walk(head) for reason in explanation.reasons]
    inner = [[names[step.end] for step in walk[:-1]] for walk in walks]
    labels = [[_labels(step, names[step.start]) for step in walk] for walk in walks]
    link = f"{explanation.link.relation} ({explanation.probability:.2f})"
    rows: list[tuple[list[str], list[Texts]]] = [([], [([link], [])]), *zip(inner, labels, strict=True)]
    width = max(_width(*row) for row in rows)
    left = name_box(explanation.link.head, 0.0, 0.0)
    start = left.width / 2 + FAN
    lanes, y = [], 0.0
    for number, (between, texts) in enumerate(rows):
        above = max(len(forth) for forth, _ in texts)
        below = max(len(back) for _, back in texts)
        room = name_box("x", 0.0, 0.0).height / 2 if between else LINE / 2
        y -= max(room, OFF + LINE * above)
        lanes.append(_lane(y, start, width, between, texts, not number))
        y -= max(room, OFF + LINE * below) + BETWEEN
    middle = (lanes[0].y + lanes[-1].y) / 2
    right = name_box(explanation.link.tail, 0.0, middle)
    place = start + width + FAN + right.width / 2
    return LinkLayout(name_box(left.text, 0.0, middle), name_box(right.text, place, middle), lanes)


def _labels(step: Step, start: str) -> Texts:
    """The relations of the facts between two nodes, those that begin at the left one first."""
    forth = [fact.relation for fact in step.facts if fact.head == start]
    return forth, [fact.relation for fact in step.facts if fact.head != start]


def _part_width(texts: Texts) -> float:
    return max(label_box(text, 0.0, 0.0, bold=True).width for text in (*texts[0], *texts[1])) + ARROW


def _width(names: Sequence[str], labels: Sequence[Texts]) -> float:
    """The least width of a lane."""
    return sum(map(_part_width, labels)) + sum(name_box(name, 0.0, 0.0).width for name in names)


def _lane(y: float, x: float, width: float, names: Sequence[str], labels: Sequence[Texts], is_link: bool) -> Lane:
    """A lane of this width, whose parts share what it is wider than need be."""
    spare = (width - _width(names, labels)) / len(labels)
    lane = Lane(y, [], [], is_link)
    for number, texts in enumerate(labels):
        right = x + _part_width(texts) + spare
        forth, back = (
            [
                label_box(text, (x + right) / 2, y + side * (OFF + LINE * line), bold=True)
                for line, text in enumerate(some)
            ]
            for side, some in zip((1, -1), texts, strict=True)
        )
        lane.parts.append(Part(x, right, forth, back))
        if number < len(names):
            box = name_box(names[number], 0.0, y)
            lane.names.append(name_box(names[number], right + box.width / 2, y))
            right += box.width
        x = right
    return lane


def draw_link_explanation(explanation: LinkExplanation) -> Figure:
    """Draw the link and the known facts of its reasons."""
    import matplotlib
    from matplotlib.figure import Figure

    explanation = explanation.visible()
    layout = lay_out_link(explanation)
    title = explanation.title()
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
        _Link(axes, layout).draw()
        axes.text(left, top, title, fontsize=TITLE_SIZE, fontweight="bold", va="bottom")
        notes = "\n".join(line for note in _notes(explanation) for line in wrapped(note, right - left))
        axes.text(left, bottom, notes, fontsize=LABEL_SIZE, color=GREY, va="top", linespacing=1.5)
    return figure


def _notes(explanation: LinkExplanation) -> list[str]:
    """What is written below the drawing, in paragraphs."""
    without = f"without these facts {explanation.stands(explanation.without)}"
    return [
        *([f"note: {explanation.note}"] if explanation.note else []),
        *([without] if explanation.reasons else []),
        CAPTION,
    ]


class _Link(Picture):
    """Draws the layout of a link and its reasons."""

    def __init__(self, axes: Axes, layout: LinkLayout) -> None:
        super().__init__(axes)
        self.layout = layout

    def draw(self) -> None:
        """Draw everything; lines stand behind all texts."""
        head, tail = self.layout.head, self.layout.tail
        met: set[str] = set()
        for lane in self.layout.lanes:
            for box in lane.names:
                self.write_name(box, box.text in met)
                met.add(box.text)
            self.draw_lane(lane, (head.x + head.width / 2, head.y), (tail.x - tail.width / 2, tail.y))
        self.write_name(head, False)
        self.write_name(tail, tail.text == head.text)

    def draw_lane(self, lane: Lane, start: tuple[float, float], end: tuple[float, float]) -> None:
        """The lines from the head through all parts to the tail."""
        colour, style = (QUERY_COLOUR, "--") if lane.is_link else (GREY, "-")
        for number, part in enumerate(lane.parts):
            ends = (part.left, lane.y), (part.right, lane.y)
            before, after = [start] if not number else [], [end] if number == len(lane.parts) - 1 else []
            self.line([*before, *ends, *after], colour, width=1.4, style=style, order=1)
            # Tips stand where lanes end, not at head and tail, where all lanes meet.
            if part.forth:
                self.tip(*ends, colour)
            if part.back:
                self.tip(ends[1], ends[0], colour)
            for box in (*part.forth, *part.back):
                self.write(box, colour, bold=lane.is_link)

    def tip(self, start: tuple[float, float], end: tuple[float, float], colour: str) -> None:
        """The tip of an arrow, at the end of a line."""
        from matplotlib.patches import FancyArrowPatch

        style: dict[str, Any] = {"arrowstyle": "-|>", "mutation_scale": 10, "color": colour, "linewidth": 0}
        self.axes.add_patch(FancyArrowPatch(start, end, shrinkA=0, shrinkB=0, zorder=2, **style))
