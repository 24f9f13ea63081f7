"""The oracle itself: against loops written straight from the paper's equations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from attention_cases import Case, Parts, every_case, random_parts
from edge_transformer.ops.einsum import EINSUM, allowed_triangles
from edge_transformer.ops.engine import Options


def counts(node_mask: np.ndarray | None, causal_from: int | None, b: int, i: int, pivot: int, j: int) -> bool:
    """Whether triangle (i, pivot, j) counts, in the words of REFERENCE.md."""
    if node_mask is not None and not (node_mask[b, i] and node_mask[b, pivot] and node_mask[b, j]):
        return False
    is_target = causal_from is not None and pivot >= causal_from
    return not (is_target and i < pivot and j < pivot)


def loop_attention(
    q: np.ndarray,
    k: np.ndarray,
    v1: np.ndarray,
    v2: np.ndarray | None,
    node_mask: np.ndarray | None,
    causal_from: int | None,
    key: str,
) -> np.ndarray:
    """Equations (4) to (8), one number at a time."""
    batch, n, _, heads, head_dim = q.shape
    out = np.zeros_like(q)
    for b, i, j, h in np.ndindex(batch, n, n, heads):
        scores = {}
        for pivot in range(n):
            if counts(node_mask, causal_from, b, i, pivot, j):
                key_vector = k[b, pivot, j, h] if key == "lj" else k[b, i, j, h]
                scores[pivot] = sum(q[b, i, pivot, h, f] * key_vector[f] for f in range(head_dim)) / math.sqrt(head_dim)
        total = sum(math.exp(score) for score in scores.values())
        for pivot, score in scores.items():
            for f in range(head_dim):
                right = 1.0 if v2 is None else v2[b, pivot, j, h, f]
                out[b, i, j, h, f] += math.exp(score) / total * v1[b, i, pivot, h, f] * right
    return out


def to_numpy(tensor: Tensor | None) -> Any:
    return None if tensor is None else tensor.detach().numpy()


def to_numpys(parts: Parts) -> tuple[Any, Any, Any, Any]:
    q, k, v1, v2 = map(to_numpy, parts)
    return q, k, v1, v2


@every_case
@pytest.mark.parametrize(("n", "head_dim"), [(1, 1), (4, 3)])
def test_equations(case: Case, n: int, head_dim: int) -> None:
    parts = random_parts(2, n, 2, head_dim, value=case.value)
    options = case.options(2, n)
    expected = loop_attention(*to_numpys(parts), to_numpy(options.node_mask), options.causal_from, options.key)
    found = EINSUM.attend(*parts, options)
    np.testing.assert_allclose(to_numpy(found), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("causal_from", range(5))
def test_every_start_of_the_target_nodes(causal_from: int) -> None:
    parts = random_parts(1, 4, 1, 2)
    expected = loop_attention(*to_numpys(parts), None, causal_from, "lj")
    found = EINSUM.attend(*parts, Options(causal_from=causal_from))
    np.testing.assert_allclose(to_numpy(found), expected, rtol=1e-12, atol=1e-14)


def test_allowed_triangles_of_a_graph_without_restrictions() -> None:
    assert allowed_triangles(3, None, None, torch.device("cpu")) is None


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("causal_from", [None, 0, 2, 4])
def test_allowed_triangles(masked: bool, causal_from: int | None) -> None:
    n = 4
    node_mask = torch.tensor([[True, True, True, True], [True, False, True, True]]) if masked else None
    allowed = allowed_triangles(n, node_mask, causal_from, torch.device("cpu"))
    if allowed is None:
        assert not masked
        assert causal_from is None
        return
    assert allowed.shape == (2 if masked else 1, n, n, n, 1)
    for b, i, pivot, j in np.ndindex(allowed.shape[0], n, n, n):
        assert allowed[b, i, pivot, j] == counts(to_numpy(node_mask), causal_from, b, i, pivot, j)
