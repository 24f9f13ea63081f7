"""Graphs of PyTorch Geometric: from flat nodes and lists of edges to states of all pairs, and back.

All here takes plain tensors, as the layers of PyTorch Geometric do, and works without it: node features `x [nodes, d]`
of all graphs of a batch, `edge_index [2, edges]` with the two node numbers of every edge, `edge_attr [edges, d]`, and
`batch [nodes]` with the number of each node's graph. `graph_tensors` takes them from a `Data` or `Batch`.
"""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .encoder import Encoder


class DenseEdges(NamedTuple):
    """States of all pairs of nodes of several graphs, and where the nodes and edges of the flat lists are in them."""

    edges: Tensor  # [batch, n, n, dim]
    node_mask: Tensor  # bool [batch, n]: False for padding
    edge_mask: Tensor  # bool [batch, n, n]: True where the graph has an edge
    node_places: Tensor  # [nodes]: the self-edge of every node, as a number of the batch * n * n pairs
    edge_places: Tensor  # [edges]: the pair of every edge


def to_dense_edges(
    x: Tensor,
    edge_index: Tensor,
    edge_attr: Tensor,
    batch: Tensor | None = None,
    *,
    null: Tensor | None = None,
    batch_size: int | None = None,
    size: int | None = None,
    max_nodes: int | None = None,
) -> DenseEdges:
    """The states of all pairs of nodes: self-edges have `x`, present edges `edge_attr`, all others `null`.

    Args:
        x: `[nodes, dim]`.
        edge_index: `[2, edges]`; the edge from i to j is pair (i, j).
        edge_attr: `[edges, dim]`, summed over parallel edges, and added to x in self-loops.
        batch: the graph of every node, in any order; None for one graph.
        null: `[dim]`; zero unless given.
        batch_size: the number of graphs, where the last ones may have no nodes.
        size: n, where it shall not be the size of the largest graph.
        max_nodes: larger graphs are refused.
    """
    _check(x, edge_index, edge_attr, batch, null)
    nodes, dim = x.shape
    if batch is None:
        batch = edge_index.new_zeros(nodes)
        batch_size = 1 if batch_size is None else batch_size
    _check_numbers(nodes, edge_index, batch, batch_size)
    if batch_size is None:
        batch_size = int(batch.max()) + 1 if nodes else 0
    counts = batch.new_zeros(batch_size).index_add(0, batch, torch.ones_like(batch))  # nodes of each graph
    largest = int(counts.max()) if batch_size else 0
    if max_nodes is not None and largest > max_nodes:
        raise ValueError(
            f"a graph has {largest} nodes, more than max_nodes={max_nodes}: there is a state for each of its "
            f"{largest}² pairs; take smaller graphs or subgraphs, or set another max_nodes"
        )
    if size is not None and largest > size:
        raise ValueError(f"graph {int(counts.argmax())} has {largest} nodes, more than size={size}")
    size = max(1, largest) if size is None else size  # encoders need room for a node
    # The place of each node in its graph: its place among all, ordered by graphs, less the nodes of graphs before.
    order = batch.argsort(stable=True)
    before = counts.cumsum(0) - counts
    rank = torch.empty_like(batch).scatter(0, order, torch.arange(nodes, device=batch.device))
    place = rank - before[batch]
    row = (batch * size + place) * size  # where the pairs of each node begin
    source, target = edge_index
    node_places, edge_places = row + place, row[source] + place[target]
    pairs = batch_size * size * size
    edge_mask = edge_places.new_zeros(pairs, dtype=torch.bool).index_fill(0, edge_places, True)
    places, states = torch.cat([node_places, edge_places]), torch.cat([x, edge_attr])
    edges = x.new_zeros(pairs, dim).index_add(0, places, states)
    shape = (batch_size, size, size)
    node_mask = torch.arange(size, device=batch.device) < counts[:, None]  # (B, n)
    if null is not None:
        real = (node_mask[:, :, None] & node_mask[:, None, :]).flatten()
        absent = (real & ~edge_mask).index_fill(0, node_places, False)
        edges = torch.where(absent[:, None], null, edges)
    return DenseEdges(edges.view(*shape, dim), node_mask, edge_mask.view(shape), node_places, edge_places)


def from_dense_edges(edges: Tensor, dense: DenseEdges) -> tuple[Tensor, Tensor]:
    """The states of nodes and edges in the order of the flat lists: `[nodes, dim]`, `[edges, dim]`.

    A node's state is that of its self-edge; parallel edges have the same state.

    Args:
        edges: `[batch, n, n, any dim]`.
        dense: what `to_dense_edges` answered with.
    """
    if edges.dim() != 4 or edges.shape[:3] != dense.edge_mask.shape:
        expected = ", ".join(map(str, dense.edge_mask.shape))
        raise ValueError(f"edges must be [{expected}, dim], but their shape is {list(edges.shape)}")
    flat = edges.flatten(0, 2)
    return flat[dense.node_places], flat[dense.edge_places]


def graph_tensors(data: Any) -> dict[str, Any]:
    """The arguments of a `GraphLayer` from a `Data` or `Batch`: x, edge_index, edge_attr, batch, batch_size.

    Args:
        data: a `Data` or `Batch` of PyTorch Geometric.
    """
    if isinstance(data, Tensor) or not hasattr(data, "num_nodes"):
        raise TypeError(f"data must be a torch_geometric Data or Batch, not {type(data).__name__}")
    if hasattr(data, "node_types"):
        raise ValueError(f"{type(data).__name__} has several types of nodes; call to_homogeneous() on it first")
    found = {name: getattr(data, name, None) for name in ("x", "edge_index", "edge_attr", "batch")}
    if found["edge_index"] is None:
        raise ValueError("data has no edge_index; a graph without edges has torch.empty(2, 0, dtype=torch.long)")
    if found["x"] is None:
        raise ValueError("data has no node features x; torch_geometric.transforms.Constant() adds some")
    return {**found, "batch_size": getattr(data, "num_graphs", 1) if found["batch"] is not None else 1}


class GraphLayer(nn.Module):
    """An encoder of pairs as a layer for graphs of PyTorch Geometric, `x, edge_index -> x', edge_attr'`.

    Self-edges start as a linear map of the node features, present edges as one of the edge features, or as a learned
    vector where `edge_dim` is None, and absent edges as a learned null vector.

    encoder: an `EdgeTransformer`, or a baseline. in_channels, edge_dim: the numbers of features of nodes and edges.
    max_nodes: larger graphs are refused, as memory grows with n², time with n³; None for no limit.

    >>> from edge_transformer.nn import EdgeTransformer, EdgeTransformerConfig
    >>> layer = GraphLayer(EdgeTransformer(EdgeTransformerConfig(dim=8, heads=2, layers=3)), in_channels=5)
    >>> x, edge_attr = layer(torch.randn(4, 5), torch.tensor([[0, 1, 3], [1, 2, 0]]))
    >>> x.shape, edge_attr.shape
    (torch.Size([4, 8]), torch.Size([3, 8]))
    """

    def __init__(
        self, encoder: Encoder, in_channels: int, *, edge_dim: int | None = None, max_nodes: int | None = 1000
    ) -> None:
        super().__init__()
        for name, value in (("in_channels", in_channels), ("edge_dim", edge_dim), ("max_nodes", max_nodes)):
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, but is {value}")
        self.encoder, self.max_nodes, dim = encoder, max_nodes, encoder.config.dim
        self.in_channels, self.edge_dim = in_channels, edge_dim
        self.node = nn.Linear(in_channels, dim)
        self.edge = None if edge_dim is None else nn.Linear(edge_dim, dim)
        self.present = nn.Parameter(torch.randn(dim)) if edge_dim is None else None
        self.null = nn.Parameter(torch.randn(dim))

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> tuple[Tensor, Tensor]:
        """New features of nodes and edges, in the order of the old: `[nodes, dim]`, `[edges, dim]`."""
        dense = self.dense(x, edge_index, edge_attr, batch, batch_size)
        nodes, edges = self.encoder.encode(dense.edges, dense.node_mask, dense.edge_mask)
        return nodes.flatten(0, 1)[dense.node_places // nodes.shape[1]], from_dense_edges(edges, dense)[1]

    def forward_data(self, data: Any) -> Any:
        """A copy of a `Data` or `Batch` with the new x and edge_attr; all else is shared with it.

        A `Batch` gives each of its graphs the attributes that they came with: where they had no edge_attr, take that of
        the whole batch, or `torch_geometric.utils.unbatch` it.
        """
        changed = copy(data)
        changed.x, changed.edge_attr = self(**graph_tensors(data))
        return changed

    def dense(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> DenseEdges:
        """What the encoder starts from; for models that read all pairs of its answer, not only nodes and edges."""
        nodes = self.node(_features("x", x, self.in_channels, "in_channels"))
        if self.edge is not None and edge_attr is not None:
            assert self.edge_dim is not None
            edges = self.edge(_features("edge_attr", edge_attr, self.edge_dim, "edge_dim"))
        elif self.present is not None and edge_attr is None:
            edges = self.present.to(nodes.dtype).expand(edge_index.shape[-1], -1)
        else:
            given = "None" if edge_attr is None else "given"
            raise ValueError(f"edge_attr is {given}, but the layer was made with edge_dim={self.edge_dim}")
        limits = {"batch_size": batch_size, "max_nodes": self.max_nodes}
        return to_dense_edges(nodes, edge_index, edges, batch, null=self.null.to(nodes.dtype), **limits)


def _features(name: str, features: Tensor, width: int, setting: str) -> Tensor:
    """Features as a matrix of floating-point numbers; one number each may come without a dimension for it."""
    if not isinstance(features, Tensor) or not features.is_floating_point():
        found = features.dtype if isinstance(features, Tensor) else type(features).__name__
        raise ValueError(f"{name} must be a tensor of floating-point numbers, not {found}; embed or one-hot categories")
    if features.dim() == 1 and width == 1:
        return features[:, None]
    if features.dim() != 2 or features.shape[1] != width:
        raise ValueError(f"{name} must be [any number, {setting}={width}], but its shape is {list(features.shape)}")
    return features


def _check(x: Tensor, edge_index: Tensor, edge_attr: Tensor, batch: Tensor | None, null: Tensor | None) -> None:
    """Refuse tensors that cannot belong together, by their shapes and types."""
    if x.dim() != 2:
        raise ValueError(f"x must be [nodes, dim], but its shape is {list(x.shape)}")
    nodes, dim = x.shape
    if edge_index.dim() != 2 or edge_index.shape[0] != 2 or edge_index.dtype != torch.long:
        found = f"{edge_index.dtype} {list(edge_index.shape)}"
        raise ValueError(f"edge_index must be torch.int64 [2, edges], but is {found}")
    if edge_attr.shape != (edge_index.shape[1], dim):
        expected = f"[edges={edge_index.shape[1]}, dim={dim}]"
        raise ValueError(f"edge_attr must be {expected}, but its shape is {list(edge_attr.shape)}")
    if edge_attr.dtype != x.dtype:
        raise ValueError(f"x and edge_attr must have one type, but have {x.dtype} and {edge_attr.dtype}")
    if batch is not None and (batch.shape != (nodes,) or batch.dtype != torch.long):
        raise ValueError(f"batch must be torch.int64 [nodes={nodes}], but is {batch.dtype} {list(batch.shape)}")
    if null is not None and null.shape != (dim,):
        raise ValueError(f"null must be [dim={dim}], but its shape is {list(null.shape)}")


def _check_numbers(nodes: int, edge_index: Tensor, batch: Tensor, batch_size: int | None) -> None:
    """Refuse nodes and graphs that are not there, and edges between graphs."""
    if nodes and int(batch.min()) < 0:
        raise ValueError(f"batch must number graphs from 0, but has {int(batch.min())}")
    if nodes and batch_size is not None and int(batch.max()) >= batch_size:
        raise ValueError(f"batch names graph {int(batch.max())}, but batch_size={batch_size}")
    if not edge_index.shape[1]:
        return
    least, most = (int(number) for number in edge_index.aminmax())
    if least < 0 or most >= nodes:
        wrong = least if least < 0 else most
        raise ValueError(f"edge_index names node {wrong}, but there are {nodes} nodes, numbered from 0")
    between = batch[edge_index[0]] != batch[edge_index[1]]
    if bool(between.any()):
        edge = int(between.nonzero()[0])
        ends = " and ".join(f"node {int(node)} of graph {int(batch[node])}" for node in edge_index[:, edge])
        raise ValueError(f"edge {edge} connects {ends}; edges must lie within a graph")
