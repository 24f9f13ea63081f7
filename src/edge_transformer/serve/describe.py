"""What a page must know of a model, as plain JSON."""

from __future__ import annotations

from typing import Any

from ..data.graphs.corpora import TEXTS
from ..data.graphs.logical_forms import COLUMNS
from ..data.relations.families import GENERATIONS, RELATIONS
from ..data.relations.schema import Schema
from ..tasks.base import TaskModel
from ..tasks.graphs.edge_model import EdgeParser
from ..tasks.graphs.model import LOGICAL_FORM, GraphParser
from ..tasks.links.model import LinkModel
from ..tasks.relations.model import LabelledGraphModel


def describe_model(model: TaskModel) -> dict[str, Any]:
    """The task of a model, its labels and sizes."""
    said: dict[str, Any] = {"task": model.task}
    if isinstance(model, LabelledGraphModel):
        relations, answers = list(model.relations), list(model.answers)
        said |= {"asks": model.asks, "relations": relations, "answers": answers, "answers_are": model.schema.kind}
        said |= _describe_features(model.schema)
        if set(relations) <= set(RELATIONS):
            said["generations"] = {name: GENERATIONS[name] for name in (*relations, *answers) if name in GENERATIONS}
        said |= {"layers": model.settings.get("layers"), "heads": model.settings.get("heads")}
    elif isinstance(model, GraphParser):
        said |= _describe_parser(model)
    elif isinstance(model, LinkModel):
        said |= {"relations": list(model.relations), "nodes": len(model.entities), "facts": len(model.known.facts)}
    return said


def _describe_features(schema: Schema) -> dict[str, Any]:
    """What rows have beside relations: labels of nodes, how many numbers a node or an edge, edges told to be absent."""
    said: dict[str, Any] = {"node_labels": list(schema.node_labels)} if len(schema.node_labels) else {}
    for name, scale in (("node_features", schema.node_features), ("edge_features", schema.edge_features)):
        if scale is not None:
            said[name] = len(scale.mean)
    return said | ({"absent": True} if schema.absent else {})


def _describe_parser(model: GraphParser) -> dict[str, Any]:
    """Its labels, and what is rebuilt from its graphs."""
    said: dict[str, Any] = {"columns": {name: list(labels) for name, labels in model.columns.items()}}
    text = LOGICAL_FORM if set(model.columns) == set(COLUMNS) else ""
    if isinstance(model, EdgeParser):
        text, vocabs = model.text, model.vocabs
        said |= {"edges": list(vocabs.edges), "own": list(vocabs.own)}
        said["sentence"] = {name: list(labels) for name, labels in vocabs.sentence.items()}
    if text:
        said["text"] = {"field": text, "title": TEXTS[text].title if text in TEXTS else text.replace("_", " ")}
    return said
