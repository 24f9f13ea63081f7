"""Edge Transformers: a vector on every pair of nodes, updated by triangular attention."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .attention import triangular_attention
    from .checkpoint import load
    from .config import EdgeTransformerConfig
    from .encoder import EdgeTransformer, Encoded
    from .errors import DataError, UserError
    from .explanation import explain

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
    "EdgeTransformer": "encoder",
    "EdgeTransformerConfig": "config",
    "Encoded": "encoder",
    "UserError": "errors",
    "explain": "explanation",
    "load": "checkpoint",
    "triangular_attention": "attention",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
