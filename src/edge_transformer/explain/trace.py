"""A forward pass that keeps what the fast path never stores: the weight of every triangle in every layer.

It follows the equations of `ops.einsum` and gives the same numbers as the model's own forward pass. Triangles can be
removed, to see their effect on the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..nn.encoder import EdgeTransformer
from ..nn.layer import EdgeTransformerLayer, TriangularAttention
from ..nn.plain import is_plain, require_steps

CHUNK = 1 << 23  # floats computed at once in n^3 vectors, to bound memory


@dataclass(frozen=True)
class Trace:
    """States and triangles of all layers. Triangles (i, l, j) are indexed in this order; l is the pivot."""

    states: Tensor  # (layers + 1, B, n, n, dim): before the first layer, and after each
    weights: Tensor  # (layers, B, n, n, n, heads): attention weights, which sum to 1 over l
    strengths: Tensor  # (layers, B, n, n, n): between 0 and 1, see `strengths_of`


@torch.no_grad()
def trace(encoder: EdgeTransformer, edges: Tensor, removed: Tensor | None = None) -> Trace:
    """Run all layers on `[B, n, n, dim]` and keep everything; `removed` as in `run`."""
    states, weights, strengths = [edges], [], []
    for layer in layers_of(encoder):
        normed, parts = layer.project(edges)  # (B, n, n, dim), (B, n, n, 3 or 4, h, d)
        _, _, v1, *v2 = parts.unbind(3)
        weight = weights_of(layer.attention, parts[:, :, :, 0], parts[:, :, :, 1], removed)
        strengths.append(strengths_of(layer, edges, normed, v1, v2[0] if v2 else None, weight))
        edges = layer.finish(edges, normed, _mix(layer.attention, parts, weight))
        states.append(edges)
        weights.append(weight)
    return Trace(torch.stack(states), torch.stack(weights), torch.stack(strengths))


@torch.no_grad()
def run(encoder: EdgeTransformer, edges: Tensor, removed: Tensor | None = None) -> Tensor:
    """The final states `[B, n, n, dim]`, before the final norm.

    `removed` is bool `[B, n, n, n]`: triangle (i, l, j) gets no weight in any layer, and the weights of the other
    pivots of edge (i, j) sum to 1 again. An edge without any pivot left gets no update from the attention.
    """
    for layer in layers_of(encoder):
        normed, parts = layer.project(edges)  # (B, n, n, dim), (B, n, n, 3 or 4, h, d)
        weight = weights_of(layer.attention, parts[:, :, :, 0], parts[:, :, :, 1], removed)
        edges = layer.finish(edges, normed, _mix(layer.attention, parts, weight))
    return edges


def layers_of(encoder: EdgeTransformer) -> Iterator[EdgeTransformerLayer]:
    """The layers in the order in which they run; those whose triangles are mixed in another way are refused."""
    require_steps(encoder, EdgeTransformer, "its layers")
    for depth in range(encoder.config.layers):
        layer = encoder.layer(depth)
        require_steps(layer, EdgeTransformerLayer, "project or finish")
        require_steps(layer.attention, TriangularAttention, "project or output")
        if (type(layer).mix, type(layer.attention).attend) != (EdgeTransformerLayer.mix, TriangularAttention.attend):
            raise ValueError(f"{type(layer).__name__} mixes triangles in a way of its own, which cannot be explained")
        yield layer


def weights_of(attention: TriangularAttention, q: Tensor, k: Tensor, removed: Tensor | None = None) -> Tensor:
    """The weights of all triangles of some edges (i, j), over all pivots l: (B, i, l, j, h).

    q of edges (i, l), and k of edges (l, j), or of (i, j) for the attention ablation: (B, i, l, h, d), (B, l, j, h, d).
    """
    pattern = "bilhd,bljhd->biljh" if attention.key == "lj" else "bilhd,bijhd->biljh"
    scores = torch.einsum(pattern, q, k) * q.shape[-1] ** -0.5
    if removed is None:
        return scores.softmax(dim=2)
    gone = removed[..., None]
    return scores.masked_fill(gone, torch.finfo(scores.dtype).min).softmax(dim=2) * ~gone


def _mix(attention: TriangularAttention, parts: Tensor, weights: Tensor) -> Tensor:
    """The update of every edge: (B, n, n, dim)."""
    _, _, v1, *v2 = parts.unbind(3)
    if v2:
        mixed = torch.einsum("biljh,bilhd,bljhd->bijhd", weights, v1, v2[0])
    else:
        mixed = torch.einsum("biljh,bilhd->bijhd", weights, v1)
    return attention.output(mixed.flatten(-2))


def strengths_of(
    layer: EdgeTransformerLayer, edges: Tensor, normed: Tensor, v1: Tensor, v2: Tensor | None, weights: Tensor
) -> Tensor:
    """How much a triangle adds to the state of its edge: c / (c + x), (B, i, l, j).

    c is the norm of what the triangle adds, over all heads and after the output projection; x is the norm of the state
    that it is added to. A weight alone does not tell: its value may be small, and the weights of an edge sum to 1 even
    if it has nothing to learn. Given are the edges (i, j), and the values of some of their triangles.
    """
    batch, n, ends, dim = edges.shape
    output = layer.attention.output
    nothing = None if is_plain(output, nn.Linear) else output(edges.new_zeros(dim))
    base = (normed if layer.norm == "released" else edges).norm(dim=-1)  # (B, i, j)
    rows = max(1, CHUNK // max(1, batch * v1.shape[2] * ends * dim))
    found = []
    for start in range(0, n, rows):
        row = slice(start, start + rows)
        values = v1[:, row, :, None]  # (B, i, l, 1, h, d)
        if v2 is not None:
            values = values * v2[:, None]  # (B, i, l, j, h, d)
        added = (weights[:, row, ..., None] * values).flatten(-2)
        added = added @ output.weight.T if nothing is None else output(added) - nothing  # (B, i, l, j, dim)
        length = added.norm(dim=-1)
        found.append(length / (length + base[:, row, None, :]).clamp_min(torch.finfo(length.dtype).tiny))
    return torch.cat(found, dim=1)
