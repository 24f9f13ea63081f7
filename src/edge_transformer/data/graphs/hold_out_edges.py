"""Held-out constructions of sentence graphs, to choose recipes without looking at the test set.

Two kinds of rows go from training to the test: those with deep recursion, a chain of many edges with one label, and
those in which a token with such an edge is an argument beside another one, such as a noun with a modifier as the theme
of a verb that also has a recipient.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path

from ...errors import DataError
from ...io.files import replacing
from .edges import SentenceGraph
from .hold_out import HeldOut

MOST_STEPS = 10_000  # of a search for chains in one sentence


def hold_out_constructions(
    graphs: Sequence[SentenceGraph],
    labels: Collection[str],
    beside: Collection[str],
    depth: int,
    seed: int,
    scored: int = 200,
    dev: int = 500,
    source: str | Path = "graphs",
) -> HeldOut:
    """Hold out the constructions of these labels; test has at most `scored` rows of a construction.

    Args:
        graphs: the training rows.
        labels: labels that nest, of modifiers and of clauses.
        beside: labels next to which no modified token stays in training.
        depth: training keeps chains of at most so many edges with one of the labels.
        seed: of the choice of rows. dev: how many rows like those of train are set aside. source: for errors.
    """
    chance = random.Random(seed)
    held = {row: name for row, graph in enumerate(graphs) if (name := construction(graph, labels, beside, depth))}
    if not held or len(held) == len(graphs):
        expected = f"some rows, but not all, with {', '.join(labels)} nested or beside {', '.join(beside)}"
        raise DataError(source, None, f"{len(held)} of {len(graphs)} rows to hold out", expected)
    left = [row for row in range(len(graphs)) if row not in held]
    known = {word for row in left for word in graphs[row].tokens}
    by_name: dict[str, list[int]] = defaultdict(list)
    for row, name in held.items():
        if known.issuperset(graphs[row].tokens):
            by_name[name].append(row)
    test = {row: name for name, rows in by_name.items() for row in chance.sample(rows, min(scored, len(rows)))}
    seen: dict[str, int] = defaultdict(int)
    for row in left:
        for word in set(graphs[row].tokens):
            seen[word] += 1
    aside: set[int] = set()
    for row in chance.sample(left, len(left)):
        words = set(graphs[row].tokens)
        if len(aside) < min(dev, len(left) // 2) and all(seen[word] > 1 for word in words):
            aside.add(row)
            for word in words:
                seen[word] -= 1
    return HeldOut([row for row in left if row not in aside], sorted(aside), dict(sorted(test.items())))


def write_constructions(
    folder: Path, rows: Sequence[tuple[SentenceGraph, tuple[str, str] | None]], parts: HeldOut
) -> None:
    """Write the three parts, as JSON lines; `rows` are graphs with the field and text that is rebuilt from them."""
    for name, numbers in (("train", parts.train), ("dev", parts.dev), ("test", list(parts.test))):
        path = folder / f"{name}.jsonl"
        if not numbers:  # an empty file could not be read
            path.unlink(missing_ok=True)  # of an earlier call
            continue
        with replacing(path) as aside, open(aside, "w", encoding="utf-8", newline="\n") as file:
            for number in numbers:
                graph, text = rows[number]
                value = graph.to_json() | (dict([text]) if text else {})
                asked = {"group": parts.test[number]} if name == "test" else {}
                file.write(json.dumps(value | asked) + "\n")


def construction(graph: SentenceGraph, labels: Collection[str], beside: Collection[str], depth: int) -> str:
    """The construction for which a row is held out; empty if it stays."""
    for label in labels:
        found = longest_chain(graph, label)
        if found > depth:
            return f"{label} {found} deep" + (f", {graph.group}" if graph.group else "")
    modified = {head for head, dependent, label in graph.edges if label in labels and head != dependent}
    roles: dict[int, dict[str, int]] = defaultdict(dict)
    for head, dependent, label in graph.edges:
        roles[head][label] = dependent
    for head, dependent, label in graph.edges:
        if dependent in modified and label not in beside and (others := roles[head].keys() & set(beside)):
            place = "before its head" if dependent < head else "after its head"
            return f"modified {label}, {place}, beside {min(others)}"
    return ""


def longest_chain(graph: SentenceGraph, label: str) -> int:
    """The most edges with a label on a path that visits no token twice."""
    below: dict[int, list[tuple[int, bool]]] = defaultdict(list)
    for head, dependent, name in graph.edges:
        if head != dependent:
            below[head].append((dependent, name == label))
    most = 0
    paths: list[tuple[int, frozenset[int], int]] = [(token, frozenset([token]), 0) for token in list(below)]
    for _ in range(MOST_STEPS):
        if not paths:
            break
        token, seen, length = paths.pop()
        most = max(most, length)
        for other, counts in below[token]:
            if other not in seen:
                paths.append((other, seen | {other}, length + counts))
    return most
