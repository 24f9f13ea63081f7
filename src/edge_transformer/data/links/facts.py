"""Facts about a knowledge graph to know before training on it or reading a score: what leaks, what train lacks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from .rows import Fact, LinkRows

RELIABLE = 0.7  # from here on, a relation gives another one away; an exact inverse reaches the share that train has


@dataclass(frozen=True)
class LinkSplitFacts:
    """The facts about one split."""

    facts: int
    entities: int  # distinct ones
    relations: int
    duplicates: int  # facts that stand in the split before
    in_train: int  # facts that train has too
    unseen_entities: int  # that no fact of train has
    with_unseen_entity: int  # facts
    unseen_relations: int  # that no fact of train has
    with_unseen_relation: int  # facts


@dataclass(frozen=True)
class Way:
    """How many facts (h, r, t) of a relation follow from train: from (t, r2, h), or a copy (h, r2, t), for some r2."""

    facts: int
    by: str = ""  # the r2 that gives most of them away, each counted for its most reliable one
    reliability: float = 0.0  # of train's facts of this r2, the share that r goes with, as it does in these facts
    reliable: int = 0  # facts that follow from an r2 of which this share is at least RELIABLE


@dataclass(frozen=True)
class Leak:
    """What train gives away of the facts of one relation in one split."""

    relation: str
    facts: int
    inverse: Way
    copy: Way


@dataclass(frozen=True)
class LinkFacts:
    """The facts about a knowledge graph."""

    name: str
    fingerprint: str
    splits: dict[str, LinkSplitFacts]
    relations: dict[str, int]  # counts in train, the most frequent first
    leaks: dict[str, tuple[Leak, ...]]  # of each split but train: relations that leak, the most reliable first
    typed: int  # entities with types
    with_features: int  # entities with features


def describe_links(data: LinkRows) -> LinkFacts:
    """Count everything."""
    train = data.splits.get("train", [])
    known = set(train)
    entities, relations = entities_of(train), {fact.relation for fact in train}
    leaks = Leaks(train)
    return LinkFacts(
        name=data.name,
        fingerprint=data.fingerprint,
        splits={split: _split_facts(facts, known, entities, relations) for split, facts in data.splits.items()},
        relations=dict(Counter(fact.relation for fact in train).most_common()),
        leaks={split: leaks.of(facts) for split, facts in data.splits.items() if split != "train"},
        typed=sum(bool(entity.types) for entity in data.entities.values()),
        with_features=sum(bool(entity.features) for entity in data.entities.values()),
    )


def entities_of(facts: Iterable[Fact]) -> set[str]:
    """The nodes of facts."""
    return {node for fact in facts for node in (fact.head, fact.tail)}


def _split_facts(facts: Sequence[Fact], known: Set[Fact], entities: Set[str], relations: Set[str]) -> LinkSplitFacts:
    own, own_relations = entities_of(facts), {fact.relation for fact in facts}
    return LinkSplitFacts(
        facts=len(facts),
        entities=len(own),
        relations=len(own_relations),
        duplicates=len(facts) - len(set(facts)),
        in_train=sum(fact in known for fact in facts),
        unseen_entities=len(own - entities),
        with_unseen_entity=sum(not entities >= {fact.head, fact.tail} for fact in facts),
        unseen_relations=len(own_relations - relations),
        with_unseen_relation=sum(fact.relation not in relations for fact in facts),
    )


class Leaks:
    """Which facts follow from a fact of train between the same two nodes."""

    def __init__(self, train: Iterable[Fact]) -> None:
        self._pairs: dict[tuple[str, str], set[str]] = defaultdict(set)
        for head, relation, tail in train:
            self._pairs[head, tail].add(relation)
        self._counts = Counter(relation for relations in self._pairs.values() for relation in relations)
        self._together = {way: self._count_pairs(way) for way in ("inverse", "copy")}

    def _count_pairs(self, way: str) -> Counter[tuple[str, str]]:
        """How many facts (a, r2, b) of train go with a fact r of train the same way, by (r, r2)."""
        counts: Counter[tuple[str, str]] = Counter()
        for (head, tail), relations in self._pairs.items():
            for relation in relations:
                counts.update((relation, other) for other in self._others(Fact(head, relation, tail), way))
        return counts

    def _others(self, fact: Fact, way: str) -> set[str]:
        """The relations r2 in train from tail to head ("inverse") or from head to tail, without the fact itself."""
        pair = (fact.tail, fact.head) if way == "inverse" else (fact.head, fact.tail)
        others = self._pairs.get(pair, set())
        return others - {fact.relation} if pair == (fact.head, fact.tail) else others

    def reliability(self, relation: str, other: str, way: str) -> float:
        """Of the facts of `other` in train, the share that `relation` goes with."""
        return self._together[way][relation, other] / self._counts[other]

    def of(self, facts: Iterable[Fact]) -> tuple[Leak, ...]:
        """The relations of these facts that leak, those with most reliable and most leaks first."""
        by_relation: dict[str, list[Fact]] = defaultdict(list)
        for fact in facts:
            by_relation[fact.relation].append(fact)
        leaks = [
            Leak(relation, len(own), self._way(own, "inverse"), self._way(own, "copy"))
            for relation, own in by_relation.items()
        ]
        found = (leak for leak in leaks if leak.inverse.facts or leak.copy.facts)
        return tuple(sorted(found, key=_rank))

    def _way(self, facts: Sequence[Fact], way: str) -> Way:
        """What facts of one relation follow from, each from the most reliable one."""
        sources: Counter[str] = Counter()
        for fact in facts:
            if others := self._others(fact, way):
                sources[max(sorted(others), key=lambda other: self.reliability(fact.relation, other, way))] += 1
        if not sources:
            return Way(0)
        reliability = {other: self.reliability(facts[0].relation, other, way) for other in sources}
        by = min(sources, key=lambda other: (-sources[other], other))
        reliable = sum(count for other, count in sources.items() if reliability[other] >= RELIABLE)
        return Way(sources.total(), by, reliability[by], reliable)


def _rank(leak: Leak) -> tuple[int, int, str]:
    ways = leak.inverse, leak.copy
    return -sum(way.reliable for way in ways), -sum(way.facts for way in ways), leak.relation
