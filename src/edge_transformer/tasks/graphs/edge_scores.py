"""Scores of predicted sentence graphs.

A row is an exact match where all of its edges, labels of tokens, columns and labels of the sentence are right. Edges
count with their label, and without: F1 of all edges of a split.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from .edge_table import EdgeTable, GraphVocabs

if TYPE_CHECKING:
    from .edge_model import Found


class Matches(NamedTuple):
    """How predicted items, such as edges, agree with gold ones."""

    hits: int
    found: int
    gold: int
    right: Tensor  # bool [rows]: a row's items are the gold ones

    @property
    def f1(self) -> float:
        """1 where there is nothing to find and nothing found."""
        return f1(self.hits, self.found, self.gold)


def f1(hits: int, found: int, gold: int) -> float:
    """Twice the hits by all that was found or looked for."""
    return 2 * hits / (found + gold) if found + gold else 1.0


def matches(found: Tensor, gold: Tensor, rows: int) -> Matches:
    """Compare items, integers `[items, fields]` that begin with their row. Those of `found` are distinct."""
    _, numbers = torch.cat([gold, found]).unique(dim=0, return_inverse=True)
    wanted, given = numbers.split([len(gold), len(found)])
    hit = torch.isin(given, wanted)
    counts = [
        torch.zeros(rows, dtype=torch.long).index_add(0, of_rows, torch.ones_like(of_rows))
        for of_rows in (found[hit, 0], found[:, 0], gold[:, 0])
    ]
    right = (counts[0] == counts[1]) & (counts[0] == counts[2])
    return Matches(int(hit.sum()), len(found), len(gold), right)


def graph_scores(
    split: str,
    found: Found,
    table: EdgeTable,
    vocabs: GraphVocabs,
    groups: Sequence[str],
    texts_right: Tensor | None = None,
) -> dict[str, float]:
    """The scores of a split, by name; the name of the split itself is that of the main score.

    Args:
        found: the predictions for `table`.
        groups: the group of each row.
        texts_right: bool `[rows]`: where the text that is rebuilt from the graph is that of the row. It is then the
            main score, and the exact match of graphs comes second.
    """
    rows = len(table)
    gold_edges = torch.cat([table.row_of_edge[:, None], table.edges.long()], 1)
    gold_own = torch.cat([table.row_of_own[:, None], table.own.long()], 1)
    edges, own = matches(found.edges, gold_edges, rows), matches(found.own, gold_own, rows)
    bare = matches(found.edges[:, :3].unique(dim=0), gold_edges[:, :3].unique(dim=0), rows)
    columns = found.columns == table.columns  # (tokens, columns)
    sentence = found.sentence == table.sentence  # (rows, labels of the sentence)
    wrong = torch.zeros(rows, dtype=torch.long).index_add(0, table.row_of_token, (~columns).any(-1).long())
    graphs = edges.right & own.right & sentence.all(-1) & (wrong == 0)
    exact = graphs if texts_right is None else texts_right
    scores = {split: _mean(exact)}
    if texts_right is not None:
        scores[f"{split} graph"] = _mean(graphs)
    scores[f"{split} edges F1"] = f1(edges.hits + own.hits, edges.found + own.found, edges.gold + own.gold)
    scores[f"{split} unlabelled F1"] = bare.f1
    if len(vocabs.own):
        scores[f"{split} own F1"] = own.f1
    scores |= {f"{split} column {name}": _mean(columns[:, number]) for number, name in enumerate(vocabs.columns)}
    scores |= {f"{split} sentence {name}": _mean(sentence[:, number]) for number, name in enumerate(vocabs.sentence)}
    if len(set(groups)) > 1:
        for name in sorted(set(groups)):
            scores[f"{split}/{name or 'no group'}"] = _mean(exact[torch.tensor([each == name for each in groups])])
    return scores


def _mean(flags: Tensor) -> float:
    return float(flags.double().mean())
