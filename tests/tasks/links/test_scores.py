"""Scores of ranked answers agree with counting by hand, and with scikit-learn."""

from __future__ import annotations

import json
import math
from itertools import combinations_with_replacement

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics
from torch import Tensor

from edge_transformer.io.records import is_fraction
from edge_transformer.tasks.links.scores import (
    DIRECTIONS,
    NOBODY,
    average_precision,
    expected_hits,
    known_answers,
    ranking_scores,
    ranks,
    sample_negatives,
    sampled_ranks,
)

seeds = st.integers(0, 2**32 - 1)
levels = st.sampled_from([-math.inf, -2.5, 0.0, 0.1, 3.0])  # few, so that there are ties
Fact = tuple[int, int, int]


@st.composite
def rankings(draw: st.DrawFn) -> tuple[list[list[float]], list[int], list[list[bool]]]:
    queries, candidates = draw(st.integers(0, 5)), draw(st.integers(1, 7))

    def rows(cell: st.SearchStrategy) -> list[list]:
        return draw(
            st.lists(st.lists(cell, min_size=candidates, max_size=candidates), min_size=queries, max_size=queries)
        )

    targets = draw(st.lists(st.integers(0, candidates - 1), min_size=queries, max_size=queries))
    return rows(levels), targets, rows(st.booleans())


def rank_by_hand(scores: list[float], target: int, known: list[bool]) -> float:
    """The mean place of the target over all orders of the candidates that are sorted by score."""
    others = [score for place, score in enumerate(scores) if place != target and not known[place]]
    best = 1 + sum(score > scores[target] for score in others)
    worst = best + sum(score == scores[target] for score in others)
    return sum(range(best, worst + 1)) / (worst + 1 - best)


@given(rankings())
def test_ranks_are_those_counted_by_hand(ranking: tuple[list[list[float]], list[int], list[list[bool]]]) -> None:
    rows, targets, flags = ranking
    scores = torch.tensor(rows).reshape(len(targets), -1) if targets else torch.zeros(0, 3)
    known = torch.tensor(flags, dtype=torch.bool).reshape(scores.shape)
    numbers = torch.tensor(targets, dtype=torch.long)
    found = ranks(scores, numbers, known)
    assert found.tolist() == [rank_by_hand(*each) for each in zip(rows, targets, flags, strict=True)]
    unfiltered = [rank_by_hand(row, target, [False] * len(row)) for row, target in zip(rows, targets, strict=True)]
    assert ranks(scores, numbers).tolist() == unfiltered


def test_ties_filters_and_what_is_no_candidate() -> None:
    scores = torch.tensor([[2.0, 1.0, 1.0, 1.0, -math.inf]])
    none = torch.zeros(1, 5, dtype=torch.bool)
    assert ranks(scores, torch.tensor([0]), none).tolist() == [1]
    assert ranks(scores, torch.tensor([2]), none).tolist() == [3]  # the mean of 2, 3 and 4
    known = torch.tensor([[True, False, True, True, False]])  # the target is known, as always in a filter
    assert ranks(scores, torch.tensor([2]), known).tolist() == [1.5]
    assert ranks(scores, torch.tensor([4]), none).tolist() == [5]
    assert ranks(torch.full((1, 5), -math.inf), torch.tensor([4]), none).tolist() == [3]
    assert ranks(torch.zeros(2, 4), torch.tensor([0, 3])).tolist() == [2.5, 2.5]  # a constant model gains nothing


def test_the_target_may_have_any_integer_type_and_the_scores_low_precision() -> None:
    scores = torch.tensor([[0.5, 1.0]], dtype=torch.bfloat16, requires_grad=True)
    found = ranks(scores, torch.tensor([0], dtype=torch.int32))
    assert found.tolist() == [2]
    assert found.dtype == torch.float32


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_scores_that_are_no_numbers_are_refused_with_their_row(value: float) -> None:
    scores = torch.zeros(4, 3)
    scores[2, 1] = value
    with pytest.raises(ValueError, match=rf"scores: row 2 \(from 0\) has {value}; expected finite numbers, or -inf"):
        ranks(scores, torch.zeros(4, dtype=torch.long))
    with pytest.raises(ValueError, match=rf"scores: row 2 \(from 0\) has {value}"):
        average_precision(scores[:, 1], torch.ones(4))


def test_shapes_and_numbers_are_checked() -> None:
    scores, targets = torch.zeros(2, 3), torch.tensor([0, 2])
    with pytest.raises(ValueError, match=r"scores: found the shape \[2\]; expected \[queries, candidates\]"):
        ranks(torch.zeros(2), targets)
    with pytest.raises(ValueError, match=r"targets: row 1 \(from 0\) has 3.0; expected numbers from 0 to 2"):
        ranks(scores, torch.tensor([0, 3]))
    with pytest.raises(ValueError, match=r"targets: found torch.int64 of the shape \[1\]; expected integers"):
        ranks(scores, targets[:1])
    with pytest.raises(ValueError, match=r"targets: found torch.float32"):
        ranks(scores, targets.float())
    with pytest.raises(ValueError, match=r"known: found torch.float32 of the shape \[2, 3\]; expected bool"):
        ranks(scores, targets, scores)
    with pytest.raises(
        ValueError, match=r"negatives: row 0 \(from 0\) has 3.0; expected numbers of 3 candidates, or -1"
    ):
        sampled_ranks(scores, targets, torch.tensor([[3], [0]]))
    with pytest.raises(ValueError, match=r"negatives: found torch.int64 of the shape \[1, 1\]"):
        sampled_ranks(scores, targets, torch.tensor([[0]]))
    with pytest.raises(
        ValueError, match=r"facts: row 0 \(from 0\) has 3.0; expected numbers from 0, of entities below 3"
    ):
        known_answers(torch.tensor([[0, 9, 3]]), torch.tensor([[0, 0, 1]]), 3)
    with pytest.raises(ValueError, match=r"known: found torch.int64 of the shape \[2\]"):
        known_answers(torch.tensor([[0, 0, 1]]), targets, 3)
    with pytest.raises(ValueError, match="count: found 0; expected 1 at least"):
        sample_negatives(torch.tensor([[0, 0, 1]]), torch.zeros(0, 3, dtype=torch.long), 3, count=0)
    with pytest.raises(ValueError, match="entities: found"):
        sample_negatives(torch.tensor([[0, 0, 1]]), torch.zeros(0, 3, dtype=torch.long), torch.zeros(0))


# Scores of ranks


def test_scores_of_ranks() -> None:
    found = ranking_scores(torch.tensor([1.0, 2.0, 1.5, 20.0]), ["b", "b", "a", "b"], ["tail", "head", "head", "tail"])
    mrr = (1 + 1 / 2 + 2 / 3 + 1 / 20) / 4
    assert list(found) == ["MRR", "Hits@1", "Hits@3", "Hits@10"]
    assert found == pytest.approx({"MRR": mrr, "Hits@1": 0.25, "Hits@3": 0.75, "Hits@10": 0.75})
    assert all(map(is_fraction, found))
    details = found.details
    assert details["kind"] == "ranking"
    assert details["queries"] == 4
    assert details["mean_rank"] == 24.5 / 4
    assert details["standard_error"] == pytest.approx(torch.tensor([1, 1 / 2, 2 / 3, 1 / 20]).std().item() / 2)
    low, high = details["interval"]
    assert low == pytest.approx(mrr - 1.96 * details["standard_error"], abs=1e-4)
    assert high == pytest.approx(mrr + 1.96 * details["standard_error"], abs=1e-4)
    assert {name: each["queries"] for name, each in details["directions"].items()} == {"tail": 2, "head": 2}
    assert details["directions"]["tail"]["mrr"] == pytest.approx(1.05 / 2)
    assert list(details["relations"]) == ["a", "b"]
    assert details["relations"]["a"]["hits"] == {"1": 0, "3": 1, "10": 1}
    assert list(details["relations"]["a"]["directions"]) == ["head"]
    assert details["relations"]["b"]["directions"]["tail"]["mrr"] == pytest.approx(1.05 / 2)
    assert json.loads(json.dumps(details, allow_nan=False)) == details


def test_one_query_has_no_interval() -> None:
    found = ranking_scores(torch.tensor([1]), ["a"], ["tail"])
    assert found == {"MRR": 1, "Hits@1": 1, "Hits@3": 1, "Hits@10": 1}
    assert found.details["standard_error"] is None
    assert found.details["interval"] is None


def test_scores_among_samples_say_so() -> None:
    found = ranking_scores(torch.tensor([1.0, 4.0]), ["a", "a"], ["tail", "head"], sampled=50)
    assert list(found) == ["MRR among 50", "Hits@1 among 50", "Hits@3 among 50", "Hits@10 among 50"]
    assert found.details["sampled"] == 50


@given(st.lists(st.tuples(st.integers(2, 400), st.sampled_from("abc"), st.sampled_from(DIRECTIONS)), min_size=1))
def test_parts_add_up(rows: list[tuple[int, str, str]]) -> None:
    halves, relations, directions = zip(*rows, strict=True)
    found = ranking_scores(torch.tensor(halves) / 2, relations, directions)
    details = found.details
    assert 0 < found["MRR"] <= 1
    assert 0 <= found["Hits@1"] <= found["Hits@3"] <= found["Hits@10"] <= 1
    for parts in (details["directions"], details["relations"]):
        assert sum(each["queries"] for each in parts.values()) == len(rows)
        assert sum(each["queries"] * each["mrr"] for each in parts.values()) / len(rows) == pytest.approx(found["MRR"])
        for k in ("1", "3", "10"):
            whole = sum(each["queries"] * each["hits"][k] for each in parts.values()) / len(rows)
            assert whole == pytest.approx(found[f"Hits@{k}"])


def test_ranks_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match=r"ranks: row 1 \(from 0\) has 0.5; expected finite numbers from 1"):
        ranking_scores(torch.tensor([1.0, 0.5]), ["a", "a"], ["tail", "head"])
    with pytest.raises(ValueError, match="one query at least"):
        ranking_scores(torch.zeros(0), [], [])
    with pytest.raises(ValueError, match="relations: found 1; expected one for each of 2 queries"):
        ranking_scores(torch.ones(2), ["a"], ["tail", "head"])
    with pytest.raises(ValueError, match="directions: found 'both'; expected one of tail, head"):
        ranking_scores(torch.ones(1), ["a"], ["both"])


# Average precision


@given(st.lists(st.tuples(st.sampled_from([-2.0, 0.0, 0.25, 1.0]), st.booleans()), min_size=1, max_size=30))
def test_average_precision_is_that_of_scikit_learn(rows: list[tuple[float, bool]]) -> None:
    scores, truths = torch.tensor([score for score, _ in rows]), torch.tensor([truth for _, truth in rows])
    if not truths.any():
        with pytest.raises(ValueError, match="expected one at least"):
            average_precision(scores, truths)
        return
    expected = metrics.average_precision_score(truths.numpy(), scores.numpy())
    assert average_precision(scores, truths) == pytest.approx(float(expected))


def test_average_precision_by_hand() -> None:
    truths = torch.tensor([1, 0, 1, 0])
    assert average_precision(torch.tensor([4.0, 3.0, 2.0, 1.0]), truths) == pytest.approx((1 + 2 / 3) / 2)
    assert average_precision(torch.zeros(4), truths) == 0.5
    assert average_precision(torch.tensor([1.0, 0.0, 1.0, -math.inf]), truths) == 1
    with pytest.raises(ValueError, match=r"truths: row 1 \(from 0\) has 2.0; expected 0 and 1 only"):
        average_precision(torch.zeros(2), torch.tensor([1, 2]))
    with pytest.raises(ValueError, match="found the shapes"):
        average_precision(torch.zeros(2), torch.ones(3))


# Known answers, and negatives


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, list[Fact], list[Fact]]:
    entities = draw(st.integers(1, 6))
    entity = st.integers(0, entities - 1)
    facts = st.lists(st.tuples(entity, st.integers(0, 2), entity), max_size=12)
    return entities, draw(facts), draw(facts)


def table(facts: list[Fact]) -> Tensor:
    return torch.tensor(facts, dtype=torch.long).reshape(-1, 3)


def made(fact: Fact, direction: int, entity: int) -> Fact:
    head, relation, tail = fact
    return (head, relation, entity) if DIRECTIONS[direction] == "tail" else (entity, relation, tail)


@given(graphs())
def test_known_answers_are_those_found_by_looking(graph: tuple[int, list[Fact], list[Fact]]) -> None:
    entities, facts, known = graph
    expected = [
        [[made(fact, direction, entity) in set(known) for entity in range(entities)] for direction in (0, 1)]
        for fact in facts
    ]
    assert known_answers(table(facts), table(known), entities).tolist() == expected


@given(graphs(), seeds, st.integers(1, 8))
def test_negatives_are_wrong_different_and_all_that_there_are(
    graph: tuple[int, list[Fact], list[Fact]], seed: int, count: int
) -> None:
    entities, facts, known = graph
    found = sample_negatives(table(facts), table(known), entities, count, seed)
    assert found.shape == (len(facts), 2, count)
    assert torch.equal(found, sample_negatives(table(facts), table(known), entities, count, seed))
    true = {*facts, *known}
    for fact, sides in zip(facts, found.tolist(), strict=True):
        for direction, side in enumerate(sides):
            changed = [made(fact, direction, entity) for entity in range(entities)]
            wrong = {entity for entity in range(entities) if changed[entity] not in true}
            wrong -= {fact[0] if direction == 0 else fact[2]}  # self-loops
            drawn = [entity for entity in side if entity != NOBODY]
            assert len(drawn) == len(set(drawn)) == min(count, len(wrong))
            assert set(drawn) <= wrong
            assert side == drawn + [NOBODY] * (count - len(drawn))


def test_negatives_come_from_the_entities_given_all_equally_often() -> None:
    facts = table([(0, 0, 1)] * 2000)
    found = sample_negatives(facts, table([(0, 0, 5)]), torch.tensor([9, 5, 2, 7, 7, 3]), count=2, seed=1)
    tails, counts = found[:, 0].unique(return_counts=True)
    assert tails.tolist() == [2, 3, 7, 9]  # 5 is a known tail, but a head like others
    assert counts.min() > 900  # of 1000
    assert found[:, 1].unique().tolist() == [2, 3, 5, 7, 9]
    other = sample_negatives(facts, table([(0, 0, 5)]), torch.tensor([2, 3, 5, 7, 9]), count=2, seed=2)
    assert not torch.equal(other, found)


def test_many_facts_are_drawn_in_parts_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = torch.randint(0, 20, (50, 3), generator=torch.Generator().manual_seed(1))
    whole = sample_negatives(facts, facts[:0], 20, 5)
    monkeypatch.setattr("edge_transformer.tasks.links.scores._CELLS", 200)
    assert torch.equal(sample_negatives(facts, facts[:0], 20, 5), whole)


@given(rankings(), seeds)
def test_ranks_among_samples_are_ranks_among_these_columns(
    ranking: tuple[list[list[float]], list[int], list[list[bool]]], seed: int
) -> None:
    rows, targets, flags = ranking
    if not rows:
        return
    scores, numbers = torch.tensor(rows), torch.tensor(targets)
    negatives = torch.where(torch.tensor(flags), NOBODY, torch.arange(scores.shape[1]))
    negatives[torch.arange(len(numbers)), numbers] = NOBODY
    shuffled = negatives[:, torch.randperm(scores.shape[1], generator=torch.Generator().manual_seed(seed))]
    assert torch.equal(sampled_ranks(scores, numbers, shuffled), ranks(scores, numbers, torch.tensor(flags)))


def test_expected_hits_are_the_mean_over_all_samples() -> None:
    candidates, count, top = 4, 3, 2
    for before in range(candidates + 1):  # so many negatives come before the target
        hits = total = 0
        for sample in combinations_with_replacement(range(candidates), count):
            ways = math.factorial(count) // math.prod(math.factorial(sample.count(each)) for each in set(sample))
            hits += ways * (1 + sum(each < before for each in sample) <= top)
            total += ways
        found = expected_hits(torch.tensor([before + 1.0]), torch.tensor([candidates]), count, top)
        assert found == pytest.approx(hits / total)
    assert expected_hits(torch.tensor([1.0, 1.0]), torch.tensor([0, 7])) == 1
    with pytest.raises(ValueError, match="at least the rank - 1"):
        expected_hits(torch.tensor([3.0]), torch.tensor([1]))


def test_expected_hits_are_near_those_of_one_large_sample() -> None:
    random = torch.Generator().manual_seed(1)
    scores, targets = torch.randn(4000, 300, generator=random), torch.randint(0, 300, (4000,), generator=random)
    facts = torch.stack([torch.arange(4000) % 300, torch.zeros(4000, dtype=torch.long), targets], 1)
    negatives = sample_negatives(facts, facts[:0], 300, seed=3)[:, 0]
    sampled = ranking_scores(sampled_ranks(scores, targets, negatives), ["r"] * 4000, ["tail"] * 4000)["Hits@10"]
    expected = expected_hits(ranks(scores, targets), torch.full((4000,), 299))
    assert sampled == pytest.approx(expected, abs=0.02)
    assert expected == pytest.approx(10 / 51, abs=0.02)
