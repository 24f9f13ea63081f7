"""Graphs whose rule is known, and a model with weights that follow it: what is in a region is where the region is."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from edge_transformer.data.links.rows import Fact
from edge_transformer.data.tensors import Vocab
from edge_transformer.tasks.links.graph import Named
from edge_transformer.tasks.links.model import LinkModel

RELATIONS = ("in", "likes")
CITIES, REGIONS, CONTINENTS = 8, 4, 2
ASKED = {"head": "city 0", "relation": "in", "tail": "continent 0"}
PROOF = {Fact("city 0", "in", "region 0"), Fact("region 0", "in", "continent 0")}
FACTS = (
    *(Fact(f"region {each}", "in", f"continent {each % CONTINENTS}") for each in range(REGIONS)),
    *(Fact(f"city {each}", "in", f"region {each % REGIONS}") for each in range(CITIES)),
    *(Fact(f"city {each}", "likes", f"city {(3 * each + 1) % CITIES}") for each in range(CITIES)),
)
HELD_OUT = [Fact(f"city {each}", "in", f"continent {each % REGIONS % CONTINENTS}") for each in range(CITIES)]


def link_model(facts: tuple[Fact, ...] = FACTS, **settings: Any) -> LinkModel:
    """A model with random weights."""
    torch.manual_seed(1)
    entities = Vocab(dict.fromkeys(node for fact in facts for node in (fact.head, fact.tail)))
    shape = {"kind": "edge", "dim": 8, "heads": 2, "layers": 2, **settings}
    shape |= {"norm": "pre"} if shape["kind"] == "edge" else {}
    known = Named.of(facts, entities, Vocab(RELATIONS))
    return LinkModel(shape, known, (len(entities) if shape.get("entities") else 0, 0, 0)).eval()


@torch.no_grad()
def transitive(facts: tuple[Fact, ...] = FACTS, layers: int = 1, members: int = 1) -> LinkModel:
    """A model that composes (i, in, j) from (i, in, l) and (l, in, j), and does nothing else.

    Of a state, number 0 says that a fact is told and number 1 that a layer has composed it; number 2 is for the other
    relation.
    """
    model = link_model(facts, heads=1, layers=layers, members=members)
    networks: Any = model.networks
    for network in networks:
        for name, weight in network.named_parameters():
            if "norm" not in name:
                nn.init.zeros_(weight)
        network.input.forth.weight[0, 0] = network.input.forth.weight[1, 2] = 1.0
        layer = network.encoder.layers[0]
        for part in range(4):  # q, k, v1 and v2 see whether an edge is told or composed
            layer.attention.projections.weight[8 * part, :2] = 1.0
        layer.attention.output.weight[1, 0] = 1.0
        network.head.forth.weight[0, 1] = 3.0
    return model
