"""How probable links are: from the scores of tails and of heads to the chance that a link holds."""

from __future__ import annotations

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
STEPS = 50  # of Newton's method


@dataclass(frozen=True)
class LinkScale:
    """The chance of a link as a logistic function of the mean of its two log probabilities."""

    slope: float
    shift: float


def mean_logs(model: LinkModel, relation: int) -> Tensor:
    """The mean of the log probabilities of tail and head, for all links of a relation: `[heads, tails]`."""
    every = torch.arange(len(model.entities))
    of = torch.full_like(every, relation)
    forth = model.scores(every, of, True).div(model.temperature).log_softmax(-1)  # (heads, tails)
    back = model.scores(every, of, False).div(model.temperature).log_softmax(-1)  # (tails, heads)
    return (forth + back.T) / 2


def mean_logs_between(model: LinkModel, pairs: Tensor) -> Tensor:
    """The same for all relations between some nodes, `[m, 2]` heads and tails -> `[m, relations]`."""
    every = torch.arange(len(model.relations))
    rows = []
    for head, tail in pairs:
        forth = model.scores(head.expand(len(every)), every, True).div(model.temperature).log_softmax(-1)[:, tail]
        back = model.scores(tail.expand(len(every)), every, False).div(model.temperature).log_softmax(-1)[:, head]
        rows.append((forth + back) / 2)
    return torch.stack(rows)


def chances(model: LinkModel, logs: Tensor) -> Tensor:
    """The chances of links with these mean logs: fitted ones, or else the geometric means of both probabilities."""
    scale = model.link_scale
    return logs.exp() if scale is None else (scale.slope * logs + scale.shift).sigmoid()


def fit_chances(model: LinkModel, held_out: Tensor) -> LinkScale | None:
    """Fit the chance that a link which the graph lacks is one of the held-out facts, `[facts, 3]`.

    A softmax over candidates says which answer is the best even where none is right. Here all links that the graph
    lacks are asked, so relations that a node does not have count too. None if too few facts are held out.
    """
    random = torch.Generator().manual_seed(0)
    relations = torch.unique(held_out[:, RELATION])
    most = max(1, MOST_FITTED // len(model.entities) ** 2)
    relations = relations[torch.randperm(len(relations), generator=random)[:most]]
    right, wrong, lacking = [], [], 0
    for relation in relations.tolist():
        logs, told = mean_logs(model, relation), model.known.facts
        told, asked = (facts[facts[:, RELATION] == relation] for facts in (told, held_out))
        right.append(logs[asked[:, HEAD], asked[:, TAIL]])
        logs.fill_diagonal_(-torch.inf)  # none of a node to itself is listed as missing
        for facts in (told, asked):
            logs[facts[:, HEAD], facts[:, TAIL]] = -torch.inf
        others = logs[logs > -torch.inf]
        lacking += len(others)
        wrong.append(others[torch.randperm(len(others), generator=random)[: NEGATIVES // len(relations)]])
    positive, negative = torch.cat(right).double().numpy(), torch.cat(wrong).double().numpy()
    if len(positive) < FEWEST_ROWS or not len(negative):
        return None
    return _logistic(positive, negative, lacking / len(negative))


def _logistic(positive: Floats, negative: Floats, weight: float) -> LinkScale:
    """Logistic regression on one number, by Newton's method; each negative counts `weight` times.

    A weak prior keeps the slope near 1 where the rows say little, or are separable.
    """
    values = np.concatenate([positive, negative])
    targets = np.repeat([1.0, 0.0], [len(positive), len(negative)])
    weights = np.repeat([1.0, weight], [len(positive), len(negative)])
    columns = np.stack([values, np.ones_like(values)], axis=1)
    found = np.array([1.0, 0.0])
    for _ in range(STEPS):
        chance = 1 / (1 + np.exp(-np.clip(columns @ found, -500, 500)))
        prior = np.array([found[0] - 1, found[1] / 100])
        gradient = columns.T @ (weights * (chance - targets)) + prior
        curvature = (columns * (weights * chance * (1 - chance))[:, None]).T @ columns + np.diag([1.0, 0.01])
        step = np.linalg.solve(curvature, gradient)
        step *= min(1.0, 5 / np.abs(step).max())  # far from the optimum a full step may overshoot
        found = found - step
        if np.abs(step).max() < 1e-9:
            break
    return LinkScale(round(max(float(found[0]), 0.01), 4), round(float(found[1]), 4))
