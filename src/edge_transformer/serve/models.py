"""Served models: loaded once, with their operations, their queue, and what the page must know of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from ..data.links.graph import HEAD, TAIL
from ..errors import UserError, suggestion
from ..io.settings import to_dict
from ..tasks.base import TaskModel, bundled_models, load
from ..tasks.links.model import LinkModel
from .batching import Batcher
from .bodies import Refused
from .describe import describe_model
from .limits import Limits
from .metrics import Metrics
from .operations import Operation, operations_of, warm

MOST_NAMES = 200  # nodes in an answer


class ServedModel:
    """A model with its name in addresses, its operations and its queue."""

    def __init__(self, name: str, model: TaskModel, limits: Limits, metrics: Metrics) -> None:
        self.name, self.model, self.limits = name, model, limits
        self.operations = operations_of(model, limits)
        self.batcher = Batcher(name, limits, metrics)

    def operation(self, verb: str) -> Operation:
        """What it can be asked for by this name."""
        if verb not in self.operations:
            can = ", ".join(self.operations)
            raise Refused(404, f"{self.name} cannot {verb}: it is a model of the task {self.model.task}; it can {can}")
        return self.operations[verb]

    def graph(self) -> GraphPart:
        """The knowledge graph of a model of links."""
        if not isinstance(self.model, LinkModel):
            raise Refused(404, f"{self.name} has no graph: it is a model of the task {self.model.task}, not of links")
        return self._graph

    @cached_property
    def _graph(self) -> GraphPart:
        assert isinstance(self.model, LinkModel)
        return GraphPart(self.model)

    def describe(self) -> dict[str, Any]:
        """What a client must know, as plain JSON."""
        said = {"name": self.name, "operations": list(self.operations), **describe_model(self.model)}
        return said | {"limits": to_dict(self.limits)}


class GraphPart:
    """Parts of a knowledge graph: names, and the facts around a node."""

    def __init__(self, model: LinkModel) -> None:
        self.model = model
        self._lower = [name.lower() for name in model.entities]

    def nodes(self, like: str, limit: int) -> list[str]:
        """Names that begin with a text, then others that have it, up to a limit."""
        wanted, names = like.lower()[:200], list(self.model.entities)
        limit = max(1, min(limit, MOST_NAMES))
        places = [place for place, name in enumerate(self._lower) if wanted in name]
        places.sort(key=lambda place: (not self._lower[place].startswith(wanted), place))
        return [names[place] for place in places[:limit]]

    def around(self, name: str, limit: int) -> dict[str, Any]:
        """The facts among a node and its neighbours, which are chosen by chance where there are too many."""
        model, known = self.model, self.model.known
        node = model.entities.number(name)
        if node is None:
            near = suggestion(name, self.nodes(name[:3], 50))
            raise Refused(404, f"node: found {name[:80]!r}; expected a node of the graph{near}")
        touching = (known.facts[:, HEAD] == node) | (known.facts[:, TAIL] == node)
        neighbours = torch.unique(known.facts[touching][:, [HEAD, TAIL]])
        limit = max(2, min(limit, MOST_NAMES))
        others = neighbours[neighbours != node][: limit - 1]
        chosen = torch.cat([torch.tensor([node]), others])
        facts, _ = known.graph.within(chosen)
        names = [model.entities.name(number) for number in chosen.tolist()]
        return {
            "node": name,
            "nodes": names,
            "facts": [
                [names[head], model.relations.name(relation), names[tail]]
                for head, relation, tail in facts[: 4 * MOST_NAMES].tolist()
            ],
            "left_out": int(len(neighbours) - 1 - len(others)) if len(neighbours) else 0,
        }


def load_models(
    names: Sequence[str], limits: Limits, metrics: Metrics, trust: Iterable[str] = ()
) -> dict[str, ServedModel]:
    """Load models by name or folder, by default all bundled ones; the name of a folder is its last part."""
    found: dict[str, ServedModel] = {}
    for given in names or bundled_models():
        name = Path(given).resolve().name if Path(given).is_dir() else given
        if name in found:
            raise UserError(f"{given}: found two models named {name}; expected folders whose last parts differ")
        model = load(given, trust)
        warm(model)
        found[name] = ServedModel(name, model, limits, metrics)
    if not found:
        raise UserError("found no bundled model; expected the folder of a trained one")
    return found
