"""The benchmarks, one file each: what is predicted, its loss, its score."""

from __future__ import annotations

from typing import NamedTuple

from ..errors import UserError
from .base import TaskData, TaskModel
from .clutrr import RelationData, RelationModel
from .cogs import CogsData, CogsParser
from .dependency import TreebankTask
from .graph_parsing import GraphParser, ParsingData
from .seq2seq import Seq2SeqData
from .translator import Translator
from .tree_parser import TreeParser


class Task(NamedTuple):
    """The two halves of a task."""

    data: type[TaskData]
    model: type[TaskModel]


TASKS = {
    "clutrr": Task(RelationData, RelationModel),
    "cogs": Task(CogsData, CogsParser),
    "graphs": Task(ParsingData, GraphParser),
    "dependency": Task(TreebankTask, TreeParser),
    "seq2seq": Task(Seq2SeqData, Translator),
}


def get_task(name: str) -> Task:
    """The task with this name."""
    if name not in TASKS:
        raise UserError(f"unknown task {name!r}; known are {', '.join(TASKS)}")
    return TASKS[name]
