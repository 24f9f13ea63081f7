"""Tensors that the backward pass computes again instead of keeping them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor


class _Rule(NamedTuple):
    compute: Callable[[], Tensor]
    shape: torch.Size


@contextmanager
def kept_as_rule(result: Tensor, compute: Callable[[], Tensor]) -> Iterator[None]:
    """In this block, operations that need `result` in their backward pass keep how to compute it, not its numbers.

    `compute` must give the same numbers again, from tensors that are kept anyway.
    """
    if not result.is_contiguous():
        raise ValueError("a result that is to be computed again must be contiguous")

    place, numbers = result.data_ptr(), result.numel()  # autograd keeps `pack`, which must not keep the result

    def pack(tensor: Tensor) -> Tensor | _Rule:
        same = tensor.data_ptr() == place and tensor.numel() == numbers > 0
        # A contiguous tensor in the place of another has its numbers in the same order, if in another shape.
        return _Rule(compute, tensor.shape) if same and tensor.is_contiguous() else tensor

    @torch.no_grad()
    def unpack(packed: Tensor | _Rule) -> Tensor:
        return packed.compute().view(packed.shape) if isinstance(packed, _Rule) else packed

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        yield
