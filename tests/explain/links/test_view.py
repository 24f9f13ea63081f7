"""How a link stands, and what facts speak for it: against `predict`, and against small changes of the input."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import edge_transformer as et
from edge_transformer.explain.links import view as view_module
from edge_transformer.explain.links.view import View
from edge_transformer.tasks.links.model import LinkModel
from links_of_rules import ASKED, FACTS, PROOF, link_model, transitive


def numbers(model: LinkModel, head: str, relation: str, tail: str) -> tuple[int, int, int]:
    found = model.entities.number(head), model.relations.number(relation), model.entities.number(tail)
    assert None not in found
    return found  # type: ignore[return-value]


@pytest.mark.parametrize("settings", [{}, {"members": 2}, {"entities": True}], ids=str)
def test_a_link_stands_as_the_model_predicts(settings: dict[str, Any]) -> None:
    model = link_model(**settings)
    model.temperature = 1.7
    link = numbers(model, **ASKED)
    chances = []
    for asked, given in (("tail", {"head", "relation"}), ("head", {"relation", "tail"})):
        [answer] = model.predict([{name: ASKED[name] for name in given}], top=len(model.entities))
        standing = View(model, link, asked).standing()
        unknown = [each for each in answer["candidates"] if not each["known"]]
        [rank] = [place for place, each in enumerate(unknown, start=1) if each[asked] == ASKED[asked]]
        of = unknown[rank - 1]["probability"]
        chances.append(of / sum(each["probability"] for each in unknown))
        assert standing.probability == pytest.approx(chances[-1], rel=1e-3)
        like = [
            place for place, each in enumerate(unknown, start=1) if each["probability"] == pytest.approx(of, abs=2e-6)
        ]
        assert standing.ranks[0] in like  # nodes in like places of the graph differ by rounding alone
    assert View(model, link).standing().probability == pytest.approx((chances[0] * chances[1]) ** 0.5, rel=1e-3)


def test_a_known_link_is_hidden() -> None:
    model = transitive()
    told = model.with_facts([tuple(ASKED.values())])
    view, expected = View(told, numbers(told, **ASKED)), View(model, numbers(model, **ASKED))
    assert (view.is_known, expected.is_known) == (True, False)
    assert view.standing().likelihood == pytest.approx(expected.standing().likelihood)
    assert view.standing().ranks == expected.standing().ranks == (1, 1)
    speaks = view.trace().speaks
    assert speaks[~view.open].tolist() == [-torch.inf]


def test_what_facts_speak_is_a_derivative() -> None:
    """Against the change of the likelihood when a fact's vectors count a little less."""
    model = link_model().double()
    view = View(model, numbers(model, **ASKED))
    speaks = view.trace().speaks
    network: Any = model.networks[0]
    for number in (0, 5, 14):
        head, relation, tail = view.facts[number].tolist()

        def likelihood(less: float, head: int = head, relation: int = relation, tail: int = tail) -> float:
            edges = network.input(view.facts, len(view.nodes))
            edges[0, head, tail] -= less * network.input.forth.weight[relation]
            edges[0, tail, head] -= less * network.input.back.weight[relation]
            return float(view._likelihood(view._scores([network.encoder(edges)[0]])))

        with torch.no_grad():
            change = (likelihood(-1e-4) - likelihood(1e-4)) / 2e-4
        assert float(speaks[number]) == pytest.approx(change, rel=1e-3, abs=1e-7)


def test_the_facts_of_the_rule_speak_most() -> None:
    model = transitive(members=2)
    view = View(model, numbers(model, **ASKED))
    best = view.trace().speaks.topk(2).indices.tolist()
    assert {FACTS[number] for number in best} == PROOF
    assert view.standing(best).likelihood < view.standing().likelihood - 1


def test_large_graphs_are_seen_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    parted, whole = link_model(nodes=8, whole=0), link_model()
    monkeypatch.setattr(view_module, "AROUND", 9)
    for model, size in ((parted, 8), (whole, 9)):
        view, again = (View(model, numbers(model, **ASKED)) for _ in range(2))
        assert len(view.nodes) == size < len(model.entities)
        assert view.nodes.tolist() == again.nodes.tolist()  # chance has no part in it
        head, _, tail = view.link
        assert [model.entities.name(int(view.nodes[node])) for node in (head, tail)] == ["city 0", "continent 0"]
        assert view.standing().ranks[0] <= size
        assert len(view.trace().speaks) == len(view.facts) < len(FACTS)


def test_little_memory_takes_fewer_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_module, "LEAST", 4)
    for free, size in ((1 << 40, 14), (view_module.memory_of(8, link_model().settings, training=True), 7), (1, 3)):
        monkeypatch.setattr(view_module, "free_memory", lambda free=free: free)
        model = link_model()
        assert len(View(model, numbers(model, **ASKED)).nodes) == size


def test_parts_of_a_graph_are_told() -> None:
    parted = link_model(nodes=8, whole=0)
    explained = et.explain(parted, ASKED)
    assert explained.note is not None
    assert explained.note.startswith("the 8 nodes around the link were looked at, of 14")
    named = {node for fact in explained.facts for node in (fact.head, fact.tail)}
    assert named <= set(parted.entities)
