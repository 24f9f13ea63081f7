"""Explanations of answers by the triangles behind them, and measures of their faithfulness."""

import sys
from types import ModuleType
from typing import Any

from .claims import Claim, Explanation
from .proof import explain, explain_stories

__all__ = ["Claim", "Explanation", "explain", "explain_stories"]


class _Room(ModuleType):
    """Makes the package callable: `edge_transformer.explain` is also a public function."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return explain(*arguments, **options)


sys.modules[__name__].__class__ = _Room
