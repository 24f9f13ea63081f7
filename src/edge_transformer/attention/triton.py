"""The Triton engine: triangular attention for GPUs, forward and backward, in O(n^2 head_dim) memory.

A triangle (i, l, j) has three edges: il with q and v1, lj with k and v2, ij with the output. Each kernel gives a program a
tile of edges of one kind, keeps their vectors in registers and lets the third node run over the graph:

    forward                        owns edges ij, pivot l runs: online soft-max, output and log-sum-exp
    gradients of q and v1          owns edges il, end j runs
    gradients of k and v2          owns edges lj, start i runs
    gradient of k, key="ij"        owns edges ij, pivot l runs

A step loads one row of vectors for each side of the tile and uses each of them for the whole other side. Every number is
written by one program: no atomics, and the same bits every time. Scores are never stored; the backward pass makes them
again from the log-sum-exp. The work on values is no matrix product, so there are multiply-adds and no tensor cores, and
float32 is full float32. Numbers of 16 bits are computed in float32.

Dropout drops the same weights as the native engine for the same seed.

Triton is imported when a kernel first runs. With TRITON_INTERPRET=1 in the environment before that, the kernels run
without a GPU, in NumPy: for tests, and slowly.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from typing import Any

import torch
from torch import Tensor

from ..native import drop_below

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_INTERPRETED = os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "true", "yes", "on", "y")
_INTERPRETED_TILE = 4  # rows and columns: small, so that small graphs have several tiles and a ragged one


def _find() -> str | None:
    """Why Triton cannot be imported; None where it can. It is not imported for that."""
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None:
        return "Triton is not installed; pip install 'edge-transformer[gpu]'"
    return None


_MISSING = _find()  # once and here, not at first use: torch.compile cannot trace the search


def unavailable() -> str | None:
    """Why this engine cannot be used here; None where it can."""
    if _MISSING is not None:
        return _MISSING
    if not _INTERPRETED and not torch.cuda.is_available():
        return "there is no CUDA device (TRITON_INTERPRET=1 runs the kernels without one, slowly)"
    return None


def usable_for(tensor: Tensor) -> bool:
    """Whether the engine is there and computes this kind of tensor."""
    on_device = tensor.device.type == "cuda" or (_INTERPRETED and tensor.device.type == "cpu")
    return on_device and tensor.dtype in DTYPES and unavailable() is None


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
    """Arguments as in `einsum_attention`. `torch.manual_seed` decides what dropout drops."""
    if not usable_for(q):
        kinds = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
        reason = unavailable() or f"it computes {kinds} on a GPU, not {q.dtype} on {q.device}"
        raise ValueError(f'engine="triton" cannot be used: {reason}')
    # The seed stays on the device, where the kernels read it: nothing waits for the GPU.
    seed = torch.randint(2**62, (1,), device=q.device) if dropout_p > 0 else None
    first_target = -1 if causal_from is None else causal_from
    return triton_forward(q, k, v1, v2, node_mask, first_target, key == "ij", dropout_p, seed)[0]


# --- the kernels --------------------------------------------------------------------------------------------------
#
# Plain functions, so that this module needs no Triton; `_kernels` compiles them. Shapes are those of a tile: R rows,
# C columns, F features, padded to a power of two.

tl: Any = None  # triton.language, set by `_kernels`
tensor = Any
constexpr = Any  # marks what is known at compile time: Triton looks for this word in the annotations
float64 = Any  # the same for a scalar argument that Triton should not round to float32


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


def _kept(seed: tensor, drop_limit: tensor, graph_and_head: tensor, n: tensor, i: tensor, pivot: tensor, j: tensor) -> tensor:
    """Which attention weights dropout keeps: a function of the seed and of the place only."""
    of_head = _mix64(tl.load(seed).to(tl.uint64) ^ _mix64(graph_and_head.to(tl.uint64)))
    of_edge = _mix64(of_head + tl.cast(i, tl.uint64) * n.to(tl.uint64) + tl.cast(pivot, tl.uint64)).to(tl.uint32)
    return _mix32(of_edge + tl.cast(j, tl.uint32) * 0x9E3779B9) >= drop_limit.to(tl.uint32)


def _tile(n: tensor, ROWS: constexpr, COLUMNS: constexpr) -> tensor:
    """What this program owns: the number of its (batch, head) and the nodes of its rows and columns."""
    across = tl.cdiv(n, COLUMNS)
    tiles = tl.cdiv(n, ROWS) * across
    tile = tl.program_id(0) % tiles
    x = tile // across * ROWS + tl.arange(0, ROWS)
    y = tile % across * COLUMNS + tl.arange(0, COLUMNS)
    return tl.program_id(0) // tiles, x, y


def _real(node_mask: tensor, batch: tensor, n: tensor, node: tensor) -> tensor:
    """Whether these are nodes of the graph, not of the padding of the batch or of the tile."""
    inside = node < n
    if node_mask is not None:
        inside = tl.load(node_mask + batch * n + node, mask=inside, other=0) != 0
    return inside


def _counts(causal_from: tensor, real: tensor, i: tensor, pivot: tensor, j: tensor) -> tensor:
    """Whether triangles count: their nodes are real, and a target node is no pivot for an edge of earlier nodes."""
    if causal_from is not None:
        real = real & ((pivot < causal_from) | (pivot <= i) | (pivot <= j))
    return real


def _place(at: tensor, batch: tensor, head: tensor, x: tensor, y: tensor, feature: tensor) -> tensor:
    """Where the numbers of edges xy are, by the strides of their tensor. They may be more than 2^31 apart."""
    edge = tl.cast(x, tl.int64) * at[1] + tl.cast(y, tl.int64) * at[2]
    return batch.to(tl.int64) * at[0] + head * at[3] + edge + feature * at[4]


def _load(edges: tensor, at: tensor, batch: tensor, head: tensor, x: tensor, y: tensor, f: tensor, real: tensor, like: tensor) -> tensor:
    """Vectors of edges, zero for edges of padding nodes, which may hold anything; in the number type of the sums."""
    return tl.load(edges + _place(at, batch, head, x, y, f), mask=real, other=0.0).to(like.dtype.element_ty)


def _forward_kernel(
    q: tensor,
    k: tensor,
    v1: tensor,
    v2: tensor,
    q_at: tensor,
    k_at: tensor,
    v1_at: tensor,
    v2_at: tensor,
    node_mask: tensor,
    seed: tensor,
    out: tensor,
    out_at: tensor,
    lse: tensor,
    n: tensor,
    heads: tensor,
    causal_from: tensor,
    drop_limit: tensor,
    keep_factor: float64,
    size: tensor,
    KEY_IS_IJ: constexpr,
    HEAD_DIM: constexpr,
    FEATURES: constexpr,
    ROWS: constexpr,
    COLUMNS: constexpr,
) -> None:
    bh, i, j = _tile(n, ROWS, COLUMNS)
    b, h = bh // heads, bh % heads
    f = tl.arange(0, FEATURES)[None, :]
    ft = f[None, :, :]
    real_i, real_j = _real(node_mask, b, n, i), _real(node_mask, b, n, j)
    real_ij = real_i[:, None] & real_j[None, :]
    real_if, real_jf = real_i[:, None] & (f < HEAD_DIM), real_j[:, None] & (f < HEAD_DIM)
    if KEY_IS_IJ:
        k_ij = _load(k, k_at, b, h, i[:, None, None], j[None, :, None], ft, real_ij[:, :, None] & (ft < HEAD_DIM), lse)
    most = tl.full((ROWS, COLUMNS), float("-inf"), lse.dtype.element_ty)  # largest score so far
    total = tl.zeros((ROWS, COLUMNS), lse.dtype.element_ty)
    acc = tl.zeros((ROWS, COLUMNS, FEATURES), lse.dtype.element_ty)
    for l in range(n):
        real_l = _real(node_mask, b, n, l)
        q_il = _load(q, q_at, b, h, i[:, None], l, f, real_if & real_l, lse)  # (R, F)
        if KEY_IS_IJ:
            score = tl.sum(q_il[:, None, :] * k_ij, 2)
        else:
            k_lj = _load(k, k_at, b, h, l, j[:, None], f, real_jf & real_l, lse)
            score = tl.sum(q_il[:, None, :] * k_lj[None, :, :], 2)
        counts = _counts(causal_from, real_ij & real_l, i[:, None], l, j[None, :])
        score = tl.where(counts, score * HEAD_DIM**-0.5, float("-inf"))
        higher = tl.maximum(most, score)
        shift = tl.where(higher == float("-inf"), 0.0, higher)
        weight, shrink = tl.exp(score - shift), tl.exp(most - shift)
        most = higher
        total = total * shrink + weight
        if seed is not None:
            weight = tl.where(_kept(seed, drop_limit, bh, n, i[:, None], l, j[None, :]), weight, 0.0)
        v1_il = _load(v1, v1_at, b, h, i[:, None], l, f, real_if & real_l, lse)
        value = weight[:, :, None] * v1_il[:, None, :]
        if v2 is not None:
            v2_lj = _load(v2, v2_at, b, h, l, j[:, None], f, real_jf & real_l, lse)
            value = value * v2_lj[None, :, :]
        acc = acc * shrink[:, :, None] + value
    any_pivot = total > 0
    total = tl.where(any_pivot, total, 1.0)
    inside = (i < n)[:, None] & (j < n)[None, :]
    place = tl.cast(bh, tl.int64) * n * n + i[:, None] * n + j[None, :]
    tl.store(lse + place, tl.where(any_pivot, most + tl.log(total), float("inf")), mask=inside)
    acc = acc * (keep_factor / total)[:, :, None]
    where = _place(out_at, b, h, i[:, None, None], j[None, :, None], ft)
    tl.store(out + where, acc.to(out.dtype.element_ty), mask=inside[:, :, None] & (ft < HEAD_DIM))
