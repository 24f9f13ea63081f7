"""A small knowledge graph: people, companies, cities and countries of one fixed world."""

from __future__ import annotations

import heapq
import random
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations, product

from .drawing import PEOPLE, Edge, Row, Splits, draw_rows

CONTINENTS = ("Northland", "Southland")
COUNTRIES = ("Arland", "Belmark", "Corvia", "Dorne", "Elbonia", "Fredonia", "Gallia", "Hestia")
REGIONS = ("Alps", "Bay", "Coast", "Delta", "Elms", "Fens", "Glen", "Hills", "Isles")
CITIES = (
    "Aston",
    "Bray",
    "Cork",
    "Dole",
    "Esk",
    "Ford",
    "Graz",
    "Hull",
    "Inver",
    "Jever",
    "Kiel",
    "Lund",
    "Mons",
    "Nancy",
)
COMPANIES = ("Acme", "Bolt", "Cargo", "Dyno", "Ember", "Flux", "Gamma", "Helix", "Ion")
PERSONS = tuple(PEOPLE[:24])

SHARES = {
    "no link": 0.26,
    "citizen of": 0.08,
    "native of": 0.06,
    "resident of": 0.07,
    "works in": 0.06,
    "lives next to": 0.06,
    "sibling of": 0.06,
    "in-law of": 0.06,
    "colleague of": 0.09,
    "compatriot of": 0.07,
    "active in": 0.07,
    "in one country with": 0.07,
    "across the border from": 0.07,
}
ASKED = ((PERSONS, COUNTRIES), (PERSONS, PERSONS), (COMPANIES, COUNTRIES), (CITIES, CITIES))
PLACES = 18  # the most nodes of a row


def graph(seed: int = 1, rows: int = 800, test_rows: int = 400) -> Splits:
    """Neighbourhoods of pairs of nodes in a fixed world of 66; the answer is the edge of the pair, which is hidden.

    `link` has the rules; they join 2 to 8 of the facts that a row shows. Facts that are not shown do not hold: the
    answer is what follows from the row alone. A pair is in the training rows or in the test rows, never in both.
    """
    facts = _world(random.Random("world 5"))
    around: dict[str, list[str]] = defaultdict(list)
    for a, _, b in facts:
        around[a].append(b)
        around[b].append(a)
    pairs = _pairs(facts, seed)
    seen: set[str] = set()
    splits: Splits = {}
    for split, number in (("train", rows), ("test", test_rows)):

        def draw(rng: random.Random, target: str, split: str = split) -> Row | None:
            pair = rng.choice(pairs[split, target])
            if rng.random() < 0.5 and any({*pair} <= {*starts} & {*ends} for starts, ends in ASKED):
                pair = pair[::-1]
            tries = (_draw(rng, facts, around, pair, target) for _ in range(8))  # far pairs need more than near ones
            return next((row for row in tries if row is not None), None)

        splits[split] = draw_rows(random.Random(f"{seed} graph {split}"), number, SHARES, draw, seen)
    return splits


def _pairs(facts: Sequence[Edge], seed: int) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """The pairs to ask for by split and answer, those of one kind of node in one direction; a third is for tests."""
    by_link: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for starts, ends in ASKED:
        for a, b in combinations(starts, 2) if starts == ends else product(starts, ends):
            by_link[link(facts, a, b)].append((a, b))
    pairs = {}
    for target, found in by_link.items():
        random.Random(f"{seed} graph {target}").shuffle(found)
        pairs["train", target], pairs["test", target] = found[len(found) // 3 :], found[: len(found) // 3]
    return pairs


def link(facts: Iterable[Edge], a: str, b: str) -> str:
    """What a is to b by the rules, the first that applies."""
    out: dict[tuple[str, str], list[str]] = defaultdict(list)
    for start, label, end in facts:
        out[start, label].append(end)
        if label in ("borders", "married to"):  # told in one direction, meant in both
            out[end, label].append(start)

    def along(starts: Collection[str], label: str) -> set[str]:
        return {end for start in starts for end in out[start, label]}

    def up(starts: Collection[str], label: str) -> set[str]:
        """Whatever the label leads to, in any number of steps, the starts included."""
        reached = list(starts)
        for node in reached:
            reached += [end for end in out[node, label] if end not in reached]
        return set(reached)

    def lands(places: Collection[str]) -> set[str]:
        return up(places, "located in")

    def citizenships(person: str) -> set[str]:
        return along([person], "naturalised in") or lands(along([person], "born in"))

    def homes(person: str) -> set[str]:
        return lands(along([person], "lives in"))

    def owners(person: str) -> set[str]:
        return up(along([person], "works for"), "owned by")

    def parents(person: str) -> set[str]:
        return along([person], "child of")

    owned = {a, *(company for company, label in list(out) if label == "owned by" and a in up([company], label))}
    rules = (
        ("citizen of", b in citizenships(a)),
        ("native of", b in lands(along([a], "born in"))),
        ("resident of", b in homes(a)),
        ("works in", b in lands(along(along([a], "works for"), "based in"))),
        ("lives next to", b in along(homes(a), "borders")),
        ("sibling of", bool(parents(a) & parents(b))),
        ("in-law of", any(parents(x) & parents(b) for x in along([a], "married to"))),
        ("in-law of", any(parents(a) & parents(x) for x in along([b], "married to"))),
        ("colleague of", bool(owners(a) & owners(b))),
        ("compatriot of", bool(citizenships(a) & citizenships(b))),
        ("active in", b in lands(along(owned, "based in"))),
        ("in one country with", bool(lands([a]) & lands([b]))),
        ("across the border from", bool(along(lands([a]), "borders") & lands([b]))),
    )
    return next((name for name, holds in rules if holds), "no link")


def _world(rng: random.Random) -> list[Edge]:
    """All facts of the world."""
    size = len(COUNTRIES)
    facts = [(country, "part of", CONTINENTS[place % 2]) for place, country in enumerate(COUNTRIES)]
    facts += [(country, "borders", COUNTRIES[(place + 1) % size]) for place, country in enumerate(COUNTRIES)]
    # The first regions are parts of countries, the others are parts of these regions.
    facts += [(region, "located in", COUNTRIES[place]) for place, region in enumerate(REGIONS[:5])]
    facts += [(region, "located in", REGIONS[place]) for place, region in enumerate(REGIONS[5:])]
    places = [*REGIONS, *REGIONS[5:], COUNTRIES[5]]
    facts += [(city, "located in", place) for city, place in zip(CITIES, places, strict=True)]
    facts += [(company, "based in", rng.choice(CITIES)) for company in COMPANIES]
    facts += [(company, "owned by", COMPANIES[place // 2]) for place, company in enumerate(COMPANIES) if place > 1]
    for place, person in enumerate(PERSONS):
        cities = rng.sample(CITIES, 2)
        facts += [(person, "born in", cities[0]), (person, "lives in", cities[1])]
        if rng.random() < 0.4:
            facts.append((person, "naturalised in", rng.choice(COUNTRIES)))
        if place >= 5:  # the first five are parents of the others
            facts.append((person, "child of", PERSONS[place % 5]))
            facts.append((person, "works for", rng.choice(COMPANIES)))
    married = rng.sample(PERSONS[5:], 12)
    couples = zip(married[::2], married[1::2], strict=True)
    return facts + [(a, "married to", b) for a, b in couples if link(facts, a, b) != "sibling of"]


def _draw(
    rng: random.Random,
    facts: Sequence[Edge],
    around: Mapping[str, Sequence[str]],
    pair: tuple[str, str],
    target: str,
) -> Row | None:
    """Facts around a pair from which the answer follows, with some that it does not need."""
    shown = _paths(rng, around, pair)
    if len(shown) > PLACES:
        return None
    most = rng.randint(8, PLACES)
    for _ in range(40):
        if len(shown) >= most:
            break
        a, _, b = rng.choice(facts)
        if (a in shown) != (b in shown):
            shown = [*shown, b if a in shown else a]
    told = [fact for fact in facts if fact[0] in shown and fact[2] in shown]
    told = [fact for fact in told if rng.random() < 0.9 and {fact[0], fact[2]} != set(pair)]
    ends = {end for a, _, b in told for end in (a, b)}
    if not ends.issuperset(pair) or link(told, *pair) != target:
        return None
    rng.shuffle(told)
    return {"edges": [list(fact) for fact in told], "query": list(pair), "target": target}


def _paths(rng: random.Random, around: Mapping[str, Sequence[str]], pair: tuple[str, str]) -> list[str]:
    """The nodes of one to three paths between the two nodes, each the shortest by random lengths of its steps."""
    nodes = dict.fromkeys(pair)
    for _ in range(rng.randint(1, 3)):
        waiting: list[tuple[float, str, list[str]]] = [(0.0, pair[0], [])]
        reached: set[str] = set()
        while waiting:
            far, node, path = heapq.heappop(waiting)
            if node == pair[1]:
                nodes |= dict.fromkeys(path)
                break
            if node not in reached:
                reached.add(node)
                path = [*path, node]
                for other in around[node]:
                    if other not in reached:
                        heapq.heappush(waiting, (far + rng.random(), other, path))
    return list(nodes)
