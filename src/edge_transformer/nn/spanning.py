"""From scores of pairs to structures: the best spanning tree with one root, and the best forest of parents.

`scores[i, j]` is how good word j is as the head of word i. Words are numbered from 1; node 0 is the artificial root,
and exactly one word hangs on it. Row 0 and the diagonal are never looked at.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from ..errors import UserError

FORBIDDEN = -1e30  # scores below this count as minus infinity: masks are often the lowest number of a type
Heads = NDArray[np.int64]  # (n,): heads[i] is the head of word i + 1; 0 is the root


def best_tree(scores: ArrayLike) -> Heads:
    """The tree of the highest total score among all trees in which one word hangs on the root.

    scores: (n + 1, n + 1), finite or minus infinity for arcs that shall not be; such an arc is taken only where no tree
    can do without.
    """
    table = _checked(scores)
    size = len(table) - 1
    if size == 0:
        return np.zeros(0, np.int64)
    heads = table[1:].argmax(1)  # (n,) the best head of each word for itself
    if _is_tree(heads):  # nothing can beat it; with a trained model this is the usual case
        return heads
    # The unconstrained best tree is the best one with a single root, if it happens to have one. Otherwise the word
    # below the root is tried out: exact, where the usual penalty on root arcs costs precision.
    heads = _spanning_tree(table)
    if (heads == 0).sum() == 1:
        return heads
    return _best_of_roots(table)


def tree_score(scores: ArrayLike, heads: ArrayLike) -> float:
    """The sum of the scores of a tree's arcs."""
    of = np.asarray(heads, np.int64)
    return float(np.asarray(scores, np.float64)[np.arange(1, len(of) + 1), of].sum())


def _checked(scores: ArrayLike) -> NDArray[np.float64]:
    """Scores in double precision, infinities replaced, each row relative to its best arc."""
    table = np.array(scores, np.float64)  # a copy
    if table.ndim != 2 or table.shape[0] != table.shape[1] or not len(table):
        raise ValueError(f"scores of shape {table.shape}; expected (n + 1, n + 1)")
    words = table[1:]
    words[words < FORBIDDEN] = -np.inf
    np.fill_diagonal(table, -np.inf)
    if np.isnan(words).any() or np.isposinf(words).any():
        raise ValueError("scores with nan or inf; expected numbers, or -inf for arcs that shall not be")
    if not len(words):
        return table
    # Every word takes one arc of its row, so that what is subtracted from a row changes no order of trees.
    best = words.max(1, keepdims=True)
    words -= np.where(np.isneginf(best), 0.0, best)
    finite = words[np.isfinite(words)]
    worst = float(finite.min()) if finite.size else 0.0
    words[np.isneginf(words)] = (worst - 1.0) * (len(table) + 1)  # worse than any tree without it
    np.fill_diagonal(table, -np.inf)
    table[0] = -np.inf
    return table


def _spanning_tree(table: NDArray[np.float64]) -> Heads:
    from ufal.chu_liu_edmonds import chu_liu_edmonds  # late: mostly the best heads are a tree, and need no search

    heads, _ = chu_liu_edmonds(table)
    return np.array(heads[1:], np.int64)


def _best_of_roots(table: NDArray[np.float64]) -> Heads:
    """Try words as the only one below the root, the most promising first, until no other can be better."""
    size = len(table) - 1
    others = table[1:, 1:].max(1) if size > 1 else np.zeros(1)  # (n,) the best arc of each word but that from the root
    bounds = table[1:, 0] + (others.sum() - others)  # (n,) no tree with this word below the root is better
    best_heads, best = np.zeros(0, np.int64), -np.inf
    for word in np.argsort(-bounds, kind="stable") + 1:
        if bounds[word - 1] <= best:
            break
        one_root = table.copy()
        one_root[:, 0] = -np.inf
        one_root[word, 1:] = -np.inf
        one_root[word, 0] = 0.0
        heads = _spanning_tree(one_root)
        score = tree_score(table, heads)
        if score > best:
            best_heads, best = heads, score
    return best_heads


def _is_tree(heads: Heads) -> bool:
    """Whether these heads are a tree with one root."""
    if (heads == 0).sum() != 1:
        return False
    above = np.concatenate(([0], heads))  # (n + 1,); the root is above itself
    for _ in range(len(heads).bit_length()):
        above = above[above]  # twice as far up in each round
    return not above.any()


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
    size = len(scores)
    table = np.full((size + 1, size + 1), -np.inf)  # node 0 is the root
    own = scores.detach().double().cpu().numpy()
    table[1:, 1:], table[1:, 0] = own, own.diagonal()
    np.fill_diagonal(table, -np.inf)
    heads = _spanning_tree(table).tolist()
    return torch.tensor([token if head == 0 else head - 1 for token, head in enumerate(heads)])
