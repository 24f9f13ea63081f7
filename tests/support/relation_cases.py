"""Small data, models and questions of relational reasoning, for tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from edge_transformer.data.relations.generate import generate
from edge_transformer.data.relations.rows import RelationRows, Story
from edge_transformer.tasks.relations.data import RelationData, RelationSettings
from edge_transformer.tasks.relations.model import RelationModel

MODEL = {"kind": "edge", "dim": 16, "heads": 2, "layers": 2, "dropout": 0.0}
CPU = torch.device("cpu")


def make_data(rows: int = 60) -> RelationRows:
    train, tests = generate([2, 3], [2, 4], rows=rows, seed=3, test_rows=12)
    conflicting = replace(train[0], target="son" if train[0].target != "son" else "aunt")
    return RelationRows(
        name="families",
        fingerprint="abc",
        train=(*train, train[0], conflicting),  # a graph of three rows and two answers
        tests={k: tuple(stories) for k, stories in tests.items()},
    )


@pytest.fixture(scope="module")
def stories() -> RelationRows:
    return make_data()


@pytest.fixture
def data(stories: RelationRows) -> RelationData:
    return RelationData(stories, RelationSettings(), seed=1)


@pytest.fixture
def model(data: RelationData) -> RelationModel:
    torch.manual_seed(1)
    new = data.new_model(MODEL)
    assert isinstance(new, RelationModel)
    return new


def as_json(story: Story) -> dict[str, Any]:
    edges = zip(story.edges, story.relations, strict=True)
    names = story.names
    return {
        "edges": [[names[start], relation, names[end]] for (start, end), relation in edges],
        "query": [names[node] for node in story.query],
    }


def question(model: RelationModel) -> dict[str, Any]:
    return {"edges": [["a", next(iter(model.relations)), "b"]], "query": ["a", "b"]}


def single(model: RelationModel, story: Story) -> Tensor:
    """The logits of one story, computed alone."""
    labels = torch.zeros(1, story.size, story.size, dtype=torch.long)
    for (start, end), relation in zip(story.edges, story.relations, strict=True):
        labels[0, start, end] = list(model.relations).index(relation) + 1
    return model(labels, torch.tensor([story.query]))[0]
