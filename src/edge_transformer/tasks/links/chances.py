"""How probable links are: from the scores of tails, heads and relations to the chance that a link holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ...data.links.graph import HEAD, RELATION, TAIL
from ..calibration import FEWEST_ROWS, Floats

if TYPE_CHECKING:
    from .model import LinkModel

MOST_FITTED = 1 << 23  # links that are scored to fit chances: all of a small graph, those of some relations of others
NEGATIVES = 1 << 17  # of these so many, drawn at random, stand for all that are no facts
STEPS = 100  # of Newton's method


@dataclass(frozen=True)
class LinkScale:
    """The chance of a link as a logistic function of two logarithms, those of `link_logs`."""

    ends: float
    relation: float
    shift: float


# Of which a link's chance is a third each where nothing is fitted: the geometric mean of three probabilities.
ENDS, RELATIONS = 2 / 3, 1 / 3


def link_logs(model: LinkModel, relations: Iterable[int]) -> Iterator[tuple[int, Tensor]]:
    """For each relation and all pairs of nodes, `[heads, tails, 2]`, what the chances of links are made of.

    Number 0 is the mean of two log probabilities: that the tail answers head and relation, and that the head answers
    relation and tail. A softmax over candidates names one even where none is right; number 1, the log probability of
    the relation between these two nodes, does not depend on other nodes.
    """
    every = torch.arange(len(model.entities))
    norms = torch.full((len(every), len(every)), -torch.inf)
    for relation in range(len(model.relations)):
        norms = torch.logaddexp(norms, model.relation_scores(relation))
    for relation in relations:
        of = torch.full_like(every, relation)
        forth = model.scores(every, of, True).div(model.temperature).log_softmax(-1)  # (heads, tails)
        back = model.scores(every, of, False).div(model.temperature).log_softmax(-1)  # (tails, heads)
        yield relation, torch.stack([(forth + back.T) / 2, model.relation_scores(relation) - norms], dim=-1)


def chances(model: LinkModel, logs: Tensor) -> Tensor:
    """The chances of links with these logarithms, `[..., 2]` -> `[...]`."""
    ends, relation = logs.unbind(-1)
    scale = model.link_scale
    if scale is None:
        return (ENDS * ends + RELATIONS * relation).exp()
    return (scale.ends * ends + scale.relation * relation + scale.shift).sigmoid()


def chances_between(model: LinkModel, head: int, tail: int) -> Tensor:
    """The chances of all relations between two nodes: `[relations]`.

    On a graph that is answered by neighbourhoods these are the probabilities of the relations if there is a link: to
    compare with all other tails and heads would take thousands of neighbourhoods.
    """
    if not model.sees_whole_graph():
        return model.relations_between(head, tail).exp()
    every = torch.arange(len(model.relations))
    ends = torch.tensor([head, tail])
    forth = model.scores(ends[:1].expand(len(every)), every, True).div(model.temperature).log_softmax(-1)[:, tail]
    back = model.scores(ends[1:].expand(len(every)), every, False).div(model.temperature).log_softmax(-1)[:, head]
    return chances(model, torch.stack([(forth + back) / 2, model.relations_between(head, tail)], dim=-1))


def most_probable(model: LinkModel, relations: Iterable[int], top: int) -> list[tuple[float, int, int, int]]:
    """Chance, head, relation and tail of the most probable links that the graph lacks, none from a node to itself."""
    links: list[tuple[float, int, int, int]] = []
    n = len(model.entities)
    for relation, logs in link_logs(model, relations):
        found = chances(model, logs)
        told = _of_relation(model.known.facts, relation)
        found[told[:, HEAD], told[:, TAIL]] = -1.0
        found.fill_diagonal_(-1.0)
        best = found.flatten().topk(min(top, n * n))
        places = zip(best.values.tolist(), best.indices.tolist(), strict=True)
        links += [(chance, place // n, relation, place % n) for chance, place in places if chance >= 0]
    return sorted(links, key=lambda link: (-link[0], link[1:]))[:top]


def fit_chances(model: LinkModel, held_out: Tensor) -> LinkScale | None:
    """Fit the chance that a link which the graph lacks is one of the held-out facts, `[facts, 3]`.

    All links that the graph lacks are asked, so relations that a node does not have count too. None if too few facts
    are held out.
    """
    random = torch.Generator().manual_seed(0)
    relations = torch.unique(held_out[:, RELATION])
    most = max(1, MOST_FITTED // len(model.entities) ** 2)
    relations = relations[torch.randperm(len(relations), generator=random)[:most]]
    right, wrong, lacking = [], [], 0
    for relation, logs in link_logs(model, relations.tolist()):
        told, asked = (_of_relation(facts, relation) for facts in (model.known.facts, held_out))
        right.append(logs[asked[:, HEAD], asked[:, TAIL]])
        lacks = ~torch.eye(len(logs), dtype=torch.bool)  # none of a node to itself is listed as missing
        for facts in (told, asked):
            lacks[facts[:, HEAD], facts[:, TAIL]] = False
        others = logs[lacks]
        lacking += len(others)
        wrong.append(others[torch.randperm(len(others), generator=random)[: NEGATIVES // len(relations)]])
    positive, negative = torch.cat(right).double().numpy(), torch.cat(wrong).double().numpy()
    if len(positive) < FEWEST_ROWS or not len(negative):
        return None
    return LinkScale(*_logistic(positive, negative, lacking / len(negative)))


def _of_relation(facts: Tensor, relation: int) -> Tensor:
    return facts[facts[:, RELATION] == relation]


def _logistic(positive: Floats, negative: Floats, weight: float) -> tuple[float, float, float]:
    """Logistic regression on two numbers, by Newton's method; each negative counts `weight` times.

    A weak prior keeps slopes near those of the geometric mean where the rows say little, or are separable. Slopes are
    not negative: a likelier answer makes no link less likely.
    """
    values = np.concatenate([positive, negative])
    targets = np.repeat([1.0, 0.0], [len(positive), len(negative)])
    weights = np.repeat([1.0, weight], [len(positive), len(negative)])
    columns = np.concatenate([values, np.ones((len(values), 1))], axis=1)
    usual, stiffness = np.array([ENDS, RELATIONS, 0.0]), np.array([1.0, 1.0, 0.01])
    free = np.array([True, True, True])
    found = usual
    while True:
        found = np.where(free, found, 0.0)
        for _ in range(STEPS):
            chance = 1 / (1 + np.exp(-np.clip(columns @ found, -500, 500)))
            gradient = columns.T @ (weights * (chance - targets)) + stiffness * (found - usual)
            curvature = (columns * (weights * chance * (1 - chance))[:, None]).T @ columns + np.diag(stiffness)
            step = np.zeros(3)
            step[free] = np.linalg.solve(curvature[np.ix_(free, free)], gradient[free])
            step *= min(1.0, 2 / max(np.abs(step).max(), 1e-12))  # far from the optimum a full step may overshoot
            found = found - step
            if np.abs(step).max() < 1e-9:
                break
        negative_slopes = free & (found < 0) & (stiffness == 1.0)
        if not negative_slopes.any():
            return float(found[0].round(4)), float(found[1].round(4)), float(found[2].round(4))
        free &= ~negative_slopes
