"""Edge Transformers: a vector on every pair of nodes, updated by triangular attention."""

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
