"""Permissions: what a user may do with a folder, by nested groups, nested folders, grants and denials."""

from __future__ import annotations

import random
from collections.abc import Iterable

from .drawing import PEOPLE, Edge, Row, Splits, draw_rows, renamed

SHARES = {"none": 0.3, "read": 0.27, "write": 0.25, "denied": 0.18}
_GROUPS = "admins auditors board design finance guests interns legal managers research sales staff support"
_FOLDERS = "archive budget code contracts drafts exports invoices logs media models notes plans reports tests"
GRANTS = ("may read", "may write", "is denied")


def permissions(seed: int = 1, rows: int = 600, test_rows: int = 500) -> Splits:
    """2 to 4 users, 4 to 7 groups, 4 to 7 folders; the answer is what the user may do with the folder.

    What a group may or may not do holds for its members, the members of groups inside it, and all folders inside the
    folder. One denial on the way makes "denied", whatever else is granted; "write" includes "read".
    """
    seen: set[str] = set()
    return {
        split: draw_rows(random.Random(f"{seed} permissions {split}"), number, SHARES, _draw, seen)
        for split, number in (("train", rows), ("test", test_rows))
    }


def permission(edges: Iterable[Edge], user: str, folder: str) -> str:
    """What a user may do with a folder."""
    edges = list(edges)
    holders = _closure(edges, user, ("member of", "part of"))
    places = _closure(edges, folder, ("inside",))
    found = {label for a, label, b in edges if label in GRANTS and a in holders and b in places}
    for label, answer in (("is denied", "denied"), ("may write", "write"), ("may read", "read")):
        if label in found:
            return answer
    return "none"


def _closure(edges: list[Edge], start: str, labels: tuple[str, ...]) -> list[str]:
    """Whatever edges with these labels lead to, the start included."""
    reached = [start]
    for node in reached:
        reached += [b for a, label, b in edges if a == node and label in labels and b not in reached]
    return reached


def _draw(rng: random.Random, target: str) -> Row | None:
    users = [f"u{number}" for number in range(rng.randint(2, 4))]
    groups = [f"g{number}" for number in range(rng.randint(4, 7))]
    folders = [f"f{number}" for number in range(rng.randint(4, 7))]
    edges: list[Edge] = []
    for kind, label in ((groups, "part of"), (folders, "inside")):
        edges += [
            (node, label, rng.choice(kind[max(0, place - 2) : place]))
            for place, node in enumerate(kind)
            if place and rng.random() < 0.85
        ]
    edges += [
        (user, "member of", group) for user in users for group in rng.sample(groups, 2 if rng.random() < 0.3 else 1)
    ]
    granted = set()
    for _ in range(rng.randint(3, 7)):
        holder, folder = rng.choice(groups if rng.random() < 0.85 else users), rng.choice(folders)
        if (holder, folder) not in granted:
            granted.add((holder, folder))
            edges.append((holder, rng.choices(GRANTS, (4, 4, 3))[0], folder))
    pairs = [(user, folder) for user in users for folder in folders if permission(edges, user, folder) == target]
    if not pairs:
        return None
    shown = [
        *rng.sample(PEOPLE, len(users)),
        *rng.sample(_GROUPS.split(), len(groups)),
        *rng.sample(_FOLDERS.split(), len(folders)),
    ]
    names = dict(zip([*users, *groups, *folders], shown, strict=True))
    kinds = {"u": "user", "g": "group", "f": "folder"}
    nodes = [(names[node], kinds[node[0]]) for node in names]
    rng.shuffle(nodes)
    query = [names[node] for node in rng.choice(pairs)]
    return {"nodes": dict(nodes), "edges": renamed(rng, edges, names), "query": query, "target": target}
