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
    "clutrr": ("clutrr.RelationData", "clutrr.RelationModel"),
    "cogs": ("cogs.CogsData", "cogs.CogsParser"),
    "graphs": ("graph_parsing.ParsingData", "graph_parser.GraphParser"),
    "dependency": ("dependency.TreebankTask", "tree_parser.TreeParser"),
    "seq2seq": ("seq2seq.Seq2SeqData", "translator.Translator"),
}


@cache
def get_task(name: str) -> Task:
    """The task with this name."""
    if name not in TASKS:
        raise UserError(f"unknown task {name!r}; known are {', '.join(TASKS)}")
    data, model = map(_import, TASKS[name])
    return Task(data, model)


def _import(place: str) -> Any:
    file, name = place.split(".")
    return getattr(import_module(f".{file}", __name__), name)
