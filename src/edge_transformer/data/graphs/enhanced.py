"""Enhanced dependencies, the column DEPS of CoNLL-U, as sentence graphs, and written back.

    3	ate	...	0:root           a token without head: an edge to itself
    1	Ann	...	3:nsubj|5:nsubj   a token with two heads

Empty nodes are collapsed, as the IWPT shared tasks do before they score: a path through them is one edge, whose label
has the steps of the path, such as `conj>nsubj`. An edge to itself with another first step than `root` is such a path.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ...errors import DataError, UserError
from ..trees.conllu import NO_VALUE, DependencySentence, read_conllu
from ..trees.folder import treebank_files, treebank_splits
from .corpora import Corpus
from .edges import Edge, SentenceGraph

ROOT = "root"
_ID, _DEPS = 0, 8
_WORD_OR_EMPTY = re.compile(r"\d{1,9}(\.\d{1,9})?")
_EDGE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?):([^\s|]+)")
_MOST_PATHS = 10_000  # through the empty nodes of a sentence

_Path = tuple[str, ...]  # node, relation, node, relation, ..., node, from the head down


def enhanced_graph(sentence: DependencySentence) -> SentenceGraph:
    """The enhanced graph of a sentence, without empty nodes."""
    paths = _collapsed(_steps(sentence), sentence)
    edges: list[Edge] = []
    for head, *between, dependent in paths:
        token = int(dependent) - 1
        label = ">".join(between[::2])
        if (head == "0") != (_universal(between[0]) == ROOT):
            raise _fail(sentence, f"{head}:{label} of word {dependent}", "0:root, and another relation for other heads")
        edges.append((token if head == "0" else int(head) - 1, token, label))
    try:
        return SentenceGraph(sentence.words, tuple(edges))
    except DataError as error:
        raise _fail(sentence, error.found, error.expected) from error


def with_enhanced(sentence: DependencySentence, graph: SentenceGraph) -> DependencySentence:
    """The same sentence with this graph in its column DEPS, and without empty nodes."""
    if graph.size != sentence.size:
        raise _fail(sentence, f"a graph of {graph.size} tokens", f"one of {sentence.size}")
    heads: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for head, dependent, label in graph.edges:
        is_root = head == dependent and _universal(label) == ROOT
        heads[str(dependent + 1)].append((0 if is_root else head + 1, label))
    lines = []
    for line in sentence.lines:
        cells = line.split("\t")
        if line.startswith("#") or "-" in cells[_ID]:
            lines.append(line)
        elif "." not in cells[_ID]:
            own = [f"{head}:{label}" for head, label in sorted(heads[cells[_ID]])]
            lines.append("\t".join([*cells[:_DEPS], "|".join(own) or NO_VALUE, *cells[_DEPS + 1 :]]))
    return replace(sentence, lines=tuple(lines))


def holds_enhanced(folder: str | Path) -> bool:
    """Whether a folder is a treebank with enhanced dependencies."""
    try:
        first, *_ = enhanced_files(folder).values()
        sentence = next(read_conllu(first, trees=False))
    except (UserError, ValueError, StopIteration):
        return False
    return any(line.split("\t")[_DEPS] != NO_VALUE for line in sentence.lines if not line.startswith("#"))


def enhanced_files(folder: str | Path) -> dict[str, Path]:
    """The files of a treebank, or a single one, by split."""
    splits = treebank_splits(folder)
    return dict(treebank_files(folder, splits).by_split)


def read_enhanced(path: str | Path) -> Iterator[tuple[SentenceGraph, str]]:
    """The enhanced graphs of a file."""
    for sentence in read_conllu(path, trees=False):
        yield enhanced_graph(sentence), ""


def enhanced_scores(gold: Sequence[SentenceGraph], found: Sequence[SentenceGraph]) -> dict[str, float]:
    """ELAS and EULAS, as the scorer of IWPT 2020 and 2021 counts them: F1 of all edges, with the roots.

    EULAS compares universal relations. So two edges of a pair may be equal then, and each such pair of edges counts.
    """
    total = sum(len(graph.edges) for graphs in (gold, found) for graph in graphs)
    exact = universal = 0
    for wanted, given in zip(gold, found, strict=True):
        exact += len(set(wanted.edges) & set(given.edges))
        counts = Counter(map(_universal_edge, given.edges))
        universal += sum(counts[_universal_edge(edge)] for edge in wanted.edges)
    return {name: 2 * right / total if total else 0.0 for name, right in (("ELAS", exact), ("EULAS", universal))}


def _universal_edge(edge: Edge) -> Edge:
    """An edge without subtypes: conj:and>nsubj:pass is conj>nsubj."""
    head, dependent, label = edge
    return head, dependent, ">".join(map(_universal, label.split(">")))


def _universal(relation: str) -> str:
    return relation.split(">")[0].split(":")[0]


def _steps(sentence: DependencySentence) -> list[_Path]:
    """All edges of a sentence with its empty nodes, as paths of one step."""
    rows = [line.split("\t") for line in sentence.lines if not line.startswith("#")]
    rows = [cells for cells in rows if _WORD_OR_EMPTY.fullmatch(cells[_ID])]
    nodes = {"0", *(cells[_ID] for cells in rows)}
    steps: list[_Path] = []
    for cells in rows:
        if cells[_DEPS] == NO_VALUE:
            expected = "an enhanced graph: head:relation, with | between them"
            raise _fail(sentence, f"DEPS {NO_VALUE} of word {cells[_ID]}", expected)
        for part in cells[_DEPS].split("|"):
            match = _EDGE.fullmatch(part)
            if match is None or match[1] not in nodes:
                expected = "head:relation, where head is 0 or a word or empty node of the sentence"
                raise _fail(sentence, f"DEPS {cells[_DEPS]!r} of word {cells[_ID]}", expected)
            steps.append((match[1], match[2], cells[_ID]))
    return steps


def _collapsed(steps: Iterable[_Path], sentence: DependencySentence) -> list[_Path]:
    """The paths that start and end at words, with nothing but empty nodes between.

    A path that passes an empty node twice is left out, and so is one from an empty node that has no head.
    """
    done: list[_Path] = []
    above: dict[str, list[_Path]] = defaultdict(list)  # the steps to each empty node
    open_paths: list[_Path] = []  # from an empty node to a word
    for step in steps:
        if "." in step[-1]:
            above[step[-1]].append(step)
        elif "." in step[0]:
            open_paths.append(step)
        else:
            done.append(step)
    for number, path in enumerate(open_paths):  # grows during the loop
        if number == _MOST_PATHS:
            raise _fail(sentence, f"{number} paths through empty nodes", "fewer")
        for step in above[path[0]]:
            longer = (*step[:-1], *path)
            if "." not in step[0]:
                done.append(longer)
            elif step[0] not in path[::2]:
                open_paths.append(longer)
    return done


def _fail(sentence: DependencySentence, found: str, expected: str) -> DataError:
    return DataError(sentence.source, sentence.line, found, expected)


ENHANCED = Corpus("enhanced", "", holds_enhanced, enhanced_files, read_enhanced, enhanced_scores)
