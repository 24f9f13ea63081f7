"""Where tokens go along the line, so that every arc has room for its label.

An arc is a beam on two posts. A post stands over a token and reaches down to it, so it crosses lower beams that pass
there. Labels stand between posts, never on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple


class Post(NamedTuple):
    """A vertical line. Posts are ordered as they stand, by token and then by their distance from its left edge."""

    token: int
    offset: int
    top: int  # the highest level of its beams


class Beam(NamedTuple):
    """The horizontal part of an arc."""

    left: Post
    right: Post
    level: int
    room: int  # how far apart two posts must stand for its label to fit between them; 0 where it has none


@dataclass(frozen=True)
class Placing:
    """The left edges of tokens, and for each beam the two positions that its label stands between."""

    tokens: list[int]
    labels: list[tuple[int, int]]

    def position(self, post: Post) -> int:
        """Where a post stands."""
        return self.tokens[post.token] + post.offset


def place(widths: Sequence[int], gap: int, posts: Sequence[Post], beams: Sequence[Beam]) -> Placing:
    """Put tokens of these widths as far to the left as the labels allow, with a gap between them."""
    ordered = sorted(posts)
    stops = [_stops(beam, ordered) for beam in beams]
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
        # The widest part that can become wider, as its posts stand on different tokens. There is always one, and the
        # beam never comes back here, so this ends.
        parts = [pair for pair in pairwise(posts_on_it) if pair[0].token != pair[1].token]
        start, end = max(parts, key=lambda pair: _distance(pair[0], pair[1], tokens))
        apart[start, end] = max(beam.room, apart.get((start, end), 0))


def _stops(beam: Beam, ordered: Sequence[Post]) -> list[Post]:
    """The posts that a beam meets: its own, and between them those that cross it."""
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
    """The part of a beam that is nearest to its middle of those with room for the label."""
    places = [tokens[post.token] + post.offset for post in stops]
    parts = [(start, end) for start, end in pairwise(places) if end - start >= beam.room]
    return min(parts, key=lambda part: (abs(sum(part) - places[0] - places[-1]), part), default=None)


def _distance(start: Post, end: Post, tokens: Sequence[int]) -> int:
    return tokens[end.token] + end.offset - tokens[start.token] - start.offset
