"""What is read off the states of a sentence: logits of edges, of labels of tokens, of columns and of the sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ...nn.encoder import Encoded
from ...nn.heads import Biaffine, BiaffineLabelHead, EdgeLabelHead, NodeLabelHead, PooledHead
from .edge_table import GraphVocabs

RARE = 4.0  # how much more probable no edge is than an edge before training: most pairs have none


@dataclass(frozen=True)
class LabelForm:
    """How the labels of a pair are scored, from its logits.

    several, plain      one logit a label; each label is there or not
    several, factored   one logit of an edge, and given an edge, one a label
    one, plain          a softmax over no edge and the labels
    one, factored       one logit of an edge, and given an edge, a softmax over the labels
    """

    several: bool
    factored: bool = False

    @property
    def apart(self) -> int:
        """How many logits come before those of the labels: that of an edge, or of none."""
        return int(self.factored or not self.several)


class Logits(NamedTuple):
    """What the heads give for groups of sentences, one after the other."""

    pairs: Tensor  # (pairs of tokens, apart + labels); pair (head, dependent) of a sentence is head * n + dependent
    own: Tensor  # (tokens, apart + labels of tokens)
    columns: list[Tensor]  # (tokens, labels) each
    sentence: list[Tensor]  # (sentences, labels) each


class GraphHeads(nn.Module):
    """All heads. Edges are read from states of pairs, or from those of two tokens by biaffine scores.

    Args:
        dim: width of states.
        vocabs: all labels.
        form: how labels of pairs are scored; those of tokens are never factored.
        has_edge_states: whether the encoder has states of pairs.
        dims: widths of the biaffine scores of edges and labels. dropout: of these.
        pool: how the sentence is read; see `PooledHead`.
    """

    def __init__(
        self,
        dim: int,
        vocabs: GraphVocabs,
        form: LabelForm,
        has_edge_states: bool,
        dims: tuple[int, int],
        dropout: float,
        pool: str,
    ) -> None:
        super().__init__()
        self.has_edge_states, self.own_form = has_edge_states, LabelForm(form.several)
        outputs = form.apart + len(vocabs.edges)
        self.pairs: nn.Module
        if has_edge_states:
            self.pairs = EdgeLabelHead(dim, outputs)
        elif form.apart:
            self.pairs = BiaffineLabelHead(dim, outputs, *dims, dropout)
        else:
            self.pairs = Biaffine(dim, dims[1], outputs, dropout)
        self.own = NodeLabelHead(dim, self.own_form.apart + len(vocabs.own)) if len(vocabs.own) else None
        self.columns = nn.ModuleList(NodeLabelHead(dim, len(labels)) for labels in vocabs.columns.values())
        self.sentence = nn.ModuleList(PooledHead(dim, len(labels), pool) for labels in vocabs.sentence.values())
        _make_rare(self.pairs, form)
        if self.own is not None:
            _make_rare(self.own, self.own_form)

    def forward(self, groups: Sequence[Encoded]) -> Logits:
        """The logits of groups of sentences; each head computes all groups at once where it can."""
        nodes = torch.cat([each.nodes.flatten(0, 1) for each in groups])[None]  # (1, tokens of all groups, dim)
        everywhere = Encoded(nodes, nodes[:, :, None])
        if isinstance(self.pairs, EdgeLabelHead):
            edges = torch.cat([each.edges.flatten(0, 2) for each in groups])[None, None]  # (1, 1, all pairs, dim)
            pairs = self.pairs(Encoded(nodes, edges))[0, 0]
        else:
            pairs = torch.cat([self._biaffine(each).flatten(0, 2) for each in groups])
        own = nodes.new_zeros(nodes.shape[1], self.own_form.apart) if self.own is None else self.own(everywhere)[0]
        columns = [head(everywhere)[0] for head in self.columns]
        read = [each if self.has_edge_states else Encoded(each.nodes, each.nodes[:, :, None]) for each in groups]
        sentence = [torch.cat([head(each) for each in read]) for head in self.sentence]
        return Logits(pairs, own, columns, sentence)

    def _biaffine(self, encoded: Encoded) -> Tensor:
        scores: Tensor = self.pairs(encoded.nodes if isinstance(self.pairs, Biaffine) else encoded)
        return scores


def _make_rare(head: nn.Module, form: LabelForm) -> None:
    """Make edges improbable by the biases of their logits, and so each label of an edge that may have several."""
    if isinstance(head, BiaffineLabelHead):
        first, labels = head.arcs.weight[:, -1, -1], head.labels.weight[:, -1, -1]
    else:
        assert isinstance(head, Biaffine | EdgeLabelHead | NodeLabelHead)
        bias = head.weight[:, -1, -1] if isinstance(head, Biaffine) else head.classifier.bias
        first, labels = bias[: form.apart], bias[form.apart :]
    with torch.no_grad():
        first.fill_(-RARE if form.factored else RARE)
        if form.several:
            labels.fill_(-RARE)
