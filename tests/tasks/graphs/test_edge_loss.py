"""The loss of sentence graphs is that of plain cross-entropies over all pairs, one sentence at a time."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from agreement import assert_same_loss_and_gradients
from edge_cases import make_edge_data, random_sentence_graphs
from edge_transformer.data.graphs.edges import SentenceGraph
from edge_transformer.tasks.graphs import edge_data
from edge_transformer.tasks.graphs.edge_data import EdgeData
from edge_transformer.tasks.graphs.edge_heads import LabelForm
from edge_transformer.tasks.graphs.edge_loss import label_loss
from edge_transformer.tasks.graphs.edge_model import EdgeParser

pytestmark = pytest.mark.usefixtures("one_thread")
CPU = torch.device("cpu")
MODELS: dict[str, dict[str, Any]] = {
    "edge": {"kind": "edge", "dim": 16, "heads": 2, "layers": 2, "ends": True},
    "transformer": {"kind": "transformer", "dim": 16, "heads": 2, "layers": 2},
    "bilstm": {"kind": "bilstm", "dim": 16, "layers": 1},
}
FORMS = [LabelForm(several, factored) for several in (False, True) for factored in (False, True)]


def plain_loss(logits: Tensor, labels: list[list[int]], form: LabelForm) -> Tensor:
    """Pair by pair: `logits [pairs, apart + labels]`, and the labels of each pair."""
    total = torch.zeros((), dtype=logits.dtype)
    for row, wanted in zip(logits, labels, strict=True):
        flags = torch.tensor([float(each in wanted) for each in range(len(row) - form.apart)], dtype=row.dtype)
        there = torch.tensor(float(bool(wanted)), dtype=row.dtype)
        if not form.apart:
            total = total + F.binary_cross_entropy_with_logits(row, flags, reduction="sum")
        elif not form.factored:
            total = total + F.cross_entropy(row, torch.tensor(wanted[0] + 1 if wanted else 0))
        else:
            total = total + F.binary_cross_entropy_with_logits(row[0], there)
            if wanted and form.several:
                total = total + F.binary_cross_entropy_with_logits(row[1:], flags, reduction="sum")
            elif wanted:
                total = total + F.cross_entropy(row[1:], torch.tensor(wanted[0]))
    return total


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_the_loss_of_labels_is_the_plain_one(form: LabelForm) -> None:
    torch.manual_seed(1)
    logits = torch.randn(7, form.apart + 3, dtype=torch.float64, requires_grad=True)
    labels = [[], [2], [], [0], [1], [], []]
    if form.several:
        labels[1] = [0, 2]
    places = torch.tensor([pair for pair, each in enumerate(labels) for _ in each])
    numbers = torch.tensor([label for each in labels for label in each])
    found = label_loss(logits, places, numbers, form)
    expected = plain_loss(logits, labels, form)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(*(torch.autograd.grad(each, logits)[0] for each in (found, expected)))


def sentence_loss(model: EdgeParser, data: EdgeData, graph: SentenceGraph) -> Tensor:
    """The loss of one sentence alone, by loops over its pairs."""
    types, size = data._types, graph.size
    places = torch.tensor([types.add(graph.tokens)])
    logits = model(types.words, types.letters, [places])
    labels: list[list[int]] = [[] for _ in range(size**2)]
    own: list[list[int]] = [[] for _ in range(size)]
    for head, dependent, label in graph.edges:
        if head == dependent:
            own[head].append(list(model.vocabs.own).index(label))
        else:
            labels[head * size + dependent].append(list(model.vocabs.edges).index(label))
    total = plain_loss(logits.pairs, labels, model.form)
    total = total + plain_loss(logits.own, own, LabelForm(model.form.several))
    for (name, known), scores in zip(model.vocabs.columns.items(), logits.columns, strict=True):
        wanted = torch.tensor([list(known).index(label) for label in graph.labels[name]])
        total = total + F.cross_entropy(scores, wanted, reduction="sum")
    for (name, known), scores in zip(model.vocabs.sentence.items(), logits.sentence, strict=True):
        total = total + F.cross_entropy(scores[0], torch.tensor(list(known).index(graph.sentence[name])))
    return total


@pytest.mark.parametrize("factored", [False, True])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("kind", MODELS)
def test_groups_have_the_loss_of_their_sentences(
    kind: str, several: bool, factored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edge_data, "TRAIN_EDGES", 100)  # several batches
    graphs = random_sentence_graphs(20, seed=2, several=several)
    data = make_edge_data(graphs, dev=graphs[:3])
    torch.manual_seed(1)
    model = data.new_model(MODELS[kind] | {"factored": factored}).double()
    assert model.form == LabelForm(several, factored)
    rows = torch.tensor([3, 1, 17, 8, 9, 2])

    batches = list(data.batches(rows))
    assert len(batches) > 1
    found = torch.stack([data.loss(model, batch, CPU) for batch in batches]).sum()
    expected = torch.stack([sentence_loss(model, data, graphs[row]) for row in rows.tolist()]).sum()
    assert_same_loss_and_gradients(model, found, expected)
