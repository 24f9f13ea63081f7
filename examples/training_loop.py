"""Your own model and training loop around `et.EdgeTransformer`: transitive closure.

Given the edges of a random directed graph, say for every pair of nodes whether a path leads from one to the other. An
edge of the closure follows from two shorter paths, which is what a triangle composes.
Run it: python examples/training_loop.py
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import edge_transformer as et
from edge_transformer.nn.heads import EdgeLabelHead
from edge_transformer.nn.inputs import LabelledGraphInput


class Reachability(nn.Module):
    """`[batch, n, n]` edges, 0 or 1 -> `[batch, n, n, 2]` logits: is there a path?"""

    def __init__(self, config: et.EdgeTransformerConfig) -> None:
        super().__init__()
        self.input = LabelledGraphInput(labels=1, dim=config.dim)
        self.encoder = et.EdgeTransformer(config)
        self.head = EdgeLabelHead(config.dim, labels=2)

    def forward(self, edges: Tensor) -> Tensor:
        return self.head(self.encoder.encode(self.input(edges)))


def graphs(count: int, nodes: int) -> tuple[Tensor, Tensor]:
    """Random graphs with about one edge from each node, and which nodes can be reached from which."""
    edges = (torch.rand(count, nodes, nodes) < 1 / nodes).long()
    paths = edges.float()
    for _ in range(nodes):
        paths = ((paths + paths @ edges.float()) > 0).float()
    return edges, paths.long()


def accuracy(model: nn.Module, edges: Tensor, paths: Tensor) -> float:
    """The share of pairs, among those that have no edge, that are labelled right."""
    with torch.no_grad():
        right = model(edges).argmax(-1) == paths
    return float(right[edges == 0].float().mean())


def main() -> None:
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = Reachability(et.EdgeTransformerConfig(dim=32, heads=4, layers=4))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for step in range(1, 61):
        edges, paths = graphs(32, nodes=8)
        loss = F.cross_entropy(model(edges).flatten(0, 2), paths.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step}: loss {loss.item():.3f}")
    model.eval()
    for nodes in (8, 12):
        edges, paths = graphs(100, nodes)
        guess = float((paths[edges == 0] == 0).float().mean())
        print(f"{nodes} nodes: accuracy {accuracy(model, edges, paths):.3f}, always 'no path' {guess:.3f}")


if __name__ == "__main__":
    main()
