"""Modules of PyTorch: the Edge Transformer, its layers, inputs and heads, and the baselines it is compared with."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import baselines, graphs, heads, inputs
    from .decoder import EdgeSeq2Seq
    from .encoder import EdgeTransformer, Encoded, recompute, register_encoder
    from .graphs import GraphLayer, from_dense_edges, graph_tensors, to_dense_edges
    from .layer import EdgeTransformerConfig, EdgeTransformerLayer, TriangularAttention

__all__ = [
    "EdgeSeq2Seq",
    "EdgeTransformer",
    "EdgeTransformerConfig",
    "EdgeTransformerLayer",
    "Encoded",
    "GraphLayer",
    "TriangularAttention",
    "baselines",
    "from_dense_edges",
    "graph_tensors",
    "graphs",
    "heads",
    "inputs",
    "recompute",
    "register_encoder",
    "to_dense_edges",
]
# Imported when they are first asked for: who loads one kind of model does not wait for the others.
_HOMES = {
    "EdgeSeq2Seq": "decoder",
    "EdgeTransformer": "encoder",
    "EdgeTransformerConfig": "layer",
    "EdgeTransformerLayer": "layer",
    "Encoded": "encoder",
    "GraphLayer": "graphs",
    "TriangularAttention": "layer",
    "from_dense_edges": "graphs",
    "graph_tensors": "graphs",
    "recompute": "encoder",
    "register_encoder": "encoder",
    "to_dense_edges": "graphs",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = globals()[name] = getattr(import_module(f".{_HOMES[name]}", __name__), name)
        return value
    if name in __all__:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
