"""Faithfulness of explanations of links: of a model whose rule is known, the named facts are those it needs."""

from __future__ import annotations

import json

import pytest

from edge_transformer.data.links.rows import Fact
from edge_transformer.errors import UserError
from edge_transformer.explain.links.faithfulness import KINDS, LinkScores, Removal, score_links
from links_of_rules import FACTS, HELD_OUT, PROOF, link_model, transitive


def test_without_the_named_facts_the_answers_change() -> None:
    seen: list[int] = []
    model = transitive()
    scores = score_links(model, HELD_OUT, progress=seen.append)
    assert (scores.links, scores.explained, len(seen)) == (8, 8, 8)
    found = scores.fractions()
    assert found["named_facts"] == found["near_facts"] == found["anywhere_facts"] == len(PROOF)
    assert found["named_changed"] > 0.9
    assert found["named_changed"] > found["near_changed"] + 0.3
    assert found["near_changed"] >= found["anywhere_changed"]
    assert found["named_lost"] > 0.2 > max(found["near_lost"], found["anywhere_lost"])
    assert found["named_lost_log"] > max(found["near_lost_log"], found["anywhere_lost_log"]) + 1
    assert scores == score_links(model, HELD_OUT)
    assert scores != score_links(model, HELD_OUT, seed=1)


def test_sums_and_fractions_are_both_written() -> None:
    removals = {"named": Removal(4, 3, 0.5, 2.0) + Removal(2, 1, 0.25, 1.0), "near": Removal(6)}
    plain = LinkScores(2, 1, 4, removals).to_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["sums"]["removals"]["named"] == {"facts": 6, "changed": 4, "lost": 0.75, "lost_log": 3.0}
    assert plain["fractions"]["named_changed"] == plain["fractions"]["first"] == 1.0
    assert plain["fractions"]["named_lost"] == 0.375
    assert plain["fractions"]["near_facts"] == 3.0
    assert plain["fractions"]["explained"] == 0.5


def test_known_links_are_measured_without_themselves() -> None:
    scores = score_links(transitive().with_facts([tuple(HELD_OUT[0])]), [HELD_OUT[0]])
    assert (scores.links, scores.explained) == (1, 1)
    assert set(scores.removals) == set(KINDS)


def test_small_graphs_run_out_of_facts() -> None:
    model = transitive((Fact("a", "in", "b"), Fact("b", "in", "c")))
    scores = score_links(model, [Fact("a", "in", "c")])
    assert scores.removals["named"].facts == 2
    assert scores.removals["near"] == scores.removals["anywhere"] == Removal()


def test_links_of_other_graphs_are_refused() -> None:
    with pytest.raises(UserError, match="found no link whose nodes and relation the model knows"):
        score_links(link_model(FACTS), [Fact("x", "in", "y"), Fact("city 0", "on", "city 1")])
