"""The search for reasons: paths of known facts from head to tail, joined by triangles of the model.

Attention and gradients propose paths; each is tried: its facts are hidden, and the link is asked for again. The one
whose facts are missed most is the next reason. Its facts stay hidden, so that the following one is another reason, and
not the same once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from ...data.links.graph import HEAD, TAIL
from ..proof import Derivation, best_pivots, derivation
from .view import Standing, Traced, View

REASONS = 3
LEAST_FACTS = 1e-6  # the least share of the best fact that a fact counts
PIVOTS, SPEAKERS = 12, 12  # nodes that paths may lead through: pivots by strength, and ends of facts by what they speak
BY_STRENGTH, BY_GRADIENT = 3, 2  # paths tried for each reason


class Path(NamedTuple):
    """A derivation of the link, or of the way back, from facts; nodes and facts have their numbers in the view."""

    derivation: Derivation
    facts: tuple[tuple[int, ...], ...]  # of each leaf
    weights: dict[tuple[int, int, int, int], tuple[float, float]]  # by layer and triangle: weight and strength

    @property
    def numbers(self) -> tuple[int, ...]:
        """All facts, once each."""
        return tuple(dict.fromkeys(number for numbers in self.facts for number in numbers))


class Reason(NamedTuple):
    """A path, and how the link stands without its facts."""

    path: Path
    without: Standing  # without these facts alone
    left: Standing  # without the facts of the reasons before it either


def find_reasons(view: View, traced: Traced, before: Standing, most: int = REASONS) -> list[Reason]:
    """The paths whose facts are missed most, each without the facts of those before it.

    `traced` is of all facts, and so is how the link stands `before`.
    """
    reasons: list[Reason] = []
    hidden: tuple[int, ...] = ()
    while len(reasons) < most:
        best: tuple[float, Standing, Path] | None = None
        for path in paths(view, view.trace(hidden) if hidden else traced, hidden):
            left = view.standing((*hidden, *path.numbers))
            lost = (before.likelihood - left.likelihood) / len(path.numbers)  # a fact: short reasons say more
            if lost > 0 and (best is None or lost > best[0]):
                best = lost, left, path
        if best is None:
            break
        _, before, path = best
        reasons.append(Reason(path, view.standing(path.numbers) if hidden else before, before))
        hidden = (*hidden, *path.numbers)
    return reasons


def paths(view: View, traced: Traced, hidden: Iterable[int] = ()) -> Iterator[Path]:
    """The paths worth trying, without two of the same facts."""
    nodes = candidate_nodes(view, traced)
    weights, strengths = traced.among(nodes)  # (layers, m, m, m) both
    facts = facts_of_pairs(view, traced.speaks, nodes, hidden)
    told = torch.zeros(len(nodes), len(nodes), dtype=torch.bool)
    worth = torch.full((len(nodes), len(nodes)), -torch.inf)
    for (start, end), numbers in facts.items():
        told[start, end] = True
        worth[start, end] = float(traced.speaks[list(numbers)].max())
    speaking = told & (worth > 0)
    worth = (worth / worth.max().clamp_min(torch.finfo(worth.dtype).tiny)).clamp_min(LEAST_FACTS).log()
    found = [Derivation(0, 1)] if told[0, 1] else []  # the link's own nodes come first: a fact between them
    found += _derivations(strengths, told, torch.zeros_like(worth), BY_STRENGTH)
    found += _derivations(strengths, speaking, worth, BY_GRADIENT)
    seen = set()
    for each in found:
        path = _path(each, nodes, facts, weights, strengths)
        if frozenset(path.numbers) not in seen:
            seen.add(frozenset(path.numbers))
            yield path


def paths_by_attention(view: View, traced: Traced, count: int) -> list[Path]:
    """The strongest paths, as attention alone tells them."""
    nodes = _unlike(view, _largest(_strength(view, traced), PIVOTS + 2))
    weights, strengths = traced.among(nodes)
    facts = facts_of_pairs(view, torch.zeros_like(traced.speaks), nodes)
    told = torch.zeros(len(nodes), len(nodes), dtype=torch.bool)
    for edge in facts:
        told[edge] = True
    found = [Derivation(0, 1)] if told[0, 1] else []
    found += _derivations(strengths, told, torch.zeros(told.shape), count)
    return [_path(each, nodes, facts, weights, strengths) for each in found]


def _strength(view: View, traced: Traced) -> Tensor:
    """How strong each node is as a pivot of the link: `[n]`."""
    head, _, tail = view.link
    forth, back = (traced.pivots(*edge)[1].amax(0) for edge in ((head, tail), (tail, head)))
    return forth + back


def _unlike(view: View, others: list[int]) -> Tensor:
    """The two nodes of the link, and others."""
    head, _, tail = view.link
    return torch.tensor([head, tail, *(node for node in dict.fromkeys(others) if node not in (head, tail))])


def candidate_nodes(view: View, traced: Traced) -> Tensor:
    """Nodes that paths may lead through; those of the link come first."""
    spoken = torch.zeros(len(view.nodes))
    for side in (HEAD, TAIL):
        spoken.index_add_(0, view.facts[:, side], traced.speaks.clamp_min(0))
    return _unlike(view, [*_largest(_strength(view, traced), PIVOTS + 2), *_largest(spoken, SPEAKERS + 2)])


def _largest(values: Tensor, count: int) -> list[int]:
    best = values.topk(min(count, len(values)))
    return [node for node, value in zip(best.indices.tolist(), best.values.tolist(), strict=True) if value > 0]


def facts_of_pairs(
    view: View, speaks: Tensor, nodes: Tensor, hidden: Iterable[int] = ()
) -> dict[tuple[int, int], tuple[int, ...]]:
    """The facts between every two of some nodes that speak most for the link: up to one in each direction.

    A state has the facts of both directions, and one of them often says what the other does. The second is left out
    where it does not speak for the link.
    """
    place = torch.full((len(view.nodes),), -1)
    place[nodes] = torch.arange(len(nodes))
    ends = place[view.facts[:, [HEAD, TAIL]]]
    left = (ends >= 0).all(1) & view.open
    left[list(hidden)] = False
    numbers = torch.where(left)[0]
    best: dict[tuple[int, int], int] = {}
    for number in numbers[speaks[numbers].argsort(stable=True)].tolist():
        best[int(ends[number, 0]), int(ends[number, 1])] = number
    found = {}
    for start, end in best:
        both = dict.fromkeys(best[edge] for edge in ((start, end), (end, start)) if edge in best)
        first, *others = sorted(both, key=lambda number: -float(speaks[number]))
        found[start, end] = found[end, start] = (first, *(each for each in others if speaks[each] > 0))
    return found


def _derivations(strengths: Tensor, told: Tensor, worth: Tensor, count: int) -> list[Derivation]:
    """The best derivations of the link from told edges through different pivots, in either direction."""
    scores = strengths.log()[:, None].clone()  # (layers, 1, m, m, m)
    told = told.clone()
    told[0, 1] = told[1, 0] = False
    found: list[Derivation] = []
    for start, end in ((0, 1), (1, 0)):
        taken: set[int] = set()
        while len(taken) < count:
            pivots = best_pivots(scores, told[None], worth[None])
            each = derivation(pivots[:, 0], told, (start, end))
            if each is None or each.triangle[1] in taken:
                break
            taken.add(each.triangle[1])
            scores[:, 0, start, each.triangle[1], end] = -torch.inf
            found.append(each)
    return sorted(found, key=lambda each: -_worth(each, strengths.log(), worth))[:count]


def _worth(each: Derivation, scores: Tensor, worth: Tensor) -> float:
    own = float(scores[(each.layer - 1, *each.triangle)] if each.premises else worth[each.start, each.end])
    return own + sum(_worth(premise, scores, worth) for premise in each.premises)


def _path(
    each: Derivation,
    nodes: Tensor,
    facts: dict[tuple[int, int], tuple[int, ...]],
    weights: Tensor,
    strengths: Tensor,
) -> Path:
    """A derivation over some nodes, with the numbers that these have in the view."""
    named = nodes.tolist()
    sizes: dict[tuple[int, int, int, int], tuple[float, float]] = {}

    def renamed(one: Derivation) -> Derivation:
        if one.premises:
            place = (one.layer - 1, *one.triangle)
            key = (one.layer, *(named[node] for node in one.triangle))
            sizes[key] = float(weights[place]), float(strengths[place])
        return Derivation(named[one.start], named[one.end], one.layer, tuple(map(renamed, one.premises)))

    leaves = [*_leaves(each)]
    return Path(renamed(each), tuple(facts[leaf.start, leaf.end] for leaf in leaves), sizes)


def _leaves(each: Derivation) -> Iterator[Derivation]:
    if not each.premises:
        yield each
    for premise in each.premises:
        yield from _leaves(premise)
