"""The bidirectional LSTM: its tokens are the self-edges, both directions count, padding does not."""

from __future__ import annotations

import pytest
import torch

from edge_transformer.nn.baselines.config import BiLSTMConfig
from edge_transformer.nn.baselines.tokens import BiLSTM


@pytest.fixture
def encoder() -> BiLSTM:
    torch.manual_seed(1)
    return BiLSTM(BiLSTMConfig(dim=8, layers=2)).eval()


def test_only_self_edges_are_looked_at(encoder: BiLSTM) -> None:
    edges, others = torch.randn(2, 2, 5, 5, 8)
    diagonal = torch.eye(5, dtype=torch.bool)[..., None]
    changed = torch.where(diagonal, edges, others)
    assert torch.equal(encoder.encode(edges).nodes, encoder.encode(changed).nodes)
    assert torch.equal(encoder.encode(edges).edges, edges)
    nodes, _ = encoder.lstm(edges.diagonal(dim1=1, dim2=2).transpose(1, 2))
    torch.testing.assert_close(encoder.encode(edges).nodes, nodes)


def test_every_node_hears_of_all_others(encoder: BiLSTM) -> None:
    edges = torch.randn(1, 6, 6, 8)
    usual = encoder.encode(edges).nodes
    for node in (0, 5):
        changed = edges.clone()
        changed[0, node, node] += 1
        assert ((encoder.encode(changed).nodes - usual).abs().amax(-1) > 1e-6).all()


def test_padding_is_behind_the_real_nodes(encoder: BiLSTM) -> None:
    for wrong in (torch.tensor([[True, False, True]]), torch.zeros(1, 3, dtype=torch.bool)):
        with pytest.raises(ValueError, match="node_mask must be True from the first node"):
            encoder.encode(torch.randn(1, 3, 3, 8), wrong)


def test_its_settings() -> None:
    assert BiLSTM(BiLSTMConfig(dim=8, layers=1, dropout=0.5)).lstm.dropout == 0  # between layers only
    with pytest.raises(ValueError, match="each direction has a half"):
        BiLSTMConfig(dim=7, layers=1)
    with pytest.raises(ValueError, match="layers must be at least 1"):
        BiLSTMConfig(dim=8, layers=0)
