"""What the problems share: rows of given shares of answers, none twice, names for nodes."""

from __future__ import annotations

import hashlib
import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Row = dict[str, Any]
Splits = dict[str, list[Row]]
Edge = tuple[str, str, str]  # from, label, to

_TRIES = 20_000

_PEOPLE = """
Ada Ali Amir Ana Anna Bea Ben Boris Carla Chen Clara Dan Dora Elif Emil Ewa Finn Gina Goran Hana Hugo Ida Igor Ines
Ivan Jana Jon Kai Kira Lars Lea Leo Lin Luca Mara Marc Mei Mila Nadia Nils Nora Olaf Olga Omar Otto Paula Pia Raj Rosa
Sami Sara Sven Tara Theo Tina Uma Vera Viktor Wanda Yara Yusuf Zoe
"""
PEOPLE = _PEOPLE.split()


def graph_key(row: Row) -> str:
    """A text that is the same for rows that differ only in the names of nodes and the order of edges.

    It comes from colour refinement, so it may also be the same for some graphs that differ.
    """
    nodes = row.get("nodes") or {}
    names = dict.fromkeys([*nodes, *(node for a, _, b in row["edges"] for node in (a, b))])
    query = row.get("query", ())
    colours = {name: f"{nodes.get(name)} {[end == name for end in query]}" for name in names}
    around: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for a, label, b in row["edges"]:
        around[a].append((f"to {label}", b))
        around[b].append((f"from {label}", a))
    for _ in names:
        colours = {
            name: _digest(f"{colours[name]} {sorted((label, colours[other]) for label, other in around[name])}")
            for name in names
        }
    return _digest(" ".join(sorted(colours.values())))


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def draw_rows(
    rng: random.Random,
    number: int,
    shares: Mapping[str, float],
    draw: Callable[[random.Random, str], Row | None],
    seen: set[str],
) -> list[Row]:
    """`number` rows with the given shares of answers, shuffled, none of them like one in `seen`, which grows.

    draw: makes a row for a wanted answer, or None where a try fails.
    """
    rows: list[Row] = []
    for target in answers_by_share(number, shares):
        for _ in range(_TRIES):
            row = draw(rng, target)
            if row is not None and (key := graph_key(row)) not in seen:
                seen.add(key)
                rows.append(row)
                break
        else:
            raise RuntimeError(f"found no new row for the answer {target!r} in {_TRIES} tries")
    rng.shuffle(rows)
    return rows


def answers_by_share(number: int, shares: Mapping[str, float]) -> list[str]:
    """`number` answers, of each one as many as its share says; what rounding leaves goes to the first ones."""
    total = sum(shares.values())
    counts = {target: int(number * share / total) for target, share in shares.items()}
    for target in list(counts)[: number - sum(counts.values())]:
        counts[target] += 1
    return [target for target, count in counts.items() for _ in range(count)]


def renamed(rng: random.Random, edges: Sequence[Edge], names: Mapping[str, str]) -> list[list[str]]:
    """Edges with new names of nodes, as JSON has them, in random order."""
    told = [[names[a], label, names[b]] for a, label, b in edges]
    rng.shuffle(told)
    return told
