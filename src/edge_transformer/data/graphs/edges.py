"""Sentence graphs: tokens with any number of labelled edges between them, as JSON lines.

    {"tokens": ["Ann", "met", "Bob", "."], "edges": [[1, 0, "agent"], [1, 2, "theme"]]}

An edge is `[head, dependent, label]`, with tokens counted from 0. Two tokens may have several edges, with different
labels. An edge from a token to itself is a label of that token, of which it may have several, such as that of a root.
`labels` has named columns with one text a token, `sentence` named labels of the whole sentence. Both are optional, but
all rows of a file have the same ones. An optional `group` names the group of rows to score a line with.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import DataError
from ...io.files import replacing
from ...io.streams import check_fields, shown_field
from .rows import problem_with_columns, problem_with_tokens, shown, tokens_from_json

Edge = tuple[int, int, str]  # head, dependent, label
MAX_EDGES = 100_000  # of a sentence
FIELDS = ("tokens", "edges", "labels", "sentence", "group", "id", "logical_form", "sparql", "unknown")


@dataclass(frozen=True, slots=True)
class SentenceGraph:
    """A sentence as a graph. Its edges are sorted and distinct."""

    tokens: tuple[str, ...]
    edges: tuple[Edge, ...]
    labels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    sentence: dict[str, str] = field(default_factory=dict)
    group: str = field(default="", compare=False)  # for scores only, no part of the graph

    def __post_init__(self) -> None:
        problem = _problem(self)
        if problem:
            raise DataError("sentence graph", None, *problem)
        object.__setattr__(self, "edges", tuple(sorted(set(self.edges))))

    @property
    def size(self) -> int:
        """The number of tokens."""
        return len(self.tokens)

    @classmethod
    def from_json(cls, value: Any, source: str | Path = "sentence graph", line: int | None = None) -> SentenceGraph:
        """Check an object of the form above."""
        tokens = tokens_from_json(value, source, line)
        check_fields(value, FIELDS, source, line)
        edges, labels = value.get("edges"), value.get("labels", {})
        if not isinstance(edges, list | tuple):
            raise DataError(source, line, shown_field(value, "edges"), '"edges": a list of [head, dependent, label]')
        for number, edge in enumerate(edges):
            if not isinstance(edge, list | tuple) or len(edge) != 3:
                raise DataError(source, line, f"edge {number} = {shown(edge)}", "[head, dependent, label]")
        if not isinstance(labels, dict) or not all(isinstance(column, list | tuple) for column in labels.values()):
            expected = '"labels": an object with a list for each column'
            raise DataError(source, line, shown_field(value, "labels"), expected)
        sentence = value.get("sentence", {})
        if not isinstance(sentence, dict):
            raise DataError(
                source, line, shown_field(value, "sentence"), '"sentence": an object with a text for each name'
            )
        columns = {name: tuple(column) for name, column in labels.items()}
        try:
            return cls(tokens, tuple(map(tuple, edges)), columns, dict(sentence), value.get("group", ""))
        except DataError as error:
            raise DataError(source, line, error.found, error.expected) from error

    def to_json(self) -> dict[str, Any]:
        """This graph as such an object."""
        value: dict[str, Any] = {"tokens": list(self.tokens), "edges": [list(edge) for edge in self.edges]}
        if self.labels:
            value["labels"] = {name: list(column) for name, column in self.labels.items()}
        if self.sentence:
            value["sentence"] = dict(self.sentence)
        return value | ({"group": self.group} if self.group else {})


def checked_sentence_graphs(
    rows: Iterable[tuple[str | Path, int | None, Any]],
    names: tuple[Iterable[str], Iterable[str]] | None = None,
    whose: str = "those of the first graph",
) -> Iterator[SentenceGraph]:
    """The graphs of rows that come with their source and line.

    All must have the same columns and labels of the sentence: those of the first, or `names`.
    """
    for source, line, row in rows:
        graph = SentenceGraph.from_json(row, source, line)
        own: tuple[Iterable[str], Iterable[str]] = graph.labels, graph.sentence
        names = own if names is None else names
        for what, found, wanted in zip(("columns", "labels of the sentence"), own, names, strict=True):
            if set(found) != set(wanted):
                there, expected = (", ".join(sorted(each)) or "none" for each in (found, wanted))
                raise DataError(source, line, f"the {what} {there}", f"{whose}: {expected}")
        yield graph


def write_sentence_graphs(path: str | Path, graphs: Iterable[SentenceGraph]) -> int:
    """Write graphs and return their number."""
    count = 0
    with replacing(path) as aside, open(aside, "w", encoding="utf-8", newline="\n") as file:
        for graph in graphs:
            file.write(json.dumps(graph.to_json()) + "\n")
            count += 1
    return count


def _problem(graph: SentenceGraph) -> tuple[str, str] | None:
    """What is wrong with a graph, as (found, expected); None where nothing is."""
    problem = problem_with_tokens(graph.tokens) or problem_with_columns(graph.labels, len(graph.tokens))
    if problem:
        return problem
    if len(graph.edges) > MAX_EDGES:
        return f"{len(graph.edges)} edges", f"at most {MAX_EDGES}"
    size = len(graph.tokens)
    for number, (head, dependent, label) in enumerate(graph.edges):
        for token in (head, dependent):
            if type(token) is not int or not 0 <= token < size:
                return f"edge {number} with token {shown(token)}", f"the number of a token, 0 to {size - 1}"
        if not isinstance(label, str) or not label:
            return f"edge {number} with label {shown(label)}", "a text that is not empty"
    if not isinstance(graph.sentence, Mapping):
        return f"sentence = {shown(graph.sentence)}", "labels by name"
    for name, label in graph.sentence.items():
        if not isinstance(name, str) or not name or not isinstance(label, str):
            return f"sentence: {shown(name)} = {shown(label)}", "a text by name"
    if not isinstance(graph.group, str):
        return f"group = {shown(graph.group)}", "a text"
    return None
