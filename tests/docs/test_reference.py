"""Every public name says what it does, and every argument and field of it is explained."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import re
from typing import Any

import pytest

import edge_transformer as et
from documents import ROOT
from edge_transformer import nn
from edge_transformer.nn import encoder as registry
from edge_transformer.tasks.base import get_task
from edge_transformer.training.config import TrainConfig
from edge_transformer.training.track import TrainingStep

PUBLIC = {name: getattr(room, name) for room in (nn, et) for name in room.__all__}
PUBLIC["explain"] = et.explain.explain  # type: ignore[attr-defined]
FUNCTIONS = {name: value for name, value in PUBLIC.items() if inspect.isfunction(value)}
CLASSES = {name: value for name, value in PUBLIC.items() if inspect.isclass(value)}
TASKS = [get_task(name) for name in ("relations", "links", "graphs", "trees", "seq2seq")]
SETTINGS = {
    TrainConfig,
    TrainingStep,
    *(value for value in CLASSES.values() if dataclasses.is_dataclass(value) or hasattr(value, "_fields")),
    *(settings for task in TASKS for settings in (task.data.Settings, task.model.Options)),
    *(registry.find_encoder(name, reads).config for reads in registry.READS for name in registry.encoder_names(reads)),
}


def generator() -> Any:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs/generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", PUBLIC)
def test_a_docstring_starts_with_a_sentence(name: str) -> None:
    first = (PUBLIC[name].__doc__ or "").strip().split("\n\n")[0]
    assert len(first.split()) > 3


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_argument_is_explained(name: str) -> None:
    said = inspect.getdoc(FUNCTIONS[name]) or ""
    told = {each for line in re.findall(r"^    ([\w, *]+): ", said, flags=re.MULTILINE) for each in line.split(", ")}
    assert {*inspect.signature(FUNCTIONS[name]).parameters} <= {each.lstrip("*") for each in told}


@pytest.mark.parametrize("name", CLASSES)
def test_every_method_is_explained(name: str) -> None:
    for method, value in inspect.getmembers(CLASSES[name], inspect.isroutine):
        ours = (getattr(value, "__module__", None) or "").startswith("edge_transformer.")
        if ours and not method.startswith("_") and method != "forward":
            assert inspect.getdoc(value), method


@pytest.mark.parametrize("settings", sorted(SETTINGS, key=repr), ids=lambda each: each.__name__)
def test_every_field_is_explained(settings: Any) -> None:
    write = generator()
    comments = write.field_comments(settings)
    names = (
        [each.name for each in dataclasses.fields(settings)] if dataclasses.is_dataclass(settings) else settings._fields
    )
    for name in names:
        assert comments.get(name) or write.PLAIN.get(name), name
