"""The kernels of the Triton engine: the mathematics of triton.py.

A triangle (i, l, j) has three edges: il with q and v1, lj with k and v2, ij with the output. In each kernel a program
owns a tile of edges of one kind, and the third node runs over the graph:

    forward      owns edges ij, pivot l runs: output and log-sum-exp, by online soft-max
    backward_il  owns edges il, end j runs: gradients of q, v1 and left
    backward_lj  owns edges lj, start i runs: gradients of k, v2 and right
    backward_ij  owns edges ij, pivot l runs: gradient of k if key="ij"

A step loads the vectors of one row and of one column of edges, and uses each for the whole other side of the tile. A
number is written by one program only, so there are no atomics, and the bits are the same every time. Scores are never
stored; the backward pass computes them again from the log-sum-exp. Mixing values is no product of matrices, so this is
multiply-adds without tensor cores: float32 is full float32, and 16-bit numbers are computed in float32.

Blocks are (F, R, C): features, rows and columns of the tile, all powers of two. Features come first because Triton
spreads the last dimensions over threads: a thread then has whole vectors of a few edges, and sums over features need no
exchange between threads. For sm_80 that makes a step of the forward kernel 5 times shorter than features last.

The kernels are plain functions, so that importing this module needs no Triton; `with_triton` makes them ready for it.
"""

from __future__ import annotations

from typing import Any

tl: Any = None  # triton.language; this and the next names are set by `with_triton`
tensor = Any  # a tensor of Triton: a pointer, a number, a block of either, or a tuple of strides
constexpr = Any  # known when a kernel is compiled; Triton looks for this word in the annotations
float64 = Any  # a number that Triton should not round to float32


def _mix64(x: tensor) -> tensor:
    """As in csrc/random.h."""
    x = x + 0x9E3779B97F4A7C15
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB
    return x ^ (x >> 31)


def _mix32(x: tensor) -> tensor:
    """As in csrc/random.h."""
    x = (x ^ (x >> 16)) * 0x85EBCA6B
    x = (x ^ (x >> 13)) * 0xC2B2AE35
    return x ^ (x >> 16)


def _kept(seed: tensor, drop_limit: tensor, bh: tensor, n: tensor, i: tensor, pivot: tensor, j: tensor) -> tensor:
    """Which weights dropout keeps. Only the seed and the place decide, in the way of csrc/attention_kernel.h."""
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


def _score(
    product: tensor, counts: tensor, left: tensor, right: tensor, bh: tensor, n: tensor, i: tensor, pivot: tensor,
    j: tensor, HEAD_DIM: constexpr,
) -> tensor:  # fmt: skip
    """The scores of triangles from q . k, with what their edges add to them; minus infinity if they do not count."""
    score, edge = tl.where(counts, product * HEAD_DIM**-0.5, float("-inf")), tl.cast(bh, tl.int64) * n * n
    read = score != float("-inf")
    if left is not None:
        score += tl.load(left + (edge + i * n + pivot + j * 0), mask=read, other=0.0)
    if right is not None:
        score += tl.load(right + (edge + pivot * n + j + i * 0), mask=read, other=0.0)
    return score


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
    left: tensor, right: tensor,
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
        score = _score(tl.sum(q_il * key, 0), counts, left, right, bh, n, i[:, None], pivot, j[None, :], HEAD_DIM)
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
    total = tl.where(total > 0, total, 1.0)  # edges without any pivot get zeros
    inside = (i < n)[:, None] & (j < n)[None, :]
    edge = tl.cast(bh, tl.int64) * n * n + i[:, None] * n + j[None, :]
    # Where there is no pivot, all scores are minus infinity: any larger number makes weights of zero of them again.
    tl.store(lse + edge, tl.where(most == float("-inf"), 0.0, most) + tl.log(total), mask=inside)
    mixed *= (_exact(keep_factor, lse) / total)[None, :, :]
    place = _edges(out, out_at, b, h, i3, j3, f3)
    tl.store(place, mixed.to(out.dtype.element_ty), mask=inside[None, :, :] & (f3 < HEAD_DIM))


def _backward_il(
    q: tensor, k: tensor, v1: tensor, v2: tensor, q_at: tensor, k_at: tensor, v1_at: tensor, v2_at: tensor,
    left: tensor, right: tensor,
    lse: tensor, dout: tensor, dout_at: tensor, dot: tensor, dq: tensor, dv1: tensor, made_at: tensor, dleft: tensor,
    node_mask: tensor, seed: tensor, n: tensor, heads: tensor, causal_from: tensor, drop_limit: tensor,
    keep_factor: float64, one: tensor, size: tensor, KEY_IS_IJ: constexpr, HEAD_DIM: constexpr,
    FEATURES: constexpr, ROWS: constexpr, COLUMNS: constexpr, STAGES: constexpr,
) -> None:  # fmt: skip
    """Gradients of q and v1, and of left, if there is one, of edges il. Ends j run."""
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
    dleft_il = tl.full((ROWS, COLUMNS), 0.0, lse.dtype.element_ty)
    for j in tl.range(0, n, num_stages=STAGES):
        step, real_j = tl.cast(j, tl.int64), _runs(node_mask, b, n, j)
        read_ij, read_lj = read_i & real_j, read_l & real_j
        if KEY_IS_IJ:
            key = _read(k_x + step * k_at[2], read_ij, lse)[:, :, None]
        else:
            key = _read(k_x + step * k_at[2], read_lj, lse)[:, None, :]
        counts = _counts(causal_from, real & real_j, i[:, None], pivot[None, :], j)
        score = _score(tl.sum(q_il * key, 0), counts, left, right, bh, n, i[:, None], pivot[None, :], j, HEAD_DIM)
        weight = tl.exp(score - tl.load(lse + edge + j, mask=real_i & real_j, other=float("inf"))[:, None])
        factor = _read(dout_i + step * dout_at[2], read_ij, lse)[:, :, None]  # what v1 is multiplied with
        if v2 is not None:
            factor = factor * _read(v2_l + step * v2_at[2], read_lj, lse)[:, None, :]
        dweight, used = tl.sum(v1_il * factor, 0), weight
        if seed is not None:
            keep = _kept(seed, drop_limit, bh, n, i[:, None], pivot[None, :], j)
            dweight, used = tl.where(keep, dweight * keep_factor, 0.0), tl.where(keep, weight * keep_factor, 0.0)
        dscore = weight * (dweight - tl.load(dot + edge + j, mask=real_i & real_j, other=0.0)[:, None])
        if left is not None:
            dleft_il += dscore
        dq_il += dscore[None, :, :] * key
        dv1_il += used[None, :, :] * factor
    inside = ((i < n)[:, None] & (pivot < n)[None, :])[None, :, :] & (f3 < HEAD_DIM)
    place = _edges(dq, made_at, b, h, i3, l3, f3)
    tl.store(place, (dq_il * HEAD_DIM**-0.5).to(dq.dtype.element_ty), mask=inside)
    tl.store(_edges(dv1, made_at, b, h, i3, l3, f3), dv1_il.to(dv1.dtype.element_ty), mask=inside)
    if left is not None:
        inside = (i < n)[:, None] & (pivot < n)[None, :]
        tl.store(dleft + (edge[:, None] + pivot[None, :]), dleft_il, mask=inside)


def _backward_lj(
    q: tensor, k: tensor, v1: tensor, v2: tensor, q_at: tensor, k_at: tensor, v1_at: tensor, v2_at: tensor,
    left: tensor, right: tensor,
    lse: tensor, dout: tensor, dout_at: tensor, dot: tensor, dk: tensor, dv2: tensor, made_at: tensor, dright: tensor,
    node_mask: tensor, seed: tensor, n: tensor, heads: tensor, causal_from: tensor, drop_limit: tensor,
    keep_factor: float64, one: tensor, size: tensor, KEY_IS_IJ: constexpr, HEAD_DIM: constexpr,
    FEATURES: constexpr, ROWS: constexpr, COLUMNS: constexpr, STAGES: constexpr,
) -> None:  # fmt: skip
    """Gradients of k, unless key="ij", and of v2 and right, if there are such, of edges lj. Starts i run."""
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
    dright_lj = tl.full((ROWS, COLUMNS), 0.0, lse.dtype.element_ty)
    edge, keep_factor = tl.cast(bh, tl.int64) * n * n + j, _exact(keep_factor, lse)
    for i in tl.range(0, n, num_stages=STAGES):
        step, real_i = tl.cast(i, tl.int64), _runs(node_mask, b, n, i)
        read_il, read_ij = read_l & real_i, read_j & real_i
        q_il = _read(q_l + step * q_at[1], read_il, lse)[:, :, None]
        if KEY_IS_IJ:
            key = _read(k_j + step * k_at[1], read_ij, lse)[:, None, :]
        counts = _counts(causal_from, real & real_i, i, pivot[:, None], j[None, :])
        score = _score(tl.sum(q_il * key, 0), counts, left, right, bh, n, i, pivot[:, None], j[None, :], HEAD_DIM)
        weight = tl.exp(score - tl.load(lse + edge + i * n, mask=real_i & real_j, other=float("inf"))[None, :])
        factor = _read(v1_l + step * v1_at[1], read_il, lse)[:, :, None]  # what v2 is multiplied with
        factor = factor * _read(dout_j + step * dout_at[1], read_ij, lse)[:, None, :]
        if seed is not None:
            keep = _kept(seed, drop_limit, bh, n, i, pivot[:, None], j[None, :])
        if not KEY_IS_IJ or right is not None:
            dweight = tl.sum(factor, 0) if v2 is None else tl.sum(v2_lj * factor, 0)
            if seed is not None:
                dweight = tl.where(keep, dweight * keep_factor, 0.0)
            dscore = weight * (dweight - tl.load(dot + edge + i * n, mask=real_i & real_j, other=0.0)[None, :])
            if right is not None:
                dright_lj += dscore
            if not KEY_IS_IJ:
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
    if right is not None:
        inside = (pivot < n)[:, None] & (j < n)[None, :]
        tl.store(dright + (edge[None, :] + pivot[:, None] * n), dright_lj, mask=inside)


def _backward_ij(
    q: tensor, k: tensor, v1: tensor, v2: tensor, q_at: tensor, k_at: tensor, v1_at: tensor, v2_at: tensor,
    left: tensor, right: tensor,
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
        score = _score(tl.sum(q_il * key, 0), counts, left, right, bh, n, i[:, None], pivot, j[None, :], HEAD_DIM)
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


_HELPERS = (_mix64, _mix32, _kept, _tile, _real, _runs, _counts, _score, _edges, _read, _exact)
_KERNELS = {
    "forward": (_forward, 2),
    "backward_il": (_backward_il, 4),
    "backward_lj": (_backward_lj, 4),
    "backward_ij": (_backward_ij, 3),
}


def with_triton(triton: Any, interpreted: bool) -> dict[str, tuple[Any, int]]:
    """The kernels for Triton to compile, and how many blocks of (F, R, C) numbers each keeps in registers."""
    language = triton.language
    names = {"tl": language, "tensor": language.tensor, "constexpr": language.constexpr, "float64": language.float64}
    if not interpreted:  # the interpreter runs plain functions as well, and much faster
        names |= {helper.__name__: triton.jit(helper) for helper in _HELPERS}
    globals().update(names)
    return _KERNELS
