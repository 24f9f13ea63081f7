"""Proofs: the best derivation by plain search, and what models and graphs are refused."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import pytest
import torch

import edge_transformer as et
from edge_transformer.data.relations.fields import graph_from_json
from edge_transformer.data.relations.schema import Schema
from edge_transformer.errors import UserError
from edge_transformer.explain import proof as proof_module
from edge_transformer.explain.proof import Derivation, best_pivots, derivation, explain_stories
from edge_transformer.tasks.relations.model import RelationModel
from explanation_cases import CHAIN, model


def best_score(scores: list[Any], told: set[tuple[int, int]], edge: tuple[int, int], layer: int) -> float:
    """The best score of an edge after so many layers, by trying everything."""
    if layer == 0:
        return 0.0 if edge in told else -math.inf
    found = [best_score(scores, told, edge, layer - 1)]
    for pivot in range(len(scores[0])):
        if pivot not in edge:
            parts = [best_score(scores, told, part, layer - 1) for part in ((edge[0], pivot), (pivot, edge[1]))]
            found.append(scores[layer - 1][edge[0]][pivot][edge[1]] + sum(parts))
    return max(found)


@pytest.mark.parametrize("seed", range(5))
def test_the_search_finds_the_best_derivation(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.rand(2, 1, 4, 4, 4, generator=generator, dtype=torch.float64).log()
    told = torch.rand(1, 4, 4, generator=generator) < 0.35
    edges = {(int(i), int(j)) for i, j in told[0].nonzero()}
    pivots = best_pivots(scores, told)
    for query in product(range(4), range(4)):
        proof = derivation(pivots[:, 0], told[0], query)
        expected = best_score(scores[:, 0].tolist(), edges, query, 2)
        if proof is None:
            assert expected == -math.inf
        else:
            reached = sum(float(scores[step.layer - 1, 0][step.triangle]) for step in proof.steps())
            assert reached == pytest.approx(expected)


def test_ties_take_the_first_pivot_and_the_lowest_layer() -> None:
    told = torch.zeros(1, 4, 4, dtype=torch.bool)
    for start, end in ((0, 1), (0, 2), (1, 3), (2, 3)):
        told[0, start, end] = True
    pivots = best_pivots(torch.full((3, 1, 4, 4, 4), -1.0), told)
    assert derivation(pivots[:, 0], told[0], (0, 3)) == Derivation(0, 3, 1, (Derivation(0, 1), Derivation(1, 3)))


def test_strengths_of_zero_are_still_a_way() -> None:
    told = torch.zeros(1, 3, 3, dtype=torch.bool)
    told[0, 0, 1] = told[0, 1, 2] = True
    pivots = best_pivots(torch.full((1, 1, 3, 3, 3), -torch.inf), told)
    assert derivation(pivots[:, 0], told[0], (0, 2)) == Derivation(0, 2, 1, (Derivation(0, 1), Derivation(1, 2)))


def test_an_explanation_answers_as_the_model_does() -> None:
    explained = et.explain(model(), CHAIN)
    [predicted] = model().predict([CHAIN])
    assert explained.answer == predicted["answer"]
    assert explained.probability == pytest.approx(predicted["probabilities"][predicted["answer"]], abs=1e-5)
    assert len(explained.layers) == 3
    assert explained.layers[-1].reading == explained.reading


@pytest.mark.parametrize("inverse_edges", [False, True])
def test_all_that_rows_may_tell_is_explained(inverse_edges: bool) -> None:
    """Labels and features, several labels on an edge, absent edges: the trace ends in the answer of predict."""
    row: dict[str, Any] = {
        "nodes": {"u": {"labels": ["user", "admin"], "features": 2}, "g": "group", "d": {"features": 0.5}, "e": None},
        "edges": [["u", ["in", "leads"], "g", 0.3], ["g", "reads", "d", 1.5], ["d", "in", "e"]],
        "absent": [["u", "reads", "d"]],
        "query": ["u", "d"],
        "target": "yes",
    }
    rows = [row, {"edges": row["edges"], "query": row["query"], "target": "no"}]
    schema = Schema.of([graph_from_json(each, "x", needs_target=True) for each in rows])
    torch.manual_seed(1)
    shape = {"kind": "edge", "dim": 8, "heads": 2, "layers": 3, "inverse_edges": inverse_edges}
    strange = RelationModel(shape, schema).eval()
    explanations = []
    for each in rows:
        explained, [predicted] = et.explain(strange, each), strange.predict([each])
        assert explained.answer == predicted["answer"]
        assert explained.probability == pytest.approx(predicted["probabilities"][predicted["answer"]], abs=1e-5)
        assert explained.triangles == {(0, 1, 2)}
        assert "u -in, leads-> g  (told)" in explained.text()
        assert "in, leads" in explained.svg()
        explanations.append(explained)
    assert explanations[0].probability != pytest.approx(explanations[1].probability, abs=1e-4)


@pytest.mark.parametrize(("query", "count"), [([["Ann", "Tom"], ["Bob", "Tom"]], 2), ("all", 12)])
def test_one_question_is_explained_at_a_time(query: Any, count: int) -> None:
    with pytest.raises(
        UserError, match=rf'^explain: found {count} pairs of nodes in "query"; expected one pair: ask for'
    ):
        et.explain(model(), {**CHAIN, "query": query})


def test_a_proof_leads_from_told_edges_to_the_query() -> None:
    explained = et.explain(model(), CHAIN)
    assert explained.proof is not None
    assert len(explained.triangles) == 2
    assert (explained.proof.start, explained.proof.end) == explained.story.query
    told = dict(zip(explained.story.edges, explained.story.relations, strict=True))
    for step in explained.proof.steps():
        first, second = step.premises
        assert (first.start, first.end, second.start, second.end) == (step.start, step.pivot, step.pivot, step.end)
        for premise in step.premises:
            assert premise.layer < step.layer
            if not premise.premises:
                assert told[premise.start, premise.end] == premise.relation
                assert premise.reading is None


def test_composed_edges_are_read_below_the_layer_that_uses_them() -> None:
    proof = et.explain(model(), CHAIN).proof
    assert proof is not None
    assert proof.read_after == 3  # the query: after the last layer
    [inner] = [premise for premise in proof.premises if premise.premises]
    assert inner.layer <= inner.read_after == proof.layer - 1


def test_circles_and_branches() -> None:
    edges = [["a", "son", "b"], ["b", "son", "a"], ["b", "sister", "c"], ["d", "son", "c"], ["c", "sister", "e"]]
    around = et.explain(model(), {"edges": edges, "query": ["a", "a"]})
    assert around.triangles == {(0, 1, 0)}
    through = et.explain(model(), {"edges": edges, "query": ["a", "e"]})
    assert through.triangles <= {(0, 1, 4), (1, 2, 4), (0, 1, 2), (0, 2, 4)}
    assert len(through.triangles) == 2


def test_many_stories_are_explained_as_each_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    short = {"edges": CHAIN["edges"][:2], "query": ["Ann", "Eve"]}
    stories = [graph_from_json(graph, "test") for graph in (CHAIN, short, {**CHAIN, "query": ["Bob", "Tom"]})]
    together = explain_stories(model(), stories)
    monkeypatch.setattr(proof_module, "BATCH_TRIANGLES", 1)
    for one, story in zip(together, stories, strict=True):
        [alone] = explain_stories(model(), [story])
        assert one.triangles == alone.triangles
        assert one.story == story
        assert one.probability == pytest.approx(alone.probability, abs=1e-5)


def test_explaining_leaves_the_model_as_it_was() -> None:
    training = model(dropout=0.5).train()
    assert et.explain(training, CHAIN).to_dict() == et.explain(training, CHAIN).to_dict()  # no dropout
    assert training.training
    assert training.encoder.training
    other = model()
    et.explain(other, CHAIN)
    assert not other.training


def test_only_models_with_triangles_are_explained() -> None:
    other = model()
    other.encoder, other.settings["kind"] = torch.nn.Identity(), "gat"  # type: ignore[assignment]
    with pytest.raises(UserError, match="of kind 'gat'; expected 'edge'"):
        et.explain(other, CHAIN)


def test_what_the_model_cannot_read_is_refused() -> None:
    with pytest.raises(UserError, match="a relation that the model knows"):
        et.explain(model(), {"edges": [["Ann", "boss", "Bob"]], "query": ["Ann", "Bob"]})
    chain = [[f"{node}", "son", f"{node + 1}"] for node in range(64)]
    with pytest.raises(UserError, match=r"^graph: found a graph of 65 nodes; expected at most 64$"):
        et.explain(model(), {"edges": chain, "query": ["0", "64"]})
    with pytest.raises(UserError, match=r"^explain: found a graph of 65 nodes; expected at most 64$"):
        explain_stories(model(), [graph_from_json({"edges": chain, "query": ["0", "64"]}, "test")])


def test_an_explanation_has_the_probability_of_the_answer() -> None:
    calibrated = model()
    calibrated.temperature = 0.3
    [answer] = calibrated.predict([CHAIN])
    claim = et.explain(calibrated, CHAIN).proof
    assert claim is not None
    assert claim.reading is not None
    assert (claim.relation, claim.reading.probability) == (
        answer["answer"],
        pytest.approx(answer["probabilities"][answer["answer"]], abs=1e-4),
    )
