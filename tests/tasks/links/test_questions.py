"""Questions about links: what they may say, and errors on what they may not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from edge_transformer import DataError
from edge_transformer.data.links.rows import Fact
from edge_transformer.data.tensors import Vocab
from edge_transformer.tasks.links.graph import Named
from edge_transformer.tasks.links.questions import read_question

GRAPH = Named.of([Fact("Ann", "aunt", "Eve")], Vocab(["Ann", "Eve"]), Vocab(["aunt"]))


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ({"head": "Ann", "relation": "aunt"}, "tail"),
        ({"relation": "aunt", "tail": "Eve", "head": None}, "head"),
        ({"head": "Ann", "tail": 7}, "relation"),
    ],
)
def test_what_is_left_out_is_asked_for(given: dict[str, Any], asked: str) -> None:
    question = read_question({**given, "id": 3}, "here")
    assert question.asked == asked
    said = {name: str(value) for name, value in given.items() if value is not None}
    assert question.said() == {"id": 3, **said}
    assert "id" not in read_question(given, "here").said()


def test_values_of_numpy_in_questions() -> None:
    given = {"head": np.int64(7), "relation": np.str_("aunt"), "facts": np.array([["7", "aunt", "Ann"]])}
    plain = {"head": 7, "relation": "aunt", "facts": [[7, "aunt", "Ann"]]}
    assert read_question(given, "here") == read_question(plain, "here")


def test_facts_of_a_question() -> None:
    question = read_question({"head": "Bo", "relation": "aunt", "facts": [["Bo", "aunt", "Ann"]]}, "here")
    assert question.facts == (Fact("Bo", "aunt", "Ann"),)
    assert question.checked(GRAPH) is question  # Bo is new, but told of


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("Ann", 'here: found str; expected an object with two of "head", "relation" and "tail"'),
        ({"head": "Ann"}, 'here: found head; expected two of "head", "relation" and "tail"'),
        ({}, "here: found none of them; expected two of"),
        ({"head": "Ann", "relation": "aunt", "tail": "Eve"}, "here: found head and relation and tail; expected two of"),
        ({"head": "Ann", "relatoin": "aunt"}, 'here: found the field "relatoin"; expected no other than .*relation'),
        ({"head": "", "relation": "aunt"}, "here: found head ''; expected a text that is not empty, or a whole number"),
        ({"head": 1.5, "relation": "aunt"}, "here: found head 1.5; expected a text"),
        ({"head": "Ann", "relation": "aunt", "facts": "Ann"}, r"here: found facts of str; expected a list of \[head"),
        ({"head": "Ann", "relation": "aunt", "facts": [["Ann", "aunt"]]}, r"here: facts\[0\]: found .*expected a fact"),
        ({"head": "Ann", "relation": "aunt", "facts": [{"entity": "Ann"}]}, "found a row about a node in facts"),
    ],
)
def test_errors(given: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_question(given, "here")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"head": "Ann", "relation": "ant"}, "here: found the relation 'ant'; expected one of aunt.*did you mean"),
        ({"head": "An", "relation": "aunt"}, "here: found the node 'An'; expected one of the graph's 2, or facts"),
        ({"head": "Ann", "tail": "Bo"}, "here: found the node 'Bo'"),
        ({"head": "Ann", "relation": "aunt", "facts": [["Ann", "uncle", "Eve"]]}, "here: found the relation 'uncle'"),
    ],
)
def test_names_that_the_graph_does_not_have(given: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_question(given, "here").checked(GRAPH)
