"""From logits to edges: what is more probable than not, or the best that a constraint allows.

`scores[..., label]` says how sure a model is of a label: above 0 it is there. Constraints lower scores of labels, never
raise them, except that of a root, of which there must be one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
from torch import Tensor

from ...errors import UserError
from ...nn.spanning import best_forests
from ..base import in_full
from .edge_heads import LabelForm

NEVER = -1e9  # the score of a label that shall not be
SURE = 1e9
CONSTRAINTS = ("", "one-head", "forest", "acyclic")


@dataclass(frozen=True)
class Constraints:
    """What every predicted graph must be.

    heads    "one-head": a token has at most one head; the best one is kept, which is exact
             "forest": one head at most, and no cycles; the best forest, which is exact
             "acyclic": no cycles; edges are taken by their score where they close none, which is greedy
    root     the number of a label of tokens which one token of every sentence has
    groups   bool (groups, labels): at most one label of a group at a pair; own_groups: at a token
    """

    heads: str = ""
    root: int | None = None
    groups: Tensor | None = None
    own_groups: Tensor | None = None


def label_groups(patterns: Sequence[str], labels: Iterable[str]) -> Tensor | None:
    """Which labels are in which group, bool `[groups, labels]`: those that a pattern such as "gender:*" matches."""
    names = list(labels)
    groups = [[fnmatchcase(name, pattern) for name in names] for pattern in patterns]
    return torch.tensor(groups, dtype=torch.bool).view(len(groups), len(names)) if groups and names else None


def label_scores(logits: Tensor, form: LabelForm, threshold: float = 0.5) -> Tensor:
    """`[..., apart + labels]` logits -> `[..., labels]` scores. `threshold`: the least probability of an edge."""
    logits = in_full(logits)
    if not torch.isfinite(logits).all():
        raise UserError("the model's scores have nan or inf among them; expected finite numbers: did training diverge?")
    least = math.log(threshold / (1 - threshold))
    if not form.apart:
        return logits - least
    first, of_labels = logits[..., :1], logits[..., 1:]
    if not of_labels.shape[-1]:
        return of_labels
    best = torch.zeros_like(of_labels, dtype=torch.bool).scatter(-1, of_labels.argmax(-1, keepdim=True), True)
    if not form.several:
        scores = (first if form.factored else of_labels - first) - least
        return torch.where(best, scores, NEVER)
    edge = first - least
    return torch.where(best, edge, torch.minimum(edge, of_labels))  # an edge has one label at least


def constrained(scores: Tensor, constraints: Constraints) -> Tensor:
    """Scores of pairs, `[batch, n heads, n dependents, labels]`, with which a choice by sign keeps the constraints.

    A token has no edge to itself among these.
    """
    itself = torch.eye(scores.shape[1], dtype=torch.bool, device=scores.device)
    scores = scores.masked_fill(itself[..., None], NEVER)
    scores = at_most_one(scores, constraints.groups)
    if not constraints.heads or not scores.shape[-1]:
        return scores
    gains = scores.clamp(min=0).sum(-1)  # (B, n, n): what an edge adds, with all its labels
    if constraints.heads == "acyclic":
        keep = _acyclic(gains)
    else:
        keep = _one_head(gains) if constraints.heads == "one-head" else _forest(gains)
    return scores.masked_fill(~keep[..., None], NEVER)


def constrained_own(scores: Tensor, constraints: Constraints, several: bool) -> Tensor:
    """The same for labels of tokens, `[batch, n, labels]`."""
    if constraints.root is not None:
        root = scores[..., constraints.root]
        chosen = torch.zeros_like(root, dtype=torch.bool).scatter(-1, root.argmax(-1, keepdim=True), True)
        if not several:
            scores = scores.masked_fill(chosen[..., None], NEVER)
        scores = scores.clone()
        scores[..., constraints.root] = torch.where(chosen, SURE, NEVER)
    return at_most_one(scores, constraints.own_groups)


def at_most_one(scores: Tensor, groups: Tensor | None) -> Tensor:
    """Keep the best label of each group."""
    for group in () if groups is None else groups.to(scores.device):
        if not group.any():
            continue
        best = scores.masked_fill(~group, 2 * NEVER).argmax(-1, keepdim=True)
        keep = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, best, True) | ~group
        scores = scores.masked_fill(~keep, NEVER)
    return scores


def _one_head(gains: Tensor) -> Tensor:
    """Keep the best head of each token, bool `[batch, n, n]`."""
    return torch.zeros_like(gains, dtype=torch.bool).scatter(1, gains.argmax(1, keepdim=True), True)


def _forest(gains: Tensor) -> Tensor:
    """Keep the edges of the best forest."""
    size = gains.shape[1]
    itself = torch.eye(size, dtype=torch.bool, device=gains.device)
    scores = torch.where((gains > 0) | itself, gains, -1.0)  # a token without a head is its own, for 0
    parents = best_forests(scores.transpose(1, 2)).to(gains.device)  # (B, n)
    keep = torch.zeros_like(gains, dtype=torch.bool).scatter(1, parents[:, None], True)
    return keep & (gains > 0)


def _acyclic(gains: Tensor) -> Tensor:
    """Keep edges that close no cycle, those with the greatest gain first."""
    keep = gains > 0
    for row in _have_cycles(keep).nonzero().flatten().tolist():
        keep[row] = _greedy(gains[row].cpu()).to(keep.device)
    return keep


def _have_cycles(edges: Tensor) -> Tensor:
    """Whether graphs have cycles: bool `[batch, n, n] -> [batch]`."""
    walks = edges.float()
    for _ in range(edges.shape[1].bit_length()):
        walks = ((walks + walks @ walks) > 0).float()  # twice as far in each round
    return walks.diagonal(dim1=1, dim2=2).any(-1)


def _greedy(gains: Tensor) -> Tensor:
    """The same for one graph with cycles."""
    size = len(gains)
    keep = torch.zeros(size, size, dtype=torch.bool)
    reach = torch.eye(size, dtype=torch.bool)  # reach[i, j]: there is a path from i to j
    order = gains.flatten().argsort(descending=True, stable=True)
    for place in order[: int((gains > 0).sum())].tolist():
        head, dependent = divmod(place, size)
        if not reach[dependent, head]:
            keep[head, dependent] = True
            reach |= reach[:, head, None] & reach[None, dependent]
    return keep
