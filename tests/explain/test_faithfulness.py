"""Scores of explanations: counted by hand on small stories, and against a model whose reasons are known."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from edge_transformer.data.relations.generate import generate
from edge_transformer.data.relations.rows import ProofStep, Story
from edge_transformer.data.relations.schema import Schema
from edge_transformer.data.tensors import Vocab
from edge_transformer.errors import UserError
from edge_transformer.explain.faithfulness import (
    ProofScores,
    Scores,
    answers_without,
    balanced_proof,
    gold_rules,
    gold_triangles,
    other_triangles,
    random_strengths,
    score,
    uniform_agreement,
)
from edge_transformer.explain.proof import Derivation, TracedStories, check_model, explain_stories
from edge_transformer.tasks.relations.model import RelationModel

STORY = Story(
    edges=((0, 1), (1, 2), (2, 3)),
    relations=("son", "grandfather", "daughter"),
    query=(0, 3),
    target="sister",
    names=("a", "b", "c", "d"),
    proof=(
        ProofStep((0, "sister", 3), ((0, "father", 2), (2, "daughter", 3))),
        ProofStep((0, "father", 2), ((0, "son", 1), (1, "grandfather", 2))),
    ),
)


@pytest.fixture(scope="module")
def stories() -> list[Story]:
    train, tests = generate([2, 3], [2, 4], 10, 1, test_rows=6)
    return [*train, *tests[2], *tests[4]]


@pytest.fixture(scope="module")
def model(stories: list[Story]) -> RelationModel:
    torch.manual_seed(1)
    relations = sorted({relation for story in stories for relation in story.relations} | set(STORY.relations))
    answers = Vocab(sorted({story.label for story in stories} | {"sister"}))
    return RelationModel({"kind": "edge", "dim": 8, "heads": 2, "layers": 3}, Schema(Vocab(relations), answers)).eval()


def test_gold_steps_and_rules() -> None:
    assert gold_triangles(STORY) == {(0, 2, 3), (0, 1, 2)}
    assert gold_rules([STORY]) == {("father", "daughter", "sister"), ("son", "grandfather", "father")}


def test_uniform_agreement_is_the_expected_number() -> None:
    # of the edges composed, (0, 3) is gold with one of 2 pivots, and (1, 3) is not
    assert uniform_agreement({(0, 1, 3), (1, 2, 3)}, gold_triangles(STORY), 4) == 0.5


def test_other_triangles_are_as_many_and_not_the_named() -> None:
    chance = random.Random(1)
    named = {(0, 1, 4), (1, 2, 4)}
    others = other_triangles(named, 5, chance)
    assert {(start, end) for start, _, end in others} == {(0, 4), (1, 4)}
    assert not others & named
    [(start, pivot, end)] = other_triangles({(0, 1, 2)}, 3, chance)  # three nodes: the edge has no other pivot
    assert (start, pivot, end) != (0, 1, 2)
    assert pivot not in (start, end)
    assert other_triangles((), 2, chance) == frozenset()


def triangles(proof: Derivation | None) -> set[tuple[int, int, int]]:
    assert proof is not None
    return {step.triangle for step in proof.steps()}


def test_random_proofs_derive_the_query_in_more_than_one_way(model: RelationModel) -> None:
    traced = TracedStories(*check_model(model), [STORY] * 40)
    proofs = traced.best_proofs(random_strengths(traced, random.Random(1)))
    assert {frozenset(triangles(proof)) for proof in proofs} == {
        frozenset({(0, 2, 3), (0, 1, 2)}),
        frozenset({(0, 1, 3), (1, 2, 3)}),
    }


def chain(walk: list[int], query: tuple[int, int]) -> Story:
    edges = tuple(pairwise(walk))
    return Story(edges, ("son",) * len(edges), query, "son", tuple("abcdefgh"[: max(walk) + 1]))


def leaves(story: Story) -> torch.Tensor:
    told = torch.zeros(story.size, story.size, dtype=torch.bool)
    for edge in story.edges:
        told[edge] = True
    return told


def test_a_balanced_proof_halves_the_chain() -> None:
    story = chain([0, 1, 2, 3, 4], (0, 4))
    proof = balanced_proof(story, leaves(story), 2)
    assert triangles(proof) == {(0, 2, 4), (0, 1, 2), (2, 3, 4)}
    assert proof is not None
    assert [step.layer for step in proof.steps()] == [2, 1, 1]
    assert balanced_proof(story, leaves(story), 1) is None  # four relations need two layers
    assert triangles(balanced_proof(STORY, leaves(STORY), 3)) == {(0, 1, 3), (1, 2, 3)}


def test_a_balanced_proof_goes_all_the_way_of_a_story_that_returns() -> None:
    story = chain([0, 1, 0, 2], (0, 2))
    assert triangles(balanced_proof(story, leaves(story), 3)) == {(0, 1, 2), (1, 0, 2)}


def test_a_balanced_proof_of_any_other_graph_takes_a_shortest_path() -> None:
    story = chain([0, 1, 2, 3], (1, 3))
    assert triangles(balanced_proof(story, leaves(story), 3)) == {(1, 2, 3)}
    assert balanced_proof(chain([0, 1, 2], (2, 0)), leaves(chain([0, 1, 2], (2, 0))), 3) is None


def test_answers_without_triangles(model: RelationModel) -> None:
    every = [(i, pivot, j) for i in range(4) for pivot in range(4) for j in range(4)]
    torch.manual_seed(3)
    changes = []
    for _ in range(20):  # fresh models: an answer that owes anything to triangles changes in some of them
        fresh = RelationModel(model.settings, model.schema)
        [answer] = [explained.answer for explained in explain_stories(fresh, [STORY])]
        whole, empty = answers_without(fresh, [STORY] * 2, [(), every])
        assert whole == answer
        assert fresh.training  # as it was
        changes.append(empty != answer)
    assert any(changes)


def test_scores_count_what_explanations_name(model: RelationModel) -> None:
    [explained] = explain_stories(model, [STORY])
    found, left_out = score(model, [STORY, replace(STORY, proof=())])
    assert left_out == 1
    scores = found[3]
    assert (scores.rows, scores.found.steps, scores.gold_steps, scores.derivable) == (1, 2, 2, 1)
    assert scores.found.agreeing == len(explained.triangles & gold_triangles(STORY))
    assert scores.found.whole == (explained.triangles == gold_triangles(STORY))
    assert explained.proof is not None
    assert (scores.found.readings, scores.found.reading_layers) == (1, explained.proof.layer - 1)
    assert scores.right == (explained.answer == "sister")
    [without] = answers_without(model, [STORY], [explained.triangles])
    assert scores.found.changed == (without != explained.answer)
    balanced = {(0, 1, 3), (1, 2, 3)}
    assert (scores.balanced.steps, scores.balanced.agreeing, scores.balanced.whole) == (2, 0, 0)
    assert (scores.balanced.readings, scores.balanced.reading_layers) == (1, 1)
    [without] = answers_without(model, [STORY], [balanced])
    assert scores.balanced.changed == (without != explained.answer)
    assert scores.uniform_agreeing == uniform_agreement(explained.triangles, gold_triangles(STORY), 4)


def test_scores_of_many_rows_are_repeatable_sums(model: RelationModel, stories: list[Story]) -> None:
    told: list[int] = []
    found, left_out = score(model, stories, seed=1, progress=told.append)
    assert (sum(scores.rows for scores in found.values()), left_out, sum(told)) == (22, 0, 22)
    assert list(found) == [2, 3, 4]
    assert found == score(model, stories, seed=1)[0]
    two = found[2].fractions()  # with two relations there is one proof only: explanations and controls all find it
    for control in ("", "balanced_", "random_", "uniform_"):
        assert two[f"{control}precision"] == two[f"{control}recall"] == 1.0
    assert found[2].changed_gold == found[2].found.changed == found[2].balanced.changed == found[2].random.changed
    assert found[2].found.known_rules == found[2].random.known_rules  # told edges, and the answer: read alike


def test_rules_are_known_by_their_relations(model: RelationModel) -> None:
    """A story of one step, whose gold rule is made of what the model answers, and then of something else."""
    story = Story(((0, 1), (1, 2)), ("son", "grandfather"), (0, 2), "sister", ("a", "b", "c"))
    [explained] = explain_stories(model, [story])
    other = next(answer for answer in model.answers if answer != explained.answer)
    for answer, expected in ((explained.answer, 1), (other, 0)):
        step = ProofStep((0, answer, 2), ((0, "son", 1), (1, "grandfather", 2)))
        scores = score(model, [replace(story, proof=(step,))])[0][2]
        assert [proofs.known_rules for proofs in (scores.found, scores.balanced, scores.random)] == [expected] * 3


def test_a_step_from_an_edge_used_backwards_reads_as_no_rule(model: RelationModel) -> None:
    torch.manual_seed(1)
    both_ways = RelationModel({**model.settings, "inverse_edges": True}, model.schema).eval()
    story = Story(((1, 0), (1, 2)), ("son", "grandfather"), (0, 2), "sister", ("a", "b", "c"))
    [explained] = explain_stories(both_ways, [story])
    step = ProofStep((0, explained.answer, 2), ((0, "son", 1), (1, "grandfather", 2)))
    scores = score(both_ways, [replace(story, proof=(step,))])[0][2]
    for proofs in (scores.found, scores.balanced, scores.random):
        assert (proofs.steps, proofs.agreeing, proofs.known_rules) == (1, 1, 0)
    assert score(model, [replace(story, proof=(step,))])[0][2].derivable == 0  # who does not read edges backwards


def test_fractions_of_sums() -> None:
    first = Scores(rows=1, gold_steps=2, found=ProofScores(steps=3, agreeing=1, changed=1))
    total = first + Scores(rows=3, found=ProofScores(steps=1, agreeing=1), random=ProofScores(steps=2, agreeing=1))
    fractions = total.fractions()
    assert (fractions["precision"], fractions["recall"], fractions["changed"]) == (0.5, 1.0, 0.25)
    assert (fractions["random_precision"], fractions["random_recall"]) == (0.5, 0.5)
    assert set(Scores().fractions().values()) == {0.0}


def test_sums_and_fractions_are_both_written() -> None:
    plain = Scores(
        rows=4,
        gold_steps=3,
        found=ProofScores(steps=5, known_rules=3, whole=2, readings=2, reading_layers=5, changed=1),
        changed_gold=3,
        changed_other=2,
    ).to_dict()
    assert json.loads(json.dumps(plain)) == plain
    sums, fractions = plain["sums"], plain["fractions"]
    assert (sums["rows"], sums["changed_gold"], sums["changed_other"]) == (4, 3, 2)
    assert (sums["found"]["known_rules"], sums["found"]["whole"], sums["found"]["changed"]) == (3, 2, 1)
    assert (fractions["known_rules"], fractions["whole"], fractions["changed"]) == (0.6, 0.5, 0.25)
    assert (fractions["gold_changed"], fractions["other_changed"]) == (0.75, 0.5)
    assert plain["mean_reading_layer"] == {"found": 2.5, "balanced": 0.0, "random": 0.0}


def test_rows_without_proofs_are_refused(model: RelationModel) -> None:
    with pytest.raises(UserError, match="found no gold proofs in 1 rows"):
        score(model, [replace(STORY, proof=())])
