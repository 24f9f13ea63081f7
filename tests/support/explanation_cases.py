"""A small model and a question to explain, for tests."""

from __future__ import annotations

from typing import Any

import torch

from edge_transformer.data.relations.schema import Schema
from edge_transformer.data.tensors import Vocab
from edge_transformer.tasks.relations.model import RelationModel

RELATIONS = ("brother", "daughter", "sister", "son")
CHAIN: dict[str, Any] = {
    "edges": [["Ann", "son", "Bob"], ["Bob", "sister", "Eve"], ["Eve", "son", "Tom"]],
    "query": ["Ann", "Tom"],
}


def model(**settings: Any) -> RelationModel:
    torch.manual_seed(1)
    shape = {"kind": "edge", "dim": 8, "heads": 2, "layers": 3, **settings}
    return RelationModel(shape, Schema(Vocab(RELATIONS), Vocab(["daughter", "grandson", "son"]))).eval()
