"""Phrases of CFQ's questions: adjectives and what is asked for at their nouns, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_transformer.data.graphs.cfq_phrases import Phrases
from edge_transformer.data.graphs.edges import Edge

EDITOR = "film.film.edited_by"


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("Which prequel of M0 was edited by M1", 1),
        ("What French and male actor edited M1", 4),
        ("What did M0 edit", 0),
        ("What was edited by M0", 0),
        ("Who edited M0", 0),
        ("Which gnu edited M0", 0),  # no word of CFQ
    ],
)
def test_where_what_is_asked_for_stands(question: str, asked: int) -> None:
    phrases = Phrases(question.split())
    assert phrases.asked_for([2]) == asked
    assert phrases.asked_for([0, 2]) == 0


def test_what_a_noun_is_asked_for_is_said_of_itself() -> None:
    edges: list[Edge] = [
        (1, 0, "subject"),
        (1, 1, "film.film.prequel"),
        (1, 3, "object"),
        (5, 0, "subject"),
        (5, 7, "object"),
    ]
    found = Phrases(["Which", "prequel", "of", "M0", "was", "edited", "by", "M1"]).gathered(edges)
    assert found == [(1, 1, "film.film.prequel"), (1, 3, "object"), (5, 1, "subject"), (5, 7, "object")]


def test_adjectives_have_the_subject_of_their_noun() -> None:
    phrases = Phrases(["Who", "was", "a", "French", "editor", "of", "M0"])
    edges: list[Edge] = [(3, 0, "subject"), (4, 0, "subject"), (4, 6, "object")]
    gathered: list[Edge] = [(3, 4, "subject"), (4, 0, "subject"), (4, 6, "object")]
    assert phrases.gathered(edges) == gathered
    assert phrases.spread(gathered) == edges


def test_a_noun_that_stands_for_another_keeps_its_adjective() -> None:
    phrases = Phrases(["Who", "was", "a", "actor", "whose", "American", "sibling", "influenced", "M0"])
    edges: list[Edge] = [(5, 6, "subject"), (6, 0, "subject"), (6, 6, "object"), (7, 6, "subject"), (7, 8, "object")]
    assert phrases.gathered(edges) == phrases.spread(edges) == edges


QUESTION = ["Who", "was", "a", "French", "male", "editor", "and", "American", "director", "of", "M0"]
WORDS = st.integers(0, len(QUESTION) - 1)


@given(st.sets(st.tuples(WORDS, WORDS, st.sampled_from(["subject", "object", EDITOR])), max_size=12))
def test_any_edges_are_gathered_and_spread(edges: set[Edge]) -> None:
    phrases = Phrases(QUESTION)
    for found in (phrases.gathered(edges), phrases.spread(sorted(edges))):
        assert {edge for edge in found if edge[2] != "subject"} == {edge for edge in edges if edge[2] != "subject"}
        assert {head for head, _, label in found if label == "subject"} == {
            head for head, _, label in edges if label == "subject"
        }
