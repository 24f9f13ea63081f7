"""Facts about knowledge graphs: a few counted by hand, all against plain loops, and what is known of real ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_transformer.data.links.facts import RELIABLE, Leak, LinkSplitFacts, Way, describe_links
from edge_transformer.data.links.folder import read_links
from edge_transformer.data.links.rows import Fact, link_rows
from official_data import benchmark

GRAPHS = benchmark("knowledge_graphs")


def test_counts_by_hand() -> None:
    train = [("a", "r", "b"), ("a", "r", "b"), ("b", "s", "c")]
    test = [("a", "r", "b"), ("a", "s", "d"), ("e", "t", "e"), ("e", "t", "e")]
    known = [{"entity": "a", "types": "x", "features": 1}, {"entity": "d", "types": ["x", "y"]}]
    facts = describe_links(link_rows({"train": [*train, *known], "test": test}))
    assert facts.splits["train"] == LinkSplitFacts(3, 3, 2, 1, 3, 0, 0, 0, 0)
    assert facts.splits["test"] == LinkSplitFacts(
        facts=4,
        entities=4,
        relations=3,
        duplicates=1,
        in_train=1,
        unseen_entities=2,
        with_unseen_entity=3,
        unseen_relations=1,
        with_unseen_relation=2,
    )
    assert list(facts.relations.items()) == [("r", 2), ("s", 1)]
    assert (facts.typed, facts.with_features) == (2, 1)


def test_leaks_by_hand() -> None:
    up = [(str(n), "parent", str(n + 10)) for n in range(4)]
    down = [(str(n + 10), "child", str(n)) for n in range(8)]  # half of them with their inverse
    more = [("x", "friend", "y"), ("10", "boss", "0"), ("z", "kin", "z")]
    asked = [("4", "parent", "14"), ("5", "parent", "15"), ("9", "parent", "19"), ("y", "friend", "x")]
    asked += [("11", "boss", "1"), ("z", "kin", "z"), ("z", "self", "z")]
    facts = describe_links(link_rows({"train": up + down + more, "test": asked}))
    nothing = Way(0)
    assert sorted(facts.leaks["test"], key=lambda leak: leak.relation) == [
        Leak("boss", 1, Way(1, "parent", 1 / 4, 0), Way(1, "child", 1 / 8, 0)),
        Leak("friend", 1, Way(1, "friend", 0.0, 0), nothing),
        Leak("parent", 3, Way(2, "child", 4 / 8, 0), nothing),
        Leak("self", 1, Way(1, "kin", 0.0, 0), Way(1, "kin", 0.0, 0)),
    ]


def test_reliable_leaks_come_first() -> None:
    pairs = [(str(n), str(n + 10)) for n in range(8)]
    train = (
        [(a, "next", b) for a, b in pairs] + [(b, "before", a) for a, b in pairs[:6]] + [(b, "x", a) for a, b in pairs]
    )
    asked = [(a, "y", b) for a, b in pairs] + [(b, "before", a) for a, b in pairs[6:]]
    [first, second] = describe_links(link_rows({"train": train, "test": asked})).leaks["test"]
    assert first == Leak("before", 2, Way(2, "next", 6 / 8, 2), Way(2, "x", 6 / 8, 2))
    assert second.relation == "y"
    assert (second.inverse.facts, second.inverse.reliable) == (8, 0)
    assert RELIABLE <= 6 / 8


NODES, RELATIONS = st.sampled_from("abcd"), st.sampled_from("rst")
FACTS = st.lists(st.builds(Fact, NODES, RELATIONS, NODES), min_size=1, max_size=25)


@given(FACTS, FACTS)
def test_leaks_are_as_plain_loops_find_them(train: list[Fact], asked: list[Fact]) -> None:
    known = set(train)

    def sources(fact: Fact, way: str) -> dict[str, float]:
        """Every r2, and of its facts the share that the relation of the fact goes with."""
        found = {}
        for other in "rst":
            turn = (lambda a, b: (b, a)) if way == "inverse" else (lambda a, b: (a, b))
            source = Fact(*_between(other, turn(fact.head, fact.tail)))
            if source not in known or source == fact:
                continue
            of_other = [each for each in known if each.relation == other]
            goes = [Fact(*_between(fact.relation, turn(each.head, each.tail))) for each in of_other]
            right = [a in known and a != b for a, b in zip(goes, of_other, strict=True)]
            found[other] = sum(right) / len(right)
        return found

    leaks = {leak.relation: leak for leak in describe_links(link_rows({"train": train, "test": asked})).leaks["test"]}
    for relation in "rst":
        of_relation = [fact for fact in asked if fact.relation == relation]
        for way in ("inverse", "copy"):
            found = [each for fact in of_relation if (each := sources(fact, way))]
            leak = getattr(leaks[relation], way) if relation in leaks else Way(0)
            assert leak.facts == len(found)
            assert leak.reliable == sum(max(each.values()) >= RELIABLE for each in found)
            if found:
                assert leak.reliability in [each[leak.by] for each in found if leak.by in each]


def _between(relation: str, nodes: tuple[str, str]) -> tuple[str, str, str]:
    return nodes[0], relation, nodes[1]


@pytest.mark.parametrize("name", ["nations", "kinship", "umls", "inductive/WN18RR_v1"])
def test_real_graphs(name: str) -> None:
    if not (GRAPHS / name).is_dir():
        pytest.skip(f"needs {GRAPHS / name}, the files of this benchmark")
    facts = describe_links(read_links(GRAPHS / name))
    test = facts.splits["test"]
    assert (test.duplicates, test.in_train, test.with_unseen_entity, test.with_unseen_relation) == (0, 0, 0, 0)
    assert sum(facts.relations.values()) == facts.splits["train"].facts
    linked = sum(leak.inverse.facts for leak in facts.leaks["test"]) / test.facts
    known = {"nations": 1, "kinship": 0.815, "umls": 0.408, "inductive/WN18RR_v1": 0.522}
    assert linked == pytest.approx(known[name], abs=1e-3)
