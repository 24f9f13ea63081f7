"""The edge cache: decoding a token computes the edges that touch its node, and no others, at every layer.

In a causal graph the edges among earlier nodes do not change when a node N arrives. With it there are n = N + 1 nodes,
and it has 2n - 1 edges: its column (i, N) and its row (N, j). No pivot is forbidden to them:

    column  out_iN = sum_l softmax_l(q_il . k_lN / sqrt(d)) * (v1_il * v2_lN)
    row     out_Nj = sum_l softmax_l(q_Nl . k_lj / sqrt(d)) * (v1_Nl * v2_lj)

Each is a sum over n^2 d remembered numbers and n d new ones, so that the cost of a token grows as n^2, not n^3. The
last layer is read at the self-edge (N, N) alone and remembers nothing, unless it has to be called as a whole. What the
others remember, and the sums over it, are in `ops.memory`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..ops.memory import Memory
from .generation import check_rows
from .layer import EdgeTransformerLayer
from .plain import may_be_skipped

FIRST_TARGETS = 16  # target nodes that there is room for at first, before the memory is doubled


class EdgeCache:
    """The state of decoding a batch of sequences, one node after the other."""

    def __init__(
        self,
        layers: Sequence[EdgeTransformerLayer],
        source_edges: Tensor,
        node_mask: Tensor | None = None,
        limit: int | None = None,
    ) -> None:
        """Compute the edges among the source nodes, which no target node changes.

        Args:
            layers: the decoder's, in the order in which they run; tied ones are repeated.
            source_edges: their first state, `[batch, S, S, dim]`.
            node_mask: bool `[batch, S]`, True for a real node.
            limit: the most target nodes that will be added, where that is known.
        """
        self._layers = layers
        self.rows, self.sources = source_edges.shape[:2]
        self.steps = 0  # target nodes so far
        self.ends: Tensor | None = None  # what the nodes add to new edges of theirs, for `DecoderInput`: (n, B, ...)
        self._limit = limit
        self._mask = node_mask
        capacity = self.sources + (FIRST_TARGETS if limit is None else min(FIRST_TARGETS, limit))
        self._remembered: list[Memory] = []
        edges, last = source_edges, layers[-1]
        for layer in layers[:-1] if may_be_skipped(last, EdgeTransformerLayer) else layers:
            normed, parts = layer.project(edges)
            self._remembered.append(layer.attention.remember(parts, capacity))
            if may_be_skipped(layer, EdgeTransformerLayer):
                edges = layer.finish(edges, normed, layer.mix(parts, node_mask=node_mask))
            else:
                edges = layer(edges, node_mask)
        self._capacity = capacity

    @property
    def nodes(self) -> int:
        """The nodes so far, those of the source included."""
        return self.sources + self.steps

    @property
    def numbers(self) -> int:
        """How many numbers there is room for, over all layers."""
        return sum(memory.numbers for memory in self._remembered)

    def extend(self, edges: Tensor) -> Tensor:
        """Add a node, and give back the last state of its self-edge, `[batch, dim]`.

        `edges` has the first state of its edges, `[2n - 1, batch, dim]`: the column (0, N) to (N - 1, N), then the row
        (N, 0) to (N, N).
        """
        self._make_room(self.nodes + 1)
        self.steps += 1
        mask = self._mask
        if mask is not None:
            mask = torch.cat([mask, mask.new_ones(self.rows, self.steps)], dim=1)  # (B, n)
        return extend(self._layers, self._remembered, edges, mask)

    def reorder(self, index: Tensor) -> None:
        """Let row r go on from what was row `index[r]`. Rows may be repeated and left out."""
        check_rows(index, self.rows)
        for memory in self._remembered:
            memory.reorder(index, self.nodes)
        self.ends = None if self.ends is None else self.ends.index_select(1, index)
        self._mask = None if self._mask is None else self._mask[index]
        self.rows = len(index)

    def _make_room(self, nodes: int) -> None:
        if nodes <= self._capacity:
            return
        wanted = self.sources + max(2 * (self._capacity - self.sources), nodes - self.sources)
        if self._limit is not None and self.sources + self._limit >= nodes:
            wanted = min(wanted, self.sources + self._limit)
        for memory in self._remembered:
            memory.grow(wanted, self.nodes)
        self._capacity = wanted


def extend(
    layers: Sequence[EdgeTransformerLayer], remembered: Sequence[Memory], edges: Tensor, mask: Tensor | None
) -> Tensor:
    """Add a node to what the layers remember, and give back the last state of its self-edge, `[batch, dim]`.

    `edges` as for `EdgeCache.extend`; `mask` is bool `[batch, n]`, with the new node. A last layer that remembers
    nothing is read at the self-edge alone.
    """
    last = edges.shape[0] // 2
    for layer, memory in zip(layers, remembered, strict=False):
        edges = layer(edges, mask, memory=memory)
    if len(remembered) == len(layers):
        return edges[-1]

    def pick(states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Of the row, of the column, and of the self-edge, which ends both."""
        column = torch.cat([states[:last], states[-1:]])  # (n, B, ...)
        return states[last:].transpose(0, 1)[:, None], column.transpose(0, 1)[:, None], states[-1][:, None]

    allowed = None if mask is None else mask[:, None, :]  # (B, 1, n)
    return layers[-1].read_edges(edges[-1][:, None], edges, pick, allowed)[:, 0]
