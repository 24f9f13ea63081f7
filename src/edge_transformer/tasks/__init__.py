"""The benchmarks, one file each: what is predicted, its loss, its score."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from ..errors import UserError
from .base import TaskData, TaskModel


class Task(NamedTuple):
    """The two halves of a task."""

    data: type[TaskData]
    model: type[TaskModel]


# File and class of the two halves. Each task is imported when it is first asked for: nobody waits for the others.
TASKS = {
    "clutrr": ("relations.model.RelationData", "relations.model.RelationModel"),
    "cogs": ("graphs.cogs.CogsData", "graphs.cogs.CogsParser"),
    "graphs": ("graphs.data.ParsingData", "graphs.model.GraphParser"),
    "dependency": ("trees.data.TreebankTask", "trees.model.TreeParser"),
    "seq2seq": ("seq2seq.data.Seq2SeqData", "seq2seq.model.Translator"),
}


@cache
def get_task(name: str) -> Task:
    """The task with this name."""
    if name not in TASKS:
        raise UserError(f"unknown task {name!r}; known are {', '.join(TASKS)}")
    data, model = map(_import, TASKS[name])
    return Task(data, model)


def _import(place: str) -> Any:
    file, name = place.rsplit(".", 1)
    return getattr(import_module(f".{file}", __name__), name)
