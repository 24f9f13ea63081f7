"""Why a model answered what it did: the triangles behind an answer, and how far to believe such an explanation."""

import sys
from types import ModuleType
from typing import Any

from .claims import Claim, Explanation
from .proof import explain, explain_stories

__all__ = ["Claim", "Explanation", "explain", "explain_stories"]


class _Room(ModuleType):
    """This package can be called: `edge_transformer.explain` is both a package and a public function."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return explain(*arguments, **options)


sys.modules[__name__].__class__ = _Room
