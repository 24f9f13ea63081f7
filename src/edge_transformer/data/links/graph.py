"""A knowledge graph as tensors: which answers are known, and neighbourhoods of some of its nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

import torch
from torch import Tensor

from ..tensors import Vocab
from .rows import Fact

HEAD, RELATION, TAIL = 0, 1, 2  # the columns of facts


class Graph:
    """Facts `[facts, 3]` as numbers of head, relation and tail, over `nodes` nodes and `relations` relations."""

    def __init__(self, facts: Tensor, nodes: int, relations: int) -> None:
        self.facts, self.nodes, self.relations = facts, nodes, relations

    @cached_property
    def _ways(self) -> tuple[Tensor, Tensor, Tensor]:
        """The other ends of every node's facts, in both directions, node by node; which facts these are; and where
        those of each node begin.
        """
        ends = torch.cat([self.facts[:, [HEAD, TAIL]], self.facts[:, [TAIL, HEAD]]])
        order = ends[:, 0].argsort(stable=True)
        ends = ends[order]
        starts = torch.searchsorted(ends[:, 0].contiguous(), torch.arange(self.nodes + 1))
        return ends[:, 1].contiguous(), order % max(1, len(self.facts)), starts

    def around(
        self, seeds: Tensor, most: int, hidden: Tensor | None = None, generator: torch.Generator | None = None
    ) -> Tensor:
        """Up to `most` nodes around some nodes: these, the nodes next to them, those next to these, and so on.

        Where not all nodes of a distance fit, chance chooses. The ways of `hidden` facts, bool `[facts]`, are not
        walked. The seeds come first, and all of them are there.
        """
        ends, facts, starts = self._ways
        seeds = torch.unique(seeds)
        found, met = [seeds], torch.zeros(self.nodes, dtype=torch.bool)
        met[seeds] = True
        room, front = most - len(seeds), seeds
        while room > 0 and len(front):
            ways = ragged(starts[front], starts[front + 1])
            reached = ends[ways if hidden is None else ways[~hidden[facts[ways]]]]
            front = torch.unique(reached[~met[reached]])
            if len(front) > room:
                front = front[torch.randperm(len(front), generator=generator)[:room]]
            met[front] = True
            found.append(front)
            room -= len(front)
        return torch.cat(found)

    def within(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """The facts among some nodes, with the numbers that these have in `nodes`, and which facts they are."""
        place = torch.full((self.nodes,), -1)
        place[nodes] = torch.arange(len(nodes))
        heads, tails = place[self.facts[:, HEAD]], place[self.facts[:, TAIL]]
        (inside,) = torch.where((heads >= 0) & (tails >= 0))
        return torch.stack([heads[inside], self.facts[inside, RELATION], tails[inside]], dim=1), inside


class Known:
    """The true answers of questions, to leave out where another one is asked for."""

    def __init__(self, facts: Tensor, nodes: int, relations: int) -> None:
        self.nodes, self.relations = nodes, relations
        self._by_side = [self._sorted(facts, side) for side in (TAIL, HEAD)]
        pairs = facts[:, HEAD] * nodes + facts[:, TAIL]
        order = pairs.argsort(stable=True)
        self._pairs, self._relations = pairs[order], facts[order, RELATION]

    def _sorted(self, facts: Tensor, side: int) -> tuple[Tensor, Tensor]:
        """The answers that are on one side, by question; and the questions: memory for facts, not for all questions."""
        questions, order = self._questions(facts, side).sort(stable=True)
        return facts[order, side], questions

    def _questions(self, facts: Tensor, side: int) -> Tensor:
        return facts[:, HEAD + TAIL - side] * self.relations + facts[:, RELATION]

    def answers(self, facts: Tensor, side: int) -> Tensor:
        """Which nodes are known on that side of each of these facts: bool `[facts, nodes]`."""
        answers, questions = self._by_side[0 if side == TAIL else 1]
        asked = self._questions(facts, side)
        first, last = (torch.searchsorted(questions, asked, right=right) for right in (False, True))
        known = torch.zeros(len(facts), self.nodes, dtype=torch.bool)
        rows = torch.arange(len(facts)).repeat_interleave(last - first)
        known[rows, answers[ragged(first, last)]] = True
        return known

    def between(self, facts: Tensor) -> Tensor:
        """Which relations are known between the two nodes of each of these facts: bool `[facts, relations]`."""
        pairs = facts[:, HEAD] * self.nodes + facts[:, TAIL]
        first, last = (torch.searchsorted(self._pairs, pairs, right=right) for right in (False, True))
        known = torch.zeros(len(facts), self.relations, dtype=torch.bool)
        rows = torch.arange(len(facts)).repeat_interleave(last - first)
        known[rows, self._relations[ragged(first, last)]] = True
        return known


def ragged(first: Tensor, last: Tensor) -> Tensor:
    """All numbers from each `first` to before its `last`, one range after another."""
    counts = last - first
    before = counts.cumsum(0) - counts
    return torch.arange(int(counts.sum())) + (first - before).repeat_interleave(counts)


def fact_numbers(facts: Iterable[Fact], entities: Vocab, relations: Vocab) -> Tensor:
    """Facts as numbers, `[facts, 3]`; all names must be known."""
    return numbered(facts, {name: n for n, name in enumerate(entities)}, {name: n for n, name in enumerate(relations)})


def numbered(facts: Iterable[Fact], entities: Mapping[str, int], relations: Mapping[str, int]) -> Tensor:
    """The same with dictionaries, which are faster to look up in."""
    numbers = [(entities[head], relations[relation], entities[tail]) for head, relation, tail in facts]
    return torch.tensor(numbers, dtype=torch.long).view(-1, 3)
