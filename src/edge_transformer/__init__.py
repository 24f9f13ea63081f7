"""Edge Transformers: a vector on every pair of nodes, updated by triangular attention."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .errors import DataError, UserError
    from .explain import explain
    from .nn.encoder import EdgeTransformer, Encoded
    from .nn.layer import EdgeTransformerConfig
    from .ops.attention import triangular_attention
    from .training.models import load

__all__ = [
    "DataError",
    "EdgeTransformer",
    "EdgeTransformerConfig",
    "Encoded",
    "UserError",
    "explain",
    "load",
    "triangular_attention",
]

# Imported when they are first asked for: PyTorch takes seconds, and half of the command line needs none of it.
_HOMES = {
    "DataError": "errors",
    "EdgeTransformer": "nn.encoder",
    "EdgeTransformerConfig": "nn.layer",
    "Encoded": "nn.encoder",
    "UserError": "errors",
    "explain": "explain",
    "load": "training.models",
    "triangular_attention": "ops.attention",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib import metadata

        return metadata.version("edge-transformer")
    if name in _HOMES:
        value = globals()[name] = getattr(import_module(f".{_HOMES[name]}", __name__), name)
        return value
    if not name.startswith("_") and find_spec(f"{__name__}.{name}"):  # a module, such as edge_transformer.nn.layer
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
