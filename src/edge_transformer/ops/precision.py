"""Where 16-bit numbers cost more than they save: CPUs without arithmetic for them.

Such a CPU converts every number for every operation: a product of matrices in bfloat16 then takes many times as long as
in float32. So under autocast to such a type, modules compute in float32 and convert at the ends.
"""

from __future__ import annotations

import functools
import platform
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

Step = TypeVar("Step", bound=Callable[..., Any])
HALVES = (torch.bfloat16, torch.float16)


def _slow_types() -> frozenset[torch.dtype]:
    """The 16-bit types that this CPU has no arithmetic for."""
    if platform.machine().lower() in ("x86_64", "amd64"):
        checks = {
            torch.bfloat16: ("_is_avx512_bf16_supported", "_is_amx_tile_supported"),
            torch.float16: ("_is_amx_fp16_supported",),
        }
        # PyTorch answers this in private functions only, of which older versions lack some.
        return frozenset(
            dtype for dtype, names in checks.items() if not any(getattr(torch.cpu, name, bool)() for name in names)
        )
    if not torch.backends.mkldnn.is_available():
        return frozenset(HALVES)
    supported = {
        torch.bfloat16: torch.ops.mkldnn._is_mkldnn_bf16_supported,
        torch.float16: torch.ops.mkldnn._is_mkldnn_fp16_supported,
    }
    return frozenset(dtype for dtype, check in supported.items() if not check())


SLOW_ON_CPU = _slow_types()  # once and here, not at first use: torch.compile cannot trace the questions


def in_float32_where_faster(step: Step) -> Step:
    """Make a method of a module compute in float32 where autocast asks for numbers that are slow on this CPU.

    Tensors of 16 bits among its positional arguments are converted first. If the first of them was one, and a single
    tensor comes out, that is converted back: it has the type of what went in.
    """

    @functools.wraps(step)
    def run(self: torch.nn.Module, first: Any, *rest: Any, **named: Any) -> Any:
        if not torch.is_autocast_enabled("cpu") or not _slow(self, first):
            return step(self, first, *rest, **named)
        with torch.autocast("cpu", enabled=False):
            made = step(self, _wide(first), *map(_wide, rest), **named)
        return made.to(first.dtype) if isinstance(made, Tensor) and _wide(first) is not first else made

    return cast(Step, run)


def _slow(module: torch.nn.Module, first: Any) -> bool:
    """Whether autocast would make this call slow: in tensors on the CPU, by a module that has not been made 16-bit."""
    tensor = first if isinstance(first, Tensor) else first[0]
    if tensor.device.type != "cpu" or torch.get_autocast_dtype("cpu") not in SLOW_ON_CPU:
        return False
    return all(parameter.dtype not in HALVES for parameter in module.parameters())


def _wide(value: Any) -> Any:
    return value.float() if isinstance(value, Tensor) and value.dtype in HALVES else value
