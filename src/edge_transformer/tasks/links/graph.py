"""The graph that a model of links answers on: its facts, and what is known of its nodes, as numbers and as names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor

from ...data.links.graph import Graph, Known, numbered, ragged
from ...data.links.rows import Entity, Fact
from ...data.tensors import Vocab
from ...errors import DataError, suggestion


@dataclass(frozen=True, eq=False)
class Named:
    """Facts with the names of their nodes and relations, and what is known of the nodes.

    Nodes are `entities`; the embeddings that a model may have for some of them are those of the first `trained` ones.
    """

    entities: Vocab
    relations: Vocab
    facts: Tensor  # [facts, 3]: numbers of head, relation and tail
    types: Vocab = field(default_factory=lambda: Vocab(()))
    node_types: tuple[Tensor, Tensor] | None = None  # the types of all nodes, and where those of each begin: [nodes]
    features: Tensor | None = None  # [nodes, features]
    trained: int | None = None  # None: all of them

    @classmethod
    def of(
        cls,
        facts: Sequence[Fact],
        entities: Vocab,
        relations: Vocab,
        about: Mapping[str, Entity] | None = None,
        types: Vocab | None = None,
    ) -> Self:
        """The graph of facts whose names are all known; `about` says more of some nodes."""
        about = about or {}
        types = Vocab.of(name for each in about.values() for name in each.types) if types is None else types
        places = {name: n for n, name in enumerate(entities)}, {name: n for n, name in enumerate(relations)}
        width = max((len(each.features) for each in about.values()), default=0)
        nothing = Entity()
        lists = [[types.number(name) for name in about.get(each, nothing).types] for each in entities]
        known = [[number for number in numbers if number is not None] for numbers in lists]
        counts = torch.tensor([len(numbers) for numbers in known], dtype=torch.long)
        flat = torch.tensor([number for numbers in known for number in numbers], dtype=torch.long)
        rows = [about.get(each, nothing).features or (0.0,) * width for each in entities]
        return cls(
            entities,
            relations,
            numbered(facts, *places),
            types,
            (flat, counts.cumsum(0) - counts) if len(types) else None,
            torch.tensor(rows, dtype=torch.float32) if width else None,
        )

    @cached_property
    def graph(self) -> Graph:
        return Graph(self.facts, len(self.entities), len(self.relations))

    @cached_property
    def known(self) -> Known:
        return Known(self.facts, len(self.entities), len(self.relations))

    @cached_property
    def facts_known(self) -> set[tuple[int, int, int]]:
        return {(head, relation, tail) for head, relation, tail in self.facts.tolist()}

    def named(self) -> Iterator[Fact]:
        """The facts by name."""
        for head, relation, tail in self.facts.tolist():
            yield Fact(self.entities.name(head), self.relations.name(relation), self.entities.name(tail))

    def with_facts(self, facts: Iterable[Fact], replacing: bool = False) -> Named:
        """The same graph with more facts, or one of these alone; new nodes come last."""
        facts = list(facts)
        for fact in facts:
            if fact.relation not in self.relations:
                raise unknown_relation(fact.relation, self.relations)
        ends = [node for fact in facts for node in (fact.head, fact.tail)]
        if replacing:
            grown = Named(Vocab(dict.fromkeys(ends)), self.relations, self.facts[:0], self.types, trained=0)
        else:
            grown = self.with_nodes(ends)
        places = {name: n for n, name in enumerate(grown.entities)}, {name: n for n, name in enumerate(self.relations)}
        return replace(grown, facts=torch.unique(torch.cat([grown.facts, numbered(facts, *places)]), dim=0))

    def with_nodes(self, names: Iterable[str]) -> Named:
        """The same graph with more nodes, which come last; nothing is known of them."""
        before = len(self.entities)
        entities = Vocab(dict.fromkeys([*self.entities, *names]))
        added = len(entities) - before
        if not added:
            return self
        node_types, features = self.node_types, self.features
        if node_types is not None:
            node_types = node_types[0], torch.cat([node_types[1], torch.full((added,), len(node_types[0]))])
        if features is not None:
            features = torch.cat([features, features.new_zeros(added, features.shape[1])])
        trained = before if self.trained is None else self.trained
        return replace(self, entities=entities, node_types=node_types, features=features, trained=trained)

    def inputs(self, nodes: Tensor | None = None) -> dict[str, Any]:
        """What `LinkInput` takes besides facts, of all nodes or of some."""
        count = len(self.entities)
        chosen = torch.arange(count) if nodes is None else nodes
        trained = count if self.trained is None else self.trained
        found: dict[str, Any] = {"entities": torch.where(chosen < trained, chosen, -1)}
        if self.node_types is not None:
            found["types"] = self.node_types if nodes is None else _some(self.node_types, nodes)
        elif len(self.types):
            found["types"] = torch.empty(0, dtype=torch.long), torch.zeros(len(chosen), dtype=torch.long)
        if self.features is not None:
            found["features"] = self.features[chosen]
        return found


def unknown_relation(name: str, relations: Vocab, where: str = "relation") -> DataError:
    """The error on a relation that no training fact has."""
    known = list(relations)
    listed = ", ".join(known[:12]) + (f" and {len(known) - 12} more" if len(known) > 12 else "")
    return DataError(where, None, f"the relation {name!r}", f"one of {listed}{suggestion(name, known)}")


def unknown_entity(name: str, entities: Vocab, where: str) -> DataError:
    """The error on a node that no fact has."""
    near = suggestion(name, list(entities)) if len(entities) <= 20_000 else ""
    more = '`facts=` in Python, "facts" in a question'
    expected = f"one of the graph's {len(entities):,}, or facts about it ({more}){near}"
    return DataError(where, None, f"the node {name!r}", expected)


def _some(lists: tuple[Tensor, Tensor], rows: Tensor) -> tuple[Tensor, Tensor]:
    flat, starts = lists
    ends = torch.cat([starts[1:], torch.tensor([len(flat)])])
    counts = (ends - starts)[rows]
    return flat[ragged(starts[rows], ends[rows])], counts.cumsum(0) - counts
