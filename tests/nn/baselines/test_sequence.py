"""The Transformer over a sequence: its tokens are the self-edges, distances are all it knows of order."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from edge_transformer.nn.baselines.config import SequenceConfig
from edge_transformer.nn.baselines.tokens import SequenceTransformer

SHAPE: dict[str, Any] = {"dim": 8, "heads": 2, "layers": 3, "max_distance": 2}


@pytest.fixture
def encoder() -> SequenceTransformer:
    torch.manual_seed(1)
    return SequenceTransformer(SequenceConfig(**SHAPE)).eval()


def test_only_self_edges_are_looked_at(encoder: SequenceTransformer) -> None:
    edges = torch.randn(2, 5, 5, 8)
    others = torch.randn(2, 5, 5, 8)
    diagonal = torch.eye(5, dtype=torch.bool)[..., None]
    changed = torch.where(diagonal, edges, others)
    assert torch.equal(encoder.encode(edges).nodes, encoder.encode(changed).nodes)
    assert torch.equal(encoder.encode(edges).edges, edges)
    assert not torch.equal(encoder.encode(edges).nodes, encoder.encode(torch.where(diagonal, others, edges)).nodes)


def test_order_counts_up_to_the_largest_distance(encoder: SequenceTransformer) -> None:
    tokens = torch.randn(1, 6, 8)

    def first(order: list[int]) -> torch.Tensor:
        edges = torch.diag_embed(tokens[:, order].transpose(1, 2)).movedim(1, -1)
        return encoder.stack.layers[0](edges.diagonal(dim1=1, dim2=2).transpose(1, 2), encoder.positions(6))[0, 0]

    usual = first([0, 1, 2, 3, 4, 5])
    assert not torch.allclose(first([0, 2, 1, 3, 4, 5]), usual, atol=1e-4)  # distances 1 and 2 are told apart
    torch.testing.assert_close(first([0, 1, 2, 5, 4, 3]), usual)  # what lies beyond 2 is not


def test_a_largest_distance_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="max_distance must be at least 1"):
        SequenceConfig(dim=8, heads=2, layers=1, max_distance=0)
