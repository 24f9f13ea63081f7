"""Places of things: told relations of some pairs, asked the relation of another pair."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field

from .drawing import Edge, Row, Splits, answers_by_share, draw_rows, renamed

MOVES = {"left of": (-1, 0), "right of": (1, 0), "above": (0, 1), "below": (0, -1)}
INVERSE = {
    "left of": "right of",
    "right of": "left of",
    "above": "below",
    "below": "above",
    "inside": "contains",
    "contains": "inside",
}
DIAGONALS = {
    "upper left of": ("left of", "above"),
    "lower left of": ("left of", "below"),
    "upper right of": ("right of", "above"),
    "lower right of": ("right of", "below"),
}
SHARES = {**dict.fromkeys(DIAGONALS, 0.11), **dict.fromkeys(INVERSE, 0.08), "beside": 0.08}
THINGS = [
    f"{colour} {thing}"
    for colour in ("red", "blue", "green", "white", "black")
    for thing in ("ball", "book", "bowl", "box", "cup", "lamp", "plate", "ring", "vase")
]


def spatial(seed: int = 1, rows: int = 1000, test_rows: int = 500) -> Splits:
    """Things in a grid and in nested boxes; the two asked for are 2 to 4 told relations apart, up to 6 in tests.

    "A left of B" also says that both are in one row, and "above" that they are in one column. A thing inside a box is
    where the box is. Two things in one box are "beside" each other; the answer is the place of the first thing.
    """
    seen: set[str] = set()
    splits: Splits = {}
    for split, number, lengths in (("train", rows, range(2, 5)), ("test", test_rows, range(2, 7))):
        rng = random.Random(f"{seed} spatial {split}")
        splits[split] = []
        for length, count in _spread(number, lengths).items():
            splits[split] += draw_rows(rng, count, SHARES, _Drawing(length), seen)
        rng.shuffle(splits[split])
    return splits


def _spread(number: int, lengths: range) -> dict[int, int]:
    counted = answers_by_share(number, {str(length): 1.0 for length in lengths})
    return {length: counted.count(str(length)) for length in lengths}


@dataclass
class _Scene:
    """Things with their cell of the grid and their box; `edges` are true of them."""

    cells: dict[str, tuple[int, int]] = field(default_factory=dict)
    boxes: dict[str, str] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)

    def add(self, cell: tuple[int, int]) -> str:
        name = f"t{len(self.cells)}"
        self.cells[name] = cell
        return name

    def step(self, rng: random.Random, start: str, label: str) -> str:
        """A new thing of which `start` is `label`."""
        x, y = self.cells[start]
        dx, dy = MOVES.get(label, (0, 0))
        far = rng.randint(1, 3)
        end = self.add((x - dx * far, y - dy * far))
        if label == "inside":
            self.boxes[start] = end
        elif label == "contains":
            self.boxes[end] = start
        self.tell(rng, start, label, end)
        return end

    def tell(self, rng: random.Random, a: str, label: str, b: str) -> None:
        self.edges.append((a, label, b) if rng.random() < 0.5 else (b, INVERSE[label], a))


@dataclass(frozen=True)
class _Drawing:
    """Draws rows whose two things are `length` told relations apart."""

    length: int

    def __call__(self, rng: random.Random, target: str) -> Row | None:
        scene = _Scene()
        first = last = scene.add((0, 0))
        for label in _chain(rng, target, self.length):
            if label == "inside" and last in scene.boxes:  # a thing is in one box at most
                return None
            last = scene.step(rng, last, label)
        for _ in range(rng.randint(1, 4)):  # things that the answer does not need
            start = rng.choice(list(scene.cells))
            label = rng.choice(list(INVERSE))
            if label != "inside" or start not in scene.boxes:
                scene.step(rng, start, label)
        _tell_more(rng, scene, (first, last), self.length)
        names = dict(zip(scene.cells, rng.sample(THINGS, len(scene.cells)), strict=True))
        edges = renamed(rng, scene.edges, names)
        return {"edges": edges, "query": [names[first], names[last]], "target": target}


def _chain(rng: random.Random, target: str, length: int) -> list[str]:
    """Relations that lead to the answer: each thing to the next one."""
    if target in ("inside", "contains"):
        return [target] * length
    if target == "beside":
        ups = rng.randint(1, length - 1)
        return ["inside"] * ups + ["contains"] * (length - ups)
    needed = list(DIAGONALS.get(target, (target,)))
    rest = [rng.choice(needed if rng.random() < 0.6 else ("inside", "contains")) for _ in range(length - len(needed))]
    chain = needed + rest
    rng.shuffle(chain)
    return chain


def _tell_more(rng: random.Random, scene: _Scene, query: tuple[str, str], length: int) -> None:
    """Up to two more relations that hold, but none that brings the two things of the query closer together."""
    for _ in range(rng.randint(0, 2)):
        a, b = rng.sample(list(scene.cells), 2)
        (ax, ay), (bx, by) = scene.cells[a], scene.cells[b]
        if any({a, b} == {start, end} for start, _, end in scene.edges) or (ax == bx) == (ay == by):
            continue
        label = ("left of" if ax < bx else "right of") if ay == by else ("above" if ay > by else "below")
        scene.tell(rng, a, label, b)
        if distance(scene.edges, *query) < length:
            scene.edges.pop()


def distance(edges: list[Edge], start: str, end: str) -> int:
    """The number of edges between two nodes, in whatever direction."""
    far = {start: 0}
    waiting = deque([start])
    while waiting:
        node = waiting.popleft()
        for a, _, b in edges:
            other = b if a == node else a if b == node else node
            if other not in far:
                far[other] = far[node] + 1
                waiting.append(other)
    return far[end]
