"""Faithfulness of explanations of links: is a link less probable without the facts that its explanation names?

The named facts are hidden, and the same questions are asked again, those for the tail and for the head. The controls
hide as many other facts:

near       random facts that share a node with the link or with a named fact
anywhere   random facts of the graph
gradient   those that speak most for the link by their gradients, on a path or not
attention  those on the strongest paths by attention alone
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

import torch

from ...data.links.graph import HEAD, TAIL
from ...data.links.rows import Fact
from ...errors import UserError
from ...tasks.links.model import LinkModel
from .proof import check_link_model
from .search import find_reasons, paths_by_attention
from .view import Standing, Traced, View

KINDS = ("named", "near", "anywhere", "gradient", "attention")


@dataclass(frozen=True)
class Removal:
    """Sums over links, of what hiding facts of one kind does."""

    facts: int = 0  # hidden
    changed: int = 0  # answers that are no longer the first
    lost: float = 0.0  # of the probability of links
    lost_log: float = 0.0  # of the logarithm of their probability among the nodes that are not known as answers

    def __add__(self, other: Self) -> Self:
        return type(self)(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))


@dataclass(frozen=True)
class LinkScores:
    """Sums over links."""

    links: int
    explained: int  # links with at least one reason
    first: int  # answers that are the first before anything is hidden, of two questions for each link
    removals: dict[str, Removal]  # by kind

    def fractions(self) -> dict[str, float]:
        """Shares of answers that changed, and means over links."""
        found = {"explained": _share(self.explained, self.links), "first": _share(self.first, 2 * self.links)}
        for kind, removal in self.removals.items():
            found[f"{kind}_changed"] = _share(removal.changed, self.first)
            found[f"{kind}_lost"] = _share(removal.lost, self.links)
            found[f"{kind}_lost_log"] = _share(removal.lost_log, self.links)
            found[f"{kind}_facts"] = _share(removal.facts, self.links)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Sums and fractions."""
        return {
            "sums": asdict(self),
            "fractions": {name: round(value, 6) for name, value in self.fractions().items()},
        }


def _share(part: float, whole: int) -> float:
    return part / whole if whole else 0.0


def score_links(
    model: LinkModel, links: Iterable[Fact], seed: int = 0, progress: Callable[[int], None] | None = None
) -> LinkScores:
    """Measure the explanations of links whose nodes and relations the model knows; `seed` sets the random controls."""
    check_link_model(model)
    chance = random.Random(seed)
    numbers = [numbers for link in links if (numbers := known_numbers(model, link)) is not None]
    if not numbers:
        raise UserError("explain: found no link whose nodes and relation the model knows; expected at least one")
    removals = dict.fromkeys(KINDS, Removal())
    explained = first = 0
    for each in numbers:
        view = View(model, each)
        traced, before = view.trace(), view.standing()
        reasons = find_reasons(view, traced, before)
        named = list(dict.fromkeys(number for reason in reasons for number in reason.path.numbers))
        explained += bool(named)
        first += before.ranks.count(1)
        for kind, hidden in _removed(view, traced, named, chance).items():
            after = reasons[-1].left if kind == "named" and reasons else view.standing(hidden) if hidden else before
            removals[kind] += _compared(before, after, len(hidden))
        if progress:
            progress(1)
    return LinkScores(len(numbers), explained, first, removals)


def known_numbers(model: LinkModel, link: Fact) -> tuple[int, int, int] | None:
    """A link by the numbers of its parts; None if the model does not know one of them."""
    head, tail = model.entities.number(link.head), model.entities.number(link.tail)
    relation = model.relations.number(link.relation)
    return None if head is None or tail is None or relation is None else (head, relation, tail)


def _removed(view: View, traced: Traced, named: list[int], chance: random.Random) -> dict[str, list[int]]:
    """The facts that each kind hides: as many as are named, if there are so many."""
    count = len(named)
    free = [number for number in torch.where(view.open)[0].tolist() if number not in set(named)]
    ends = view.facts[:, [HEAD, TAIL]]
    nodes = torch.cat([ends[named].flatten(), torch.tensor([view.link[HEAD], view.link[TAIL]])])
    touching = torch.isin(ends, nodes).any(1)
    near = [number for number in free if touching[number]]
    speaking = traced.speaks.argsort(descending=True)[: min(count, int(view.open.sum()))].tolist()
    strong = [number for path in paths_by_attention(view, traced, 2 * count) for number in path.numbers]
    return {
        "named": named,
        "near": chance.sample(near, min(count, len(near))),
        "anywhere": chance.sample(free, min(count, len(free))),
        "gradient": speaking,
        "attention": list(dict.fromkeys(strong))[:count],
    }


def _compared(before: Standing, after: Standing, facts: int) -> Removal:
    changed = sum(was == 1 < now for was, now in zip(before.ranks, after.ranks, strict=True))
    lost = before.likelihood - after.likelihood
    assert math.isfinite(lost)
    return Removal(facts, changed, before.probability - after.probability, lost)
