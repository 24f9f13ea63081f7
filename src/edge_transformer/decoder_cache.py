"""The edge cache: decoding a token computes the edges that touch its node, and no others, at every layer.

In a causal graph the edges among earlier nodes do not change when a node N arrives. With it there are n = N + 1 nodes,
and it has 2n - 1 edges: its column (i, N) and its row (N, j). No pivot is forbidden to them:

    column  out_iN = sum_l softmax_l(q_il . k_lN / sqrt(d)) * (v1_il * v2_lN)
    row     out_Nj = sum_l softmax_l(q_Nl . k_lj / sqrt(d)) * (v1_Nl * v2_lj)

Each is a sum over n^2 d remembered numbers and n d new ones, so that the cost of a token grows as n^2, not n^3. The
last layer is read at the loop edge (N, N) alone and remembers nothing.

Everything is laid out with the nodes first, so that the used part of a larger tensor is a batch of matrices as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from .attention import packed_triangular_attention
from .layers import EdgeTransformerLayer, TriangularAttention

FIRST_TARGETS = 16  # target nodes that there is room for at first, before the memory is doubled
_NUMBERS_AT_ONCE = 1 << 17  # of products that are summed up while they are still in the processor's cache


class EdgeCache:
    """The state of decoding a batch of sequences, one node after the other."""

    def __init__(
        self,
        layers: Iterable[nn.Module],
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
        self._layers = [layer for layer in layers if isinstance(layer, EdgeTransformerLayer)]
        self.rows, self.sources = source_edges.shape[:2]
        self.steps = 0  # target nodes so far
        self._limit = limit
        self._mask = node_mask
        capacity = self.sources + (FIRST_TARGETS if limit is None else min(FIRST_TARGETS, limit))
        self._remembered = []
        edges = source_edges
        for layer in self._layers[:-1]:
            attention = layer.attention
            normed = layer.attention_norm(edges)
            parts = attention.projections(normed).unflatten(-1, (attention.parts, attention.heads, -1))
            self._remembered.append(_LayerMemory(attention, parts, capacity))
            mixed = packed_triangular_attention(parts, node_mask=node_mask, key=attention.key, engine=attention.engine)
            edges = layer._finish(edges, normed, attention.output(mixed.flatten(-2)))
        self._capacity = capacity

    @property
    def nodes(self) -> int:
        """The nodes so far, those of the source included."""
        return self.sources + self.steps

    @property
    def numbers(self) -> int:
        """How many numbers there is room for, over all layers."""
        return sum(grid.tensor.numel() for memory in self._remembered for grid in memory.grids)

    def extend(self, edges: Tensor) -> Tensor:
        """Add a node, and give back the last state of its loop edge, `[batch, dim]`.

        `edges` has the first state of its edges, `[2n - 1, batch, dim]`: the column (0, N) to (N - 1, N), then the row
        (N, 0) to (N, N).
        """
        self._make_room(self.nodes + 1)
        last = self.nodes
        self.steps += 1
        mask = self._mask
        if mask is not None:
            mask = torch.cat([mask, mask.new_ones(self.rows, self.steps)], dim=1)  # (B, n)
        for layer, memory in zip(self._layers, self._remembered, strict=False):
            attention = layer.attention
            normed = layer.attention_norm(edges)
            parts = attention.projections(normed).unflatten(-1, (attention.parts, attention.heads, -1))
            column = torch.cat([parts[:last], parts[-1:]])  # (n, B, parts, h, d), the loop at the end of both
            mixed = memory.extend(column, parts[last:], mask)  # (2n - 1, B, h, d)
            edges = layer._finish(edges, normed, attention.output(mixed.flatten(-2)))
        final = self._layers[-1]
        normed = final.attention_norm(edges)
        column = torch.cat([normed[:last], normed[-1:]])  # (n, B, dim)
        own = normed[-1][:, None]  # (B, 1, dim)
        update = final.attention.read(
            own, normed[last:].transpose(0, 1)[:, None], column.transpose(0, 1)[:, None], _allowed(mask)
        )
        return final._finish(edges[-1][:, None], own, update)[:, 0]

    def reorder(self, index: Tensor) -> None:
        """Let row r go on from what was row `index[r]`. Rows may be repeated and left out."""
        if index.dim() != 1:
            raise ValueError(f"index must be [rows], but its shape is {list(index.shape)}")
        if len(index) and not 0 <= int(index.min()) <= int(index.max()) < self.rows:
            raise ValueError(f"index must name rows from 0 to {self.rows - 1}")
        for memory in self._remembered:
            for grid in memory.grids:
                grid.reorder(index, self.nodes)
        self._mask = None if self._mask is None else self._mask[index]
        self.rows = len(index)

    def _make_room(self, nodes: int) -> None:
        if nodes <= self._capacity:
            return
        wanted = self.sources + max(2 * (self._capacity - self.sources), nodes - self.sources)
        if self._limit is not None and self.sources + self._limit >= nodes:
            wanted = min(wanted, self.sources + self._limit)
        for memory in self._remembered:
            for grid in memory.grids:
                grid.grow(wanted, self.nodes)
        self._capacity = wanted


def _allowed(mask: Tensor | None) -> Tensor | None:
    """Which pivots the one edge read at the end may use, `[B, 1, n]`."""
    return None if mask is None else mask[:, None, :]


class _Grid:
    """A vector for each pair (outer node, inner node) and head, with room for more nodes.

    It lies in memory as a matrix for each outer node, row of the batch and head: `[outer, B, h, d, inner]` for products
    over the features, `[outer, B, h, inner, d]` for sums over inner nodes.
    """

    def __init__(self, pairs: Tensor, capacity: int, *, features_first: bool) -> None:
        """`pairs` is `[B, outer, inner, h, d]`."""
        self._features_first = features_first
        batch, n, _, heads, dim = pairs.shape
        self.tensor = pairs.new_empty(self._shape(capacity, batch, heads, dim))
        self.used(n).copy_(pairs.permute(1, 0, 3, 4, 2) if features_first else pairs.permute(1, 0, 3, 2, 4))

    def _shape(self, capacity: int, batch: int, heads: int, dim: int) -> tuple[int, ...]:
        matrix = (dim, capacity) if self._features_first else (capacity, dim)
        return (capacity, batch, heads, *matrix)

    def used(self, n: int) -> Tensor:
        """The part of the first n nodes, as it lies there."""
        return self.tensor[:n, ..., :n] if self._features_first else self.tensor[:n, :, :, :n]

    def matrices(self, n: int) -> Tensor:
        """The same as a batch of matrices, `[outer * B * h, d, inner]` or `[outer * B * h, inner, d]`."""
        flat = self.tensor[:n].flatten(0, 2)
        return flat[..., :n] if self._features_first else flat[:, :n]

    def add(self, to_new: Tensor, from_new: Tensor) -> None:
        """Add node N: its pairs (outer, N) and (N, inner), both `[N + 1, B, h, d]`."""
        last = len(to_new) - 1
        if self._features_first:
            self.tensor[:last, ..., last] = to_new[:last]
            self.tensor[last, ..., : last + 1] = from_new.permute(1, 2, 3, 0)
        else:
            self.tensor[:last, :, :, last] = to_new[:last]
            self.tensor[last, :, :, : last + 1] = from_new.permute(1, 2, 0, 3)

    def grow(self, capacity: int, n: int) -> None:
        """Make room for more nodes."""
        before = self.used(n)
        _, batch, heads = self.tensor.shape[:3]
        dim = self.tensor.shape[3 if self._features_first else 4]
        self.tensor = self.tensor.new_empty(self._shape(capacity, batch, heads, dim))
        self.used(n).copy_(before)

    def reorder(self, index: Tensor, n: int) -> None:
        """Take other rows of the batch. Rows that stay where they are are not touched."""
        if len(index) == self.tensor.shape[1]:
            place = torch.arange(len(index), device=index.device)
            (moved,) = torch.where(index != place)
            if len(moved):
                self.used(n).index_copy_(1, moved, self.used(n).index_select(1, index[moved]))
            return
        rows = self.used(n).index_select(1, index)
        self.tensor = self.tensor.new_empty((self.tensor.shape[0], len(index), *self.tensor.shape[2:]))
        self.used(n).copy_(rows)


class _LayerMemory:
    """What a layer remembers of the edges so far: q, k, v1 and v2, as far as the edges of a later node need them."""

    def __init__(self, attention: TriangularAttention, parts: Tensor, capacity: int) -> None:
        """`parts` has them of the edges among source nodes, `[B, S, S, 3 or 4, h, d]`."""
        q, k, v1, *v2 = parts.unbind(3)  # (B, i, l, h, d), and k and v2 (B, l, j, h, d)
        self._scale = q.shape[-1] ** -0.5
        # Scores are products over features, for each pivot with all edges; in the ablation, for each edge with all
        # pivots.
        self._q = _Grid(q.transpose(1, 2) if attention.key == "lj" else q, capacity, features_first=True)
        self._k = _Grid(k, capacity, features_first=True) if attention.key == "lj" else None
        self._v1 = _Grid(v1, capacity, features_first=False)
        self._v2 = _Grid(v2[0].transpose(1, 2), capacity, features_first=False) if v2 else None

    @property
    def grids(self) -> Sequence[_Grid]:
        """Those that there are."""
        return [grid for grid in (self._q, self._k, self._v1, self._v2) if grid is not None]

    def extend(self, column: Tensor, row: Tensor, mask: Tensor | None) -> Tensor:
        """Add a node, and mix the values for its edges: the column without the loop, then the row.

        `column` and `row` are `[n, B, 3 or 4, h, d]`, the loop at the end of both; the result `[2n - 1, B, h, d]`.
        """
        n = len(row)
        q_column, k_column, v1_column, *v2_column = column.unbind(2)  # (n, B, h, d)
        q_row, k_row, v1_row, *v2_row = row.unbind(2)
        self._v1.add(v1_column, v1_row)
        # Scores and weights are (x, B, h, l) for the edges (x, N) of the column and (N, x) of the row.
        if self._k is not None:
            self._q.add(q_row, q_column)
            self._k.add(k_column, k_row)
            column_scores = _times(k_column * self._scale, self._q.matrices(n)).permute(3, 1, 2, 0)
            row_scores = _times(q_row * self._scale, self._k.matrices(n)).permute(3, 1, 2, 0)
        else:
            self._q.add(q_column, q_row)
            column_scores = _times(k_column * self._scale, self._q.matrices(n))
            row_scores = torch.einsum("xbhd,lbhd->xbhl", k_row * self._scale, q_row)
        column_weights, row_weights = _weights(column_scores[:-1], mask), _weights(row_scores, mask)
        mixed = row.new_empty(2 * n - 1, *q_row.shape[1:])
        if self._v2 is not None:
            self._v2.add(v2_row[0], v2_column[0])
            _mix_products(column_weights, self._v1, v2_column[0], mixed[: n - 1])
            _mix_products(row_weights, self._v2, v1_row, mixed[n - 1 :])
        else:
            # (x, B, h, 1, l) times the values of each edge's own row; or (B, h, x, l) times those of row N
            mixed[: n - 1] = _times(column_weights, self._v1.matrices(n)[: column_weights[..., 0].numel()])
            mixed[n - 1 :] = torch.einsum("xbhl,lbhd->xbhd", row_weights, v1_row)
        return mixed


def _times(vectors: Tensor, matrices: Tensor) -> Tensor:
    """A matrix for each vector: `[..., a]` times `[all of ..., a, c]` gives `[..., c]`."""
    return torch.bmm(vectors.flatten(0, -2)[:, None], matrices).view(*vectors.shape[:-1], matrices.shape[-1])


def _weights(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Soft-max over the pivots, `[x, B, h, l]`. The new node is a pivot of every edge, so that there always is one."""
    if mask is not None:
        scores = scores.masked_fill(~mask[:, None, :], torch.finfo(scores.dtype).min)
    return scores.contiguous().softmax(-1)


def _mix_products(weights: Tensor, remembered: _Grid, new: Tensor, out: Tensor) -> None:
    """out_x = sum_l weights_xl * (remembered_xl * new_l), a few x at a time, so that their products stay in the cache.

    `weights` is `[x, B, h, l]`, `new` is `[l, B, h, d]` and `out` `[x, B, h, d]`.
    """
    n = len(new)
    new = new.permute(1, 2, 0, 3).contiguous()  # (B, h, l, d)
    step = max(1, _NUMBERS_AT_ONCE // max(1, new.numel()))
    products = new.new_empty(min(step, len(weights)), *new.shape)
    values = remembered.used(n)
    for start in range(0, len(weights), step):
        chosen = weights[start : start + step]
        some = torch.mul(values[start : start + len(chosen)], new, out=products[: len(chosen)])
        out[start : start + step] = _times(chosen, some.flatten(0, 2))
