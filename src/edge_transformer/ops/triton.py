"""The Triton engine: triangular attention for GPUs, forward and backward, in O(n^2 head_dim) memory.

The kernels are in triton_kernels.py. This module compiles, tunes and launches them, as operators of PyTorch.

Dropout drops the same weights as the native engine does for the same seed. Triton is imported when a kernel first runs.
With TRITON_INTERPRET=1 in the environment before that, kernels run in NumPy and without a GPU: slowly, for tests.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
from importlib import metadata
from typing import Any

import torch
from torch import Tensor

from .engine import Engine, Options, drop_below, sums_in
from .operators import empty_gradients, operator
from .plain import connect_separate
from .triton_kernels import with_triton

_OLDEST = (3, 3)  # version of Triton whose kernels take tuples
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_INTERPRETED = os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "true", "yes", "on", "y")


def _find() -> str | None:
    """Why Triton cannot be used; None where it can. It is not imported for that."""
    spec = importlib.util.find_spec("triton")
    installed = spec is not None and spec.origin is not None  # no mere folder of that name
    if not installed:
        return "Triton is not installed; pip install '.[gpu]' in a clone"
    try:
        return _too_old(metadata.version("triton"))
    except metadata.PackageNotFoundError:  # builds have other names; the kernels ask the module itself
        return None


def _too_old(version: str) -> str | None:
    old = tuple(map(int, version.split(".")[:2])) < _OLDEST
    return f"Triton {version} is too old: {'.'.join(map(str, _OLDEST))} or newer is needed" if old else None


_MISSING = _find()  # once and here, not at first use: torch.compile cannot trace the search


class TritonEngine(Engine):
    """Kernels for GPUs, in O(n^2 head_dim) memory for each (batch, head)."""

    name = "triton"
    about = "kernels for GPUs"
    chosen_on = ("cuda",)
    computes = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES) + " on a GPU"
    takes_offsets = True

    def describe(self) -> str:
        try:
            return f"Triton {metadata.version('triton')}"
        except metadata.PackageNotFoundError:  # packaged under another name
            return "Triton"

    def unavailable(self) -> str | None:
        if _MISSING is None and not _INTERPRETED and not torch.cuda.is_available():
            return "there is no CUDA device (TRITON_INTERPRET=1 runs the kernels without one, slowly)"
        return _MISSING

    def takes(self, tensor: Tensor) -> bool:
        return (tensor.is_cuda or self.only_for_tests(tensor)) and tensor.dtype in DTYPES

    def only_for_tests(self, tensor: Tensor) -> bool:
        return _INTERPRETED and tensor.device.type == "cpu"

    def attend(self, q: Tensor, k: Tensor, v1: Tensor, v2: Tensor | None, options: Options) -> Tensor:
        # The seed is drawn where the kernels read it, so that nothing waits for the GPU.
        return triton_forward(q, k, v1, v2, *options.offsets(q), *options.arguments(q.device))[0]


TRITON = TritonEngine()


# --- compiling and launching the kernels ---------------------------------------------------------------------------

_WORDS_A_THREAD = 128  # for the blocks of a kernel, at most; a thread has 255 registers
_TILES = ((4, 4), (4, 8), (8, 8), (8, 16), (16, 16), (16, 32))
_INTERPRETED_TILE = {"ROWS": 4, "COLUMNS": 4, "STAGES": 1}  # so small that small graphs have many, some of them ragged
_NOT_SPECIALIZED = ("n", "causal_from", "drop_limit", "one", "size")  # no compiling again for another value


@functools.cache
def _kernels() -> dict[str, Any]:
    """The kernels, tuned for the GPU when they first run for a size; plain ones if they are interpreted."""
    triton: Any = importlib.import_module("triton")
    if reason := _too_old(triton.__version__):
        raise RuntimeError(reason)
    configs = [
        triton.Config({"ROWS": rows, "COLUMNS": columns, "STAGES": stages}, num_warps=warps, num_stages=stages)
        for rows, columns in _TILES
        for warps in (1, 2, 4, 8)
        for stages in (1, 3)
    ]
    compiled = {}
    for name, (function, blocks) in with_triton(triton, _INTERPRETED).items():
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
    tensors: tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None],
    node_mask: Tensor | None,
    causal_from: int,
    key_is_ij: bool,
    dropout_p: float,
    seed: Tensor | None,
    **others: Any,
) -> None:
    q, k, v1, v2, left, right = tensors
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
        "left": None if left is None else left.contiguous(),
        "right": None if right is None else right.contiguous(),
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


def _empty_results(q: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    batch, n, _, heads, head_dim = q.shape
    return q.new_empty(batch, n, n, heads, head_dim), q.new_empty(batch, heads, n, n, dtype=sums_in(q.dtype))


@operator("triton_forward", fake=_empty_results)
def triton_forward(
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
    """Output and log-sum-exp."""
    out, lse = _empty_results(q)
    if q.numel() > 0:
        choice = (node_mask, causal_from, key_is_ij, dropout_p, seed)
        _launch("forward", (q, k, v1, v2, left, right), *choice, lse=lse, out=out, out_at=out.stride())
    return out, lse


@operator("triton_backward", fake=empty_gradients)
def triton_backward(
    dout: Tensor,
    q: Tensor,
    k: Tensor,
    v1: Tensor,
    v2: Tensor | None,
    left: Tensor | None,
    right: Tensor | None,
    out: Tensor,
    lse: Tensor,
    node_mask: Tensor | None,
    causal_from: int,
    key_is_ij: bool,
    dropout_p: float,
    seed: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of q, k, v1, v2, left and right; empty for what there is not."""
    dq, dk, dv1, dv2, dleft, dright = made = empty_gradients(dout, q, k, v1, v2, left, right)
    if q.numel() == 0:
        return made
    lse = lse.contiguous()
    dot = (dout.to(lse.dtype) * out).sum(-1).permute(0, 3, 1, 2).contiguous()  # (B, h, i, j)
    given: dict[str, Any] = {"lse": lse, "dout": dout, "dout_at": dout.stride(), "dot": dot, "made_at": dq.stride()}
    arguments = ((q, k, v1, v2, left, right), node_mask, causal_from, key_is_ij, dropout_p, seed)
    _launch("backward_il", *arguments, **given, dq=dq, dv1=dv1, dleft=dleft)
    if key_is_ij:
        _launch("backward_ij", *arguments, **given, dk=dk)
    if v2 is not None or right is not None or not key_is_ij:
        _launch("backward_lj", *arguments, **given, dk=dk, dv2=dv2, dright=dright)
    return made


connect_separate(triton_forward, triton_backward)
