"""What a layer of a decoder remembers of the edges so far, and how the edges of a new node are mixed with it.

`PlainMemory` is in plain PyTorch, for GPUs and where there are no compiled kernels; `NativeMemory` is for the compiled
kernel csrc/decoding.c. `nn.cache` says why nothing else need be computed.
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .operators import has_tangent

LANES = 8  # as in csrc/decoding.c
_NUMBERS_AT_ONCE = 1 << 17  # of products that are summed up while they are still in the processor's cache
_SMALLEST_SHARE = 200_000  # remembered numbers that are worth a thread of their own


class Memory(ABC):
    """q, k, v1 and v2 of the edges so far, as far as the edges of a later node need them."""

    @property
    @abstractmethod
    def numbers(self) -> int:
        """How many numbers there is room for."""

    @abstractmethod
    def grow(self, capacity: int, n: int) -> None:
        """Make room for more nodes than the n that there are."""

    @abstractmethod
    def reorder(self, index: Tensor, n: int) -> None:
        """Let row r go on from what was row `index[r]`. Rows that stay where they are are not touched."""

    @abstractmethod
    def extend(self, parts: Tensor, mask: Tensor | None) -> Tensor:
        """Add a node, and mix the values for its edges: the column without the self-edge, then the row.

        `parts` is `[2n - 1, B, 3 or 4, h, d]`, `mask` bool `[B, n]`; the result `[2n - 1, B, h, d]`.
        """


# --- in plain PyTorch -------------------------------------------------------------------------------------------------


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


class PlainMemory(Memory):
    """Laid out with the nodes first, so that the used part of a larger tensor is a batch of matrices as it is."""

    def __init__(self, parts: Tensor, key: str, capacity: int) -> None:
        """`parts` are those of the edges among source nodes, `[B, S, S, 3 or 4, h, d]`."""
        q, k, v1, *v2 = parts.unbind(3)  # (B, i, l, h, d), and k and v2 (B, l, j, h, d)
        self._scale = q.shape[-1] ** -0.5
        # Scores are products over features, for each pivot with all edges; in the ablation, for each edge with all
        # pivots.
        self._q = _Grid(q.transpose(1, 2) if key == "lj" else q, capacity, features_first=True)
        self._k = _Grid(k, capacity, features_first=True) if key == "lj" else None
        self._v1 = _Grid(v1, capacity, features_first=False)
        self._v2 = _Grid(v2[0].transpose(1, 2), capacity, features_first=False) if v2 else None
        self._grids = [grid for grid in (self._q, self._k, self._v1, self._v2) if grid is not None]

    @property
    def numbers(self) -> int:
        return sum(grid.tensor.numel() for grid in self._grids)

    def grow(self, capacity: int, n: int) -> None:
        for grid in self._grids:
            grid.grow(capacity, n)

    def reorder(self, index: Tensor, n: int) -> None:
        for grid in self._grids:
            grid.reorder(index, n)

    def extend(self, parts: Tensor, mask: Tensor | None) -> Tensor:
        n = (len(parts) + 1) // 2
        column, row = torch.cat([parts[: n - 1], parts[-1:]]), parts[n - 1 :]  # (n, B, ...), the self-edge ends both
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


# --- as the compiled kernel wants it ----------------------------------------------------------------------------------


class Step(ctypes.Structure):
    """`decoding_step` in csrc/decoding.c, field by field."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("memory", "parts", "mask", "out")),
        ("scale", ctypes.c_double),
        *((name, ctypes.c_int32) for name in ("batch", "n", "heads", "features", "room", "room_inside")),
        *((name, ctypes.c_int32) for name in ("key_is_ij", "has_v2", "is_double", "threads", "isa")),
    ]


class NativeMemory(Memory):
    """All of it is one tensor, so that the kernel reads it from beginning to end, once a step.

    `[B, h, node, grid, inner node * d]`: of each node its row of q and v1, its column of k and v2. Where products are
    summed over the features, LANES inner nodes lie side by side for each feature; else the features of an inner node.
    """

    def __init__(self, parts: Tensor, key: str, capacity: int, kernel: Callable[[Any], int]) -> None:
        """`parts` are those of the edges among source nodes, `[B, S, S, 3 or 4, h, d]`; `kernel` is the function of
        csrc/decoding.c.
        """
        batch, n, _, _, heads, features = parts.shape
        q, k, v1, *v2 = parts.movedim(4, 1).unbind(4)  # (B, h, i, l, d), and k and v2 (B, h, l, j, d)
        self._key_is_ij, self._has_v2 = key == "ij", bool(v2)
        self._features, self._kernel = features, kernel
        grids = [_in_lanes(q), *([] if self._key_is_ij else [_in_lanes(k.transpose(2, 3))])]
        grids += [v1.flatten(3), *(part.transpose(2, 3).flatten(3) for part in v2)]
        self._tensor = self._room(parts, batch, heads, capacity, len(grids))
        for number, grid in enumerate(grids):
            self._tensor[:, :, :n, number, : grid.shape[-1]] = grid

    def _room(self, like: Tensor, batch: int, heads: int, capacity: int, grids: int) -> Tensor:
        """A tensor for so many nodes, with a little more behind it: the kernel reads whole vectors."""
        shape = (batch, heads, capacity, grids, _whole(capacity) * self._features)
        numbers = torch.Size(shape).numel()
        return like.new_empty(numbers + LANES)[:numbers].view(shape)

    def _used(self, n: int) -> Tensor:
        """The part of the first n nodes."""
        return self._tensor[:, :, :n, :, : _whole(n) * self._features]

    @property
    def numbers(self) -> int:
        return self._tensor.numel()

    def grow(self, capacity: int, n: int) -> None:
        before = self._used(n)
        batch, heads, _, grids, _ = self._tensor.shape
        self._tensor = self._room(before, batch, heads, capacity, grids)
        self._used(n).copy_(before)

    def reorder(self, index: Tensor, n: int) -> None:
        used = self._used(n)
        if len(index) == len(used):
            (moved,) = torch.where(index != torch.arange(len(index)))
            if len(moved):
                used.index_copy_(0, moved, used.index_select(0, index[moved]))
            return
        _, heads, capacity, grids, _ = self._tensor.shape
        self._tensor = self._room(used, len(index), heads, capacity, grids)
        self._used(n).copy_(used.index_select(0, index))

    def extend(self, parts: Tensor, mask: Tensor | None) -> Tensor:
        if has_tangent(parts):
            raise RuntimeError("decoding with a cache has no derivatives; take the model's forward pass")
        parts, mask = parts.contiguous(), None if mask is None else mask.contiguous()
        edges, batch, _, heads, features = parts.shape
        out = parts.new_empty(edges, batch, heads, features)
        n = (edges + 1) // 2
        if n > self._tensor.shape[2]:  # the kernel would write behind the end
            raise ValueError(f"there is room for {self._tensor.shape[2]} nodes, not for {n}")
        step = Step(
            memory=self._tensor.data_ptr(),
            parts=parts.data_ptr(),
            mask=None if mask is None else mask.data_ptr(),
            out=out.data_ptr(),
            scale=features**-0.5,
            batch=batch,
            n=n,
            heads=heads,
            features=features,
            room=self._tensor.shape[2],
            room_inside=self._tensor.shape[4] // features,
            key_is_ij=self._key_is_ij,
            has_v2=self._has_v2,
            is_double=parts.dtype == torch.float64,
            threads=min(torch.get_num_threads(), self._used(n).numel() // _SMALLEST_SHARE),
            isa=-1,
        )
        if self._kernel(ctypes.byref(step)):
            raise MemoryError("decoding ran out of memory")
        return out


def _whole(nodes: int) -> int:
    """Nodes rounded up to whole vectors."""
    return -(-nodes // LANES) * LANES


def _in_lanes(pairs: Tensor) -> Tensor:
    """`[B, h, outer, inner, d]` with LANES inner nodes side by side: `[B, h, outer, inner / LANES * d * LANES]`."""
    inner = pairs.shape[3]
    padded = F.pad(pairs, (0, 0, 0, _whole(inner) - inner))
    return padded.unflatten(3, (-1, LANES)).transpose(4, 5).flatten(3)
