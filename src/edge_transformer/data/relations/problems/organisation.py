"""Organisation charts: what one person is to another in the chain of command."""

from __future__ import annotations

import random
from collections.abc import Mapping

from .drawing import PEOPLE, Row, Splits, draw_rows

SHARES = {
    "unrelated": 0.28,
    "colleague": 0.15,
    "indirect manager": 0.12,
    "indirect report": 0.12,
    "manager's colleague": 0.11,
    "colleague's report": 0.11,
    "manager": 0.055,
    "report": 0.055,
}
TEAMS = [f"team {name}" for name in ("blue", "green", "north", "one", "red", "south", "two", "white")]
DISTRACTORS = ("mentors", "sits with")


def organisation(seed: int = 1, rows: int = 240, test_rows: int = 500) -> Splits:
    """Charts of 6 to 12 people with one or two heads; the answer is what the second person is to the first.

    A is the superior of B by "A manages B", by "B assists A", or by a team that A leads and B is in. "mentors" and
    "sits with" say nothing about that.
    Two people of one superior are colleagues; "unrelated" are all pairs without a name, such as reports of colleagues.
    """
    seen: set[str] = set()
    return {
        split: draw_rows(random.Random(f"{seed} organisation {split}"), number, SHARES, _draw, seen)
        for split, number in (("train", rows), ("test", test_rows))
    }


def relation(bosses: Mapping[str, str | None], a: str, b: str) -> str:
    """What b is to a, from everyone's superior."""

    def above(person: str | None) -> list[str]:
        found = []
        while person is not None and (person := bosses[person]) is not None:
            found.append(person)
        return found

    mine, theirs = above(a), above(b)
    if b in mine:
        return "manager" if b == mine[0] else "indirect manager"
    if a in theirs:
        return "report" if a == theirs[0] else "indirect report"
    if mine and theirs and mine[0] == theirs[0]:
        return "colleague"
    if len(mine) > 1 and theirs and mine[1] == theirs[0]:
        return "manager's colleague"
    if mine and len(theirs) > 1 and mine[0] == theirs[1]:
        return "colleague's report"
    return "unrelated"


def _draw(rng: random.Random, target: str) -> Row | None:
    people = rng.sample(PEOPLE, rng.randint(6, 12))
    heads = 2 if rng.random() < 0.3 else 1
    bosses: dict[str, str | None] = dict.fromkeys(people[:heads])
    depth = dict.fromkeys(people[:heads], 0)
    for person in people[heads:]:
        # The second of two heads must have someone, as all people are in some edge.
        free = [other for other in depth if depth[other] < 5]
        boss = people[1] if heads == 2 and person == people[2] else rng.choice(free)
        bosses[person], depth[person] = boss, depth[boss] + 1
    pairs = [(a, b) for a in people for b in people if a != b and relation(bosses, a, b) == target]
    if not pairs or people[0] not in bosses.values():
        return None
    edges = _chain_of_command(rng, bosses)
    told = {frozenset((a, b)) for a, _, b in edges}
    for _ in range(rng.randint(1, 4)):
        a, b = rng.sample(people, 2)
        if frozenset((a, b)) not in told:
            told.add(frozenset((a, b)))
            edges.append([a, rng.choice(DISTRACTORS), b])
    rng.shuffle(edges)
    return {"edges": edges, "query": list(rng.choice(pairs)), "target": target}


def _chain_of_command(rng: random.Random, bosses: Mapping[str, str | None]) -> list[list[str]]:
    """Edges that tell everyone's superior."""
    teams = rng.sample(TEAMS, 4)
    leads: dict[str, str] = {}
    for boss in dict.fromkeys(bosses.values()):
        if boss is not None and teams and rng.random() < 0.4:
            leads[boss] = teams.pop()
    edges = [[boss, "leads", team] for boss, team in leads.items()]
    for person, boss in bosses.items():
        if boss is None:
            continue
        if person not in bosses.values() and rng.random() < 0.25:
            edges.append([person, "assists", boss])
        elif boss in leads and rng.random() < 0.8:
            edges.append([person, "is in", leads[boss]])
        else:
            edges.append([boss, "manages", person])
    return edges
