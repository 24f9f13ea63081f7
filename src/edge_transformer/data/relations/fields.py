"""The fields of a row with a labelled graph, in memory or as a line of JSON, and the one validator of them.

{"nodes": {"Ann": "person", "Lil": null}, "edges": [["Ann", "daughter", "Lil"], ["Lil", "brother", "Bob"]],
 "query": ["Ann", "Bob"], "target": "son"}

Nodes are texts or whole numbers. `target` is the answer; questions for a trained model have none. docs/formats.md has
the table of all fields.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import DataError, UserError
from ...io.process import free_memory
from ...io.streams import check_fields, read_json_lines, shown, shown_field
from ..jsonl import IN_MEMORY, numbered, rows_fingerprint
from .rows import UNKNOWN_TARGET, Pair, RelationRows, Story, Target
from .values import in_python

ASKS = ("pairs", "nodes", "graph")  # what the tasks relations, node-labels and graph-labels ask for
FIELDS = ("nodes", "edges", "absent", "query", "target", "id")
ALL = "all"
MAX_NODES = 100_000  # against absurd input; graphs that memory cannot hold are refused below that
PAIR_BYTES = 4  # the least that a pair of nodes takes, its label; a model asks for more
QUESTION_BYTES = 400  # of a pair that "all" asks for, with its answer
UNASKED_BYTES = 100_000_000  # below that, nobody looks how much memory is free
WHOLE_GRAPH = (0, 0)

_QUERY = '"query": two nodes, such as ["Ann", "Bob"], a list of such pairs, or "all"'
_TARGET = {
    "pairs": '"target": a label, a list of labels or a number',
    "nodes": '"target": an object with the label, labels or number of each node, such as {"Ann": "boss"}',
    "graph": '"target": a label, a list of labels or a number for the graph',
}


def relation_rows(splits: Mapping[str, Sequence[Any]], asks: str = "pairs") -> RelationRows:
    """Stories of rows in memory, as lists by split; "dev" is another name for "valid"."""
    named = {"valid" if split == "dev" else split: split for split in splits}
    if len(named) < len(splits):
        raise UserError("data: found the splits dev and valid, two names for the same; expected one of them")
    for split in named.keys() - {"train", "test", "valid"}:
        raise UserError(f"data: found the split {split!r}; expected train, test and valid")
    rows = {
        name: [graph_from_json(row, where, None, True, asks=asks) for where, row in numbered(split, splits[split])]
        for name, split in named.items()
    }
    return RelationRows.of(IN_MEMORY, rows_fingerprint(splits), rows)


def read_graph_lines(
    lines: Iterable[str],
    source: str | Path,
    needs_target: bool = False,
    known: Collection[str] | None = None,
    max_nodes: int = MAX_NODES,
    asks: str = "pairs",
    first_line: int = 1,
) -> Iterator[Story]:
    """Read labelled graphs from lines of JSON; blank lines are skipped. See `graph_from_json`."""
    for number, value in read_json_lines(lines, source, first_line):
        yield graph_from_json(value, source, number, needs_target, known, max_nodes, asks)


def graph_from_json(
    value: Any,
    source: str | Path,
    line: int | None = None,
    needs_target: bool = False,
    known: Collection[str] | None = None,
    max_nodes: int = MAX_NODES,
    asks: str = "pairs",
) -> Story:
    """Check a labelled graph and number its nodes: those of "nodes" first, then in order of first mention.

    Refuses relations other than the `known` ones, where given, and graphs of more than `max_nodes`. Rows without a line
    are in memory, and may have values of NumPy and PyTorch.
    """
    value = in_python(value) if line is None else value
    return _Reader(source, line, needs_target, known, max_nodes).read(value, asks)


class _Reader:
    """Reads one row; errors name its source and line."""

    def __init__(
        self, source: str | Path, line: int | None, needs_target: bool, known: Collection[str] | None, max_nodes: int
    ) -> None:
        self.source, self.line, self.needs_target = source, line, needs_target
        self.known, self.max_nodes = known, max_nodes
        self.numbers: dict[str, int] = {}

    def read(self, row: Any, asks: str) -> Story:
        if not isinstance(row, dict):
            wanted = '"edges" and "query"' if asks == "pairs" else '"edges"'
            raise self._error(row, f"an object with {wanted}")
        if asks != "pairs" and "query" in row:
            expected = "none in rows of node-labels and graph-labels; the task relations asks about pairs of nodes"
            raise DataError(*self._place, 'the field "query"', expected)
        check_fields(row, FIELDS if asks == "pairs" else [name for name in FIELDS if name != "query"], *self._place)
        labels, node_features = self._nodes(row)
        edges, relations, edge_features = self._edges(row)
        absent = self._absent(row, set(zip(edges, relations, strict=True)))
        if len(self.numbers) > self.max_nodes:
            raise DataError(*self._place, f"a graph of {len(self.numbers)} nodes", f"at most {self.max_nodes}")
        self._require_memory(PAIR_BYTES, "a graph", "take a smaller graph, such as the part around the question")
        questions = self._questions(row, asks)
        names = tuple(self.numbers)
        return Story(
            edges=tuple(edges),
            relations=tuple(relations),
            query=questions[0][0],
            target=questions[0][1],
            names=names,
            id=row.get("id"),
            more=tuple(questions[1:]),
            node_labels=tuple(labels),
            absent=tuple(absent),
            node_features=tuple(map(node_features.get, range(len(names)))) if node_features else (),
            edge_features=tuple(map(edge_features.get, edges)) if edge_features else (),
        )

    # --- the graph ----------------------------------------------------------------------------------------------------

    def _nodes(self, row: Mapping[str, Any]) -> tuple[list[tuple[int, str]], dict[int, tuple[float, ...]]]:
        """Labels and features of the nodes under "nodes"."""
        given = row.get("nodes")
        labels: list[tuple[int, str]] = []
        features: dict[int, tuple[float, ...]] = {}
        expected = '"nodes": an object such as {"Ann": "person"}, or a list of nodes'
        if given is None:
            return labels, features
        if not isinstance(given, dict | list | tuple) or not given:
            raise DataError(*self._place, shown_field(row, "nodes"), expected)
        for name, about in given.items() if isinstance(given, dict) else ((name, None) for name in given):
            before = len(self.numbers)
            node = self._number(name, {name: about} if isinstance(given, dict) else given)
            if node != before:
                raise self._error(name, f"each node once; {str(name)!r} stands twice in this list of nodes")
            if isinstance(about, dict):
                check_fields(about, ("labels", "features"), *self._place)
                of_node, numbers = about.get("labels"), about.get("features")
            elif is_number(about) or (isinstance(about, list | tuple) and about and all(map(is_number, about))):
                of_node, numbers = None, about
            else:
                of_node, numbers = about, None
            labels += [(node, label) for label in self._labels(of_node, {name: about}, "labels of a node")]
            if numbers is not None:
                features[node] = self._features(numbers, {name: about})
        self._same_length(features.values(), "nodes")
        return labels, features

    def _edges(self, row: Mapping[str, Any]) -> tuple[list[Pair], list[str], dict[Pair, tuple[float, ...]]]:
        edges = row.get("edges", [] if self.numbers else None)
        if not isinstance(edges, list | tuple) or not (edges or self.numbers):
            expected = '"edges": a list of [from, relation, to] with at least one entry, or "nodes"'
            raise DataError(*self._place, shown_field(row, "edges"), expected)
        pairs, relations = [], []
        features: dict[Pair, tuple[float, ...]] = {}
        for edge in edges:
            if not isinstance(edge, list | tuple) or len(edge) not in (3, 4):
                raise self._error(edge, 'an edge as [from, relation, to], such as ["Ann", "daughter", "Lil"]')
            pair, of_edge = self._edge(edge)
            pairs += [pair] * len(of_edge)
            relations += of_edge
            if len(edge) == 4:
                numbers = self._features(edge[3], edge)
                if features.setdefault(pair, numbers) != numbers:
                    raise self._error(edge, "the same features wherever a pair of nodes is named")
        self._same_length(features.values(), "edges")
        return pairs, relations, features

    def _edge(self, edge: Sequence[Any]) -> tuple[Pair, list[str]]:
        expected = 'an edge as [from, relation, to], such as ["Ann", "daughter", "Lil"]'
        relations = self._labels(edge[1], edge, expected)
        if not relations:
            raise self._error(edge, expected)
        for relation in relations:
            if self.known is not None and relation not in self.known:
                raise self._error(edge, f"a relation that the model knows: {', '.join(self.known)}")
        return (self._number(edge[0], edge), self._number(edge[2], edge)), relations

    def _absent(self, row: Mapping[str, Any], told: Collection[tuple[Pair, str]]) -> list[tuple[int, int, str]]:
        edges = row.get("absent", ())
        if not isinstance(edges, list | tuple):
            expected = '"absent": a list of [from, relation, to], the edges that are told not to be there'
            raise DataError(*self._place, shown_field(row, "absent"), expected)
        absent = []
        for edge in edges:
            if not isinstance(edge, list | tuple) or len(edge) != 3:
                raise self._error(edge, "an absent edge as [from, relation, to]")
            pair, relations = self._edge(edge)
            for relation in relations:
                if (pair, relation) in told:
                    raise self._error(edge, "an edge that is told either to be there or to be absent, not both")
                absent.append((*pair, relation))
        return list(dict.fromkeys(absent))

    def _number(self, node: Any, where: Any) -> int:
        name = node_name(node)
        if not name:
            raise self._error(where, "nodes that are texts or whole numbers, none of them empty")
        return self.numbers.setdefault(name, len(self.numbers))

    def _labels(self, given: Any, where: Any, expected: str) -> list[str]:
        """One label, or several, or none."""
        labels = [] if given is None else [given] if isinstance(given, str) else given
        if not isinstance(labels, list | tuple) or not all(isinstance(label, str) and label for label in labels):
            raise self._error(where, expected if "[" in expected else f"texts that are not empty as {expected}")
        return list(dict.fromkeys(labels))

    def _features(self, given: Any, where: Any) -> tuple[float, ...]:
        numbers = given if isinstance(given, list | tuple) else [given]
        if not numbers or not all(is_number(number) for number in numbers):
            raise self._error(where, "features that are numbers, finite ones: one, or a list of them")
        return tuple(map(float, numbers))

    def _same_length(self, features: Iterable[tuple[float, ...]], field: str) -> None:
        lengths = sorted({len(numbers) for numbers in features})
        if len(lengths) > 1:
            found = f'features of lengths {", ".join(map(str, lengths))} in "{field}"'
            raise DataError(*self._place, found, "as many numbers wherever there are features")

    # --- what is asked ------------------------------------------------------------------------------------------------

    def _questions(self, row: Mapping[str, Any], asks: str) -> list[tuple[Pair, Target]]:
        """The questions of a row with their answers; UNKNOWN_TARGET where a question for a trained model has none."""
        given, query = row.get("target"), row.get("query")
        if asks == "pairs" and not isinstance(query, list | tuple | str):
            raise DataError(*self._place, shown_field(row, "query"), _QUERY)
        if given is None and self.needs_target:
            raise DataError(*self._place, shown_field(row, "target"), _TARGET[asks])
        if asks == "graph":
            return [(WHOLE_GRAPH, self._target(row, given))]
        if asks == "nodes":
            return self._node_questions(row, given)
        if isinstance(query, str) and query == ALL:
            return self._all_questions(row, given)
        if query is not None and _is_node_pair(query):
            return [(self._pair(query, query), self._target(row, given))]
        if not isinstance(query, list | tuple) or not query or not all(map(_is_node_pair, query)):
            raise DataError(*self._place, shown_field(row, "query"), _QUERY)
        pairs = [self._pair(pair, query) for pair in query]
        if len(set(pairs)) < len(pairs):
            raise self._error(query, "each pair of nodes once")
        if given is None:
            return [(pair, UNKNOWN_TARGET) for pair in pairs]
        if not isinstance(given, list | tuple) or len(given) != len(pairs):
            expected = f'"target": a list with an answer for each of the {len(pairs)} pairs of "query"'
            raise DataError(*self._place, shown_field(row, "target"), expected)
        return [(pair, self._target(row, answer)) for pair, answer in zip(pairs, given, strict=True)]

    def _node_questions(self, row: Mapping[str, Any], given: Any) -> list[tuple[Pair, Target]]:
        if given is None:
            return [((node, node), UNKNOWN_TARGET) for node in range(len(self.numbers))]
        if not isinstance(given, dict) or not given:
            raise DataError(*self._place, shown_field(row, "target"), _TARGET["nodes"])
        asked = [(self._known_node(name, given), answer) for name, answer in given.items()]
        if len({node for node, _ in asked}) < len(asked):
            raise self._error(given, "each node once")
        return [((node, node), self._target(row, answer)) for node, answer in asked]

    def _all_questions(self, row: Mapping[str, Any], given: Any) -> list[tuple[Pair, Target]]:
        """All ordered pairs. Those that "target" does not name have no label; of numbers, only the named are asked."""
        n = len(self.numbers)
        if n < 2:
            raise DataError(
                *self._place, f"a graph of {n} node{'s' * (n != 1)}", '"query": "all" for two nodes or more'
            )
        self._require_memory(QUESTION_BYTES, '"query": "all" for a graph', "ask for a list of pairs in several rows")
        pairs = [(start, end) for start in range(n) for end in range(n) if start != end]
        if given is None:
            return [(pair, UNKNOWN_TARGET) for pair in pairs]
        expected = '"target" of "query": "all": a list of [from, label or number, to], each pair of different nodes'
        if not isinstance(given, list | tuple):
            raise DataError(*self._place, shown_field(row, "target"), expected)
        labels: dict[Pair, list[str]] = {}
        numbers: dict[Pair, float] = {}
        for edge in given:
            if not isinstance(edge, list | tuple) or len(edge) != 3:
                raise self._error(edge, expected)
            pair = self._pair((edge[0], edge[2]), edge)
            answer = self._target(row, edge[1])
            if pair[0] == pair[1] or answer in ((), UNKNOWN_TARGET):
                raise self._error(edge, expected)
            if isinstance(answer, float):
                if numbers.setdefault(pair, answer) != answer:
                    raise self._error(edge, "one number a pair")
            else:
                labels.setdefault(pair, []).extend([answer] if isinstance(answer, str) else answer)
        if labels and numbers:
            raise self._error(given, "either labels or numbers as answers")
        if numbers:
            return list(numbers.items())
        return [(pair, tuple(dict.fromkeys(labels.get(pair, ())))) for pair in pairs]

    def _target(self, row: Mapping[str, Any], given: Any) -> Target:
        if given is None and not self.needs_target:
            return UNKNOWN_TARGET
        if isinstance(given, str) and given:
            return given
        if is_number(given):
            return float(given)
        if isinstance(given, list | tuple) and all(isinstance(label, str) and label for label in given):
            return tuple(dict.fromkeys(given))
        raise DataError(
            *self._place, shown_field(row, "target"), "a target that is a label, a list of labels or a number"
        )

    def _pair(self, pair: Sequence[Any], where: Any) -> Pair:
        return self._known_node(pair[0], where), self._known_node(pair[1], where)

    def _known_node(self, node: Any, where: Any) -> int:
        name = node_name(node)
        number = None if name is None else self.numbers.get(name)
        if number is None:
            named = ", ".join([*self.numbers][:20]) + (", ..." if len(self.numbers) > 20 else "")
            raise self._error(where, f'nodes that some edge or "nodes" mentions: {named}')
        return number

    def _require_memory(self, bytes_a_pair: int, what: str, way_out: str) -> None:
        """Refuse what so many bytes for every pair of nodes would not fit, before they are taken."""
        n = len(self.numbers)
        if (needed := n * n * bytes_a_pair) < UNASKED_BYTES:
            return
        free = free_memory()
        if free is not None and needed > free:
            found = f"{what} of {n:,} nodes, which needs at least {needed / 1e9:,.4g} GB of memory"
            most = f"at most about {math.isqrt(free // bytes_a_pair):,} nodes, as {free / 1e9:,.4g} GB are free"
            raise DataError(*self._place, found, f"{most}; {way_out}")

    # --- errors -------------------------------------------------------------------------------------------------------

    @property
    def _place(self) -> tuple[str | Path, int | None]:
        return self.source, self.line

    def _error(self, found: Any, expected: str) -> DataError:
        return DataError(*self._place, shown(found), expected)


def node_name(node: Any) -> str | None:
    """The name of a node; None of what cannot be one."""
    if isinstance(node, bool) or not isinstance(node, str | int):
        return None
    try:
        return str(node)
    except ValueError:  # a number of more digits than Python writes
        return None


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e30


def _is_node_pair(value: Any) -> bool:
    """Whether this is one question: two nodes, and not a list of questions."""
    return (
        isinstance(value, list | tuple)
        and len(value) == 2
        and not any(isinstance(node, list | tuple) for node in value)
    )
