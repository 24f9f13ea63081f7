"""What the steps of this project are compared with: the Edge Transformer as one would write it from the paper.

Every batch is padded to its largest graph, the four projections are four products, torch.einsum computes the triangles,
and dropout is PyTorch's. `alternate` takes the steps of both in turn, so that they see the same machine.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from edge_transformer.io.files import write_text


class PlainAttention(nn.Module):
    """Triangular attention with torch.einsum, masked for padding."""

    def __init__(self, dim: int, heads: int, dropout: float, bias: bool) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v1, self.v2, self.o = (nn.Linear(dim, dim, bias=bias) for _ in range(5))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v1, v2 = (part(x).unflatten(-1, (self.heads, -1)) for part in (self.q, self.k, self.v1, self.v2))
        scores = torch.einsum("bilhd,bljhd->biljh", q, k) / q.shape[-1] ** 0.5
        scores = scores.masked_fill(mask, -1e9)
        weights = self.dropout(scores.softmax(2))
        values = torch.einsum("bilhd,bljhd->biljhd", v1, v2)
        return self.o(torch.einsum("biljh,biljhd->bijhd", weights, values).flatten(-2))


class PlainEncoder(nn.Module):
    """The tied Edge Transformer with the released placement of norms: `[batch, n, n, dim] -> [batch, n, n, dim]`."""

    def __init__(self, dim: int, heads: int, layers: int, dropout: float, attention_bias: bool) -> None:
        super().__init__()
        self.layers = layers
        self.attention = PlainAttention(dim, heads, dropout, attention_bias)
        self.ffn = nn.Sequential(nn.Linear(dim, 4 * dim), nn.ReLU(), nn.Dropout(dropout), nn.Linear(4 * dim, dim))
        self.norm1, self.norm2, self.dropout = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.Dropout(dropout)

    def forward(self, x: Tensor, real: Tensor) -> Tensor:
        """`real` is bool `[batch, n]`, False for padding."""
        mask = ~(real[:, :, None, None] & real[:, None, :, None] & real[:, None, None, :]).unsqueeze(-1)
        for _ in range(self.layers):
            x = self.norm1(x)
            x = x + self.dropout(self.attention(x, mask))
            x = self.norm2(x)
            x = x + self.dropout(self.ffn(x))
        return x


def plain_encoder(settings: Mapping[str, object]) -> PlainEncoder:
    """The encoder that a preset's `model:` section describes."""
    names = ("dim", "heads", "layers", "dropout", "attention_bias")
    return PlainEncoder(*(settings[name] for name in names))  # type: ignore[arg-type]


def take_plain_step(model: nn.Module, optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """Move the weights once, with the gradient clipped as in the presets."""
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def alternate(
    steps: Mapping[str, Callable[[Tensor], object]], batches: Sequence[Tensor], count: int
) -> dict[str, float]:
    """The median seconds of each kind of step over `count` rounds; one more round before them warms up."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(count + 1):
        for name, step in steps.items():
            started = time.perf_counter()
            step(batches[number % len(batches)])
            if number:
                times[name].append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in times.items()}


def show(medians: Mapping[str, float], rows: int, threads: int, path: Path | None = None) -> None:
    """Print the seconds of `plain` and `ours`, and their ratio; write them to a file, if one is named."""
    for name, seconds in medians.items():
        print(f"{name:<6} {seconds:6.3f} s a step (of {rows} rows, {threads} thread)")
    print(f"ours / plain = {medians['ours'] / medians['plain']:.3f}")
    if path:
        command = " ".join(["python", *sys.argv])
        found = {"command": command, "rows": rows, "threads": threads, "seconds a step": dict(medians)}
        write_text(path, json.dumps(found, indent=1) + "\n")
