"""Edge Transformers: a vector on every pair of nodes, updated by triangular attention."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api import evaluate, explain, load, register_task, train
    from .errors import DataError, UserError
    from .nn.decoder import EdgeSeq2Seq
    from .nn.encoder import EdgeTransformer, Encoded, register_encoder
    from .nn.layer import EdgeTransformerConfig
    from .onnx.export import export
    from .ops.attention import triangular_attention
    from .tasks.base import TaskData, TaskModel
    from .tasks.graphs.model import GraphParser
    from .tasks.links.model import LinkModel
    from .tasks.relations.model import RelationModel
    from .tasks.seq2seq.model import Translator
    from .tasks.trees.model import TreeParser

# Where each public name is. It is imported when it is first asked for: PyTorch takes seconds, and half of the command
# line needs none of it.
_HOMES = {
    "DataError": "errors",
    "EdgeSeq2Seq": "nn.decoder",
    "EdgeTransformer": "nn.encoder",
    "EdgeTransformerConfig": "nn.layer",
    "Encoded": "nn.encoder",
    "GraphParser": "tasks.graphs.model",
    "LinkModel": "tasks.links.model",
    "RelationModel": "tasks.relations.model",
    "TaskData": "tasks.base",
    "TaskModel": "tasks.base",
    "Translator": "tasks.seq2seq.model",
    "TreeParser": "tasks.trees.model",
    "UserError": "errors",
    "evaluate": "api",
    "export": "onnx.export",
    "load": "tasks.base",
    "register_encoder": "nn.encoder",
    "register_task": "tasks.base",
    "train": "api",
    "triangular_attention": "ops.attention",
}
__all__ = [
    "DataError",
    "EdgeSeq2Seq",
    "EdgeTransformer",
    "EdgeTransformerConfig",
    "Encoded",
    "GraphParser",
    "LinkModel",
    "RelationModel",
    "TaskData",
    "TaskModel",
    "Translator",
    "TreeParser",
    "UserError",
    "evaluate",
    "explain",
    "export",
    "load",
    "register_encoder",
    "register_task",
    "train",
    "triangular_attention",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib import metadata

        return metadata.version("edge-transformer")
    if name in _HOMES:
        value = globals()[name] = getattr(import_module(f".{_HOMES[name]}", __name__), name)
        return value
    if not name.startswith("_") and find_spec(f"{__name__}.{name}"):  # a room; `explain` is one that can be called
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
