"""What a page must know of a model, as plain JSON."""

from __future__ import annotations

from typing import Any

from ..data.relations.families import GENERATIONS, RELATIONS
from ..tasks.base import TaskModel
from ..tasks.graphs.model import GraphParser
from ..tasks.links.model import LinkModel
from ..tasks.relations.model import LabelledGraphModel


def describe_model(model: TaskModel) -> dict[str, Any]:
    """The task of a model, its labels and sizes."""
    said: dict[str, Any] = {"task": model.task}
    if isinstance(model, LabelledGraphModel):
        relations, answers = list(model.relations), list(model.answers)
        said |= {"asks": model.asks, "relations": relations, "answers": answers, "answers_are": model.schema.kind}
        if set(relations) <= set(RELATIONS):
            said["generations"] = {name: GENERATIONS[name] for name in (*relations, *answers) if name in GENERATIONS}
        said |= {"layers": model.settings.get("layers"), "heads": model.settings.get("heads")}
    elif isinstance(model, GraphParser):
        said["columns"] = {name: list(labels) for name, labels in model.columns.items()}
    elif isinstance(model, LinkModel):
        said |= {"relations": list(model.relations), "nodes": len(model.entities), "facts": len(model.known.facts)}
    return said
