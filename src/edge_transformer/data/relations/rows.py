"""Labelled graphs with questions: the rows of the tasks relations, graph-labels and node-labels."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...io.files import fingerprint
from .families import RELATIONS

Pair = tuple[int, int]
Target = str | tuple[str, ...] | float  # one label, several (or none), or a number
Fact = tuple[int, str, int]  # (a, relation, c): c is a's relation


@dataclass(frozen=True, slots=True)
class ProofStep:
    """One composition: `conclusion` = (a, r, c) follows from `premises` = (a, r1, b) and (b, r2, c)."""

    conclusion: Fact
    premises: tuple[Fact, Fact]


@dataclass(frozen=True, slots=True)
class Story:
    """A labelled graph, and what is asked about it. Nodes are numbered from 0."""

    edges: tuple[Pair, ...]  # in the order of the story; a pair may have several relations
    relations: tuple[str, ...]  # relations[e] is what edges[e][1] is to edges[e][0]
    query: Pair  # the first question: (i, i) asks for node i; not read where the whole graph is asked for
    target: Target
    names: tuple[str, ...]  # one a node
    genders: tuple[str, ...] = ()  # "male" or "female", one a node; empty where not known
    proof: tuple[ProofStep, ...] = ()  # the query's step first, as in the official files; empty where not known
    needed: int | None = None  # how many edges the answer needs, where there are more
    id: Any = field(default=None, compare=False)  # of the row it was read from
    more: tuple[tuple[Pair, Target], ...] = ()  # further questions about the same graph
    node_labels: tuple[tuple[int, str], ...] = ()
    absent: tuple[tuple[int, int, str], ...] = ()  # edges told to be absent
    node_features: tuple[tuple[float, ...] | None, ...] = ()  # one a node, None where not given; or empty
    edge_features: tuple[tuple[float, ...] | None, ...] = ()  # one an edge, None where not given; or empty

    @property
    def questions(self) -> tuple[tuple[Pair, Target], ...]:
        """All questions with their answers, in their order."""
        return ((self.query, self.target), *self.more)

    @property
    def told(self) -> dict[Pair, str]:
        """The relation of each pair with an edge; several with commas between them."""
        relations: dict[Pair, list[str]] = {}
        for pair, relation in zip(self.edges, self.relations, strict=True):
            relations.setdefault(pair, []).append(relation)
        return {pair: ", ".join(dict.fromkeys(of_pair)) for pair, of_pair in relations.items()}

    @property
    def label(self) -> str:
        """The answer, where it is one label."""
        assert isinstance(self.target, str), "this story has another kind of answer"
        return self.target

    @property
    def k(self) -> int:
        """The number of relations that lead to the answer: reasoning steps plus one."""
        return len(self.edges) if self.needed is None else self.needed

    @property
    def graph(self) -> tuple[object, ...]:
        """What the model sees: stories with equal graphs differ in names and answers only."""
        edges = zip(self.edges, self.relations, self.edge_features or (None,) * len(self.edges), strict=True)
        asked = tuple(pair for pair, _ in self.questions)
        told = frozenset(self.node_labels), frozenset(self.absent), self.node_features
        return self.size, frozenset(edges), asked, *told

    @property
    def size(self) -> int:
        """The number of nodes."""
        return len(self.names)

    @property
    def is_plain(self) -> bool:
        """Whether this is a graph as CLUTRR has them: one relation an edge, one question, one label as answer."""
        others = self.more, self.node_labels, self.absent, self.node_features, self.edge_features
        told = set(zip(self.edges, self.relations, strict=True))
        return not any(others) and isinstance(self.target, str) and len({edge for edge, _ in told}) == len(told)


@dataclass(frozen=True)
class RelationRows:
    """Stories by split. Test stories are keyed by their number of relations, k."""

    name: str
    fingerprint: str  # of the files they were read from, or of rows in memory
    train: Any  # a tuple of stories, or `stream.StreamedStories`
    tests: dict[int, tuple[Story, ...]]
    valid: tuple[Story, ...] = ()
    corpus: str = ""  # "clutrr" for files in its format

    @classmethod
    def of(cls, name: str, fingerprint: str, rows: Mapping[str, Sequence[Story]]) -> RelationRows:
        """From stories by split: "train", "test" and "valid", each optional."""
        tests: dict[int, list[Story]] = {}
        for story in rows.get("test", ()):
            tests.setdefault(story.k, []).append(story)
        by_k = {k: tuple(tests[k]) for k in sorted(tests)}
        return cls(name, fingerprint, tuple(rows.get("train", ())), by_k, tuple(rows.get("valid", ())))

    @classmethod
    def of_files(
        cls, folder: str | Path, files: Mapping[str, Sequence[Path]], rows: Mapping[str, Sequence[Story]]
    ) -> RelationRows:
        """From the files and stories of a folder, both by split."""
        hashed = fingerprint(path for paths in files.values() for path in paths)
        return cls.of(Path(folder).resolve().name, hashed, rows)


SPLIT_PATTERNS = {"train": "train", "test": "test", "valid": "valid*"}
UNKNOWN_TARGET = ""


def is_of_families(relations: Iterable[str]) -> bool:
    """Whether all relations are among CLUTRR's."""
    return set(relations) <= set(RELATIONS)


def guess_note(story: Story) -> str | None:
    """A warning where a question about a family is unlike all of CLUTRR's, however sure the model is."""
    found = list(_out_of_scope(story)) if is_of_families(story.relations) else []
    return f"a guess, however sure: {'; '.join(found)}" if found else None


def _out_of_scope(story: Story) -> Iterable[str]:
    """How a question differs from all of CLUTRR's, in words."""
    start, end = (story.names[node] for node in story.query)
    told = story.told
    if story.query[0] == story.query[1]:
        yield f"both ends of the question are {start}, as they never are in CLUTRR"
    elif story.query in told:
        yield f"{start} -{told[story.query]}-> {end} is told, and CLUTRR never asks for what is told"
    elif told_path(story.edges, story.query) is None:
        yield f"no told edges lead from {start} to {end}, as they do in all of CLUTRR"
    for node, other in told:
        if node == other:
            name = story.names[node]
            yield f"an edge leads from {name} to {name}, and none in CLUTRR leads from someone to themselves"
            break


def told_path(edges: Iterable[tuple[int, int]], query: tuple[int, int]) -> list[int] | None:
    """The nodes of a shortest path, of at least one edge, between the nodes of the query; None where there is none."""
    ends: dict[int, list[int]] = defaultdict(list)
    for start, end in edges:
        ends[start].append(end)
    before: dict[int, int] = {}  # of each node that was reached, the one it was reached from
    front = deque([query[0]])
    while front:
        node = front.popleft()
        for end in ends[node]:
            if end not in before:
                before[end] = node
                front.append(end)
            if end == query[1]:
                path = [end, before[end]]
                while path[-1] != query[0]:
                    path.append(before[path[-1]])
                return path[::-1]
    return None
