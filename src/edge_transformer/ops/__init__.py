"""Numbers in, numbers out: triangular attention and the engines that compute it."""

from .attention import ENGINES, triangular_attention
from .engine import Engine, Options

__all__ = ["ENGINES", "Engine", "Options", "triangular_attention"]
