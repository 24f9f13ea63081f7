"""Numbers in, numbers out: triangular attention and the engines that compute it."""

from .private import require_names

require_names()

from .attention import ENGINES, triangular_attention  # noqa: E402
from .engine import Engine, Options  # noqa: E402

__all__ = ["ENGINES", "Engine", "Options", "triangular_attention"]
