"""Scores of explanations: counted by hand on small stories, and against a model whose reasons are known."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch

from edge_transformer.data.clutrr import ProofStep, Story
from edge_transformer.data.kinship import generate
from edge_transformer.data.vocab import Vocab
from edge_transformer.errors import UserError
from edge_transformer.explanation.proof import explain_stories
from edge_transformer.explanation.score import (
    Scores,
    answers_without,
    gold_rules,
    gold_triangles,
    other_triangles,
    random_proofs,
    score,
    uniform_agreement,
)
from edge_transformer.tasks.clutrr import RelationModel

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
    answers = Vocab(sorted({story.target for story in stories} | {"sister"}))
    return RelationModel({"kind": "edge", "dim": 8, "heads": 2, "layers": 3}, Vocab(relations), answers).eval()


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


def test_random_proofs_derive_the_query_in_more_than_one_way(model: RelationModel) -> None:
    proofs = random_proofs(model, [STORY] * 40, random.Random(1))
    assert set(proofs) == {frozenset({(0, 2, 3), (0, 1, 2)}), frozenset({(0, 1, 3), (1, 2, 3)})}


def test_answers_without_triangles(model: RelationModel) -> None:
    every = [(i, pivot, j) for i in range(4) for pivot in range(4) for j in range(4)]
    torch.manual_seed(3)
    changes = []
    for _ in range(20):  # fresh models: an answer that owes anything to triangles changes in some of them
        fresh = RelationModel(model.settings, model.relations, model.answers)
        [answer] = [explained.answer for explained in explain_stories(fresh, [STORY])]
        whole, empty = answers_without(fresh, [STORY] * 2, [(), every])
        assert whole == answer
        changes.append(empty != answer)
    assert any(changes)


def test_scores_count_what_explanations_name(model: RelationModel) -> None:
    [explained] = explain_stories(model, [STORY])
    found, left_out = score(model, [STORY, replace(STORY, proof=())])
    assert left_out == 1
    scores = found[3]
    assert (scores.rows, scores.steps, scores.gold_steps, scores.derivable) == (1, 2, 2, 1)
    assert scores.agreeing == len(explained.triangles & gold_triangles(STORY))
    assert scores.whole == (explained.triangles == gold_triangles(STORY))
    assert scores.right == (explained.answer == "sister")
    [without] = answers_without(model, [STORY], [explained.triangles])
    assert scores.changed == (without != explained.answer)
    assert scores.uniform_agreeing == uniform_agreement(explained.triangles, gold_triangles(STORY), 4)


def test_scores_of_many_rows_are_repeatable_sums(model: RelationModel, stories: list[Story]) -> None:
    told: list[int] = []
    found, left_out = score(model, stories, seed=1, progress=told.append)
    assert (sum(scores.rows for scores in found.values()), left_out, sum(told)) == (22, 0, 22)
    assert list(found) == [2, 3, 4]
    assert found == score(model, stories, seed=1)[0]
    two = found[2].fractions()  # with two relations there is one proof only: explanations and controls all find it
    assert two["precision"] == two["recall"] == two["random_precision"] == two["uniform_precision"] == 1.0
    assert found[2].changed == found[2].changed_gold == found[2].changed_random


def test_fractions_of_sums() -> None:
    total = Scores(rows=1, steps=3, agreeing=1, gold_steps=2, changed=1) + Scores(rows=3, steps=1, agreeing=1)
    fractions = total.fractions()
    assert (fractions["precision"], fractions["recall"], fractions["changed"]) == (0.5, 1.0, 0.25)
    assert set(Scores().fractions().values()) == {0.0}


def test_rows_without_proofs_are_refused(model: RelationModel) -> None:
    with pytest.raises(UserError, match="found no gold proofs in 1 rows"):
        score(model, [replace(STORY, proof=())])
