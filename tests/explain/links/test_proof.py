"""Explanations of links of a model whose rule is known: they name the facts of the rule, and no others."""

from __future__ import annotations

import json
from typing import Any

import pytest

import edge_transformer as et
from edge_transformer.data.links.rows import Fact
from edge_transformer.errors import UserError
from edge_transformer.explain import LinkExplanation
from links_of_rules import ASKED, FACTS, PROOF, link_model, transitive

CHAIN = (
    Fact("street", "in", "city"),
    Fact("city", "in", "region"),
    Fact("region", "in", "country"),
    *(Fact(f"a{each}", "in", f"b{each}") for each in range(3)),
)


def number(explained: LinkExplanation, name: str) -> int:
    [found] = [node for node, each in explained.names.items() if each == name]
    return found


@pytest.mark.parametrize("members", [1, 2])
def test_the_proof_names_the_facts_of_the_rule(members: int) -> None:
    model = transitive(members=members)
    explained = et.explain(model, ASKED)
    assert set(explained.facts) == PROOF
    assert len(explained.reasons) == 1
    head, region, tail = (number(explained, name) for name in ("city 0", "region 0", "continent 0"))
    assert explained.triangles == {(head, region, tail)}
    [step] = explained.reasons[0].step.steps()
    assert step.layer == 1
    assert step.weight > 0.3
    assert (explained.known, explained.standing.ranks) == (False, (1, 1))
    assert explained.without.likelihood < explained.standing.likelihood - 1
    assert explained.without == explained.reasons[0].without
    assert explained.layers[0][0][0] == region


def test_a_composed_edge_is_followed_down_to_facts() -> None:
    explained = et.explain(transitive(CHAIN, layers=2), {"head": "street", "relation": "in", "tail": "country"})
    assert set(explained.reasons[0].facts) == set(CHAIN[:3])
    assert [step.layer for step in explained.reasons[0].step.steps()] == [2, 1]
    assert len(explained.triangles) == 2
    [proof] = [reason["proof"] for reason in explained.to_dict()["reasons"]]
    inner = [each for each in proof["because"] if "because" in each]
    assert len(inner) == 1


@pytest.mark.parametrize("missing", ["head", "relation", "tail"])
def test_the_best_unknown_candidate_is_explained(missing: str) -> None:
    facts = tuple(fact for fact in FACTS if fact.head in ("city 0", "region 0", "city 1"))  # one answer each way
    asked = {name: value for name, value in ASKED.items() if name != missing}
    explained = et.explain(transitive(facts), asked)
    assert explained.link == Fact(*ASKED.values())
    assert explained.asked == missing
    assert set(explained.facts) == PROOF
    assert len(explained.standing.ranks) == (2 if missing == "relation" else 1)


def test_facts_of_the_question_are_reasons_too() -> None:
    model = transitive()
    told = ["hamlet", "in", "city 0"]
    explained = et.explain(model, {"head": "hamlet", "relation": "in", "tail": "region 0", "facts": [told]})
    assert set(explained.facts) == {Fact(*told), Fact("city 0", "in", "region 0")}
    assert "hamlet" not in model.entities


def test_a_known_link_is_explained_by_the_others() -> None:
    told = transitive().with_facts([tuple(ASKED.values())])
    explained = et.explain(told, ASKED)
    assert explained.known
    assert set(explained.facts) == PROOF


def test_a_fact_between_head_and_tail_is_a_reason() -> None:
    """A model that reads a link from its way back."""
    model = transitive()
    network: Any = model.networks[0]
    network.head.back.weight.data[0, 2] = 3.0
    link = {"head": "city 4", "relation": "in", "tail": "city 1"}  # told: city 1 likes city 4
    assert Fact("city 1", "likes", "city 4") in FACTS
    explained = et.explain(model, link)
    assert explained.reasons[0].facts == (Fact("city 1", "likes", "city 4"),)
    assert explained.reasons[0].step.premises == ()


def test_without_a_reason_it_says_so() -> None:
    explained = et.explain(transitive(), {"head": "continent 0", "relation": "likes", "tail": "city 0"})
    assert (explained.reasons, explained.facts, explained.triangles) == ((), (), frozenset())
    assert "note: found no facts on a path from head to tail" in explained.text()
    assert explained.without == explained.standing


def test_a_link_to_itself_can_be_asked_for() -> None:
    facts = (*CHAIN, Fact("region", "in", "street"))
    explained = et.explain(transitive(facts, layers=2), {"head": "city", "relation": "in", "tail": "city"})
    assert {fact for reason in explained.reasons for fact in reason.facts} <= set(facts)
    assert explained.names[explained.ends[0]] == explained.names[explained.ends[1]] == "city"


def test_explaining_leaves_the_model_as_it_was() -> None:
    model = link_model(dropout=0.5).train()
    assert et.explain(model, ASKED).to_dict() == et.explain(model, ASKED).to_dict()  # no dropout
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"head": "city 0"}, 'found head; expected "head", "relation" and "tail", or two of them'),
        ({**ASKED, "relation": "on"}, "found the relation 'on'; expected one of in, likes"),
        ({**ASKED, "head": "city 99"}, "found the node 'city 99'"),
        ({**ASKED, "query": 1}, 'found the field "query"'),
        ("city 0", 'found str; expected an object with "head", "relation" and "tail", or two of them'),
    ],
)
def test_what_cannot_be_explained_is_refused(question: Any, message: str) -> None:
    with pytest.raises(UserError, match="the question") as caught:
        et.explain(transitive(), question)
    assert message in str(caught.value)


def test_where_every_candidate_is_known() -> None:
    facts = (Fact("a", "in", "b"), Fact("a", "likes", "b"))
    for question in ({"head": "a", "tail": "b"}, {"head": "a", "relation": "in"}):
        with pytest.raises(UserError, match="is a known answer; expected one that is not"):
            et.explain(transitive(facts), question)


def test_only_models_with_triangles_are_explained() -> None:
    with pytest.raises(UserError, match="of kind 'gat'; expected 'edge'"):
        et.explain(link_model(kind="gat"), ASKED)


def test_everything_is_plain_json() -> None:
    explained = et.explain(transitive(), ASKED)
    plain = explained.to_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert {name: plain[name] for name in ASKED} == ASKED
    assert {Fact(*fact) for fact in plain["reasons"][0]["facts"]} == PROOF
    assert plain["probability"] == pytest.approx(explained.probability, abs=1e-6)
    assert plain["without_all"]["probability"] < plain["probability"]
    assert [layer["layer"] for layer in plain["layers"]] == [1]
