"""The graph of a model by name, and with more facts."""

from __future__ import annotations

import pytest
import torch

from edge_transformer import DataError
from edge_transformer.data.links.rows import Entity, Fact
from edge_transformer.data.tensors import Vocab
from edge_transformer.tasks.links.graph import Named

FACTS = [Fact("Ann", "aunt", "Eve"), Fact("Eve", "niece", "Ann")]
ABOUT = {"Ann": Entity(("person", "woman"), (1.0, 2.0)), "Eve": Entity(("person",), (3.0, 4.0))}


def graph() -> Named:
    return Named.of(FACTS, Vocab(["Ann", "Eve", "Rex"]), Vocab(["aunt", "niece"]), ABOUT)


def test_what_is_known_of_nodes() -> None:
    about = graph().inputs()
    assert about["entities"].tolist() == [0, 1, 2]
    assert [part.tolist() for part in about["types"]] == [[0, 1, 0], [0, 2, 3]]  # Rex has no type
    assert about["features"].tolist() == [[1, 2], [3, 4], [0, 0]]
    some = graph().inputs(torch.tensor([2, 0]))
    assert some["entities"].tolist() == [2, 0]
    assert [part.tolist() for part in some["types"]] == [[0, 1], [0, 0]]
    assert some["features"].tolist() == [[0, 0], [1, 2]]
    assert graph().inputs(torch.tensor([1]))["types"][0].tolist() == [0]
    assert set(Named.of(FACTS, Vocab(["Ann", "Eve"]), Vocab(["aunt", "niece"])).inputs()) == {"entities"}


def test_types_that_a_model_does_not_know_are_left_out() -> None:
    named = Named.of(FACTS, Vocab(["Ann", "Eve"]), Vocab(["aunt", "niece"]), ABOUT, Vocab(["woman"]))
    assert [part.tolist() for part in named.inputs()["types"]] == [[0], [0, 1]]


def test_more_facts() -> None:
    before = graph()
    grown = before.with_facts([Fact("Bo", "aunt", "Ann"), FACTS[0]])
    assert list(grown.entities) == ["Ann", "Eve", "Rex", "Bo"]
    assert sorted(grown.named()) == sorted([*FACTS, Fact("Bo", "aunt", "Ann")])
    assert grown.facts_known == {(0, 0, 1), (1, 1, 0), (3, 0, 0)}
    about = grown.inputs()
    assert about["entities"].tolist() == [0, 1, 2, -1]  # no embedding was learned for a new node
    assert about["features"][3].tolist() == [0, 0]
    assert about["types"][1].tolist() == [0, 2, 3, 3]
    again = grown.with_facts([Fact("Cy", "aunt", "Bo")])
    assert again.inputs()["entities"].tolist() == [0, 1, 2, -1, -1]
    assert list(before.entities) == ["Ann", "Eve", "Rex"]
    assert list(before.named()) == FACTS


def test_other_facts_alone() -> None:
    other = graph().with_facts([Fact("Eve", "aunt", "Bo")], replacing=True)
    assert list(other.named()) == [Fact("Eve", "aunt", "Bo")]
    assert list(other.entities) == ["Eve", "Bo"]
    assert other.inputs()["entities"].tolist() == [-1, -1]
    assert [part.tolist() for part in other.inputs()["types"]] == [[], [0, 0]]


def test_an_unknown_relation_is_refused() -> None:
    with pytest.raises(DataError, match=r"found the relation 'nice'; expected one of aunt, niece.*did you mean"):
        graph().with_facts([Fact("Ann", "nice", "Eve")])
    many = Named.of([], Vocab([]), Vocab([f"r{n}" for n in range(20)]))
    with pytest.raises(DataError, match="r11 and 8 more"):
        many.with_facts([Fact("Ann", "aunt", "Eve")])
