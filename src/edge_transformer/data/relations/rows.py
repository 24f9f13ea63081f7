"""Rows of relational data: a labelled graph and a query edge, as JSON, one a line.

    {"edges": [["Ann", "daughter", "Lil"], ["Lil", "brother", "Bob"]], "query": ["Ann", "Bob"], "target": "son"}

Nodes are texts or whole numbers. `target` is the answer; questions for a trained model have none. An optional `id`
names the row, and comes back with the model's answer.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import DataError, UserError
from ...io.files import fingerprint
from ...io.streams import check_fields, read_json_lines, shown_field
from ..jsonl import IN_MEMORY, numbered, rows_fingerprint
from .families import RELATIONS

Fact = tuple[int, str, int]  # (a, relation, c): c is a's relation


@dataclass(frozen=True, slots=True)
class ProofStep:
    """One composition: `conclusion` = (a, r, c) follows from `premises` = (a, r1, b) and (b, r2, c)."""

    conclusion: Fact
    premises: tuple[Fact, Fact]


@dataclass(frozen=True, slots=True)
class Story:
    """A labelled graph and a query edge. Nodes are numbered from 0."""

    edges: tuple[tuple[int, int], ...]  # in the order of the story
    relations: tuple[str, ...]  # relations[e] is what edges[e][1] is to edges[e][0]
    query: tuple[int, int]
    target: str
    names: tuple[str, ...]  # one a node
    genders: tuple[str, ...] = ()  # "male" or "female", one a node; empty where not known
    proof: tuple[ProofStep, ...] = ()  # the query's step first, as in the official files; empty where not known
    needed: int | None = None  # how many edges the answer needs, where there are more
    id: Any = field(default=None, compare=False)  # of the row it was read from

    @property
    def k(self) -> int:
        """The number of relations that lead to the answer: reasoning steps plus one."""
        return len(self.edges) if self.needed is None else self.needed

    @property
    def graph(self) -> tuple[object, ...]:
        """What the model sees: stories with equal graphs differ in names and answers only."""
        return self.size, frozenset(zip(self.edges, self.relations, strict=True)), self.query

    @property
    def size(self) -> int:
        """The number of nodes."""
        return len(self.names)


@dataclass(frozen=True)
class RelationRows:
    """Stories by split. Test stories are keyed by their number of relations, k."""

    name: str
    fingerprint: str  # of the files they were read from, or of rows in memory
    train: tuple[Story, ...]
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

    @classmethod
    def of_rows(cls, splits: Mapping[str, Sequence[Any]]) -> RelationRows:
        """From rows in memory, as lists by split; "dev" is another name for "valid"."""
        named = {"valid" if split == "dev" else split: split for split in splits}
        for split in named.keys() - {"train", "test", "valid"}:
            raise UserError(f"data: found the split {split!r}; expected train, test and valid")
        rows = {
            name: [graph_from_json(row, source, needs_target=True) for source, row in numbered(split, splits[split])]
            for name, split in named.items()
        }
        return cls.of(IN_MEMORY, rows_fingerprint(splits), rows)


SPLIT_PATTERNS = {"train": "train", "test": "test", "valid": "valid*"}
MAX_NODES = 512
FIELDS = ("edges", "query", "target", "id")
UNKNOWN_TARGET = ""


def read_graph_lines(
    lines: Iterable[str],
    source: str | Path,
    needs_target: bool = False,
    known: Collection[str] | None = None,
    max_nodes: int = MAX_NODES,
) -> Iterator[Story]:
    """Read labelled graphs from lines of JSON; blank lines are skipped. See `graph_from_json`."""
    for number, value in read_json_lines(lines, source):
        yield graph_from_json(value, source, number, needs_target, known, max_nodes)


def graph_from_json(
    value: Any,
    source: str | Path,
    line: int | None = None,
    needs_target: bool = False,
    known: Collection[str] | None = None,
    max_nodes: int = MAX_NODES,
) -> Story:
    """Check a labelled graph and number its nodes in order of first mention.

    Refuses relations other than the `known` ones, where given, and graphs of more than `max_nodes`.
    """

    def fail(found: Any, expected: str) -> DataError:
        return DataError(source, line, json.dumps(found, default=str), expected)

    if not isinstance(value, dict):
        raise fail(value, 'an object with "edges" and "query"')
    check_fields(value, FIELDS, source, line)
    edges, query, target = value.get("edges"), value.get("query"), value.get("target", UNKNOWN_TARGET)
    if not isinstance(edges, list | tuple) or not edges:
        expected = '"edges": a list of [from, relation, to] with at least one entry'
        raise DataError(source, line, shown_field(value, "edges"), expected)
    numbers: dict[str, int] = {}

    def number(node: Any, where: Any) -> int:
        if isinstance(node, bool) or not isinstance(node, str | int):
            raise fail(where, "nodes that are texts or whole numbers")
        return numbers.setdefault(str(node), len(numbers))

    pairs, relations = [], []
    for edge in edges:
        if not isinstance(edge, list | tuple) or len(edge) != 3 or not isinstance(edge[1], str) or not edge[1]:
            raise fail(edge, 'an edge as [from, relation, to], such as ["Ann", "daughter", "Lil"]')
        if known is not None and edge[1] not in known:
            raise fail(edge, f"a relation that the model knows: {', '.join(known)}")
        pairs.append((number(edge[0], edge), number(edge[2], edge)))
        relations.append(edge[1])
    told = dict(zip(pairs, relations, strict=True))
    if any(told[pair] != relation for pair, relation in zip(pairs, relations, strict=True)):
        raise fail(edges, "one relation an edge; this list names two for the same pair")
    if not isinstance(query, list | tuple) or len(query) != 2:
        expected = '"query": the two nodes of the edge to label, such as ["Ann", "Bob"]'
        raise DataError(source, line, shown_field(value, "query"), expected)
    for node in query:
        if str(node) not in numbers:
            raise fail(query, f"nodes that some edge mentions: {', '.join(numbers)}")
    if len(numbers) > max_nodes:
        raise DataError(source, line, f"a graph of {len(numbers)} nodes", f"at most {max_nodes}")
    if not isinstance(target, str) or (needs_target and not target):
        raise DataError(source, line, shown_field(value, "target"), '"target": the label of the query edge, a text')
    return Story(
        edges=tuple(pairs),
        relations=tuple(relations),
        query=(number(query[0], query), number(query[1], query)),
        target=target,
        names=tuple(numbers),
        id=value.get("id"),
    )


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
    told = dict(zip(story.edges, story.relations, strict=True))
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
    paths, reached = deque([[query[0]]]), set()
    while paths:
        path = paths.popleft()
        for end in ends[path[-1]]:
            if end == query[1]:
                return [*path, end]
            if end not in reached:
                reached.add(end)
                paths.append([*path, end])
    return None
