"""An Edge Transformer between layers of PyTorch Geometric: which skip links does a cycle have?

Node i of a CSL graph is connected with i ± 1 and i ± skip. Each node has four neighbours, all alike, so that message
passing (1-WL) sees no difference between the graphs. Random positional features of the nodes help it only a little.
Needs the extra `graph`. Run it: python examples/graph_classification_pyg.py
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GINConv, global_add_pool

import edge_transformer as et

NODES, SKIPS, FEATURES, DIM = 13, (2, 3, 5), 4, 32


def csl_graph(label: int) -> Data:
    """A CSL graph with its nodes in random order, and random positional features."""
    node = torch.arange(NODES)
    source = node.repeat(4)
    target = torch.cat([node + step for skip in (1, SKIPS[label]) for step in (skip, -skip)]) % NODES
    edge_index = torch.randperm(NODES)[torch.stack([source, target])]
    return Data(x=torch.randn(NODES, FEATURES), edge_index=edge_index, y=torch.tensor([label]))


def graphs(count: int) -> Batch:
    return Batch.from_data_list([csl_graph(number % len(SKIPS)) for number in range(count)])


def perceptron(inputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, DIM), nn.ReLU(), nn.Linear(DIM, DIM))


class Classifier(nn.Module):
    """GIN, the layer between, GIN; the nodes of a graph are added up for its logits."""

    def __init__(self, between: nn.Module) -> None:
        super().__init__()
        self.first, self.between, self.last = GINConv(perceptron(FEATURES)), between, GINConv(perceptron(DIM))
        self.classifier = nn.Sequential(nn.LayerNorm(DIM), nn.Linear(DIM, len(SKIPS)))

    def forward(self, data: Batch) -> Tensor:
        x = self.first(data.x, data.edge_index).relu()
        if isinstance(self.between, et.nn.GraphLayer):
            x, _ = self.between(x, data.edge_index, batch=data.batch)
        else:
            x = self.between(x, data.edge_index).relu()
        return self.classifier(global_add_pool(self.last(x, data.edge_index), data.batch))


def train(name: str, between: nn.Module) -> None:
    model = Classifier(between)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(60):
        data = graphs(24)
        loss = F.cross_entropy(model(data), data.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    test = graphs(300)
    with torch.no_grad():
        accuracy = float((model(test).argmax(-1) == test.y).float().mean())
    print(f"{name}: accuracy {accuracy:.2f}")


def main() -> None:
    torch.manual_seed(1)
    torch.set_num_threads(1)
    train("GIN alone", GINConv(perceptron(DIM)))
    config = et.EdgeTransformerConfig(dim=DIM, heads=4, layers=3)
    train("with an Edge Transformer", et.nn.GraphLayer(et.EdgeTransformer(config), in_channels=DIM))


if __name__ == "__main__":
    main()
