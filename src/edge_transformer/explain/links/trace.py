"""A forward pass over a whole graph that can be asked for the triangles of some of its nodes.

A graph of a thousand nodes has 10^9 triangles in every layer. So the pass keeps what layers compute of every pair, and
computes weights and strengths (see `explain.trace`) only of the triangles that are asked for.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ...nn.encoder import EdgeTransformer
from ...nn.layer import EdgeTransformerLayer
from ..trace import CHUNK, layers_of, strengths_of, weights_of


class _Kept(NamedTuple):
    """What one layer has computed."""

    layer: EdgeTransformerLayer
    edges: Tensor  # (1, n, n, dim)
    normed: Tensor  # (1, n, n, dim)
    parts: Tensor  # (1, n, n, 3 or 4, h, d)


class GraphTrace:
    """The states of all pairs of one graph, `[n, n, dim]`, with the triangles behind them."""

    def __init__(self, encoder: EdgeTransformer, edges: Tensor) -> None:
        """Run all layers on `[1, n, n, dim]`; gradients flow from `states` to `edges` as in any forward pass."""
        self._kept: list[_Kept] = []
        for layer in layers_of(encoder):
            normed, parts = layer.project(edges)
            self._kept.append(_Kept(layer, edges.detach(), normed.detach(), parts.detach()))
            edges = layer.finish(edges, normed, layer.mix(parts))
        self.states = encoder.final_norm(edges)[0]

    @torch.no_grad()
    def among(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Weights (mean over heads) and strengths of all triangles of m nodes: `[layers, m, m, m]` both."""
        weights, strengths = [], []
        for layer, edges, normed, parts in self._kept:
            square = parts[:, nodes][:, :, nodes]  # (1, m, m, 3 or 4, h, d)
            _, own, v1, *v2 = square.unbind(3)
            # Weights are shares over all n pivots: (1, i, n, j, h), some rows at a time.
            rows = max(1, CHUNK // max(1, parts.shape[1] * len(nodes) * parts.shape[-2]))
            k = own if layer.attention.key == "ij" else parts[:, :, nodes, 1]
            weight = torch.cat(
                [
                    weights_of(layer.attention, parts[:, some, :, 0], k[:, start : start + rows] if k is own else k)[
                        :, :, nodes
                    ]
                    for start, some in zip(range(0, len(nodes), rows), nodes.split(rows), strict=True)
                ],
                dim=1,
            )
            ends = edges[:, nodes][:, :, nodes], normed[:, nodes][:, :, nodes]
            strengths.append(strengths_of(layer, *ends, v1, v2[0] if v2 else None, weight)[0])
            weights.append(weight[0].mean(-1))
        return torch.stack(weights), torch.stack(strengths)

    @torch.no_grad()
    def pivots(self, start: int, end: int) -> tuple[Tensor, Tensor]:
        """Weights (mean over heads) and strengths of all n pivots of one edge: `[layers, n]` both."""
        weights, strengths = [], []
        row, column = slice(start, start + 1), slice(end, end + 1)
        for layer, edges, normed, parts in self._kept:
            k = parts[:, row, column, 1] if layer.attention.key == "ij" else parts[:, :, column, 1]
            weight = weights_of(layer.attention, parts[:, row, :, 0], k)  # (1, 1, n, 1, h)
            v2 = parts[:, :, column, 3] if layer.attention.parts == 4 else None
            ends = edges[:, row, column], normed[:, row, column]
            strengths.append(strengths_of(layer, *ends, parts[:, row, :, 2], v2, weight)[0, 0, :, 0])
            weights.append(weight[0, 0, :, 0].mean(-1))
        return torch.stack(weights), torch.stack(strengths)
