"""The compiled kernels: C without PyTorch or Python headers, called through ctypes."""

from __future__ import annotations

import ctypes
import importlib.machinery
from pathlib import Path

import torch
from torch import Tensor

VERSION = 5  # of the C interface; the compiled library must say the same
_VECTOR_CODE = ("portable", "AVX2", "AVX-512")


def _load() -> ctypes.CDLL | str:
    """The compiled library, or why there is none."""
    folder = Path(__file__).parent
    paths = [folder / f"_kernels{suffix}" for suffix in importlib.machinery.EXTENSION_SUFFIXES]
    found = next((path for path in paths if path.exists()), None)
    if found is None:
        return "no compiled kernels: there was no working C compiler when the package was installed"
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


def unavailable() -> str | None:
    """Why the compiled kernels cannot be used; None where they can."""
    return _LOADED if isinstance(_LOADED, str) else None


def library() -> ctypes.CDLL:
    """The compiled library."""
    if isinstance(_LOADED, str):
        raise RuntimeError(_LOADED)
    return _LOADED


def vector_code() -> str:
    """The kind of vector instructions that this CPU runs."""
    return _VECTOR_CODE[library().edge_transformer_best_isa()]


def threads_in_use() -> str:
    """Whose threads the kernels run on."""
    return "threads of its own" if _torch_threads() is None else "PyTorch's threads"


def usable_for(tensor: Tensor) -> bool:
    """Whether the kernels are there and compute this kind of tensor."""
    return tensor.device.type == "cpu" and tensor.dtype in (torch.float32, torch.float64) and unavailable() is None


def draw_seed(dropout_p: float) -> Tensor | None:
    """A seed from PyTorch's generator, so that torch.manual_seed decides the dropout; None where there is none."""
    return torch.randint(2**62, (1,)) if dropout_p > 0 else None


def drop_below(dropout_p: float) -> int:
    """The 32-bit limit under which a random number means dropping."""
    return min(round(dropout_p * 2**32), 2**32 - 1)
