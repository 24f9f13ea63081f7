"""The native engine: C without PyTorch or Python headers (csrc/), called through ctypes as operators of PyTorch.

Being operators with fake and autograd registrations, they work under torch.compile, torch.export and gradient
checkpointing. There are three pairs of them, for

    separate  q, k, v1 and v2 on their own
    packed    the four in a single tensor, as a layer's projection gives them: their gradient is a single tensor too
    groups    the same for graphs of several sizes, whose edges lie behind each other: a batch without padding has a
              dozen sizes, and one output and one gradient that every size writes its part of, without a copy
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .engine import Engine, Options, drop_below, sums_in
from .memory import Memory, NativeMemory
from .operators import empty_gradients, operator, zero_offsets
from .plain import connect_groups, connect_packed, connect_separate

# --- the compiled library ---------------------------------------------------------------------------------------------

VERSION = 6  # of the C interface; the compiled library must say the same
_VECTOR_CODE = ("portable", "AVX2", "AVX-512")


def _load() -> ctypes.CDLL | str:
    """The compiled library, or why there is none."""
    found = Path(__file__).with_name("_kernels.so")  # of no Python in particular: any of them can load it
    if not found.exists():
        if not (found.parents[3] / "setup.py").exists():
            return "no compiled kernels: there was no working C compiler when the package was installed"
        return f"no compiled kernels: build them with a C compiler and pip install -e {found.parents[3]}"
    try:
        compiled = ctypes.CDLL(str(found))
        version = compiled.edge_transformer_version()
    except (OSError, AttributeError) as error:
        return f"the compiled kernels cannot be loaded: {error}"
    if version != VERSION:
        return f"{found.name} is of version {version}, not {VERSION}: install the package again"
    compiled.edge_transformer_use_pool(_torch_threads())
    return compiled


def _torch_threads() -> ctypes.c_void_p | None:
    """The function that runs work on the threads of GNU's OpenMP, which PyTorch's builds for Linux use; None elsewhere.

    A process with a second OpenMP that was loaded before gives that one, which works too.
    """
    try:
        return ctypes.cast(ctypes.CDLL(None).GOMP_parallel, ctypes.c_void_p)
    except (AttributeError, TypeError):  # not GNU's OpenMP, or a system without a table of all loaded functions
        return None


_LOADED = _load()  # once and here, not at first use: torch.compile cannot trace the loading


def library() -> ctypes.CDLL:
    """The compiled library."""
    if isinstance(_LOADED, str):
        raise RuntimeError(_LOADED)
    return _LOADED


def vector_code() -> str:
    """The kind of vector instructions that this CPU runs."""
    return _VECTOR_CODE[library().edge_transformer_best_isa()]


# --- the engine -------------------------------------------------------------------------------------------------------


DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


class NativeEngine(Engine):
    """Compiled C for the CPU, in O(n^2 head_dim) memory for each (batch, head); 16-bit numbers by way of float32."""

    name = "native"
    about = "compiled C"
    computes = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES) + " on the CPU"
    takes_offsets = True
    remedy = "Install a C compiler and install the package again"

    def describe(self) -> str:
        threads = "threads of its own" if _torch_threads() is None else "PyTorch's threads"
        return f"{self.about}, {vector_code()} vector code, on {threads}"

    def unavailable(self) -> str | None:
        return _LOADED if isinstance(_LOADED, str) else None

    def takes(self, tensor: Tensor) -> bool:
        return tensor.device.type == "cpu" and tensor.dtype in DTYPES

    def attend(self, q: Tensor, k: Tensor, v1: Tensor, v2: Tensor | None, options: Options) -> Tensor:
        return separate_forward(q, k, v1, v2, *options.offsets(q), *options.arguments())[0]

    def attend_packed(self, parts: Tensor, options: Options) -> Tensor:
        return packed_forward(parts, *options.offsets(parts.select(3, 0)), *options.arguments())[0]

    def attend_groups(self, parts: Tensor, sizes: Sequence[tuple[int, int]], options: Options) -> Tensor:
        _, _, *choice = options.arguments()
        return groups_forward(parts, [number for size in sizes for number in size], *choice)[0]

    def memory(self, parts: Tensor, key: str, capacity: int) -> Memory:
        if not has_kernels_for(parts):
            return super().memory(parts, key, capacity)
        return NativeMemory(parts, key, capacity, library().edge_transformer_decoding_step)


NATIVE = NativeEngine()


def has_kernels_for(tensor: Tensor) -> bool:
    """Whether the compiled kernels compute with these numbers as they are, without converting them."""
    return NATIVE.usable_for(tensor) and tensor.dtype == sums_in(tensor.dtype)


# --- calls of csrc/attention.c ----------------------------------------------------------------------------------------

SMALLEST_SHARE = 400_000  # multiply-adds that are worth a thread of their own
_NAMES = ("q", "k", "v1", "v2", "left", "right")
_Strides = ctypes.c_int64 * 4


class Problem(ctypes.Structure):
    """`problem` in csrc/attention.c, field by field."""

    _POINTERS = (
        *("q", "k", "v1", "v2", "left", "right", "mask", "out", "soft_max"),
        *("dout", "dq", "dk", "dv1", "dv2", "dleft", "dright"),
    )
    _STRIDED = ("q", "k", "v1", "v2", "out", "dout", "dq", "dk", "dv1", "dv2", "left", "right", "dleft", "dright")
    _fields_ = [
        *((name, ctypes.c_void_p) for name in _POINTERS),
        *((f"{name}_stride", _Strides) for name in _STRIDED),
        ("scale", ctypes.c_double),
        ("keep_factor", ctypes.c_double),
        ("seed", ctypes.c_uint64),
        *((name, ctypes.c_int32) for name in ("batch", "n", "heads", "features", "causal_from", "key_is_ij")),
        ("drop_below", ctypes.c_uint32),
        *((name, ctypes.c_int32) for name in ("is_double", "threads", "isa", "padded")),
    ]


def _run(
    function: str,
    tensors: Mapping[str, Tensor],
    soft_max: Tensor,
    choice: tuple[Tensor | None, int, bool, float, Tensor | None],
    sizes: Sequence[int] = (),
) -> None:
    """Compute "forward" or "backward". Tensors by their names in C are all `[batch, n, n, heads, features]`, or all
    `[edges, heads, features]` for groups of graphs, whose numbers and nodes are `sizes`.
    """
    node_mask, causal_from, key_is_ij, dropout_p, seed = choice
    *edges, heads, features = tensors["q"].shape
    is_grouped = len(edges) == 1
    batch, n = (0, 0) if is_grouped else edges[:2]
    mask = None if node_mask is None else node_mask.contiguous()
    threads = torch.get_num_threads()
    problem = Problem(
        mask=None if mask is None else mask.data_ptr(),
        soft_max=soft_max.data_ptr(),
        scale=features**-0.5,
        keep_factor=1 / (1 - dropout_p),
        seed=0 if seed is None else int(seed),
        batch=batch,
        n=n,
        heads=heads,
        features=features,
        causal_from=causal_from,
        key_is_ij=key_is_ij,
        drop_below=drop_below(dropout_p),
        is_double=soft_max.dtype == torch.float64,
        threads=threads if is_grouped else min(threads, 3 * batch * heads * n**3 * features // SMALLEST_SHARE),
        isa=-1,
    )
    unknown = (0, 0) if is_grouped else ()  # strides of graphs and rows: C finds those of each group from that of edges
    for name, tensor in tensors.items():
        setattr(problem, name, tensor.data_ptr())
        setattr(problem, f"{name}_stride", _Strides(*unknown, *tensor.stride()[:-1]))
    groups: tuple[Any, ...] = ()
    if is_grouped:
        count, share = ctypes.c_int64(len(sizes) // 2), ctypes.c_int64(SMALLEST_SHARE)
        groups = (ctypes.c_int64 * len(sizes))(*sizes), count, share
        function = f"groups_{function}"
    if getattr(library(), f"edge_transformer_{function}")(ctypes.byref(problem), *groups):
        raise MemoryError("triangular attention ran out of memory")


Given = Sequence[Tensor | None]  # q, k, v1, v2, left and right; None for what there is not


def _unpacked(parts: Sequence[Tensor], left: Tensor | None = None, right: Tensor | None = None) -> Given:
    """The parts, of which v2 may be missing, with the offsets of the scores."""
    return (*parts, *[None] * (4 - len(parts)), left, right)


def _named(given: Given) -> dict[str, Tensor]:
    """What there is by its name in C, which wants the heads behind the nodes."""
    offsets = (None if offset is None else offset.permute(0, 2, 3, 1)[..., None] for offset in given[4:])
    return {name: tensor for name, tensor in zip(_NAMES, (*given[:4], *offsets), strict=True) if tensor is not None}


def _readable(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """C reads any strides but needs the features of an edge side by side, and numbers of 32 or 64 bits."""
    wide = {name: tensor.to(sums_in(tensor.dtype)) for name, tensor in tensors.items()}
    return {
        name: tensor if tensor.stride(-1) == 1 or tensor.shape[-1] == 1 else tensor.contiguous()
        for name, tensor in wide.items()
    }


def _forward(given: Given, choice: Any, sizes: Sequence[int] = ()) -> tuple[Tensor, Tensor]:
    named = _named(given)
    tensors = _readable(named)
    out, soft_max = _empty_results(tensors["q"])
    _run("forward", {**tensors, "out": out}, soft_max.zero_(), choice, sizes)
    return out.to(named["q"].dtype), soft_max


def _backward(
    dout: Tensor, given: Given, made: Given, out: Tensor, soft_max: Tensor, choice: Any, sizes: Sequence[int] = ()
) -> None:
    """Write the gradients of what there is."""
    tensors = _readable({**_named(given), "dout": dout, "out": out})
    gradients = _named([None if tensor is None else one for tensor, one in zip(given, made, strict=True)])
    written = {
        f"d{name}": one if one.dtype == soft_max.dtype else one.new_empty(one.shape, dtype=soft_max.dtype)
        for name, one in gradients.items()
    }
    _run("backward", {**tensors, **written}, soft_max.contiguous(), choice, sizes)
    for name, one in gradients.items():
        if written[f"d{name}"] is not one:
            one.copy_(written[f"d{name}"])


def _empty_results(q: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    """Room for the output, and for what its soft-max subtracted and multiplied with: two numbers an edge and head."""
    *edges, heads, _ = shape = tuple(q.shape)
    grid = (edges[0] * heads * 2,) if len(edges) == 1 else (edges[0], heads, 2, *edges[1:])
    return q.new_empty(shape), q.new_empty(grid, dtype=sums_in(q.dtype))


def _empty_results_of_parts(parts: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return _empty_results(parts.select(-3, 0))


def _empty_gradient(dout: Tensor, parts: Tensor, *rest: Any) -> Tensor:
    return parts.new_empty(tuple(parts.shape))


def _empty_packed_gradients(
    dout: Tensor, parts: Tensor, left: Tensor | None, right: Tensor | None, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    return _empty_gradient(dout, parts), *zero_offsets(parts, left, right)


# --- operators on separate tensors --------------------------------------------------------------------------------


@operator("separate_forward", device="cpu", fake=_empty_results)
def separate_forward(
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
) -> tuple[Tensor, Tensor]:
    """Output, and what its soft-max subtracted and multiplied with: `[batch, heads, 2, n, n]`."""
    return _forward((q, k, v1, v2, left, right), (node_mask, causal_from, key_is_ij, dropout_p, seed))


@operator("separate_backward", device="cpu", fake=empty_gradients)
def separate_backward(
    dout: Tensor,
    q: Tensor,
    k: Tensor,
    v1: Tensor,
    v2: Tensor | None,
    left: Tensor | None,
    right: Tensor | None,
    out: Tensor,
    soft_max: Tensor,
    node_mask: Tensor | None,
    causal_from: int,
    key_is_ij: bool,
    dropout_p: float,
    seed: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of q, k, v1, v2, left and right; empty for what there is not."""
    made = empty_gradients(dout, q, k, v1, v2, left, right)
    choice = (node_mask, causal_from, key_is_ij, dropout_p, seed)
    _backward(dout, (q, k, v1, v2, left, right), made, out, soft_max, choice)
    return made


# --- operators on one packed tensor -------------------------------------------------------------------------------


@operator("packed_forward", device="cpu", fake=_empty_results_of_parts)
def packed_forward(
    parts: Tensor,
    left: Tensor | None,
    right: Tensor | None,
    node_mask: Tensor | None,
    causal_from: int,
    key_is_ij: bool,
    dropout_p: float,
    seed: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Output, and what its soft-max subtracted and multiplied with: `[batch, heads, 2, n, n]`."""
    return _forward(_unpacked(parts.unbind(3), left, right), (node_mask, causal_from, key_is_ij, dropout_p, seed))


@operator("packed_backward", device="cpu", fake=_empty_packed_gradients)
def packed_backward(
    dout: Tensor,
    parts: Tensor,
    left: Tensor | None,
    right: Tensor | None,
    out: Tensor,
    soft_max: Tensor,
    node_mask: Tensor | None,
    causal_from: int,
    key_is_ij: bool,
    dropout_p: float,
    seed: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of the parts, left and right; empty for what there is not."""
    dparts, dleft, dright = made = _empty_packed_gradients(dout, parts, left, right)
    given, written = _unpacked(parts.unbind(3), left, right), _unpacked(dparts.unbind(3), dleft, dright)
    _backward(dout, given, written, out, soft_max, (node_mask, causal_from, key_is_ij, dropout_p, seed))
    return made


# --- operators on groups of graphs --------------------------------------------------------------------------------


@operator("groups_forward", device="cpu", fake=_empty_results_of_parts)
def groups_forward(
    parts: Tensor, sizes: Sequence[int], key_is_ij: bool, dropout_p: float, seed: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Output, and what its soft-max subtracted and multiplied with: two numbers an edge and head."""
    return _forward(_unpacked(parts.unbind(1)), (None, -1, key_is_ij, dropout_p, seed), sizes)


@operator("groups_backward", device="cpu", fake=_empty_gradient)
def groups_backward(
    dout: Tensor,
    parts: Tensor,
    out: Tensor,
    soft_max: Tensor,
    sizes: Sequence[int],
    key_is_ij: bool,
    dropout_p: float,
    seed: Tensor | None,
) -> Tensor:
    """The gradient of the parts."""
    made = _empty_gradient(dout, parts)
    choice = (None, -1, key_is_ij, dropout_p, seed)
    _backward(dout, _unpacked(parts.unbind(1)), _unpacked(made.unbind(1)), out, soft_max, choice, sizes)
    return made


connect_separate(separate_forward, separate_backward)
connect_packed(packed_forward, packed_backward)
connect_groups(groups_forward, groups_backward)
