"""The Edge Transformer: a stack of layers over the states of all pairs of nodes."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from .config import EdgeTransformerConfig
from .layers import EdgeTransformerLayer


class Encoded(NamedTuple):
    """What every encoder answers with, ours or a baseline, so that every head works with every encoder."""

    nodes: Tensor  # (B, n, dim)
    edges: Tensor  # (B, n, n, dim)


class EdgeTransformer(nn.Module):
    """A tied (default) or untied stack of Edge Transformer layers: `[batch, n, n, dim] -> [batch, n, n, dim]`.

    With `checkpoint_layers`, training keeps only the edge states between layers and computes the inside of a layer
    again in the backward pass: the time of one more forward pass, for one state of the edges a layer in memory.

    >>> import torch
    >>> model = EdgeTransformer(EdgeTransformerConfig(dim=8, heads=2, layers=3))
    >>> model(torch.randn(1, 5, 5, 8)).shape
    torch.Size([1, 5, 5, 8])
    """

    def __init__(self, config: EdgeTransformerConfig, engine: str = "auto", *, checkpoint_layers: bool = False) -> None:
        super().__init__()
        self.config, self.checkpoint_layers = config, checkpoint_layers
        distinct = 1 if config.tied else config.layers
        self.layers = nn.ModuleList(EdgeTransformerLayer(config, engine) for _ in range(distinct))
        # A pre-norm stack never normalises its sum of updates, so that it needs one norm at the end.
        self.final_norm = nn.LayerNorm(config.dim) if config.norm == "pre" else nn.Identity()

    def forward(self, edges: Tensor, node_mask: Tensor | None = None, causal_from: int | None = None) -> Tensor:
        """The final state of every edge."""
        self._check(edges)
        return self.final_norm(self._run(edges, self._depth(), node_mask, causal_from))

    def read(self, edges: Tensor, pairs: Tensor, node_mask: Tensor | None = None) -> Tensor:
        """The final state of the edges in `pairs` alone, `[batch, m, 2] -> [batch, m, dim]`.

        The same numbers as those of `forward`, for less work: the last layer computes no other edges.
        """
        self._check(edges)
        if pairs.dim() != 3 or pairs.shape[0] != edges.shape[0] or pairs.shape[2] != 2:
            raise ValueError(f"pairs must be [batch={edges.shape[0]}, m, 2], but their shape is {list(pairs.shape)}")
        if pairs.numel() and not 0 <= int(pairs.min()) <= int(pairs.max()) < edges.shape[1]:
            raise ValueError(f"pairs must name nodes from 0 to {edges.shape[1] - 1}")
        depth = self._depth()
        edges = self._run(edges, depth - 1, node_mask)
        last = self.layers[(depth - 1) % len(self.layers)]
        assert isinstance(last, EdgeTransformerLayer)
        return self.final_norm(last.read(edges, pairs, node_mask))

    def read_nodes(self, edges: Tensor, node_mask: Tensor | None = None) -> Tensor:
        """The final state of every node, that is of its self-edge: `[batch, n, dim]`, for less work than `forward`."""
        self._check(edges)
        nodes = torch.arange(edges.shape[1], device=edges.device)
        return self.read(edges, torch.stack([nodes, nodes], -1).expand(len(edges), -1, -1), node_mask)

    def _depth(self) -> int:
        """How many layers to run: all of them, or in training a random number where the configuration says so."""
        if not self.training or self.config.min_layers is None:
            return self.config.layers
        return int(torch.randint(self.config.min_layers, self.config.layers + 1, ()))

    def _check(self, edges: Tensor) -> None:
        if edges.dim() != 4 or edges.shape[1] != edges.shape[2] or edges.shape[3] != self.config.dim:
            raise ValueError(
                f"edges must be [batch, n, n, dim={self.config.dim}], but their shape is {list(edges.shape)}"
            )

    def _run(
        self, edges: Tensor, layers: int, node_mask: Tensor | None = None, causal_from: int | None = None
    ) -> Tensor:
        for depth in range(layers):
            layer = self.layers[depth % len(self.layers)]
            if self.checkpoint_layers and torch.is_grad_enabled():
                edges = checkpoint(layer, edges, node_mask, causal_from, use_reentrant=False)
            else:
                edges = layer(edges, node_mask, causal_from)
        return edges

    def encode(self, edges: Tensor, node_mask: Tensor | None = None) -> Encoded:
        """The final states of nodes and edges; a node's state is that of its self-edge."""
        edges = self(edges, node_mask)
        return Encoded(nodes=edges.diagonal(dim1=1, dim2=2).transpose(1, 2), edges=edges)
