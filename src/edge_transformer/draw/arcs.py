"""Content and layout of arc diagrams, common to text and SVG."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple, Protocol

from rich.cells import cell_len

from ..errors import UserError

ARC_COLUMNS = ("role", "deprel")  # columns that label the arc from a token's parent
JOINERS = "\u200c\u200d"  # invisible, but letters of some scripts look different without them
MOST_LETTERS = 28  # of a label of a graph with any number of edges, such as a predicate
Span = tuple[int, int]  # two positions, the smaller one first


class Arc(NamedTuple):
    """An arc between two tokens."""

    head: int
    dependent: int
    label: str

    @property
    def span(self) -> Span:
        """The tokens that it connects, from left to right."""
        return min(self.head, self.dependent), max(self.head, self.dependent)


class Graph(Protocol):
    """A sentence as a graph, such as a `TokenGraph`; a token without parent is its own parent."""

    @property
    def tokens(self) -> tuple[str, ...]: ...
    @property
    def parents(self) -> tuple[int, ...]: ...
    @property
    def labels(self) -> Mapping[str, tuple[str, ...]]: ...


class Tree(Protocol):
    """A dependency tree, such as a `DependencySentence`; heads count from 1, and 0 is the root."""

    @property
    def words(self) -> tuple[str, ...]: ...
    @property
    def heads(self) -> tuple[int, ...]: ...
    @property
    def relations(self) -> tuple[str, ...]: ...


class EdgeGraph(Protocol):
    """A sentence with any number of edges, such as a `SentenceGraph`; an edge to itself is a label of a token."""

    @property
    def tokens(self) -> tuple[str, ...]: ...
    @property
    def edges(self) -> tuple[tuple[int, int, str], ...]: ...
    @property
    def labels(self) -> Mapping[str, tuple[str, ...]]: ...
    @property
    def sentence(self) -> Mapping[str, str]: ...


@dataclass(frozen=True)
class GraphDiagram:
    """Tokens with arcs above and below them, and rows of notes between the tokens and the arcs below."""

    tokens: tuple[str, ...]
    above: tuple[Arc, ...]
    below: tuple[Arc, ...] = ()
    notes: tuple[tuple[str, ...], ...] = ()
    roots: frozenset[int] = frozenset()  # tokens to mark

    @property
    def size(self) -> int:
        """The number of tokens."""
        return len(self.tokens)

    def visible(self, encoding: str = "utf-8") -> GraphDiagram:
        """The same diagram with all texts made `visible`."""

        def shown(arcs: Sequence[Arc]) -> tuple[Arc, ...]:
            return tuple(arc._replace(label=visible(arc.label, encoding)) for arc in arcs)

        tokens, *notes = (tuple(visible(text, encoding) for text in row) for row in (self.tokens, *self.notes))
        return GraphDiagram(tokens, shown(self.above), shown(self.below), tuple(notes), self.roots)

    def describe(self) -> str:
        """The arcs in words, for screen readers."""
        arcs = [f"{self.tokens[head]} -{label}-> {self.tokens[end]}" for head, end, label in (*self.above, *self.below)]
        return "; ".join(arcs) or "no arcs"


@dataclass(frozen=True)
class ArcDiagram:
    """Tokens, an arc to each of them from its parent, and rows of notes.

    Args:
        parents: one a token; a token that is its own parent has no arc.
        labels: one a token, written on its arc, or below a token without arc.
        notes: rows to write below the tokens, with one text a token, mostly "".
    """

    tokens: tuple[str, ...]
    parents: tuple[int, ...]
    labels: tuple[str, ...]
    notes: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        size = len(self.tokens)
        if not size:
            raise UserError("an arc diagram needs at least one token")
        for name, column in (
            ("parents", self.parents),
            ("labels", self.labels),
            *(("notes", row) for row in self.notes),
        ):
            if len(column) != size:
                raise UserError(f"arc diagram: found {len(column)} {name}; expected one for each of the {size} tokens")
        if not all(0 <= parent < size for parent in self.parents):
            raise UserError(f"arc diagram: found parents {list(self.parents)}; expected numbers from 0 to {size - 1}")

    @property
    def size(self) -> int:
        """The number of tokens."""
        return len(self.tokens)

    @cached_property
    def arcs(self) -> tuple[int, ...]:
        """The tokens that have a parent; an arc is named by the token it leads to."""
        return tuple(token for token, parent in enumerate(self.parents) if parent != token)

    @cached_property
    def roots(self) -> frozenset[int]:
        """Tokens with children and no parent; a token without any arc is no root."""
        return frozenset(self.parents[token] for token in self.arcs).difference(self.arcs)

    def rows_below(self) -> list[tuple[str, ...]]:
        """The rows below the tokens: labels of tokens without arc, then notes; no empty rows."""
        pairs = zip(self.labels, self.parents, strict=True)
        without_arc = tuple(label if parent == token else "" for token, (label, parent) in enumerate(pairs))
        return [row for row in (without_arc, *self.notes) if any(row)]

    def visible(self, encoding: str = "utf-8") -> ArcDiagram:
        """The same diagram with all texts made `visible`."""

        def shown(texts: Sequence[str]) -> tuple[str, ...]:
            return tuple(visible(text, encoding) for text in texts)

        return ArcDiagram(shown(self.tokens), self.parents, shown(self.labels), tuple(map(shown, self.notes)))

    def as_graph(self) -> GraphDiagram:
        """The same as arcs above the tokens."""
        above = tuple(Arc(self.parents[token], token, self.labels[token]) for token in self.arcs)
        return GraphDiagram(self.tokens, above, (), tuple(self.rows_below()), self.roots)


def diagram_of_graph(graph: Graph, arc_column: str | None = None) -> ArcDiagram:
    """The diagram of a graph, with one column of labels on the arcs and the others below the tokens.

    `arc_column` is by default "role", else "deprel", else the first column.
    """
    if arc_column is not None and arc_column not in graph.labels:
        known = ", ".join(graph.labels) or "none"
        raise UserError(f"arc diagram: found no column {arc_column!r}; the graph has {known}")
    chosen = arc_column or next((name for name in (*ARC_COLUMNS, *graph.labels) if name in graph.labels), None)
    labels = graph.labels[chosen] if chosen else ("",) * len(graph.tokens)
    notes = tuple(column for name, column in graph.labels.items() if name != chosen)
    return ArcDiagram(graph.tokens, graph.parents, labels, notes)


def diagram_of_edges(graph: EdgeGraph) -> GraphDiagram:
    """The diagram of a graph with any number of edges. Those that would cross others go below the tokens.

    Several labels of a pair share an arc. Labels of a token stand below it, then its columns. Long ones are cut.
    """
    labels: dict[Span, list[str]] = {}
    own: list[list[str]] = [[] for _ in graph.tokens]
    for head, dependent, label in graph.edges:
        if head == dependent:
            own[head].append(_brief(label))
        else:
            labels.setdefault((head, dependent), []).append(_brief(label))
    arcs = [Arc(*ends, ", ".join(names)) for ends, names in labels.items()]
    sides: tuple[list[Arc], list[Arc]] = ([], [])
    for arc in sorted(arcs, key=lambda arc: (arc.span[1] - arc.span[0], arc)):
        over, under = (sum(_disturb(arc, other) for other in side) for side in sides)
        sides[under < over].append(arc)
    most = max(map(len, own))
    notes = [tuple(names[row] if row < len(names) else "" for names in own) for row in range(most)]
    notes += [column for column in graph.labels.values() if any(column)]
    above, below = (tuple(sorted(side)) for side in sides)
    return GraphDiagram(graph.tokens, above, below, tuple(notes))


def _brief(label: str) -> str:
    return label if len(label) <= MOST_LETTERS else f"{label[: MOST_LETTERS - 3]}..."


def _disturb(one: Arc, other: Arc) -> int:
    """How hard two arcs are to read on one side: 2 where they cross or connect the same tokens, 1 where one begins at a
    token inside of which the other ends.
    """
    (left, right), (start, end) = one.span, other.span
    if left < start < right < end or start < left < end < right or one.span == other.span:
        return 2
    short, long = sorted((one, other), key=lambda arc: arc.span[1] - arc.span[0])
    shared = long.head == short.dependent and (long.dependent > long.head) == (short.head > long.head)
    return int(shared)


def diagram_of_tree(tree: Tree, root: str = "ROOT") -> ArcDiagram:
    """The diagram of a dependency tree, with its artificial root before the first word."""
    if not tree.heads:
        raise UserError("arc diagram: found a sentence without a tree; expected a parsed one")
    return ArcDiagram((root, *tree.words), (0, *tree.heads), ("", *tree.relations))


def levels(spans: Sequence[Span]) -> list[int]:
    """Heights, from 1, for lines over these spans: above all spans inside, without overlap.

    Lines that share no more than an end may have the same height.
    """
    found: dict[int, int] = {}
    for line in sorted(range(len(spans)), key=lambda line: (spans[line][1] - spans[line][0], spans[line])):
        left, right = spans[line]
        inside, taken = 0, set()
        for other, level in found.items():
            start, end = spans[other]
            if start < right and left < end:
                taken.add(level)
                if left <= start and end <= right:
                    inside = max(inside, level)
        found[line] = next(level for level in range(inside + 1, inside + 2 + len(taken)) if level not in taken)
    return [found[line] for line in range(len(spans))]


def visible(text: str, encoding: str = "utf-8") -> str:
    """Escape what moves the cursor, is invisible, or is not in the encoding."""
    shown = ""
    for place, letter in enumerate(text):
        if letter.isprintable() or (letter in JOINERS and 0 < place < len(text) - 1):
            shown += letter
        elif unicodedata.category(letter) == "Zs":
            shown += " "
        else:
            shown += _escape(letter)
    if shown and unicodedata.category(shown[0]).startswith("M"):
        shown = "\N{DOTTED CIRCLE}" + shown  # a lone accent would join the letter before it
    if shown and not cell_len(shown):
        shown = "".join(map(_escape, shown))
    try:
        shown.encode(encoding)
    except UnicodeEncodeError:
        shown = shown.encode(encoding, "backslashreplace").decode(encoding)
    return shown


def _escape(letter: str) -> str:
    return letter.encode("ascii", "backslashreplace").decode() if ord(letter) > 127 else f"\\x{ord(letter):02x}"


class Post(NamedTuple):
    """A vertical line; ordered by token, then by distance from its left edge."""

    token: int
    offset: int
    top: int  # the highest level of its beams


class Beam(NamedTuple):
    """The horizontal part of an arc."""

    left: Post
    right: Post
    level: int
    room: int  # least distance between posts for its label to fit; 0 without label


@dataclass(frozen=True)
class Placing:
    """The left edges of tokens, and for each beam the two positions around its label."""

    tokens: list[int]
    labels: list[tuple[int, int]]

    def position(self, post: Post) -> int:
        """Where a post stands."""
        return self.tokens[post.token] + post.offset


def place(widths: Sequence[int], gap: int, *sides: tuple[Sequence[Post], Sequence[Beam]]) -> Placing:
    """Place tokens of these widths as far left as the labels allow, with a gap between them.

    `sides` has the posts and beams above the tokens, and those below; `Placing.labels` those of one after the other.
    """
    beams = [beam for _, on_side in sides for beam in on_side]
    stops = [_stops(beam, sorted(posts)) for posts, on_side in sides for beam in on_side]
    apart = {
        (beam.left, beam.right): beam.room for beam, (_, *crossed, _) in zip(beams, stops, strict=True) if not crossed
    }
    while True:
        tokens = _leftmost(widths, gap, apart)
        labels, tight = [], None
        for beam, posts_on_it in zip(beams, stops, strict=True):
            between = _choose(beam, posts_on_it, tokens)
            if between is None:
                tight = (beam, posts_on_it)
                break
            labels.append(between)
        if tight is None:
            return Placing(tokens, labels)
        beam, posts_on_it = tight
        # Widen the widest part between posts of different tokens. There always is one, and no beam needs this twice.
        parts = [pair for pair in pairwise(posts_on_it) if pair[0].token != pair[1].token]
        start, end = max(parts, key=lambda pair: _distance(pair[0], pair[1], tokens))
        apart[start, end] = max(beam.room, apart.get((start, end), 0))


def _stops(beam: Beam, ordered: Sequence[Post]) -> list[Post]:
    """The posts on a beam: its two ends, and between them those that cross it."""
    crossed = [post for post in ordered if post.top > beam.level and beam.left[:2] < post[:2] < beam.right[:2]]
    return [beam.left, *crossed, beam.right]


def _leftmost(widths: Sequence[int], gap: int, apart: dict[tuple[Post, Post], int]) -> list[int]:
    before: list[list[tuple[Post, Post, int]]] = [[] for _ in widths]
    for (start, end), distance in apart.items():
        before[end.token].append((start, end, distance))
    tokens: list[int] = []
    for token in range(len(widths)):
        place = tokens[-1] + widths[token - 1] + gap if token else 0
        for start, end, distance in before[token]:
            place = max(place, tokens[start.token] + start.offset + distance - end.offset)
        tokens.append(place)
    return tokens


def _choose(beam: Beam, stops: Sequence[Post], tokens: Sequence[int]) -> tuple[int, int] | None:
    """The part of a beam with room for the label that is nearest to its middle."""
    places = [tokens[post.token] + post.offset for post in stops]
    parts = [(start, end) for start, end in pairwise(places) if end - start >= beam.room]
    return min(parts, key=lambda part: (abs(sum(part) - places[0] - places[-1]), part), default=None)


def _distance(start: Post, end: Post, tokens: Sequence[int]) -> int:
    return tokens[end.token] + end.offset - tokens[start.token] - start.offset
