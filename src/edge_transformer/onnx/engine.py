"""Triangular attention, and a decoder's memory, of operations that ONNX has.

The attention goes through the rows of the graph one after the other. A row has n^2 triangles, so that the memory grows
as n^2, not as n^3.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from ..nn.layer import FeedForward, Triangles, TriangularAttention, mix_triangles
from ..ops import attention
from ..ops.engine import Engine, Options
from ..ops.memory import Memory


class ScanEngine(Engine):
    """One row after the other, by the operation that becomes ONNX's Scan."""

    name = "scan"
    about = "one row at a time, for ONNX files"

    def attend(self, q: Tensor, k: Tensor, v1: Tensor, v2: Tensor | None, options: Options) -> Tensor:
        from torch._higher_order_ops.scan import scan

        for name in ("causal_from", "edge_mask", "bias"):
            if getattr(options, name) is not None:
                raise ValueError(f"{name} cannot be exported to ONNX")
        if options.dropout_p:
            raise ValueError("dropout cannot be exported to ONNX")
        mask, key_is_ij = options.node_mask, options.key == "ij"
        rows = [q, v1, *([k] if key_is_ij else [])]
        # Copies: the parts may lie in one tensor, and a scan takes no two views of one.
        rows = [part.transpose(0, 1).clone() for part in rows]  # (i, B, n, h, d)
        if mask is not None:
            rows.append(mask.transpose(0, 1).clone())  # (i, B)
        columns = None if v2 is None else v2.transpose(1, 2).clone()  # (B, j, l, h, d)
        keys = k.transpose(1, 2).clone()

        def row(carried: Tensor, of_row: list[Tensor]) -> tuple[Tensor, Tensor]:
            q_row, v1_row = (part[:, None] for part in of_row[:2])  # (B, 1, l, h, d)
            k_row = of_row[2][:, :, None] if key_is_ij else keys  # (B, j, 1 or l, h, d)
            allowed = None
            if mask is not None:
                allowed = of_row[-1][:, None, None] & mask[:, :, None] & mask[:, None, :]  # (B, j, l)
            return carried.clone(), mix_triangles(Triangles(q_row, k_row, v1_row, columns, allowed))

        return scan(row, q.new_zeros(1), rows)[1].transpose(0, 1)  # nothing is carried from row to row


class GrownMemory(Memory):
    """The parts of all edges so far, `[batch, n, n, 3 or 4, heads, head_dim]`, in a new tensor after every step."""

    def __init__(self, parts: Tensor, key: str) -> None:
        self.parts, self._key = parts, key

    @property
    def numbers(self) -> int:
        return self.parts.numel()

    def grow(self, capacity: int, n: int) -> None:
        """It grows by itself."""

    def reorder(self, index: Tensor, n: int) -> None:
        self.parts = self.parts.index_select(0, index)

    def extend(self, parts: Tensor, mask: Tensor | None) -> Tensor:
        last = parts.shape[0] // 2
        parts = parts.transpose(0, 1)  # (B, 2n - 1, ...)
        whole = torch.cat([self.parts, parts[:, :last, None]], dim=2)
        self.parts = torch.cat([whole, parts[:, None, last:]], dim=1)  # (B, n, n, ...)
        q, k, v1, *v2 = self.parts.unbind(3)  # (B, i, l, h, d), and k and v2 (B, l, j, h, d)
        # The edges (i, N) of the column without the self-edge, and the edges (N, j) of the row: (B, edge, l, h, d).
        k_column = k[:, :last, last, None] if self._key == "ij" else k[:, None, :, last]
        k_row = k[:, last, :, None] if self._key == "ij" else k.transpose(1, 2)
        v2_column, v2_row = (v2[0][:, None, :, last], v2[0].transpose(1, 2)) if v2 else (None, None)
        allowed = None if mask is None else mask[:, None]  # (B, 1, l)
        column = mix_triangles(Triangles(q[:, :last], k_column, v1[:, :last], v2_column, allowed))
        row = mix_triangles(Triangles(q[:, None, last], k_row, v1[:, None, last], v2_row, allowed))
        return torch.cat([column, row], dim=1).transpose(0, 1)


@contextmanager
def plain_operations(model: nn.Module) -> Iterator[None]:
    """In this block a model computes with operations that ONNX has."""
    attentions = [module for module in model.modules() if isinstance(module, TriangularAttention)]
    networks = [module for module in model.modules() if isinstance(module, FeedForward)]
    before = [module.engine for module in attentions], [module.fused for module in networks]
    attention.ENGINES[ScanEngine.name] = ScanEngine()
    for module in attentions:
        module.engine = ScanEngine.name
    for network in networks:
        network.fused = False
    try:
        yield
    finally:
        for module, engine in zip(attentions, before[0], strict=True):
            module.engine = engine
        for network, fused in zip(networks, before[1], strict=True):
            network.fused = fused
        del attention.ENGINES[ScanEngine.name]
