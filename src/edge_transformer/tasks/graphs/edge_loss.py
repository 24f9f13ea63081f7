"""The loss of sentence graphs: a sum over all pairs and labels, so that the many pairs without an edge weigh little.

Without a dense tensor of targets: a pair without a label adds log(1 + exp(logit)), and one that has it logit less.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from ..base import in_full
from .edge_heads import LabelForm, Logits
from .edge_table import UNSEEN, EdgeTargets


def graph_loss(logits: Logits, targets: EdgeTargets, form: LabelForm) -> Tensor:
    """The summed loss of some sentences."""
    losses = [label_loss(logits.pairs, targets.places, targets.labels, form)]
    if targets.own_places.numel() or logits.own.shape[1] > 1:
        losses.append(label_loss(logits.own, targets.own_places, targets.own_labels, LabelForm(form.several)))
    for each, wanted in ((logits.columns, targets.columns), (logits.sentence, targets.sentence)):
        losses += [
            F.cross_entropy(in_full(scores), wanted[:, number], reduction="sum", ignore_index=UNSEEN)
            for number, scores in enumerate(each)
        ]
    return torch.stack(losses).sum()


def label_loss(logits: Tensor, places: Tensor, labels: Tensor, form: LabelForm) -> Tensor:
    """The negative log-probability of labels: `logits [pairs, apart + labels]`, and the pair and number of each label.

    Pairs that no label names have none.
    """
    logits = in_full(logits)
    if not form.apart:
        return F.softplus(logits).sum() - logits[places, labels].sum()
    if not form.factored:
        wanted = torch.zeros(len(logits), dtype=torch.long, device=logits.device)  # 0 is no edge
        return F.cross_entropy(logits, wanted.index_put((places,), labels + 1), reduction="sum")
    found = places.unique()
    of_edges = F.softplus(logits[:, 0]).sum() - logits[found, 0].sum()
    if not form.several:
        return of_edges + F.cross_entropy(logits[places, 1:], labels, reduction="sum")
    return of_edges + F.softplus(logits[found, 1:]).sum() - logits[places, labels + 1].sum()
