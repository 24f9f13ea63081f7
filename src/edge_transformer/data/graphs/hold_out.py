"""Held-out splits of training rows that test generalisation, to choose recipes without looking at the test set.

For some words, train keeps a single row, in which the word has one place; rows in which it has other places are the
test. Rows with recursion, such as a clause inside a clause, are held out too.

The place of a token is its own label and those of its children, to its left and right, in one column of labels. Words
without a place, such as articles, are not held out.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import DataError, UserError
from .augment import loose_tokens
from .rows import TokenGraph

ALONE = "alone"  # the place of the only token of a row
INSIDE_ITS_LIKE = "inside its like"  # the group of rows in which a label is below an equal one
TRIES = 20  # rounds through all places to choose words


@dataclass(frozen=True)
class HeldOut:
    """Row numbers of each part; test rows with the place that train has of their word."""

    train: list[int]
    dev: list[int]
    test: dict[int, str]


def hold_out(
    graphs: Sequence[TokenGraph],
    column: str,
    words: int,
    seed: int,
    most: int = 400,
    scored: int = 50,
    dev: int = 500,
    source: str | Path = "graphs",
) -> HeldOut:
    """Hold out the rows of `words` words but for one row each; test has at most `scored` rows of a word.

    Words in more than `most` rows are never chosen, as too few rows would be left. A place for train to keep is drawn
    first, then a word that has it and others, so that all places occur. `dev` rows like those of train are set aside.
    All words of dev and test are in train. Errors name `source`.
    """
    if not graphs:
        raise DataError(source, 1, "no rows", "at least one graph a line")
    if column not in graphs[0].labels:
        names = ", ".join(graphs[0].labels) or "none"
        raise UserError(f"{source}: column of places: found {column}; expected one of the columns of the rows: {names}")
    chance = random.Random(seed)
    nested = {row for row, graph in enumerate(graphs) if is_nested(graph, column)}
    found = _rows_by_word_and_place(graphs, column)
    kept_place = _choose_words(found, words, most, chance)
    chosen_words = [kept_place.keys() & set(graph.tokens) for graph in graphs]
    test: dict[int, str] = {}
    kept: set[int] = set()
    for word in sorted(kept_place):
        place = kept_place[word]
        others = {row for other, rows in found[word].items() if other != place for row in rows}
        free = [row for row in found[word][place] if row not in others | nested and chosen_words[row] == {word}]
        asked = sorted(row for row in others - nested if chosen_words[row] == {word})
        if free and asked:
            kept.add(chance.choice(free))
            test |= dict.fromkeys(chance.sample(asked, min(scored, len(asked))), place)
        else:  # it occurs only with other chosen words, or in nested rows
            for row in range(len(graphs)):
                chosen_words[row] -= {word}
    test |= dict.fromkeys(sorted(nested), INSIDE_ITS_LIKE)
    train = [row for row in range(len(graphs)) if row in kept or not (chosen_words[row] or row in nested)]
    known = {word for row in train for word in graphs[row].tokens}
    test = {row: place for row, place in sorted(test.items()) if known.issuperset(graphs[row].tokens)}
    if not test:
        raise DataError(source, None, f"no words with several places in {column} to hold out", "at least one")
    validation = _set_aside(graphs, train, kept, dev, chance)
    return HeldOut([row for row in train if row not in validation], sorted(validation), test)


def places(graph: TokenGraph, column: str) -> list[str | None]:
    """The place of each token, such as "agent", "[agent _ theme]", "ccomp [agent _]", "alone", or None."""
    if graph.size == 1:
        return [ALONE]
    labels = graph.labels[column]
    around: list[list[str]] = [[] for _ in graph.tokens]
    for token in range(graph.size):  # in the order of the sentence, each token among its children
        around[token].append("_")
        parent = graph.parents[token]
        if parent != token:
            around[parent].append(labels[token] or "-")
    found: list[str | None] = []
    for token, loose in enumerate(loose_tokens(graph)):
        inside = f"[{' '.join(around[token])}]" if len(around[token]) > 1 else ""
        found.append(None if loose else " ".join(filter(None, (labels[token], inside))) or "-")
    return found


def is_nested(graph: TokenGraph, column: str) -> bool:
    """Whether a token has the label, not empty, of one of its ancestors."""
    labels = graph.labels[column]
    for start in range(graph.size):
        token, seen = start, {start}
        while graph.parents[token] not in seen:  # ends at a root or in a cycle
            token = graph.parents[token]
            seen.add(token)
            if labels[start] and labels[token] == labels[start]:
                return True
    return False


def _rows_by_word_and_place(graphs: Sequence[TokenGraph], column: str) -> dict[str, dict[str, list[int]]]:
    found: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for row, graph in enumerate(graphs):
        for word, place in set(zip(graph.tokens, places(graph, column), strict=True)):
            if place is not None:
                found[word][place].append(row)
    return found


def _choose_words(
    found: dict[str, dict[str, list[int]]], words: int, most: int, chance: random.Random
) -> dict[str, str]:
    """Chosen words, each with the place that train keeps."""
    having: dict[str, list[str]] = defaultdict(list)
    for word in sorted(found):
        if len(found[word]) > 1 and sum(map(len, found[word].values())) <= most:
            for place in found[word]:
                having[place].append(word)
    chosen: dict[str, str] = {}
    for _ in range(TRIES):
        for place in chance.sample(sorted(having), len(having)):
            left = [word for word in having[place] if word not in chosen]
            if left and len(chosen) < words:
                chosen[chance.choice(left)] = place
    return chosen


def _set_aside(
    graphs: Sequence[TokenGraph], train: list[int], kept: set[int], count: int, chance: random.Random
) -> set[int]:
    """At most `count` training rows, all of whose words remain in train."""
    rows_with = Counter(word for row in train for word in set(graphs[row].tokens))
    aside: set[int] = set()
    for row in chance.sample(train, len(train)):
        own = set(graphs[row].tokens)
        if len(aside) < min(count, len(train) // 10) and row not in kept and all(rows_with[word] > 1 for word in own):
            aside.add(row)
            rows_with.subtract(own)
    return aside
