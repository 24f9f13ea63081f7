"""Explanations of answers by the triangles behind them, and measures of their faithfulness."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any, overload

from ..tasks.base import TaskModel
from ..tasks.links.model import LinkModel
from ..tasks.relations.model import RelationModel
from .claims import Claim, Explanation
from .links.claims import LinkExplanation
from .links.proof import explain_link
from .proof import explain_graph, explain_stories

__all__ = ["Claim", "Explanation", "LinkExplanation", "explain", "explain_link", "explain_stories"]


@overload
def explain(model: LinkModel, question: Mapping[str, Any]) -> LinkExplanation: ...
@overload
def explain(model: RelationModel, question: Mapping[str, Any]) -> Explanation: ...
@overload
def explain(model: TaskModel, question: Mapping[str, Any]) -> Any: ...
def explain(model: TaskModel, question: Mapping[str, Any]) -> Explanation | LinkExplanation:
    """Explain a model's answer by the triangles behind it.

    Args:
        model: a `RelationModel` or `LinkModel` of Edge Transformer layers.
        question: as `predict` takes it, such as
            `{"edges": [["Ann", "son", "Bob"], ["Bob", "sister", "Eve"]], "query": ["Ann", "Eve"]}`, or
            `{"head": "Ann", "relation": "aunt", "tail": "Eve"}`: why is this link probable? A link without its tail,
            head or relation is completed by the best candidate that is not known.
    """
    if isinstance(model, LinkModel):
        return explain_link(model, question)
    return explain_graph(model, question)


class _Room(ModuleType):
    """Makes the package callable: `edge_transformer.explain` is also a public function."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return explain(*arguments, **options)


sys.modules[__name__].__class__ = _Room
