"""The native engine: native/attention.c called through ctypes, registered as PyTorch operators.

Being operators with fake and autograd registrations, they work under torch.compile, torch.export and gradient
checkpointing. There is one for separate q, k, v1, v2 and one for the four in a single tensor, as a layer's projection
gives them: its gradient comes back as a single tensor too, without a copy. native_groups.py has one for graphs of
several sizes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor

from .gradients import connect, empty_gradients
from .kernels import draw_seed, drop_below, library
from .operators import operator

SMALLEST_SHARE = 400_000  # multiply-adds that are worth a thread of their own


class Problem(ctypes.Structure):
    """`problem` in native/attention.c, field by field."""

    _POINTERS = ("q", "k", "v1", "v2", "mask", "out", "soft_max", "dout", "dq", "dk", "dv1", "dv2")
    _STRIDED = ("q", "k", "v1", "v2", "out", "dout", "dq", "dk", "dv1", "dv2")
    _fields_ = [
        *((name, ctypes.c_void_p) for name in _POINTERS),
        *((f"{name}_stride", ctypes.c_int64 * 4) for name in _STRIDED),
        ("scale", ctypes.c_double),
        ("keep_factor", ctypes.c_double),
        ("seed", ctypes.c_uint64),
        *((name, ctypes.c_int32) for name in ("batch", "n", "heads", "features", "causal_from", "key_is_ij")),
        ("drop_below", ctypes.c_uint32),
        *((name, ctypes.c_int32) for name in ("is_double", "threads", "isa", "padded")),
    ]

    @classmethod
    def of(
        cls,
        dtype: torch.dtype,
        batch: int,
        n: int,
        heads: int,
        features: int,
        causal_from: int,
        key_is_ij: bool,
        dropout_p: float,
        seed: int,
    ) -> Self:
        """A problem without its tensors."""
        work = 3 * batch * heads * n**3 * features
        return cls(
            scale=features**-0.5,
            keep_factor=1 / (1 - dropout_p),
            seed=seed,
            batch=batch,
            n=n,
            heads=heads,
            features=features,
            causal_from=causal_from,
            key_is_ij=key_is_ij,
            drop_below=drop_below(dropout_p),
            is_double=dtype == torch.float64,
            threads=min(torch.get_num_threads(), work // SMALLEST_SHARE),
            isa=-1,
        )


def native_attention(
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
    arguments = (node_mask, -1 if causal_from is None else causal_from, key == "ij", dropout_p, draw_seed(dropout_p))
    return separate_forward(q, k, v1, v2, *arguments)[0]


def native_attention_packed(
    parts: Tensor, node_mask: Tensor | None, causal_from: int | None, key: str, dropout_p: float
) -> Tensor:
    """The same for `[batch, n, n, 3 or 4, heads, head_dim]`: q, k, v1 and, but for the value ablation, v2."""
    arguments = (node_mask, -1 if causal_from is None else causal_from, key == "ij", dropout_p, draw_seed(dropout_p))
    return packed_forward(parts, *arguments)[0]


def _call(
    function: str,
    tensors: dict[str, Tensor | None],
    node_mask: Tensor | None,
    soft_max: Tensor,
    causal_from: int,
    key_is_ij: bool,
    dropout_p: float,
    seed: Tensor | None,
) -> None:
    q = tensors["q"]
    assert q is not None
    batch, n, _, heads, features = q.shape
    number = 0 if seed is None else int(seed)
    problem = Problem.of(q.dtype, batch, n, heads, features, causal_from, key_is_ij, dropout_p, number)
    problem.soft_max = soft_max.data_ptr()
    problem.mask = None if node_mask is None else node_mask.data_ptr()
    for name, tensor in tensors.items():
        if tensor is not None:
            setattr(problem, name, tensor.data_ptr())
            setattr(problem, f"{name}_stride", (ctypes.c_int64 * 4)(*tensor.stride()[:4]))
    run_kernel(function, problem)


def run_kernel(function: str, problem: Problem, *more: Any) -> None:
    """Call a function of native/attention.c."""
    if getattr(library(), f"edge_transformer_{function}")(ctypes.byref(problem), *more):
        raise MemoryError("triangular attention ran out of memory")


def _readable(tensor: Tensor | None) -> Tensor | None:
    """The kernel reads any strides but needs the features of an edge side by side."""
    return tensor if tensor is None or tensor.stride(-1) == 1 or tensor.shape[-1] == 1 else tensor.contiguous()


def _forward(
    tensors: Sequence[Tensor | None],
    node_mask: Tensor | None,
    causal_from: int,
    key_is_ij: bool,
    dropout_p: float,
    seed: Tensor | None,
) -> tuple[Tensor, Tensor]:
    q, k, v1, v2 = map(_readable, tensors)
    assert q is not None
    out = torch.empty(q.shape, dtype=q.dtype)
    soft_max = q.new_zeros(q.shape[0], q.shape[3], 2, q.shape[1], q.shape[2])
    mask = None if node_mask is None else node_mask.contiguous()
    named = {"q": q, "k": k, "v1": v1, "v2": v2, "out": out}
    _call("forward", named, mask, soft_max, causal_from, key_is_ij, dropout_p, seed)
    return out, soft_max


def _backward(
    dout: Tensor,
    tensors: Sequence[Tensor | None],
    gradients: Sequence[Tensor | None],
    out: Tensor,
    soft_max: Tensor,
    node_mask: Tensor | None,
    causal_from: int,
    key_is_ij: bool,
    dropout_p: float,
    seed: Tensor | None,
) -> None:
    q, k, v1, v2 = map(_readable, tensors)
    dq, dk, dv1, dv2 = gradients
    mask = None if node_mask is None else node_mask.contiguous()
    named = {"q": q, "k": k, "v1": v1, "v2": v2, "out": out, "dout": _readable(dout)}
    named |= {"dq": dq, "dk": dk, "dv1": dv1, "dv2": dv2}
    _call("backward", named, mask, soft_max, causal_from, key_is_ij, dropout_p, seed)


# --- operators on separate tensors --------------------------------------------------------------------------------


@operator("separate_forward", device="cpu")
def separate_forward(
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
    """Output, and what its soft-max subtracted and multiplied with: `[batch, heads, 2, n, n]`."""
    return _forward((q, k, v1, v2), node_mask, causal_from, key_is_ij, dropout_p, seed)


@separate_forward.register_fake
def _(q: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    batch, n, _, heads, features = q.shape
    return q.new_empty(batch, n, n, heads, features), q.new_empty(batch, heads, 2, n, n)


@operator("separate_backward", device="cpu")
def separate_backward(
    dout: Tensor,
    q: Tensor,
    k: Tensor,
    v1: Tensor,
    v2: Tensor | None,
    out: Tensor,
    soft_max: Tensor,
    node_mask: Tensor | None,
    causal_from: int,
    key_is_ij: bool,
    dropout_p: float,
    seed: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of q, k, v1 and v2; the last is empty where there is no v2."""
    dq, dk, dv1, dv2 = empty_gradients(dout, q, k, v1, v2)
    gradients = (dq, dk, dv1, None if v2 is None else dv2)
    _backward(dout, (q, k, v1, v2), gradients, out, soft_max, node_mask, causal_from, key_is_ij, dropout_p, seed)
    return dq, dk, dv1, dv2


connect(separate_forward, separate_backward)


# --- operators on one packed tensor -------------------------------------------------------------------------------


def _split(parts: Tensor) -> list[Tensor | None]:
    """q, k, v1 and v2 (None where there are three parts) as views."""
    return [*parts.unbind(3), *((None,) if parts.shape[3] == 3 else ())]


@operator("packed_forward", device="cpu")
def packed_forward(
    parts: Tensor,
    node_mask: Tensor | None,
    causal_from: int,
    key_is_ij: bool,
    dropout_p: float,
    seed: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Output, and what its soft-max subtracted and multiplied with: `[batch, heads, 2, n, n]`."""
    return _forward(_split(parts), node_mask, causal_from, key_is_ij, dropout_p, seed)


@packed_forward.register_fake
def _(parts: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    batch, n, _, _, heads, features = parts.shape
    return parts.new_empty(batch, n, n, heads, features), parts.new_empty(batch, heads, 2, n, n)


@operator("packed_backward", device="cpu")
def packed_backward(
    dout: Tensor,
    parts: Tensor,
    out: Tensor,
    soft_max: Tensor,
    node_mask: Tensor | None,
    causal_from: int,
    key_is_ij: bool,
    dropout_p: float,
    seed: Tensor | None,
) -> Tensor:
    """The gradient of the parts."""
    gradient = torch.empty(parts.shape, dtype=parts.dtype)
    options = (node_mask, causal_from, key_is_ij, dropout_p, seed)
    _backward(dout, _split(parts), _split(gradient), out, soft_max, *options)
    return gradient


@packed_backward.register_fake
def _(dout: Tensor, parts: Tensor, *rest: Any) -> Tensor:
    return parts.new_empty(tuple(parts.shape))


def _packed_setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    parts, node_mask, *ctx.options, seed = inputs
    ctx.save_for_backward(parts, *output, node_mask, seed)
    ctx.set_materialize_grads(False)


def _packed_gradient(ctx: Any, dout: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, ...]:
    if dout is None:
        return (None,) * 6
    parts, out, soft_max, node_mask, seed = ctx.saved_tensors
    return packed_backward(dout, parts, out, soft_max, node_mask, *ctx.options, seed), *(None,) * 5


packed_forward.register_autograd(_packed_gradient, setup_context=_packed_setup)
packed_backward.refuse_gradients()
