"""What a layer of a decoder remembers, as the compiled kernel native/decoding.c wants it.

All of it is one tensor, so that the kernel reads it from beginning to end, once a step.
"""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor
from torch.nn import functional as F

from ..ops.kernels import library
from .layer import TriangularAttention

LANES = 8  # as in native/decoding.c
_SMALLEST_SHARE = 200_000  # remembered numbers that are worth a thread of their own


class Step(ctypes.Structure):
    """`decoding_step` in native/decoding.c, field by field."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("memory", "parts", "mask", "out")),
        ("scale", ctypes.c_double),
        *((name, ctypes.c_int32) for name in ("batch", "n", "heads", "features", "room", "room_inside")),
        *((name, ctypes.c_int32) for name in ("key_is_ij", "has_v2", "is_double", "threads", "isa")),
    ]


class NativeMemory:
    """q, k, v1 and v2 of the edges so far, as far as the edges of a later node need them.

    `[B, h, node, grid, inner node * d]`: of each node its row of q and v1, its column of k and v2. Where products are
    summed over the features, LANES inner nodes lie side by side for each feature; else the features of an inner node.
    """

    def __init__(self, attention: TriangularAttention, parts: Tensor, capacity: int) -> None:
        """`parts` has those of the edges among source nodes, `[B, S, S, 3 or 4, h, d]`."""
        batch, n, _, _, heads, features = parts.shape
        q, k, v1, *v2 = parts.movedim(4, 1).unbind(4)  # (B, h, i, l, d), and k and v2 (B, h, l, j, d)
        self._key_is_ij, self._has_v2 = attention.key == "ij", bool(v2)
        self._features = features
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
        """How many numbers there is room for."""
        return self._tensor.numel()

    def grow(self, capacity: int, n: int) -> None:
        """Make room for more nodes than the n that there are."""
        before = self._used(n)
        batch, heads, _, grids, _ = self._tensor.shape
        self._tensor = self._room(before, batch, heads, capacity, grids)
        self._used(n).copy_(before)

    def reorder(self, index: Tensor, n: int) -> None:
        """Let row r go on from what was row `index[r]`. Rows that stay where they are are not touched."""
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
        """Add a node, and mix the values for its edges: the column without the loop, then the row.

        `parts` is `[2n - 1, B, 3 or 4, h, d]`, `mask` bool `[B, n]`; the result `[2n - 1, B, h, d]`.
        """
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
        if library().edge_transformer_decoding_step(ctypes.byref(step)):
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
