"""Triangular attention: one function, interchangeable engines.

The update of edge (i, j) mixes a value for every triangle (i, l, j), that is for every way through a third node l:

    out_ij = sum_l softmax_l(q_il . k_lj / sqrt(head_dim) + left_il + right_lj) * (v1_il * v2_lj)

where left and right are biases, zero unless they are given.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Literal, overload

import torch
from torch import Tensor

from .blocked import BLOCKED
from .einsum import EINSUM
from .engine import Bias, Engine, Options
from .native import NATIVE
from .triton import TRITON

KEYS = ("lj", "ij")
VALUES = ("product", "left")
# From the plainest to the fastest: "auto" takes the last one that prefers to compute a tensor.
ENGINES: dict[str, Engine] = {engine.name: engine for engine in (EINSUM, BLOCKED, NATIVE, TRITON)}


@overload
def triangular_attention(
    q: Tensor,
    k: Tensor,
    v1: Tensor,
    v2: Tensor | None,
    *,
    node_mask: Tensor | None = None,
    edge_mask: Tensor | None = None,
    bias: Bias = None,
    causal_from: int | None = None,
    key: str = "lj",
    value: str = "product",
    dropout_p: float = 0.0,
    engine: str = "auto",
    need_weights: Literal[False] = False,
) -> Tensor: ...


@overload
def triangular_attention(
    q: Tensor,
    k: Tensor,
    v1: Tensor,
    v2: Tensor | None,
    *,
    node_mask: Tensor | None = None,
    edge_mask: Tensor | None = None,
    bias: Bias = None,
    causal_from: int | None = None,
    key: str = "lj",
    value: str = "product",
    dropout_p: float = 0.0,
    engine: str = "auto",
    need_weights: Literal[True],
) -> tuple[Tensor, Tensor]: ...


def triangular_attention(
    q: Tensor,
    k: Tensor,
    v1: Tensor,
    v2: Tensor | None,
    *,
    node_mask: Tensor | None = None,
    edge_mask: Tensor | None = None,
    bias: Bias = None,
    causal_from: int | None = None,
    key: str = "lj",
    value: str = "product",
    dropout_p: float = 0.0,
    engine: str = "auto",
    need_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Triangular attention over all pairs of nodes.

    Args:
        q, k, v1, v2: `[batch, n, n, heads, head_dim]`, one vector an edge and head.
        node_mask: bool `[batch, n]`, True for a real node. Edges of padding nodes come out as zero.
        edge_mask: bool `[batch, n, n]`, True for an edge that is there. An edge that is not takes part in no triangle:
            (i, l, j) counts if (i, l) and (l, j) are there. The updated edge (i, j) need not be: it can be predicted.
        bias: what edges add to the scores, a pair (left, right), each `[batch, heads, n, n]` or None: left_il is added
            for edge (i, l) and right_lj for (l, j). A single tensor stands for both. Batch and heads may be 1, for all
            alike. -inf excludes the edge as `edge_mask` does, in that place and head. A bias has gradients.
        causal_from: the first target node of a decoder's graph. Target nodes are no pivots for edges among earlier
            nodes, so that no edge sees the future. None for a graph without order.
        key: "lj" as in the paper; "ij" is its attention ablation (the key comes from the edge that is updated).
        value: "product" as in the paper; "left" is its value ablation (v1 alone; `v2` may be None).
        dropout_p: probability of dropping an attention weight. Give 0 outside training.
        engine: "auto" or the name of one of `ENGINES`.
        need_weights: whether to return the weights too. The engines einsum and blocked have them.

    Returns:
        `[batch, n, n, heads, head_dim]`. An edge all of whose pivots are masked gets zeros. With `need_weights`, a pair
        of that and the weights before dropout, `[batch, heads, i, l, j]`: those of an edge (i, j) over its pivots l sum
        to 1, or to 0 where there is no pivot. They have gradients too.
    """
    options = Options(node_mask, causal_from, key, dropout_p, edge_mask, bias)
    _check(q, options)
    _check_others(q, k, v1, v2, value)
    chosen = resolve_engine(engine, q, options, need_weights)
    out = chosen.attend(q, k, v1, None if value == "left" else v2, options)
    return (out, chosen.weights(q, k, options)) if need_weights else out


def packed_triangular_attention(
    parts: Tensor,
    *,
    node_mask: Tensor | None = None,
    edge_mask: Tensor | None = None,
    bias: Bias = None,
    causal_from: int | None = None,
    key: str = "lj",
    dropout_p: float = 0.0,
    engine: str = "auto",
) -> Tensor:
    """`triangular_attention` of q, k, v1 and v2 in one tensor, `[batch, n, n, 4, heads, head_dim]`; 3 without v2.

    It spares an engine that knows such tensors a copy of their gradients.
    """
    if parts.dim() != 6 or parts.shape[3] not in (3, 4):
        raise ValueError(
            f"parts must be [batch, n, n, 3 or 4, heads, head_dim], but their shape is {list(parts.shape)}"
        )
    options = Options(node_mask, causal_from, key, dropout_p, edge_mask, bias)
    _check(parts.select(3, 0), options)
    return resolve_engine(engine, parts, options).attend_packed(parts, options)


def grouped_triangular_attention(
    parts: Tensor,
    sizes: Sequence[tuple[int, int]],
    *,
    key: str = "lj",
    dropout_p: float = 0.0,
    engine: str = "auto",
) -> Tensor:
    """`packed_triangular_attention` of graphs of several sizes, whose edges lie behind each other.

    There are no masks and no biases here: what lies in `parts` is there.

    Args:
        parts: `[edges, 4, heads, head_dim]`; 3 without v2.
        sizes: for each group of graphs their number and how many nodes each has.

    Returns:
        `[edges, heads, head_dim]`.
    """
    counts = [batch * n * n for batch, n in sizes]
    if parts.dim() != 4 or parts.shape[1] not in (3, 4) or sum(counts) != len(parts) or min(parts.shape[2:]) < 1:
        raise ValueError(
            f"parts must be [edges={sum(counts)}, 3 or 4, heads, head_dim], but their shape is {list(parts.shape)}"
        )
    options = Options(key=key, dropout_p=dropout_p)
    _check_options(options, parts.dtype)
    chosen = resolve_engine(engine, parts)
    return chosen.attend_groups(parts, sizes, options) if sizes else parts[:, 0]


def check_engine(engine: str) -> None:
    """Refuse a name that no engine has."""
    if engine != "auto" and engine not in ENGINES:
        raise ValueError(f"engine={engine!r} is not known; choose one of {['auto', *ENGINES]}")


def resolve_engine(engine: str, like: Tensor, options: Options | None = None, need_weights: bool = False) -> Engine:
    """The engine that runs for this request on tensors like this one."""
    check_engine(engine)
    options = Options() if options is None else options
    if engine != "auto":
        reason, lacking = ENGINES[engine].why_not(like), ENGINES[engine].lacks(options, need_weights)
        if reason is None and lacking is not None:
            able = [name for name, other in ENGINES.items() if other.lacks(options, need_weights) is None]
            reason = f"it has no {lacking}; engines that do: {', '.join(able)}"
        if reason is not None:
            raise ValueError(f'engine="{engine}" cannot be used: {reason}')
        return ENGINES[engine]
    for candidate in reversed(ENGINES.values()):
        if candidate.lacks(options, need_weights) is not None:
            continue
        if candidate.preferred_for(like):
            return candidate
        _hint_at(candidate, like)
    raise ValueError(f"no engine computes {like.dtype} on {like.device}")


_hinted = False


def _hint_at(engine: Engine, like: Tensor) -> None:
    """Say once a process that an engine would compute this tensor faster, if it were there."""
    global _hinted
    if engine.remedy is None or torch.compiler.is_compiling():  # a trace must depend on nothing that changes
        return
    reason = None if _hinted or not engine.takes(like) else engine.unavailable()
    if reason is None:
        return
    _hinted = True
    warnings.warn(
        f"triangular attention runs in plain PyTorch, which is slower: {reason}. {engine.remedy}; "
        "`edge-transformer info` tells more.",
        stacklevel=4,
    )


def _check(q: Tensor, options: Options) -> None:
    """Refuse what would otherwise fail deep inside an engine, or quietly compute nonsense."""
    node_mask, causal_from = options.node_mask, options.causal_from
    _check_options(options, q.dtype)
    if q.dim() != 5 or q.shape[1] != q.shape[2]:
        raise ValueError(f"q must be [batch, n, n, heads, head_dim], but its shape is {list(q.shape)}")
    if min(q.shape[1:]) < 1:
        raise ValueError(f"n, heads and head_dim must be at least 1, but the shape of q is {list(q.shape)}")
    if node_mask is not None:
        if node_mask.dtype != torch.bool or node_mask.shape != q.shape[:2]:
            raise ValueError(
                f"node_mask must be bool [batch, n] = {list(q.shape[:2])}, "
                f"but is {node_mask.dtype} {list(node_mask.shape)}"
            )
        if node_mask.device != q.device:
            raise ValueError(f"node_mask is on {node_mask.device}, but q is on {q.device}")
    _check_edges(q, options)
    if causal_from is not None and not 0 <= causal_from <= q.shape[1]:
        raise ValueError(f"causal_from must lie between 0 and n={q.shape[1]}, but is {causal_from}")


def _check_edges(q: Tensor, options: Options) -> None:
    """Refuse masks and biases of edges that are not for these edges."""
    batch, n, _, heads, _ = q.shape
    mask, pair = options.edge_mask, options.bias if isinstance(options.bias, tuple) else (options.bias, options.bias)
    if len(pair) != 2 or not all(one is None or isinstance(one, Tensor) for one in pair):
        raise ValueError("bias must be a tensor or a pair (left, right) of tensors, either of which may be None")
    for name, one in (("edge_mask", mask), *(("bias", one) for one in pair)):
        if one is not None and one.device != q.device:
            raise ValueError(f"{name} is on {one.device}, but q is on {q.device}")
    if mask is not None and (mask.dtype != torch.bool or mask.shape != (batch, n, n)):
        raise ValueError(
            f"edge_mask must be bool [batch, n, n] = {[batch, n, n]}, but is {mask.dtype} {list(mask.shape)}"
        )
    for one in pair:
        if one is None:
            continue
        fits = one.dim() == 4 and one.shape[0] in (1, batch) and one.shape[1] in (1, heads) and one.shape[2:] == (n, n)
        if not fits or not one.dtype.is_floating_point:
            raise ValueError(
                f"bias must be floating point [batch, heads, n, n] = {[batch, heads, n, n]}, or 1 for batch or heads, "
                f"but is {one.dtype} {list(one.shape)}"
            )


def _check_others(q: Tensor, k: Tensor, v1: Tensor, v2: Tensor | None, value: str) -> None:
    """Refuse k, v1 and v2 that are unlike q."""
    if value not in VALUES:
        raise ValueError(f"value={value!r} is not known; choose one of {list(VALUES)}")
    if v2 is None and value == "product":
        raise ValueError('value="product" needs v2; it may be None only with value="left"')
    for name, tensor in (("k", k), ("v1", v1), ("v2", v2)):
        if tensor is None:
            continue
        if tensor.shape != q.shape:
            raise ValueError(f"{name} must have the shape of q, {list(q.shape)}, but has {list(tensor.shape)}")
        if tensor.dtype != q.dtype or tensor.device != q.device:
            raise ValueError(
                f"{name} is {tensor.dtype} on {tensor.device}, but q is {q.dtype} on {q.device}; they must agree"
            )


def _check_options(options: Options, dtype: torch.dtype) -> None:
    if options.key not in KEYS:
        raise ValueError(f"key={options.key!r} is not known; choose one of {list(KEYS)}")
    if not 0.0 <= options.dropout_p < 1.0:
        raise ValueError(f"dropout_p must be at least 0 and below 1, but is {options.dropout_p}")
    if not dtype.is_floating_point:
        raise ValueError(f"q, k, v1 and v2 must be floating point, but are {dtype}")
