"""The figure of an explanation: told edges solid, the query and composed edges dashed, and the triangles between."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..data.clutrr import Story
from ..figures import COLOURS, GREY, STYLE
from .proof import Explanation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Point = tuple[float, float]

BEND = 0.12  # of lines that might lie on others, in their lengths


def draw_explanation(explanation: Explanation) -> Figure:
    """Draw the graph in an arc from the first node of the query to the second, with the proof inside it.

    The stronger a triangle, the wider its edge and the darker its face.
    """
    import matplotlib
    from matplotlib.figure import Figure

    story = explanation.story
    places = _arc(story)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 5.2))
        axes = figure.subplots()
        axes.set_aspect("equal")
        axes.set_axis_off()
        _draw_proof(axes, explanation, places)
        for (start, end), relation in zip(story.edges, story.relations, strict=True):
            bend = BEND if (end, start) in story.edges else 0.0  # else one of the two would hide the other
            _draw_edge(axes, places[start], places[end], relation, GREY, width=1.6, bend=bend, dashed=False)
        query = f"{explanation.answer} ({explanation.probability:.2f})"
        _draw_edge(axes, places[story.query[0]], places[story.query[1]], query, COLOURS[1], width=2.0)
        for node, (x, y) in enumerate(places):
            box: dict[str, Any] = {"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": GREY}
            axes.text(x, y, story.names[node], ha="center", va="center", bbox=box, zorder=6)
        axes.set_xlim(-1.35, 1.35)
        axes.set_ylim(min(y for _, y in places) - 0.25, max(y for _, y in places) + 0.25)
        names = [story.names[node] for node in story.query]
        axes.set_title(
            f"{names[0]} -{explanation.answer}-> {names[1]}", loc="left", fontsize=11.5, fontweight="bold", pad=12
        )
    return figure


def _draw_proof(axes: Axes, explanation: Explanation, places: list[Point]) -> None:
    from matplotlib.patches import Polygon

    for number, step in enumerate(explanation.proof.steps() if explanation.proof else ()):
        assert step.pivot is not None
        assert step.strength is not None
        colour = COLOURS[(0, 2, 3, 4, 5)[number % 5]]
        corners = [places[node] for node in (step.start, step.pivot, step.end)]
        axes.add_patch(Polygon(corners, facecolor=colour, alpha=0.05 + 0.2 * step.strength, linewidth=0, zorder=1))
        if number:  # the first is the query, which is drawn in a way of its own
            label = f"{step.relation} ({step.probability:.2f})"
            width = 0.8 + 2.4 * step.strength
            _draw_edge(axes, places[step.start], places[step.end], label, colour, width=width)


def _draw_edge(
    axes: Axes,
    start: Point,
    end: Point,
    label: str,
    colour: str,
    *,
    width: float,
    bend: float = BEND,
    dashed: bool = True,
) -> None:
    """An arrow with a label in its middle; of a self-edge, the label only."""
    if start == end:
        axes.annotate(label, start, xytext=(0, 22), textcoords="offset points", ha="center", color=colour, fontsize=9)
        return
    arrow = {
        "arrowstyle": "-|>",
        "connectionstyle": f"arc3,rad={bend}",
        "color": colour,
        "linewidth": width,
        "linestyle": "--" if dashed else "-",
        "shrinkA": 18,
        "shrinkB": 18,
    }
    axes.annotate("", xy=end, xytext=start, arrowprops=arrow, zorder=3)
    # The middle of the bent line: a quadratic curve whose control point lies `bend` lengths beside the straight one.
    x = (start[0] + end[0]) / 2 + bend * (end[1] - start[1]) / 2
    y = (start[1] + end[1]) / 2 - bend * (end[0] - start[0]) / 2
    box = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}
    axes.text(x, y, label, color=colour, fontsize=9, ha="center", va="center", bbox=box, zorder=5)


def _arc(story: Story) -> list[Point]:
    """A place for each node on an open circle, in the order in which told edges reach it from the query's first one."""
    first, last = story.query
    order = [first]
    for node in order:  # grows while it is walked through
        order += [end for start, end in story.edges if start == node and end not in order]
    order += [node for node in range(story.size) if node not in order]
    if last != first:
        order.remove(last)
        order.append(last)
    from_angle, to_angle = math.radians(205), math.radians(-25)
    places: list[Point] = [(0.0, 0.0)] * story.size
    for position, node in enumerate(order):
        angle = from_angle + (to_angle - from_angle) * position / max(1, len(order) - 1)
        places[node] = (math.cos(angle), math.sin(angle))
    return places
