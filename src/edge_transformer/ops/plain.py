"""Triangular attention and its gradients in ordinary operations of PyTorch, a few rows at a time.

The blocked engine is this code. The operators of every engine are differentiated through it where their own kernels
are not enough: forward-mode differentiation, and second derivatives. So nothing here writes into a tensor.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from .einsum import allowed_triangles, soft_max
from .engine import sums_in
from .operators import connect, zero_offsets

_NUMBERS_AT_ONCE = 1 << 22  # of a block's largest intermediate, unless a single row is larger
Kept = Callable[[slice], Tensor | None]  # of some rows i the factors of dropout, (B, i, l, j, h); None: no dropout


def attend(
    q: Tensor,
    k: Tensor,
    v1: Tensor,
    v2: Tensor | None,
    left: Tensor | None,
    right: Tensor | None,
    node_mask: Tensor | None,
    causal_from: int,
    key_is_ij: bool,
    kept: Kept,
) -> Tensor:
    """The output of triangular attention."""
    dtype = q.dtype
    with without_autocast(q.device):
        q, k, v1, v2 = _wide(q), _wide(k), _wide(v1), None if v2 is None else _wide(v2)
        out = []
        for rows in _rows(q):
            weights = _weights(q, k, left, right, node_mask, causal_from, key_is_ij, rows)
            keep = kept(rows)
            weights = weights if keep is None else weights * keep
            if v2 is None:
                out.append(torch.einsum("biljh,bilhd->bijhd", weights, v1[:, rows]))
            else:
                mixed = torch.einsum("biljh,bilhd->biljhd", weights, v1[:, rows])  # (B, c, l, j, h, d)
                out.append(torch.einsum("biljhd,bljhd->bijhd", mixed, v2))
        return torch.cat(out, 1).to(dtype)


def attend_backward(
    dout: Tensor,
    q: Tensor,
    k: Tensor,
    v1: Tensor,
    v2: Tensor | None,
    left: Tensor | None,
    right: Tensor | None,
    node_mask: Tensor | None,
    causal_from: int,
    key_is_ij: bool,
    kept: Kept,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of q, k, v1, v2, left and right; empty for what there is not."""
    dtype, n, scale = q.dtype, q.shape[1], q.shape[-1] ** -0.5
    with without_autocast(q.device):
        q, k, v1, v2, dout = _wide(q), _wide(k), _wide(v1), None if v2 is None else _wide(v2), _wide(dout)
        sums: list[list[Tensor]] = [[] for _ in range(6)]
        dq, dk, dv1, dv2, dleft, dright = sums
        for rows in _rows(q):
            weights = _weights(q, k, left, right, node_mask, causal_from, key_is_ij, rows)  # (B, c, l, j, h)
            keep = kept(rows)
            used = weights if keep is None else weights * keep
            dmixed = dout[:, rows, None] if v2 is None else dout[:, rows, None] * v2[:, None]  # (B, c, 1 or l, j, h, d)
            dweights = torch.einsum("biljhd,bilhd->biljh", dmixed.expand(-1, -1, n, -1, -1, -1), v1[:, rows])
            if keep is not None:
                dweights = dweights * keep
            dscores = weights * (dweights - (weights * dweights).sum(2, keepdim=True))
            if left is not None:
                dleft.append(dscores.sum(3).permute(0, 3, 1, 2))
            if right is not None:
                _add(dright, dscores.sum(1).permute(0, 3, 1, 2))
            dscores = dscores * scale
            dv1.append((used[..., None] * dmixed).sum(3))
            if v2 is not None:
                _add(dv2, torch.einsum("biljh,bijhd,bilhd->bljhd", used, dout[:, rows], v1[:, rows]))
            if key_is_ij:
                dq.append(torch.einsum("biljh,bijhd->bilhd", dscores, k[:, rows]))
                dk.append(torch.einsum("biljh,bilhd->bijhd", dscores, q[:, rows]))
            else:
                dq.append(torch.einsum("biljh,bljhd->bilhd", dscores, k))
                _add(dk, torch.einsum("biljh,bilhd->bljhd", dscores, q[:, rows]))
        first, second, third, fourth = (
            (torch.cat(each, 1) if each else q.new_empty(0)).to(dtype) for each in (dq, dk, dv1, dv2)
        )
        nothing = zero_offsets(q, None, None)[0]
        dlefts, drights = torch.cat(dleft, 2) if dleft else nothing, dright[0] if dright else nothing.clone()
        return first, second, third, fourth, dlefts, drights


def _rows(q: Tensor) -> Iterator[slice]:
    """Slices of rows i, so few that a block has about `_NUMBERS_AT_ONCE` numbers."""
    batch, n, _, heads, head_dim = q.shape
    step = max(1, _NUMBERS_AT_ONCE // max(1, batch * n * n * heads * head_dim))
    return (slice(start, min(n, start + step)) for start in range(0, max(1, n), step))


def _weights(
    q: Tensor,
    k: Tensor,
    left: Tensor | None,
    right: Tensor | None,
    node_mask: Tensor | None,
    causal_from: int,
    key_is_ij: bool,
    rows: slice,
) -> Tensor:
    """The attention weights of some rows before dropout: (B, c, l, j, h)."""
    if key_is_ij:
        scores = torch.einsum("bilhd,bijhd->biljh", q[:, rows], k[:, rows])
    else:
        scores = torch.einsum("bilhd,bljhd->biljh", q[:, rows], k)
    allowed = allowed_triangles(q.shape[1], node_mask, None if causal_from < 0 else causal_from, q.device, rows)
    return soft_max(scores * q.shape[-1] ** -0.5, None if left is None else left[:, :, rows], right, allowed)


def _add(sums: list[Tensor], term: Tensor) -> None:
    sums[:] = [sums[0] + term] if sums else [term]


def _wide(tensor: Tensor) -> Tensor:
    return tensor.to(sums_in(tensor.dtype))


def without_autocast(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Autocast would make the products of matrices 16-bit again."""
    if torch.amp.is_autocast_available(device.type):
        return torch.autocast(device.type, enabled=False)
    return contextlib.nullcontext()


# --- as the other way to differentiate an engine's operators ----------------------------------------------------------


def connect_separate(forward: OpOverload, backward: OpOverload) -> None:
    """Connect operators on q, k, v1 and v2."""

    def plain(
        q: Tensor,
        k: Tensor,
        v1: Tensor,
        v2: Tensor | None,
        left: Tensor | None,
        right: Tensor | None,
        node_mask: Tensor | None,
        causal_from: int,
        key_is_ij: bool,
        dropout_p: float,
        seed: Tensor | None,
    ) -> Tensor:
        return attend(q, k, v1, v2, left, right, node_mask, causal_from, key_is_ij, kept_of(q, dropout_p, seed))

    def plain_backward(
        dout: Tensor,
        q: Tensor,
        k: Tensor,
        v1: Tensor,
        v2: Tensor | None,
        left: Tensor | None,
        right: Tensor | None,
        node_mask: Tensor | None,
        causal_from: int,
        key_is_ij: bool,
        dropout_p: float,
        seed: Tensor | None,
    ) -> tuple[Tensor, ...]:
        kept = kept_of(q, dropout_p, seed)
        return attend_backward(dout, q, k, v1, v2, left, right, node_mask, causal_from, key_is_ij, kept)

    def kept_of(q: Tensor, dropout_p: float, seed: Tensor | None) -> Kept:
        """The factors of dropout as the operator itself draws them."""
        if seed is None:
            return _nothing_dropped
        n = q.shape[1]
        zero, unit = q.new_zeros(*q.shape[:-1], n), _units(q, n)
        return _factors(_ask(forward, dropout_p, seed, q=zero, k=zero, v1=unit), dropout_p)

    connect(forward, backward, plain, plain_backward)


def connect_packed(forward: OpOverload, backward: OpOverload) -> None:
    """Connect operators on q, k, v1 and v2 in one tensor."""

    def plain(
        parts: Tensor,
        left: Tensor | None,
        right: Tensor | None,
        node_mask: Tensor | None,
        causal_from: int,
        key_is_ij: bool,
        dropout_p: float,
        seed: Tensor | None,
    ) -> Tensor:
        kept = kept_of(parts, dropout_p, seed)
        return attend(*_parted(parts), left, right, node_mask, causal_from, key_is_ij, kept)

    def plain_backward(
        dout: Tensor,
        parts: Tensor,
        left: Tensor | None,
        right: Tensor | None,
        node_mask: Tensor | None,
        causal_from: int,
        key_is_ij: bool,
        dropout_p: float,
        seed: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        kept = kept_of(parts, dropout_p, seed)
        *made, dleft, dright = attend_backward(
            dout, *_parted(parts), left, right, node_mask, causal_from, key_is_ij, kept
        )
        return torch.stack(made[: parts.shape[3]], 3), dleft, dright

    def kept_of(parts: Tensor, dropout_p: float, seed: Tensor | None) -> Kept:
        if seed is None:
            return _nothing_dropped
        units = _packed_units(parts.select(3, 0), parts.shape[1])
        return _factors(_ask(forward, dropout_p, seed, parts=units), dropout_p)

    connect(forward, backward, plain, plain_backward)


def connect_groups(forward: OpOverload, backward: OpOverload) -> None:
    """Connect operators on graphs of several sizes, whose edges lie behind each other."""

    def plain(parts: Tensor, sizes: Sequence[int], key_is_ij: bool, dropout_p: float, seed: Tensor | None) -> Tensor:
        made = [
            attend(*_parted(part), None, None, None, -1, key_is_ij, kept).flatten(0, 2)
            for part, kept in groups(parts, parts, sizes, dropout_p, seed)
        ]
        return torch.cat(made)

    def plain_backward(
        dout: Tensor, parts: Tensor, sizes: Sequence[int], key_is_ij: bool, dropout_p: float, seed: Tensor | None
    ) -> Tensor:
        both = torch.cat([dout[:, None], parts], 1)
        made = [
            attend_backward(part.select(3, 0), *_parted(part[:, :, :, 1:]), None, None, None, -1, key_is_ij, kept)
            for part, kept in groups(both, parts, sizes, dropout_p, seed)
        ]
        return torch.cat([torch.stack(each[: parts.shape[1]], 3).flatten(0, 2) for each in made])

    def groups(
        tensor: Tensor, parts: Tensor, sizes: Sequence[int], dropout_p: float, seed: Tensor | None
    ) -> Iterator[tuple[Tensor, Kept]]:
        """Of each group its part of a tensor, and the factors of dropout."""
        shapes = [(batch, n, n) for batch, n in zip(sizes[::2], sizes[1::2], strict=True)]
        counts = [batch * n * n for batch, n, _ in shapes]
        asked: list[Tensor | None] = [None] * len(shapes)
        if seed is not None:
            widest = max(sizes[1::2])
            units = [
                _packed_units(part.unflatten(0, shape)[:, :, :, 0], widest).flatten(0, 2)
                for part, shape in zip(parts.split(counts), shapes, strict=True)
            ]
            made = _ask(forward, dropout_p, seed, parts=torch.cat(units), sizes=sizes)
            asked = [part.unflatten(0, shape) for part, shape in zip(made.split(counts), shapes, strict=True)]
        for part, shape, weights in zip(tensor.split(counts), shapes, asked, strict=True):
            kept = _nothing_dropped if weights is None else _factors(weights[..., : shape[1]], dropout_p)
            yield part.unflatten(0, shape), kept

    connect(forward, backward, plain, plain_backward)


def _parted(parts: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    q, k, v1, *v2 = parts.unbind(3)
    return q, k, v1, v2[0] if v2 else None


def _nothing_dropped(rows: slice) -> None:
    return None


def _units(q: Tensor, width: int) -> Tensor:
    """Values of all edges (i, l) of which that of pivot l is the unit vector l: (B, n, n, h, width)."""
    batch, n, _, heads, _ = q.shape
    return torch.eye(n, width, dtype=q.dtype, device=q.device)[:, None].expand(batch, n, n, heads, width)


def _packed_units(q: Tensor, width: int) -> Tensor:
    zero = q.new_zeros(*q.shape[:-1], width)
    return torch.stack([zero, zero, _units(q, width)], 3)


def _ask(forward: OpOverload, dropout_p: float, seed: Tensor, **tensors: Any) -> Tensor:
    """The first result of an operator for equal scores and unit vectors as values: which pivots it drops."""
    choice = {"causal_from": -1, "key_is_ij": False, "dropout_p": dropout_p, "seed": seed, **tensors}
    made = forward(*(choice.get(argument.name) for argument in forward._schema.arguments))
    return made if isinstance(made, Tensor) else made[0]


def _factors(weights: Tensor, dropout_p: float) -> Kept:
    """The factors of dropout from equal weights after it, (B, i, j, h, l)."""
    factors = (weights > 0).permute(0, 1, 4, 2, 3).to(sums_in(weights.dtype)) / (1 - dropout_p)
    return lambda rows: factors[:, rows]
