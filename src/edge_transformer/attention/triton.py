"""The Triton engine: triangular attention for GPUs, forward and backward, in O(n^2 head_dim) memory.

A triangle (i, l, j) has three edges: il with q and v1, lj with k and v2, ij with the output. In each kernel a program
owns a tile of edges of one kind, and the third node runs over the graph:

    forward      owns edges ij, pivot l runs: output and log-sum-exp, by online soft-max
    backward_il  owns edges il, end j runs: gradients of q and v1
    backward_lj  owns edges lj, start i runs: gradients of k and v2
    backward_ij  owns edges ij, pivot l runs: gradient of k if key="ij"

A step loads the vectors of one row and of one column of edges, and uses each for the whole other side of the tile. A
number is written by one program only, so there are no atomics, and the bits are the same every time. Scores are never
stored; the backward pass computes them again from the log-sum-exp. Mixing values is no product of matrices, so this is
multiply-adds without tensor cores: float32 is full float32, and 16-bit numbers are computed in float32.

Dropout drops the same weights as the native engine does for the same seed. Triton is imported when a kernel first runs.
With TRITON_INTERPRET=1 in the environment before that, kernels run in NumPy and without a GPU: slowly, for tests.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
from typing import Any

import torch
from torch import Tensor

from ..native import drop_below

_OLDEST = (3, 3)  # version of Triton whose kernels take tuples
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_INTERPRETED = os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "true", "yes", "on", "y")


def _find() -> str | None:
    """Why Triton cannot be imported; None where it can. It is not imported for that."""
    spec = importlib.util.find_spec("triton")
    installed = spec is not None and spec.origin is not None  # no mere folder of that name
    return None if installed else "Triton is not installed; pip install 'edge-transformer[gpu]'"


_MISSING = _find()  # once and here, not at first use: torch.compile cannot trace the search


def unavailable() -> str | None:
    """Why this engine cannot be used here; None where it can."""
    if _MISSING is None and not _INTERPRETED and not torch.cuda.is_available():
        return "there is no CUDA device (TRITON_INTERPRET=1 runs the kernels without one, slowly)"
    return _MISSING


def usable_for(tensor: Tensor) -> bool:
    """Whether the engine is there and computes this kind of tensor; on the CPU, only if kernels are interpreted."""
    device = tensor.device.type == "cuda" or (_INTERPRETED and tensor.device.type == "cpu")
    return device and tensor.dtype in DTYPES and unavailable() is None


def triton_attention(
    q: Tensor,
    k: Tensor,
    v1: Tensor,
    v2: Tensor | None,
    node_mask: Tensor | None,
    causal_from: int | None,
    key: str,
    dropout_p: float,
) -> Tensor:
    """Triangular attention in O(n^2 head_dim) memory for each (batch, head). Arguments as in `einsum_attention`."""
    if not usable_for(q):
        kinds = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
        reason = unavailable() or f"it computes {kinds} on a GPU, not {q.dtype} on {q.device}"
        raise ValueError(f'engine="triton" cannot be used: {reason}')
    # The seed is drawn where the kernels read it, so that nothing waits for the GPU.
    seed = torch.randint(2**62, (1,), device=q.device) if dropout_p > 0 else None
    arguments = (node_mask, -1 if causal_from is None else causal_from, key == "ij", dropout_p, seed)
    return triton_forward(q, k, v1, v2, *arguments)[0]


# --- kernels ------------------------------------------------------------------------------------------------------
#
# They are plain functions, so that importing this module needs no Triton; `_kernels` hands them to its compiler.
#
# Blocks are (F, R, C): features, rows and columns of the tile, all powers of two. Features come first because Triton
# spreads the last dimensions over threads: a thread then has whole vectors of a few edges, and sums over features need
# no exchange between threads. For sm_80 that makes a step of the forward kernel 5 times shorter than features last.

tl: Any = None  # triton.language; this and the next names are set by `_kernels`
tensor = Any  # a tensor of Triton: a pointer, a number, a block of either, or a tuple of strides
constexpr = Any  # known when a kernel is compiled; Triton looks for this word in the annotations
float64 = Any  # a number that Triton should not round to float32


def _mix64(x: tensor) -> tensor:
    """As in native/random.h."""
    x = x + 0x9E3779B97F4A7C15
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB
    return x ^ (x >> 31)


def _mix32(x: tensor) -> tensor:
    """As in native/random.h."""
    x = (x ^ (x >> 16)) * 0x85EBCA6B
    x = (x ^ (x >> 13)) * 0xC2B2AE35
    return x ^ (x >> 16)


def _kept(seed: tensor, drop_limit: tensor, bh: tensor, n: tensor, i: tensor, pivot: tensor, j: tensor) -> tensor:
    """Which weights dropout keeps. Only the seed and the place decide, in the way of native/attention_kernel.h."""
    of_head = _mix64(tl.load(seed).to(tl.uint64) ^ _mix64(bh.to(tl.uint64)))
    of_edge = _mix64(of_head + tl.cast(i, tl.uint64) * n.to(tl.uint64) + tl.cast(pivot, tl.uint64)).to(tl.uint32)
    return _mix32(of_edge + tl.cast(j, tl.uint32) * 0x9E3779B9) >= drop_limit.to(tl.uint32)


def _tile(n: tensor, ROWS: constexpr, COLUMNS: constexpr) -> tensor:
    """What this program owns: the number of its (batch, head), and the nodes of its rows and columns."""
    across = (n + COLUMNS - 1) // COLUMNS
    tiles = (n + ROWS - 1) // ROWS * across
    tile = tl.program_id(0) % tiles
    x = tile // across * ROWS + tl.arange(0, ROWS)
    y = tile % across * COLUMNS + tl.arange(0, COLUMNS)
    return tl.program_id(0) // tiles, x, y


def _real(node_mask: tensor, b: tensor, n: tensor, node: tensor) -> tensor:
    """Whether these are nodes of the graph, not padding of the batch or of the tile."""
    inside = node < n
    if node_mask is not None:
        inside = tl.load(node_mask + tl.cast(b, tl.int64) * n + node, mask=inside, other=0) != 0
    return inside


def _runs(node_mask: tensor, b: tensor, n: tensor, node: tensor) -> tensor:
    """The same for the one node that runs, as a block of one: the interpreter errs with truth values that are none."""
    real = tl.full((1,), True, tl.int1)
    if node_mask is not None:
        real = tl.load(node_mask + tl.cast(b, tl.int64) * n + node + tl.arange(0, 1)) != 0
    return real


def _counts(causal_from: tensor, real: tensor, i: tensor, pivot: tensor, j: tensor) -> tensor:
    """Whether triangles count: their nodes are real, and a target node is no pivot for an edge of earlier nodes."""
    if causal_from is not None:
        real = real & ((pivot < causal_from) | (pivot <= i) | (pivot <= j))
    return real


def _edges(vectors: tensor, at: tensor, b: tensor, h: tensor, x: tensor, y: tensor, f: tensor) -> tensor:
    """Where the vectors of edges xy are, by the strides of their tensor. It may have more than 2^31 numbers."""
    head = tl.cast(b, tl.int64) * at[0] + tl.cast(h, tl.int64) * at[3]
    return vectors + (head + tl.cast(x, tl.int64) * at[1] + tl.cast(y, tl.int64) * at[2] + tl.cast(f, tl.int64) * at[4])


def _read(place: tensor, real: tensor, like: tensor) -> tensor:
    """Vectors in the number type of the sums; zeros instead of padding, which may hold anything."""
    return tl.load(place, mask=real, other=0.0).to(like.dtype.element_ty)


def _exact(number: float64, like: tensor) -> tensor:
    """A number in the number type of the sums."""
    return (tl.full((1, 1), 1.0, like.dtype.element_ty) * number).to(like.dtype.element_ty)


def _forward(
    q: tensor, k: tensor, v1: tensor, v2: tensor, q_at: tensor, k_at: tensor, v1_at: tensor, v2_at: tensor,
    lse: tensor, out: tensor, out_at: tensor,
    node_mask: tensor, seed: tensor, n: tensor, heads: tensor, causal_from: tensor, drop_limit: tensor,
    keep_factor: float64, one: tensor, size: tensor, KEY_IS_IJ: constexpr, HEAD_DIM: constexpr,
    FEATURES: constexpr, ROWS: constexpr, COLUMNS: constexpr, STAGES: constexpr,
) -> None:  # fmt: skip
    """Output and log-sum-exp of edges ij. Pivots run."""
    bh, i, j = _tile(n, ROWS, COLUMNS)
    b, h = bh // heads, bh % heads
    f = tl.arange(0, FEATURES)[:, None]
    f3, i3, j3 = f[:, :, None], i[None, :, None], j[None, None, :]
    real_i, real_j = _real(node_mask, b, n, i), _real(node_mask, b, n, j)
    real = real_i[:, None] & real_j[None, :]  # (R, C)
    read_i, read_j = real_i[None, :] & (f < HEAD_DIM), real_j[None, :] & (f < HEAD_DIM)  # (F, R), (F, C)
    q_i, v1_i = _edges(q, q_at, b, h, i[None, :], 0, f), _edges(v1, v1_at, b, h, i[None, :], 0, f)
    if KEY_IS_IJ:
        # The compiler must not see that features are side by side, or it gives a thread only some of them.
        key = _read(_edges(k, k_at, b, h, i3, j3, f3 * one), real[None, :, :] & (f3 < HEAD_DIM), lse)
    else:
        k_j = _edges(k, k_at, b, h, 0, j[None, :], f)
    if v2 is not None:
        v2_j = _edges(v2, v2_at, b, h, 0, j[None, :], f)
    most = tl.full((ROWS, COLUMNS), float("-inf"), lse.dtype.element_ty)  # the largest score so far
    total = tl.full((ROWS, COLUMNS), 0.0, lse.dtype.element_ty)
    mixed = tl.full((FEATURES, ROWS, COLUMNS), 0.0, lse.dtype.element_ty)
    for pivot in tl.range(0, n, num_stages=STAGES):
        step, real_l = tl.cast(pivot, tl.int64), _runs(node_mask, b, n, pivot)
        read_il, read_lj = read_i & real_l, read_j & real_l
        q_il = _read(q_i + step * q_at[2], read_il, lse)[:, :, None]
        if not KEY_IS_IJ:
            key = _read(k_j + step * k_at[1], read_lj, lse)[:, None, :]
        counts = _counts(causal_from, real & real_l, i[:, None], pivot, j[None, :])
        score = tl.where(counts, tl.sum(q_il * key, 0) * HEAD_DIM**-0.5, float("-inf"))
        higher = tl.maximum(most, score)
        shift = tl.where(higher == float("-inf"), 0.0, higher)  # before the first pivot, anything finite
        weight, shrink = tl.exp(score - shift), tl.exp(most - shift)
        most, total = higher, total * shrink + weight
        if seed is not None:
            weight = tl.where(_kept(seed, drop_limit, bh, n, i[:, None], pivot, j[None, :]), weight, 0.0)
        value = weight[None, :, :] * _read(v1_i + step * v1_at[2], read_il, lse)[:, :, None]
        if v2 is not None:
            value *= _read(v2_j + step * v2_at[1], read_lj, lse)[:, None, :]
        mixed = mixed * shrink[None, :, :] + value
    total = tl.where(total > 0, total, 1.0)  # only edges of padding nodes have no pivot; they get zeros
    inside = (i < n)[:, None] & (j < n)[None, :]
    edge = tl.cast(bh, tl.int64) * n * n + i[:, None] * n + j[None, :]
    tl.store(lse + edge, most + tl.log(total), mask=inside)
    mixed *= (_exact(keep_factor, lse) / total)[None, :, :]
    place = _edges(out, out_at, b, h, i3, j3, f3)
    tl.store(place, mixed.to(out.dtype.element_ty), mask=inside[None, :, :] & (f3 < HEAD_DIM))


def _backward_il(
    q: tensor, k: tensor, v1: tensor, v2: tensor, q_at: tensor, k_at: tensor, v1_at: tensor, v2_at: tensor,
    lse: tensor, dout: tensor, dout_at: tensor, dot: tensor, dq: tensor, dv1: tensor, made_at: tensor,
    node_mask: tensor, seed: tensor, n: tensor, heads: tensor, causal_from: tensor, drop_limit: tensor,
    keep_factor: float64, one: tensor, size: tensor, KEY_IS_IJ: constexpr, HEAD_DIM: constexpr,
    FEATURES: constexpr, ROWS: constexpr, COLUMNS: constexpr, STAGES: constexpr,
) -> None:  # fmt: skip
    """Gradients of q and v1 of edges il. Ends j run."""
    bh, i, pivot = _tile(n, ROWS, COLUMNS)
    b, h = bh // heads, bh % heads
    f = tl.arange(0, FEATURES)[:, None]
    f3, i3, l3 = f[:, :, None], i[None, :, None], pivot[None, None, :]
    real_i, real_l = _real(node_mask, b, n, i), _real(node_mask, b, n, pivot)
    real = real_i[:, None] & real_l[None, :]  # (R, C)
    read_i, read_l = real_i[None, :] & (f < HEAD_DIM), real_l[None, :] & (f < HEAD_DIM)  # (F, R), (F, C)
    read = real[None, :, :] & (f3 < HEAD_DIM)
    q_il = _read(_edges(q, q_at, b, h, i3, l3, f3 * one), read, lse)
    v1_il = _read(_edges(v1, v1_at, b, h, i3, l3, f3 * one), read, lse)
    dout_i = _edges(dout, dout_at, b, h, i[None, :], 0, f)
    k_x = _edges(k, k_at, b, h, i[None, :] if KEY_IS_IJ else pivot[None, :], 0, f)
    if v2 is not None:
        v2_l = _edges(v2, v2_at, b, h, pivot[None, :], 0, f)
    edge, keep_factor = tl.cast(bh, tl.int64) * n * n + i * n, _exact(keep_factor, lse)
    dq_il = tl.full((FEATURES, ROWS, COLUMNS), 0.0, lse.dtype.element_ty)
    dv1_il = tl.full((FEATURES, ROWS, COLUMNS), 0.0, lse.dtype.element_ty)
    for j in tl.range(0, n, num_stages=STAGES):
        step, real_j = tl.cast(j, tl.int64), _runs(node_mask, b, n, j)
        read_ij, read_lj = read_i & real_j, read_l & real_j
        if KEY_IS_IJ:
            key = _read(k_x + step * k_at[2], read_ij, lse)[:, :, None]
        else:
            key = _read(k_x + step * k_at[2], read_lj, lse)[:, None, :]
        counts = _counts(causal_from, real & real_j, i[:, None], pivot[None, :], j)
        score = tl.where(counts, tl.sum(q_il * key, 0) * HEAD_DIM**-0.5, float("-inf"))
        weight = tl.exp(score - tl.load(lse + edge + j, mask=real_i & real_j, other=float("inf"))[:, None])
        factor = _read(dout_i + step * dout_at[2], read_ij, lse)[:, :, None]  # what v1 is multiplied with
        if v2 is not None:
            factor = factor * _read(v2_l + step * v2_at[2], read_lj, lse)[:, None, :]
        dweight, used = tl.sum(v1_il * factor, 0), weight
        if seed is not None:
            keep = _kept(seed, drop_limit, bh, n, i[:, None], pivot[None, :], j)
            dweight, used = tl.where(keep, dweight * keep_factor, 0.0), tl.where(keep, weight * keep_factor, 0.0)
        dscore = weight * (dweight - tl.load(dot + edge + j, mask=real_i & real_j, other=0.0)[:, None])
        dq_il += dscore[None, :, :] * key
        dv1_il += used[None, :, :] * factor
    inside = ((i < n)[:, None] & (pivot < n)[None, :])[None, :, :] & (f3 < HEAD_DIM)
    place = _edges(dq, made_at, b, h, i3, l3, f3)
    tl.store(place, (dq_il * HEAD_DIM**-0.5).to(dq.dtype.element_ty), mask=inside)
    tl.store(_edges(dv1, made_at, b, h, i3, l3, f3), dv1_il.to(dv1.dtype.element_ty), mask=inside)


def _backward_lj(
    q: tensor, k: tensor, v1: tensor, v2: tensor, q_at: tensor, k_at: tensor, v1_at: tensor, v2_at: tensor,
    lse: tensor, dout: tensor, dout_at: tensor, dot: tensor, dk: tensor, dv2: tensor, made_at: tensor,
    node_mask: tensor, seed: tensor, n: tensor, heads: tensor, causal_from: tensor, drop_limit: tensor,
    keep_factor: float64, one: tensor, size: tensor, KEY_IS_IJ: constexpr, HEAD_DIM: constexpr,
    FEATURES: constexpr, ROWS: constexpr, COLUMNS: constexpr, STAGES: constexpr,
) -> None:  # fmt: skip
    """Gradients of k, unless key="ij", and of v2, if there is one, of edges lj. Starts i run."""
    bh, pivot, j = _tile(n, ROWS, COLUMNS)
    b, h = bh // heads, bh % heads
    f = tl.arange(0, FEATURES)[:, None]
    f3, l3, j3 = f[:, :, None], pivot[None, :, None], j[None, None, :]
    real_l, real_j = _real(node_mask, b, n, pivot), _real(node_mask, b, n, j)
    real = real_l[:, None] & real_j[None, :]  # (R, C)
    read_l, read_j = real_l[None, :] & (f < HEAD_DIM), real_j[None, :] & (f < HEAD_DIM)  # (F, R), (F, C)
    read = real[None, :, :] & (f3 < HEAD_DIM)
    q_l, v1_l = _edges(q, q_at, b, h, 0, pivot[None, :], f), _edges(v1, v1_at, b, h, 0, pivot[None, :], f)
    dout_j = _edges(dout, dout_at, b, h, 0, j[None, :], f)
    if KEY_IS_IJ:
        k_j = _edges(k, k_at, b, h, 0, j[None, :], f)
    else:
        key = _read(_edges(k, k_at, b, h, l3, j3, f3 * one), read, lse)
        dk_lj = tl.full((FEATURES, ROWS, COLUMNS), 0.0, lse.dtype.element_ty)
    if v2 is not None:
        v2_lj = _read(_edges(v2, v2_at, b, h, l3, j3, f3 * one), read, lse)
        dv2_lj = tl.full((FEATURES, ROWS, COLUMNS), 0.0, lse.dtype.element_ty)
    edge, keep_factor = tl.cast(bh, tl.int64) * n * n + j, _exact(keep_factor, lse)
    for i in tl.range(0, n, num_stages=STAGES):
        step, real_i = tl.cast(i, tl.int64), _runs(node_mask, b, n, i)
        read_il, read_ij = read_l & real_i, read_j & real_i
        q_il = _read(q_l + step * q_at[1], read_il, lse)[:, :, None]
        if KEY_IS_IJ:
            key = _read(k_j + step * k_at[1], read_ij, lse)[:, None, :]
        counts = _counts(causal_from, real & real_i, i, pivot[:, None], j[None, :])
        score = tl.where(counts, tl.sum(q_il * key, 0) * HEAD_DIM**-0.5, float("-inf"))
        weight = tl.exp(score - tl.load(lse + edge + i * n, mask=real_i & real_j, other=float("inf"))[None, :])
        factor = _read(v1_l + step * v1_at[1], read_il, lse)[:, :, None]  # what v2 is multiplied with
        factor = factor * _read(dout_j + step * dout_at[1], read_ij, lse)[:, None, :]
        if seed is not None:
            keep = _kept(seed, drop_limit, bh, n, i, pivot[:, None], j[None, :])
        if not KEY_IS_IJ:
            dweight = tl.sum(factor, 0) if v2 is None else tl.sum(v2_lj * factor, 0)
            if seed is not None:
                dweight = tl.where(keep, dweight * keep_factor, 0.0)
            dscore = weight * (dweight - tl.load(dot + edge + i * n, mask=real_i & real_j, other=0.0)[None, :])
            dk_lj += dscore[None, :, :] * q_il
        if v2 is not None:
            if seed is not None:
                weight = tl.where(keep, weight * keep_factor, 0.0)
            dv2_lj += weight[None, :, :] * factor
    inside = ((pivot < n)[:, None] & (j < n)[None, :])[None, :, :] & (f3 < HEAD_DIM)
    if not KEY_IS_IJ:
        place = _edges(dk, made_at, b, h, l3, j3, f3)
        tl.store(place, (dk_lj * HEAD_DIM**-0.5).to(dk.dtype.element_ty), mask=inside)
    if v2 is not None:
        tl.store(_edges(dv2, made_at, b, h, l3, j3, f3), dv2_lj.to(dv2.dtype.element_ty), mask=inside)


def _backward_ij(
    q: tensor, k: tensor, v1: tensor, v2: tensor, q_at: tensor, k_at: tensor, v1_at: tensor, v2_at: tensor,
    lse: tensor, dout: tensor, dout_at: tensor, dot: tensor, dk: tensor, made_at: tensor,
    node_mask: tensor, seed: tensor, n: tensor, heads: tensor, causal_from: tensor, drop_limit: tensor,
    keep_factor: float64, one: tensor, size: tensor, KEY_IS_IJ: constexpr, HEAD_DIM: constexpr,
    FEATURES: constexpr, ROWS: constexpr, COLUMNS: constexpr, STAGES: constexpr,
) -> None:  # fmt: skip
    """Gradient of k of edges ij, if key="ij". Pivots run."""
    bh, i, j = _tile(n, ROWS, COLUMNS)
    b, h = bh // heads, bh % heads
    f = tl.arange(0, FEATURES)[:, None]
    f3, i3, j3 = f[:, :, None], i[None, :, None], j[None, None, :]
    real_i, real_j = _real(node_mask, b, n, i), _real(node_mask, b, n, j)
    real = real_i[:, None] & real_j[None, :]  # (R, C)
    read_i, read_j = real_i[None, :] & (f < HEAD_DIM), real_j[None, :] & (f < HEAD_DIM)  # (F, R), (F, C)
    read = real[None, :, :] & (f3 < HEAD_DIM)
    key = _read(_edges(k, k_at, b, h, i3, j3, f3 * one), read, lse)
    dout_ij = _read(_edges(dout, dout_at, b, h, i3, j3, f3 * one), read, lse)
    q_i, v1_i = _edges(q, q_at, b, h, i[None, :], 0, f), _edges(v1, v1_at, b, h, i[None, :], 0, f)
    if v2 is not None:
        v2_j = _edges(v2, v2_at, b, h, 0, j[None, :], f)
    edge = tl.cast(bh, tl.int64) * n * n + i[:, None] * n + j[None, :]
    keep_factor = _exact(keep_factor, lse)
    lse_ij, dot_ij = tl.load(lse + edge, mask=real, other=float("inf")), tl.load(dot + edge, mask=real, other=0.0)
    dk_ij = tl.full((FEATURES, ROWS, COLUMNS), 0.0, lse.dtype.element_ty)
    for pivot in tl.range(0, n, num_stages=STAGES):
        step, real_l = tl.cast(pivot, tl.int64), _runs(node_mask, b, n, pivot)
        read_il, read_lj = read_i & real_l, read_j & real_l
        q_il = _read(q_i + step * q_at[2], read_il, lse)[:, :, None]
        counts = _counts(causal_from, real & real_l, i[:, None], pivot, j[None, :])
        score = tl.where(counts, tl.sum(q_il * key, 0) * HEAD_DIM**-0.5, float("-inf"))
        weight = tl.exp(score - lse_ij)
        factor = _read(v1_i + step * v1_at[2], read_il, lse)[:, :, None]  # what dout is multiplied with
        if v2 is not None:
            factor = factor * _read(v2_j + step * v2_at[1], read_lj, lse)[:, None, :]
        dweight = tl.sum(dout_ij * factor, 0)
        if seed is not None:
            keep = _kept(seed, drop_limit, bh, n, i[:, None], pivot, j[None, :])
            dweight = tl.where(keep, dweight * keep_factor, 0.0)
        dk_ij += (weight * (dweight - dot_ij))[None, :, :] * q_il
    inside = ((i < n)[:, None] & (j < n)[None, :])[None, :, :] & (f3 < HEAD_DIM)
    place = _edges(dk, made_at, b, h, i3, j3, f3)
    tl.store(place, (dk_ij * HEAD_DIM**-0.5).to(dk.dtype.element_ty), mask=inside)


# --- compiling and launching them ---------------------------------------------------------------------------------

_HELPERS = (_mix64, _mix32, _kept, _tile, _real, _runs, _counts, _edges, _read, _exact)
_KERNELS = {  # and how many blocks of (F, R, C) numbers each keeps in registers
    "forward": (_forward, 2),
    "backward_il": (_backward_il, 4),
    "backward_lj": (_backward_lj, 4),
    "backward_ij": (_backward_ij, 3),
}
_WORDS_A_THREAD = 128  # for those blocks, at most; a thread has 255 registers
_TILES = ((4, 4), (4, 8), (8, 8), (8, 16), (16, 16), (16, 32))
_INTERPRETED_TILE = {"ROWS": 4, "COLUMNS": 4, "STAGES": 1}  # so small that small graphs have many, some of them ragged
_NOT_SPECIALIZED = ("n", "causal_from", "drop_limit", "one", "size")  # no compiling again for another value


@functools.cache
def _kernels() -> dict[str, Any]:
    """The kernels, tuned for the GPU when they first run for a size; plain ones if they are interpreted."""
    triton: Any = importlib.import_module("triton")
    if tuple(map(int, triton.__version__.split(".")[:2])) < _OLDEST:
        raise RuntimeError(f"Triton {triton.__version__} is too old: {'.'.join(map(str, _OLDEST))} or newer is needed")
    language = triton.language
    names = {"tl": language, "tensor": language.tensor, "constexpr": language.constexpr, "float64": language.float64}
    if not _INTERPRETED:  # the interpreter runs plain functions as well, and much faster
        names |= {helper.__name__: triton.jit(helper) for helper in _HELPERS}
    globals().update(names)
    configs = [
        triton.Config({"ROWS": rows, "COLUMNS": columns, "STAGES": stages}, num_warps=warps, num_stages=stages)
        for rows, columns in _TILES
        for warps in (1, 2, 4, 8)
        for stages in (1, 3)
    ]
    compiled = {}
    for name, (function, blocks) in _KERNELS.items():
        kernel = triton.jit(function, do_not_specialize=_NOT_SPECIALIZED)
        if not _INTERPRETED:
            prune = {"early_config_prune": functools.partial(_worth_trying, blocks=blocks)}
            kernel = triton.autotune(configs, key=["size", "HEAD_DIM"], prune_configs_by=prune)(kernel)
        compiled[name] = kernel
    return compiled


def _worth_trying(configs: list[Any], named: dict[str, Any], *, blocks: int, **given: Any) -> list[Any]:
    """For each number of warps, the largest tile that has room in their registers and is not larger than the graph."""
    arguments = named | given
    words = blocks * arguments["FEATURES"] * arguments["lse"].element_size() // 4  # for an edge

    def fits(config: Any) -> bool:
        room = _WORDS_A_THREAD * 32 * config.num_warps
        return config.kwargs["COLUMNS"] <= max(4, arguments["size"]) and words * _edges_in(config) <= room

    largest = {(config.num_warps, config.num_stages): config for config in sorted(filter(fits, configs), key=_edges_in)}
    # Of configurations with the same tile, the one with the fewest warps.
    chosen = {(_edges_in(config), key[1]): config for key, config in sorted(largest.items(), reverse=True)}
    return list(chosen.values()) or [min(configs, key=lambda config: _edges_in(config) / config.num_warps)]


def _edges_in(config: Any) -> int:
    return int(config.kwargs["ROWS"] * config.kwargs["COLUMNS"])


def _launch(
    name: str,
    tensors: tuple[Tensor, Tensor, Tensor, Tensor | None],
    node_mask: Tensor | None,
    causal_from: int,
    key_is_ij: bool,
    dropout_p: float,
    seed: Tensor | None,
    **others: Any,
) -> None:
    q, k, v1, v2 = tensors
    batch, n, _, heads, head_dim = q.shape

    def programs(meta: dict[str, Any]) -> tuple[int]:
        return (batch * heads * -(-n // meta["ROWS"]) * -(-n // meta["COLUMNS"]),)

    arguments = {
        "q": q,
        "k": k,
        "v1": v1,
        "v2": v2,
        "q_at": q.stride(),
        "k_at": k.stride(),
        "v1_at": v1.stride(),
        "v2_at": None if v2 is None else v2.stride(),
        "node_mask": None if node_mask is None else node_mask.contiguous().view(torch.uint8),
        "seed": seed,
        "n": n,
        "heads": heads,
        "causal_from": None if causal_from < 0 else causal_from,
        "drop_limit": drop_below(dropout_p),
        "keep_factor": 1 / (1 - dropout_p),
        "one": 1,
        "size": 1 << (n - 1).bit_length(),
        "KEY_IS_IJ": key_is_ij,
        "HEAD_DIM": head_dim,
        "FEATURES": 1 << (head_dim - 1).bit_length(),
        "enable_fp_fusion": True,  # multiply-adds as one instruction
        **(_INTERPRETED_TILE if _INTERPRETED else {}),
    }
    with torch.cuda.device_of(q):
        _kernels()[name][programs](**arguments, **others)


# --- operators of PyTorch -----------------------------------------------------------------------------------------


@torch.library.custom_op("edge_transformer::triton_forward", mutates_args=())
def triton_forward(
    q: Tensor,
    k: Tensor,
    v1: Tensor,
    v2: Tensor | None,
    node_mask: Tensor | None,
    causal_from: int,
    key_is_ij: bool,
    dropout_p: float,
    seed: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Output and log-sum-exp."""
    out, lse = _empty_results(q)
    if q.numel() > 0:
        choice = (node_mask, causal_from, key_is_ij, dropout_p, seed)
        _launch("forward", (q, k, v1, v2), *choice, lse=lse, out=out, out_at=out.stride())
    return out, lse


def _empty_results(q: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    batch, n, _, heads, head_dim = q.shape
    return q.new_empty(batch, n, n, heads, head_dim), q.new_empty(batch, heads, n, n, dtype=_sums(q))


def _sums(q: Tensor) -> torch.dtype:
    """The number type that sums are computed in."""
    return torch.float64 if q.dtype == torch.float64 else torch.float32


triton_forward.register_fake(_empty_results)


@torch.library.custom_op("edge_transformer::triton_backward", mutates_args=())
def triton_backward(
    dout: Tensor,
    q: Tensor,
    k: Tensor,
    v1: Tensor,
    v2: Tensor | None,
    out: Tensor,
    lse: Tensor,
    node_mask: Tensor | None,
    causal_from: int,
    key_is_ij: bool,
    dropout_p: float,
    seed: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of q, k, v1 and v2; the last is empty where there is no v2."""
    dq, dk, dv1, dv2 = _empty_gradients(dout, q, k, v1, v2)
    if q.numel() == 0:
        return dq, dk, dv1, dv2
    dot = (dout.to(lse.dtype) * out).sum(-1).permute(0, 3, 1, 2).contiguous()  # (B, h, i, j)
    given: dict[str, Any] = {"lse": lse, "dout": dout, "dout_at": dout.stride(), "dot": dot, "made_at": dq.stride()}
    arguments = ((q, k, v1, v2), node_mask, causal_from, key_is_ij, dropout_p, seed)
    _launch("backward_il", *arguments, **given, dq=dq, dv1=dv1)
    if key_is_ij:
        _launch("backward_ij", *arguments, **given, dk=dk)
    if v2 is not None or not key_is_ij:
        _launch("backward_lj", *arguments, **given, dk=dk, dv2=dv2)
    return dq, dk, dv1, dv2


def _empty_gradients(
    dout: Tensor, q: Tensor, k: Tensor, v1: Tensor, v2: Tensor | None, *rest: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    shape = tuple(q.shape)
    return q.new_empty(shape), q.new_empty(shape), q.new_empty(shape), q.new_empty(0 if v2 is None else shape)


triton_backward.register_fake(_empty_gradients)


def _set_up(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v1, v2, node_mask, *ctx.options, seed = inputs
    ctx.save_for_backward(q, k, v1, v2, *output, node_mask, seed)
    ctx.set_materialize_grads(False)


def _gradients(ctx: Any, dout: Tensor | None, _dlse: Tensor | None) -> tuple[Tensor | None, ...]:
    if dout is None:
        return (None,) * 9
    *tensors, node_mask, seed = ctx.saved_tensors
    dq, dk, dv1, dv2 = triton_backward(dout, *tensors, node_mask, *ctx.options, seed)
    return dq, dk, dv1, None if tensors[3] is None else dv2, *(None,) * 5


triton_forward.register_autograd(_gradients, setup_context=_set_up)
