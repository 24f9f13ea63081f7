"""Labelled graphs with a query as JSON lines: relational data of your own.

    {"edges": [["Ann", "daughter", "Lil"], ["Lil", "brother", "Bob"]], "query": ["Ann", "Bob"], "target": "son"}

Nodes are texts or whole numbers. `target` is what a model learns to answer; questions for a trained model go without.
A training folder has `train.jsonl`, one or more `*test.jsonl` and, if you like, `valid.jsonl`; to score a trained model
the test files are enough.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from ...errors import DataError, UserError
from ...io.files import fingerprint
from .clutrr import MAX_NODES, SPLIT_PATTERNS, ClutrrData, Story, clutrr_files, no_text, read_clutrr, read_stories

MAX_LINE = 1_000_000
UNKNOWN_TARGET = ""


def read_folder(
    folder: str | Path, progress: Callable[[int], None] | None = None, training: bool = True, testing: bool = True
) -> ClutrrData:
    """Read a folder of labelled graphs: JSON lines, or CLUTRR's CSV files.

    Without `training` its training rows are not read, and it need not have any; likewise without `testing`.
    """
    files = graph_files(folder, training, testing)
    if any(path.suffix == ".csv" for paths in files.values() for path in paths):
        return read_clutrr(folder, progress, training, testing)
    rows: dict[str, list[Story]] = {split: [] for split in files}
    needed = [split for split, is_needed in (("train", training), ("test", testing)) if is_needed]
    for split in (*needed, "valid"):
        rows[split] = [story for path in files[split] for story in _read_file(path, progress)]
    for split in needed:
        if not rows[split]:
            raise UserError(f"{folder}: found no rows in *{split}.jsonl; expected at least one labelled graph")
    return ClutrrData.of(folder, files, rows)


def read_valid(folder: str | Path, progress: Callable[[int], None] | None = None) -> tuple[str, list[Story]]:
    """The validation stories of a folder, which needs no other files, and the fingerprint of their files."""
    files = valid_files(folder)
    read = read_stories if files[0].suffix == ".csv" else _read_file
    return fingerprint(files), [story for path in files for story in read(path, progress)]


def valid_files(folder: str | Path) -> list[Path]:
    """The validation files of a folder: JSON lines where there are any, else CLUTRR's CSV files."""
    for ending in ("jsonl", "csv"):
        files = sorted(Path(folder).glob(f"*{SPLIT_PATTERNS['valid']}.{ending}"))
        if files:
            return files
    raise UserError(f"{folder}: found neither *valid*.jsonl nor *valid*.csv; expected a folder with validation stories")


def _read_file(path: Path, progress: Callable[[int], None] | None) -> list[Story]:
    stories = []
    try:
        with open(path, encoding="utf-8-sig") as lines:
            for story in read_graph_lines(lines, path, needs_target=True):
                stories.append(story)
                if progress:
                    progress(1)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    return stories


def graph_files(folder: str | Path, training: bool = True, testing: bool = True) -> dict[str, list[Path]]:
    """The files of a folder by split: JSON lines where there are any, else CLUTRR's CSV files.

    The training files decide which; without `training`, and without such files, the test files do.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; expected one with train and test files, .jsonl or CLUTRR's .csv")
    for split in ("train",) if training else ("train", "test"):
        if any(folder.glob(f"*{split}.jsonl")):
            return {name: sorted(folder.glob(f"*{pattern}.jsonl")) for name, pattern in SPLIT_PATTERNS.items()}
        if any(folder.glob(f"*{split}.csv")):
            return clutrr_files(folder, training, testing)
    raise UserError(
        f"{folder}: found neither *{split}.jsonl nor *{split}.csv; expected one of them"
        + (", and test files" if training and testing else "")
    )


def read_graph_lines(
    lines: Iterable[str],
    source: str | Path,
    needs_target: bool = False,
    known: Collection[str] | None = None,
    max_nodes: int = MAX_NODES,
) -> Iterator[Story]:
    """Read labelled graphs from lines of JSON; blank lines are passed over. See `graph_from_json`."""
    number = 0
    try:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield _read_line(line, source, number, needs_target, known, max_nodes)
    except UnicodeDecodeError as error:
        raise no_text(source, number, error) from error


def _read_line(
    line: str, source: str | Path, number: int, needs_target: bool, known: Collection[str] | None, max_nodes: int
) -> Story:
    if len(line) > MAX_LINE:
        raise DataError(source, number, f"a line of {len(line)} characters", f"at most {MAX_LINE}")
    try:
        return graph_from_json(json.loads(line), source, number, needs_target, known, max_nodes)
    except DataError:
        raise
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits and deep nesting, among others
        raise DataError(source, number, repr(line.strip()), f"one JSON object a line ({error})") from error


def graph_from_json(
    value: Any,
    source: str | Path,
    line: int | None = None,
    needs_target: bool = False,
    known: Collection[str] | None = None,
    max_nodes: int = MAX_NODES,
) -> Story:
    """Check one labelled graph and number its nodes in the order of their first mention.

    Where `known` relations are given, others are refused; so are graphs of more than `max_nodes`.
    """

    def fail(found: Any, expected: str) -> DataError:
        return DataError(source, line, json.dumps(found, default=str), expected)

    if not isinstance(value, dict):
        raise fail(value, 'an object with "edges" and "query"')
    edges, query, target = value.get("edges"), value.get("query"), value.get("target", UNKNOWN_TARGET)
    if not isinstance(edges, list) or not edges:
        raise fail(edges, '"edges": a list of [from, relation, to] with at least one entry')
    numbers: dict[str, int] = {}

    def number(node: Any, where: Any) -> int:
        if isinstance(node, bool) or not isinstance(node, str | int):
            raise fail(where, "nodes that are texts or whole numbers")
        return numbers.setdefault(str(node), len(numbers))

    pairs, relations = [], []
    for edge in edges:
        if not isinstance(edge, list) or len(edge) != 3 or not isinstance(edge[1], str) or not edge[1]:
            raise fail(edge, 'an edge as [from, relation, to], such as ["Ann", "daughter", "Lil"]')
        if known is not None and edge[1] not in known:
            raise fail(edge, f"a relation that the model knows: {', '.join(known)}")
        pairs.append((number(edge[0], edge), number(edge[2], edge)))
        relations.append(edge[1])
    told = dict(zip(pairs, relations, strict=True))
    if any(told[pair] != relation for pair, relation in zip(pairs, relations, strict=True)):
        raise fail(edges, "one relation an edge; this list names two for the same pair")
    if not isinstance(query, list) or len(query) != 2:
        raise fail(query, '"query": the two nodes of the edge to label, such as ["Ann", "Bob"]')
    for node in query:
        if str(node) not in numbers:
            raise fail(query, f"nodes that some edge mentions: {', '.join(numbers)}")
    if len(numbers) > max_nodes:
        raise DataError(source, line, f"a graph of {len(numbers)} nodes", f"at most {max_nodes}")
    if not isinstance(target, str) or (needs_target and not target):
        raise fail(target, '"target": the label of the query edge, a text')
    return Story(
        edges=tuple(pairs),
        relations=tuple(relations),
        query=(number(query[0], query), number(query[1], query)),
        target=target,
        names=tuple(numbers),
    )
