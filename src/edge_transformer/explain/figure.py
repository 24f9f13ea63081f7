"""The figure of an explanation: told edges solid, the query and composed edges dashed, triangles filled.

Lengths are in inches: the figure grows with the number of nodes, so that names and labels keep their size.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..data.relations.rows import Story
from ..draw.style import COLOURS, GREY, STYLE
from .claims import Claim, Explanation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Point = tuple[float, float]
Edge = tuple[int, int]
Box = tuple[Point, Point]  # its middle and its size

CAPTION = (
    "solid: told   dashed: composed, as the head reads it (probability)   "
    "in a triangle: layer, strength / attention weight; the darker, the stronger"
)
STEP_COLOURS = tuple(COLOURS[number] for number in (0, 2, 3, 4, 5))
QUERY_COLOUR = COLOURS[1]
NAME_SIZE, LABEL_SIZE = 10.0, 8.5  # points
FROM_ANGLE, TO_ANGLE = math.radians(205), math.radians(-25)  # of the arc that nodes stand on
LEAST_RADIUS = 2.2
LEAST_SIDE = 3.9  # half the width of the caption
ARROW = 1.0  # between the boxes of neighbours
BEND = 0.12  # of lines that might overlap, as a fraction of their lengths
BESIDE = 0.14  # from a line to a label beside it
LINE_BOX = (0.06, 0.06)  # room that a point of a line takes
SECOND_CHOICE = 0.008  # square inches


def draw_explanation(explanation: Explanation) -> Figure:
    """Draw the graph in an arc from the first node of the query to the second, with the proof inside it.

    Stronger triangles have wider edges and darker faces; the face shows layer, strength and weight.
    """
    import matplotlib
    from matplotlib.figure import Figure

    explanation = explanation.visible()
    story = explanation.story
    boxes = [_box(name, NAME_SIZE) for name in story.names]
    radius = _radius(story.size, max(width for width, _ in boxes))
    places = [(radius * x, radius * y) for x, y in _arc(story)]
    steps = _steps(explanation)
    curves = _curves(story, steps, places)
    query = _Curve(places[story.query[0]], places[story.query[1]], BEND)
    heights = [y for _, y in (*places, *(curve.at(0.5) for curve in (query, *curves.values())))]
    side, bottom, top = max(radius + 1.3, LEAST_SIDE), min(heights) - 0.4, max(heights) + 0.5
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(2 * side, top - bottom))
        axes = figure.add_axes((0, 0, 1, 1), xlim=(-side, side), ylim=(bottom, top))
        axes.set_axis_off()
        picture = _Picture(axes, places, boxes)
        for node, (x, y) in enumerate(places):
            box = {"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": GREY}
            axes.text(x, y, story.names[node], fontsize=NAME_SIZE, ha="center", va="center", bbox=box, zorder=6)
        backwards = {(claim.end, claim.start) for claim in _leaves(explanation.proof) if claim.backwards}
        lines = []
        for edge, relation in dict(zip(story.edges, story.relations, strict=True)).items():
            label = f"{relation}, used backwards" if edge in backwards else relation
            lines.append(_Line(edge, curves[edge], label, GREY, width=1.6, dashed=False))
        answer = f"{explanation.answer} ({explanation.probability:.2f})"
        lines.append(_Line(story.query, query, answer, QUERY_COLOUR, width=2.0))
        for step, colour in list(steps.items())[1:]:  # the first is the query
            assert step.strength is not None
            assert step.reading is not None
            edge, label = (step.start, step.end), f"{step.relation} {step.reading.likelihood()}"
            lines.append(_Line(edge, curves[edge], label, colour, width=0.8 + 2.4 * step.strength))
        for line in lines:
            picture.draw_line(line)
        for step, colour in steps.items():
            picture.draw_triangle(step, colour, curves)
        for line in lines:  # labels avoid lines and each other, so lines are drawn first
            picture.write_label(line)
        start, end = (story.names[node] for node in story.query)
        title = f"{start} -{explanation.answer}-> {end}"
        if explanation.reading.second:  # which the label of the query does not show
            title += f"  {explanation.reading.likelihood()}"
        axes.text(-side, top, title, fontsize=11.5, fontweight="bold", va="bottom")
        letters = int(2 * side * 72 / (0.55 * LABEL_SIZE))  # that a line has room for
        notes = textwrap.wrap(f"note: {explanation.note}", letters) if explanation.note else []
        axes.text(
            -side, bottom, "\n".join([*notes, CAPTION]), fontsize=LABEL_SIZE, color=GREY, va="top", linespacing=1.6
        )
    return figure


class _Curve(NamedTuple):
    """A quadratic curve whose control point lies `bend` lengths to the right of the straight line's middle."""

    start: Point
    end: Point
    bend: float

    @property
    def control(self) -> Point:
        (x0, y0), (x1, y1) = self.start, self.end
        return (x0 + x1) / 2 + self.bend * (y1 - y0), (y0 + y1) / 2 - self.bend * (x1 - x0)

    def at(self, part: float) -> Point:
        x, y = (
            (1 - part) ** 2 * start + 2 * part * (1 - part) * control + part**2 * end
            for start, control, end in zip(self.start, self.control, self.end, strict=True)
        )
        return x, y


class _Line(NamedTuple):
    """An edge to draw."""

    edge: Edge
    curve: _Curve
    label: str
    colour: str
    width: float
    dashed: bool = True


class _Picture:
    """Draws edges and triangles, and finds a free place for each of their labels."""

    def __init__(self, axes: Axes, places: list[Point], boxes: list[Point]) -> None:
        self.axes, self.places, self.boxes = axes, places, boxes
        self.taken: list[Box] = list(zip(places, boxes, strict=True))
        self.lines: dict[_Line, np.ndarray] = {}  # their points, (points, 2), each the middle of a LINE_BOX

    def draw_line(self, line: _Line) -> None:
        """Draw an arrow; nothing for a self-edge."""
        from matplotlib.patches import FancyArrowPatch

        curve = line.curve
        if curve.start == curve.end:
            return
        arrow = FancyArrowPatch(
            curve.start,
            curve.end,
            arrowstyle="-|>",
            mutation_scale=11,
            connectionstyle=f"arc3,rad={curve.bend}",
            color=line.colour,
            linewidth=line.width,
            linestyle="--" if line.dashed else "-",
            shrinkA=self.shrink(line.edge[0], curve.control),
            shrinkB=self.shrink(line.edge[1], curve.control),
            zorder=3,
        )
        self.axes.add_patch(arrow)
        points = round(math.dist(curve.start, curve.end) / LINE_BOX[0])
        self.lines[line] = _columns(curve.at(point / points) for point in range(1, points))

    def write_label(self, line: _Line) -> None:
        """Write on the line, outside it between neighbours, beside it if that is full, or above a self-edge."""
        start, end, bend = line.curve
        if start == end:
            self.write(line.label, [(start[0], start[1] + 0.3 + 0.2 * number) for number in range(4)], line.colour)
            return
        along = [line.curve.at(part) for part in (0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74, 0.18, 0.82)]
        outside = [_beside(along[0], line.label, 1.0)] if not bend and self.are_neighbours(start, end) else []
        inside = [_beside(spot, line.label, -1.0) for spot in along]
        self.write(line.label, [*outside, *along], line.colour, second=inside, own=line)

    def are_neighbours(self, start: Point, end: Point) -> bool:
        """Whether two places are neighbours on the arc."""
        return math.dist(start, end) < 1.1 * min(math.dist(self.places[0], place) for place in self.places[1:])

    def draw_triangle(self, step: Claim, colour: str, curves: dict[Edge, _Curve]) -> None:
        """Draw the face between the curves of its edges, with layer, strength and weight."""
        from matplotlib.patches import PathPatch
        from matplotlib.path import Path

        assert step.pivot is not None
        assert step.strength is not None
        sides = [curves[edge] for edge in ((step.start, step.pivot), (step.pivot, step.end), (step.start, step.end))]
        corners = [self.places[node] for node in (step.start, step.pivot, step.end)]
        points = [corners[0], sides[0].control, corners[1], sides[1].control, corners[2], sides[2].control, corners[0]]
        face = Path(points, [Path.MOVETO] + [Path.CURVE3] * 6)
        self.axes.add_patch(PathPatch(face, facecolor=colour, alpha=0.06 + 0.34 * step.strength, linewidth=0, zorder=1))
        inside = [*corners, *(side.at(0.5) for side in sides)]
        centre = (sum(x for x, _ in inside) / 6, sum(y for _, y in inside) / 6)
        spots = [
            (centre[0] + part * (x - centre[0]), centre[1] + part * (y - centre[1]))
            for part in (0.0, 0.15, 0.3, 0.45, 0.6)
            for x, y in inside
        ]
        self.write(f"{step.layer}: {step.strength:.2f} / {step.weight:.2f}", spots, colour, bold=True)

    def write(
        self,
        label: str,
        spots: list[Point],
        colour: str,
        *,
        second: Sequence[Point] = (),
        bold: bool = False,
        own: _Line | None = None,
    ) -> None:
        """Write at the first spot that is free except for the label's own line, else at the one that covers least.

        A spot of `second` must cover clearly less to be chosen.
        """
        from matplotlib.colors import to_rgb

        box = _box(label, LABEL_SIZE)
        points = np.concatenate([_columns(()), *(points for line, points in self.lines.items() if line != own)])
        middles = np.concatenate([_columns(middle for middle, _ in self.taken), points])
        sizes = np.concatenate([_columns(size for _, size in self.taken), np.full_like(points, LINE_BOX)])
        costs = dict.fromkeys(second, SECOND_CHOICE) | dict.fromkeys(spots, 0.0)
        spot, least = spots[0], math.inf
        for candidate in (*spots, *second):
            cost = costs[candidate] + _covered((candidate, box), middles, sizes)
            if cost < least:
                spot, least = candidate, cost
            if not least:
                break
        self.taken.append((spot, box))
        behind = {"boxstyle": "round,pad=0.12", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}
        self.axes.text(
            *spot,
            label,
            color=[0.65 * part for part in to_rgb(colour)],  # the lighter colours are hard to read
            fontsize=LABEL_SIZE,
            fontweight="bold" if bold else "normal",
            ha="center",
            va="center",
            bbox=None if bold else behind,
            zorder=5,
        )

    def shrink(self, node: int, towards: Point) -> float:
        """The distance, in points, from the middle of a node's box to its border."""
        (x, y), (width, height) = self.places[node], self.boxes[node]
        far = math.dist((x, y), towards) or 1.0
        across, up = abs(towards[0] - x) / far, abs(towards[1] - y) / far
        inches = min(width / 2 / across if across else math.inf, height / 2 / up if up else math.inf)
        return 72 * inches + 2


def _beside(spot: Point, label: str, side: float) -> Point:
    """The place of a label beside a spot: outwards (1) or inwards (-1) from the middle of the arc."""
    (x, y), (width, height) = spot, _box(label, LABEL_SIZE)
    far = math.hypot(x, y) or 1.0
    move = side * (BESIDE + abs(x / far) * (width - height) / 2)
    return x + move * x / far, y + move * y / far


def _columns(pairs: Iterable[Point]) -> np.ndarray:
    """Points or sizes as (pairs, 2), also if there are none."""
    return np.array(list(pairs), dtype=float).reshape(-1, 2)


def _covered(box: Box, middles: np.ndarray, sizes: np.ndarray) -> float:
    """The area that a box shares with other boxes, given by middles and sizes, (boxes, 2)."""
    (x, y), (width, height) = box
    across = (width + sizes[:, 0]) / 2 - abs(x - middles[:, 0])
    near = np.flatnonzero(across > 0)
    up = (height + sizes[near, 1]) / 2 - abs(y - middles[near, 1])
    return float(sum((across[near] * up.clip(0)).tolist()))


def _box(text: str, size: float) -> Point:
    """The approximate width and height of a text with a margin."""
    return (0.6 * len(text) * size + 7) / 72, (1.2 * size + 6) / 72


def _steps(explanation: Explanation) -> dict[Claim, str]:
    """The composed claims with colours, the query first, each triangle once."""
    steps: dict[tuple[int, int | None, int], Claim] = {}
    for step in explanation.proof.steps() if explanation.proof else ():
        steps.setdefault((step.start, step.pivot, step.end), step)
    return {step: STEP_COLOURS[number % len(STEP_COLOURS)] for number, step in enumerate(steps.values())}


def _leaves(claim: Claim | None) -> Iterable[Claim]:
    if claim and not claim.premises:
        yield claim
    for premise in claim.premises if claim else ():
        yield from _leaves(premise)


def _curves(story: Story, steps: Iterable[Claim], places: list[Point]) -> dict[Edge, _Curve]:
    """Curves of edges: told ones straight, or bent apart if both directions are told; composed ones bent inwards."""
    curves: dict[Edge, _Curve] = {}

    for start, end in dict.fromkeys(story.edges):
        bend = 2 * BEND if (end, start) in story.edges else 0.0
        curves[start, end] = _Curve(places[start], places[end], bend)
    for step in steps:
        edge = step.start, step.end
        if edge not in curves:
            bend = 0.0 if edge == story.query else 2 * BEND if edge[::-1] in curves else BEND
            sides = [_Curve(places[step.start], places[step.end], side) for side in (bend, -bend)]
            curves[edge] = min(sides, key=lambda curve: math.hypot(*curve.at(0.5)))
    for start, end in list(curves):  # a told edge that is used backwards
        curves.setdefault((end, start), _Curve(places[end], places[start], -curves[start, end].bend))
    return curves


def _radius(people: int, widest: float) -> float:
    """The radius of the arc, with room for an arrow between neighbours."""
    gap = (FROM_ANGLE - TO_ANGLE) / max(1, people - 1)
    return max(LEAST_RADIUS, (widest + ARROW) / (2 * math.sin(gap / 2)))


def _arc(story: Story) -> list[Point]:
    """A place for each node on the arc, in the order of a walk along told edges.

    The walk starts at the first node of the query; the second node stands last.
    """
    first, last = story.query
    order: list[int] = []
    waiting = [*reversed(range(story.size)), first]
    while waiting:
        node = waiting.pop()
        if node not in order:
            order.append(node)
            waiting += [end for start, end in reversed(story.edges) if start == node]
    if last != first:
        order.remove(last)
        order.append(last)
    places: list[Point] = [(0.0, 0.0)] * story.size
    for position, node in enumerate(order):
        angle = FROM_ANGLE + (TO_ANGLE - FROM_ANGLE) * position / max(1, len(order) - 1)
        places[node] = (math.cos(angle), math.sin(angle))
    return places
