"""From scores of parents to forests: the best parents of all tokens together, without circles.

`scores[i, j]` is how good token j is as the parent of token i, and `scores[i, i]` how good it is for i to have none.
Several tokens of a graph have none, so this is not a tree but a forest: a spanning tree of the tokens and an artificial
root above those without a parent.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..errors import UserError


def best_forests(scores: Tensor) -> Tensor:
    """The parents of the highest total score among all without circles: `[batch, n, n] -> [batch, n]`.

    A token without a parent is its own. Scores must be finite.
    """
    if not torch.isfinite(scores).all():
        raise UserError("the model's scores have nan or inf among them; expected finite numbers: did training diverge?")
    parents = scores.argmax(-1).cpu()  # (B, n) the best of each token for itself; mostly a forest already
    for row in (~are_forests(parents)).nonzero().flatten().tolist():
        parents[row] = _best_forest(scores[row])
    return parents


def are_forests(parents: Tensor) -> Tensor:
    """Whether every token comes to one that is its own parent, for each row: `[batch, n] -> [batch]`."""
    above = parents
    for _ in range(parents.shape[1].bit_length()):
        above = above.gather(1, above)  # twice as far up in each round
    return (parents.gather(1, above) == above).all(1)


def _best_forest(scores: Tensor) -> Tensor:
    from ufal.chu_liu_edmonds import chu_liu_edmonds  # late: only who asks for forests needs this compiled package

    size = len(scores)
    table = np.full((size + 1, size + 1), -np.inf)  # node 0 is the root
    own = scores.detach().double().cpu().numpy()
    table[1:, 1:], table[1:, 0] = own, own.diagonal()
    np.fill_diagonal(table, -np.inf)
    heads, _ = chu_liu_edmonds(table)
    return torch.tensor([token if head == 0 else head - 1 for token, head in enumerate(heads[1:])])
