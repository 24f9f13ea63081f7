"""The layout of a proof as a figure: people from left to right along the chain of told edges, composed edges above.

The told edges of a proof form a walk from the first node of the query to the second, and every composed edge covers a
part of it. So composed edges are bars over that part, each above those it is composed from, and bars of one height
never overlap. Columns are as narrow as the texts allow, so no text covers another, however long the story. In families,
people stand at the height of their generation. Lengths are in inches.
"""

from __future__ import annotations

import math
import warnings
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from ..data.relations.families import GENERATIONS
from ..data.relations.rows import Story
from .claims import Claim, Explanation, Reading

NAME_SIZE, LABEL_SIZE = 10.0, 8.5  # points
MARGIN = 0.06  # between any two texts
NAME_PAD, LABEL_PAD = 0.07, 0.03  # from a text to the border of its box
GENERATION = 0.95  # from one generation to the next
STEP = 0.55  # least distance of columns
ARROW = 0.5  # least room for an arrow between people of equal height
BESIDE = 0.26  # from an arrow to a label beside it
ABOVE = 0.12  # from the highest person to the composed edges
LINE = 0.21  # height of a line of text
BAND = 0.22  # from one level of bars to the next, besides the lines of text


@dataclass(frozen=True)
class Box:
    """A text and its place: the middle, and width and height with a margin."""

    text: str
    x: float
    y: float
    width: float
    height: float

    def overlaps(self, other: Box) -> bool:
        """Whether two boxes share an area."""
        across = (self.width + other.width) / 2 - abs(self.x - other.x)
        up = (self.height + other.height) / 2 - abs(self.y - other.y)
        return across > 1e-9 and up > 1e-9


@dataclass(frozen=True)
class Arrow:
    """A told edge between the places of two people, with its label."""

    start: int
    end: int
    label: Box


@dataclass(frozen=True)
class Bar:
    """A composed edge over a part of the walk; the query where no proof was found has no claim."""

    left: int
    right: int
    y: float
    texts: tuple[Box, ...]  # the head's answers, then layer, strength and weight
    claim: Claim | None = None
    pivot: int | None = None  # its place in the walk
    below: tuple[float, float] = (0.0, 0.0)  # heights of the two premises


@dataclass
class Layout:
    """Where everything stands. A place is a column with a person; a walk that comes back has one of them twice."""

    nodes: list[int]  # of each place
    names: list[Box] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)  # the conclusion first
    arcs: list[Arrow] = field(default_factory=list)  # told edges between people who are no neighbours
    base: float = 0.0  # where bars begin
    left_out: int = 0  # told edges that are not drawn

    def boxes(self) -> Iterator[Box]:
        """All texts but title and caption."""
        yield from self.names
        for arrow in (*self.arrows, *self.arcs):
            yield arrow.label
        for bar in self.bars:
            yield from bar.texts

    def is_again(self, place: int) -> bool:
        """Whether the person has a place further left."""
        return self.nodes[place] in self.nodes[:place]


@cache
def text_width(text: str, size: float, bold: bool = False) -> float:
    """The width of a text in the font of figures."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextToPath

    font = FontProperties(family="DejaVu Sans", size=size, weight="bold" if bold else "normal")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of letters that the font lacks: drawing them warns
        width, _, _ = TextToPath().get_text_width_height_descent(text, font, ismath=False)
    return float(width) / 72


def lay_out(explanation: Explanation) -> Layout:
    """Lay out the proof, or all told edges where there is none."""
    story, proof = explanation.story, explanation.proof
    leaves = list(_leaves(proof)) if proof else []
    layout = Layout([leaves[0].start, *(leaf.end for leaf in leaves)] if leaves else _order(story))
    told = story.told
    if leaves:
        used = {(leaf.end, leaf.start) if leaf.backwards else (leaf.start, leaf.end) for leaf in leaves}
        layout.left_out = len(told.keys() - used)
    between, others = _edges_of_proof(leaves) if leaves else _all_edges(layout.nodes, told)
    spans = _spans(proof) if proof else []
    if not spans:
        left, right = sorted(layout.nodes.index(node) for node in story.query)
        spans = [_Span(left, right, 1, _answers(explanation.answer, explanation.reading))]
    _place(layout, story, between, spans)
    _add_arcs(layout, others)
    layout.base = max(box.y + box.height / 2 for box in layout.boxes()) + ABOVE
    step = BAND + LINE * max(len(span.texts) for span in spans)
    for span in spans:
        y = layout.base + step * span.level
        x = (layout.names[span.left].x + layout.names[span.right].x) / 2
        texts = tuple(label_box(text, x, y - LINE * line, bold=True) for line, text in enumerate(span.texts))
        first, second = (layout.base + step * level for level in span.below)
        layout.bars.append(Bar(span.left, span.right, y, texts, span.claim, span.pivot, (first, second)))
    return layout


def _leaves(claim: Claim) -> Iterator[Claim]:
    if not claim.premises:
        yield claim
    for premise in claim.premises:
        yield from _leaves(premise)


@dataclass(frozen=True)
class _Span:
    """A composed edge from one place to another, above its premises."""

    left: int
    right: int
    level: int  # from 1; told edges have 0
    texts: list[str]
    claim: Claim | None = None
    pivot: int | None = None  # a place
    below: tuple[int, int] = (0, 0)  # levels of the premises


def _spans(proof: Claim) -> list[_Span]:
    """The composed edges of a proof, the conclusion first."""

    def visit(claim: Claim, left: int) -> tuple[int, int, list[_Span]]:
        """The last place and the level of a claim, with its spans."""
        if not claim.premises:
            return left + 1, 0, []
        pivot, first, before = visit(claim.premises[0], left)
        right, second, after = visit(claim.premises[1], pivot)
        assert claim.reading is not None
        texts = [
            *_answers(claim.relation, claim.reading),
            f"{claim.layer}: {claim.strength:.2f} / {claim.weight:.2f}",
        ]
        level = 1 + max(first, second)
        return right, level, [_Span(left, right, level, texts, claim, pivot, (first, second)), *before, *after]

    return visit(proof, 0)[2]


def _answers(relation: str, reading: Reading) -> list[str]:
    second = [f"or {reading.second[0]} ({reading.second[1]:.2f})"] if reading.second else []
    return [f"{relation} ({reading.probability:.2f})", *second]


def _order(story: Story) -> list[int]:
    """All nodes in the order of a walk along told edges from the first node of the query; the second stands last."""
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
    return order


Labelled = tuple[int, int, str]  # two places, and the label of the edge between them


def _edges_of_proof(leaves: Sequence[Claim]) -> tuple[dict[int, Labelled], list[Labelled]]:
    """The edge between each place and the next, by the former; there are no others."""
    between: dict[int, Labelled] = {}
    for place, leaf in enumerate(leaves):
        label = f"{leaf.relation}, used backwards" if leaf.backwards else leaf.relation
        between[place] = (place + 1, place, label) if leaf.backwards else (place, place + 1, label)
    return between, []


def _all_edges(nodes: Sequence[int], told: Mapping[tuple[int, int], str]) -> tuple[dict[int, Labelled], list[Labelled]]:
    """An edge between each place and the next, by the former, if any, and all others."""
    between: dict[int, Labelled] = {}
    others = []
    places = {node: place for place, node in enumerate(nodes)}
    for (start, end), relation in told.items():
        first, second = places[start], places[end]
        if abs(first - second) == 1 and min(first, second) not in between:
            between[min(first, second)] = (first, second, relation)
        else:
            others.append((first, second, f"{relation}, to itself" if start == end else relation))
    return between, others


def _heights(story: Story, nodes: Sequence[int]) -> list[float] | None:
    """The height of each place by generation; None where relations are no family's, or contradict each other."""
    steps: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for (start, end), relation in zip(story.edges, story.relations, strict=True):
        if relation not in GENERATIONS:
            return None
        steps[start].append((end, GENERATIONS[relation]))
        steps[end].append((start, -GENERATIONS[relation]))
    levels: dict[int, int] = {}
    for first in nodes:
        waiting = deque([] if first in levels else [first])
        levels.setdefault(first, 0)
        while waiting:
            node = waiting.popleft()
            for other, step in steps[node]:
                if other not in levels:
                    levels[other] = levels[node] + step
                    waiting.append(other)
                elif levels[other] != levels[node] + step:
                    return None
    lowest = min(levels[node] for node in nodes)
    return [GENERATION * (levels[node] - lowest) for node in nodes]


def _place(layout: Layout, story: Story, between: Mapping[int, Labelled], spans: Sequence[_Span]) -> None:
    """Place people and the labels of arrows from left to right, each as far left as all texts before it allow."""
    heights = _heights(story, layout.nodes)
    rows = heights or [0.0] * len(layout.nodes)
    layout.names.append(name_box(story.names[layout.nodes[0]], 0.0, rows[0]))
    placed = [*layout.names]
    for place in range(1, len(layout.nodes)):
        before, name = layout.names[-1], name_box(story.names[layout.nodes[place]], 0.0, rows[place])
        x = max(before.x + STEP, _right_of(name, placed) + name.width / 2)
        is_flat = name.y == before.y
        if is_flat:
            x = max(x, before.x + (before.width + name.width) / 2 + ARROW)
        for span in spans:
            if span.right == place > span.left:
                widest = max(label_box(text, 0.0, 0.0, bold=True).width for text in span.texts)
                x = max(x, layout.names[span.left].x + widest + 2 * MARGIN)
        edge = between.get(place - 1)
        if edge:
            # Beside a flat arrow, above it; in a plain chain above and below in turns, for then names can be nearer.
            beside = 0.0 if not is_flat else -BESIDE if heights is None and place % 2 == 0 else BESIDE
            label = label_box(edge[2], 0.0, (name.y + before.y) / 2 + beside)
            x = max(x, 2 * (_right_of(label, placed) + label.width / 2) - before.x)
            label = label_box(edge[2], (before.x + x) / 2, label.y)
            layout.arrows.append(Arrow(edge[0], edge[1], label))
            placed.append(label)
        layout.names.append(name_box(name.text, x, name.y))
        placed.append(layout.names[-1])


def _right_of(box: Box, placed: Sequence[Box]) -> float:
    """The right end of all boxes that a box of this height must stand right of."""
    at_height = (other for other in placed if abs(other.y - box.y) < (other.height + box.height) / 2)
    return max((other.x + other.width / 2 for other in at_height), default=-math.inf)


def _add_arcs(layout: Layout, edges: Sequence[Labelled]) -> None:
    """Place told edges between people who are no neighbours below everyone, short ones first."""
    lines: list[list[tuple[float, float]]] = []
    lowest = min(box.y - box.height / 2 for box in layout.boxes())
    for start, end, relation in sorted(edges, key=lambda edge: (abs(edge[1] - edge[0]), edge)):
        ends = sorted((layout.names[start].x, layout.names[end].x))
        label = label_box(relation, sum(ends) / 2, 0.0)
        left, right = min(ends[0], label.x - label.width / 2), max(ends[1], label.x + label.width / 2)
        free = (
            number
            for number, taken in enumerate([*lines, []])
            if all(right + MARGIN <= other or rest + MARGIN <= left for other, rest in taken)
        )
        line = next(free)
        if line == len(lines):
            lines.append([])
        lines[line].append((left, right))
        y = lowest - 0.25 - line * (LINE + 0.08)
        layout.arcs.append(Arrow(start, end, label_box(relation, label.x, y)))


def name_box(text: str, x: float, y: float) -> Box:
    """The name of a node."""
    return _box(text, x, y, text_width(text, NAME_SIZE), NAME_SIZE, NAME_PAD)


def label_box(text: str, x: float, y: float, bold: bool = False) -> Box:
    """A label of an edge."""
    return _box(text, x, y, text_width(text, LABEL_SIZE, bold), LABEL_SIZE, LABEL_PAD)


def _box(text: str, x: float, y: float, width: float, size: float, pad: float) -> Box:
    return Box(text, x, y, width + 2 * pad + MARGIN, 1.2 * size / 72 + 2 * pad)
