"""Token graphs, the data of graph parsers: sentences whose tokens have parents and labels, as JSON lines.

    {"tokens": ["Ann", "ran", "."], "parents": [1, -1, -1], "labels": {"role": ["agent", "", ""]}}

Parents are token numbers from 0; -1, or the token's own number, means none. `labels` has any number of named columns of
one text a token, empty where a token needs none; all lines of a file have the same columns. An optional `group` names
the group of rows to score a line with; an optional `id`, and what a parser adds to its answers, play no part.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...draw.arcs import diagram_of_graph
from ...draw.svg import draw_svg
from ...errors import DataError
from ...io.files import replacing
from ...io.streams import check_fields, open_text, read_json_lines, shown_field

MAX_TOKENS = 512  # a model keeps a vector for each pair of them
MAX_COLUMNS = 64
FIELDS = ("tokens", "parents", "labels", "group", "id", "logical_form", "unknown")


@dataclass(frozen=True, slots=True)
class TokenGraph:
    """A sentence as a graph. A token without parent is its own parent, also as a target for models."""

    tokens: tuple[str, ...]
    parents: tuple[int, ...]
    labels: dict[str, tuple[str, ...]]
    group: str = field(default="", compare=False)  # for scores only, no part of the graph

    def __post_init__(self) -> None:
        problem = _problem(self)
        if problem:
            raise DataError("token graph", None, *problem)

    @property
    def size(self) -> int:
        """The number of tokens."""
        return len(self.tokens)

    def _repr_svg_(self) -> str:
        """The graph as arcs, for notebooks."""
        return draw_svg(diagram_of_graph(self))

    @classmethod
    def from_json(cls, value: Any, source: str | Path = "token graph", line: int | None = None) -> TokenGraph:
        """Check an object of the form above."""
        tokens = tokens_from_json(value, source, line)
        check_fields(value, FIELDS, source, line)
        parents, labels, group = value.get("parents"), value.get("labels"), value.get("group", "")
        if not isinstance(parents, list | tuple):
            raise DataError(
                source, line, shown_field(value, "parents"), '"parents": a list with a number for each token'
            )
        if not isinstance(labels, dict) or not all(isinstance(column, list | tuple) for column in labels.values()):
            raise DataError(
                source, line, shown_field(value, "labels"), '"labels": an object with a list for each column'
            )
        own = [token if type(parent) is int and parent == -1 else parent for token, parent in enumerate(parents)]
        try:
            return cls(tokens, tuple(own), {name: tuple(column) for name, column in labels.items()}, group)
        except DataError as error:
            raise DataError(source, line, error.found, error.expected) from error

    def to_json(self) -> dict[str, Any]:
        """This graph as such an object."""
        value = {
            "tokens": list(self.tokens),
            "parents": [-1 if parent == token else parent for token, parent in enumerate(self.parents)],
            "labels": {name: list(column) for name, column in self.labels.items()},
        }
        return value | ({"group": self.group} if self.group else {})


def tokens_from_json(value: Any, source: str | Path = "token graph", line: int | None = None) -> tuple[str, ...]:
    """The tokens of an object, which are all that a question to a trained model has."""
    tokens = value.get("tokens") if isinstance(value, dict) else None
    if not isinstance(tokens, list | tuple):
        raise DataError(source, line, shown(value), 'an object with "tokens": a list of texts')
    problem = problem_with_tokens(tuple(tokens))
    if problem:
        raise DataError(source, line, *problem)
    return tuple(tokens)


def other_fields(value: Any) -> dict[str, Any]:
    """The fields of an object besides its tokens, such as "id", which the answer repeats."""
    return {name: item for name, item in value.items() if name != "tokens"} if isinstance(value, dict) else {}


def read_token_graphs(
    path: str | Path, columns: Collection[str] | None = None, whose: str = "those of the first graph"
) -> Iterator[TokenGraph]:
    """Read a file lazily; a broken line raises an error.

    All graphs must have the same columns: those of the first one, or `columns`; in errors, `whose` says whose they are.
    """
    with open_text(path) as lines:
        yield from read_token_graph_lines(lines, path, columns, whose)


def read_token_graph_lines(
    lines: Iterable[str],
    source: str | Path,
    columns: Collection[str] | None = None,
    whose: str = "those of the first graph",
) -> Iterator[TokenGraph]:
    """Read graphs from lines of JSON; blank lines are skipped. See `read_token_graphs` for the columns."""
    return checked_graphs(((source, line, row) for line, row in read_json_lines(lines, source)), columns, whose)


def checked_graphs(
    rows: Iterable[tuple[str | Path, int | None, Any]], columns: Collection[str] | None, whose: str
) -> Iterator[TokenGraph]:
    """The graphs of rows that come with their source and line. See `read_token_graphs` for the columns."""
    for source, line, row in rows:
        graph = TokenGraph.from_json(row, source, line)
        columns = graph.labels if columns is None else columns
        if set(columns) != set(graph.labels):
            found, expected = _names(graph.labels), _names(columns)
            raise DataError(source, line, f"the columns {found}", f"{whose}: {expected}")
        yield graph


def write_token_graphs(path: str | Path, graphs: Iterable[TokenGraph]) -> int:
    """Write graphs and return their number."""
    count = 0
    with replacing(path) as aside, open(aside, "w", encoding="utf-8", newline="\n") as file:
        for graph in graphs:
            file.write(json.dumps(graph.to_json()) + "\n")
            count += 1
    return count


def _problem(graph: TokenGraph) -> tuple[str, str] | None:
    """What is wrong with a graph, as (found, expected); None where nothing is."""
    size = len(graph.tokens)
    problem = problem_with_tokens(graph.tokens)
    if problem:
        return problem
    if len(graph.parents) != size:
        return f"{len(graph.parents)} parents", f"one for each of the {size} tokens"
    for token, parent in enumerate(graph.parents):
        if type(parent) is not int or not 0 <= parent < size:
            return f"token {token} with parent {shown(parent)}", f"the number of a token, 0 to {size - 1}, or -1"
    problem = problem_with_columns(graph.labels, size)
    if problem:
        return problem
    if not isinstance(graph.group, str):
        return f"group = {shown(graph.group)}", "a text"
    return None


def problem_with_columns(labels: Any, size: int) -> tuple[str, str] | None:
    """What is wrong with the columns of labels of a sentence, as (found, expected); None where nothing is."""
    if not isinstance(labels, dict) or len(labels) > MAX_COLUMNS:
        return f"{len(labels)} columns of labels", f"at most {MAX_COLUMNS}, by name"
    for name, column in labels.items():
        if not isinstance(name, str) or not name:
            return f"a column named {shown(name)}", "a text as its name"
        if len(column) != size:
            return f"{len(column)} labels in column {name}", f"one for each of the {size} tokens"
        if not _are_texts(column):
            return f"column {name} = {shown(column)}", "labels that are texts"
    return None


def problem_with_tokens(tokens: tuple[Any, ...]) -> tuple[str, str] | None:
    """What is wrong with the tokens of a sentence, as (found, expected); None where nothing is."""
    if not 0 < len(tokens) <= MAX_TOKENS:
        return f"{len(tokens)} tokens", f"1 to {MAX_TOKENS}"
    if not _are_texts(tokens) or "" in tokens:
        return f"tokens = {shown(tokens)}", "texts that are not empty"
    return None


def _are_texts(values: Iterable[Any]) -> bool:
    return set(map(type, values)) <= {str}


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def shown(value: Any) -> str:
    """A value in an error."""
    return json.dumps(value, default=str)
