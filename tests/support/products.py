"""The matrix products that a computation runs."""

from __future__ import annotations

from collections import Counter
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class Products(TorchDispatchMode):
    """Counts the matrix products that run, by (rows, inner, columns)."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[tuple[int, int, int]] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        assert name not in ("bmm", "baddbmm", "matmul"), name
        if name in ("mm", "addmm"):
            left, right = args[-2:]
            self.counts[(left.shape[0], left.shape[1], right.shape[1])] += 1
        return func(*args, **kwargs or {})
