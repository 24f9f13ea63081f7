"""The grammar of CFQ's questions: its own constructions are read, anything else is refused, neither takes long."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfq_questions import cfq_questions
from edge_transformer.data.trees.cfq_grammar import MAX_TERMS, Grammar, Phrase
from edge_transformer.data.trees.cfq_words import LEXICON, Term, terms_of

SORTS = sorted({term.sort for term in LEXICON.values()} | {"entity"})


def read(question: str) -> Phrase | None:
    terms = terms_of(question.split())
    assert isinstance(terms, list)
    return Grammar([term.sort for term in terms]).question()


def leaves(part: Any) -> list[int]:
    """The terms of a reading, each as often as the reading has it."""
    if isinstance(part, Phrase):
        return [leaf for inner in part.parts for leaf in leaves(inner)]
    if isinstance(part, tuple):
        return [leaf for inner in part for leaf in leaves(inner)]
    return [] if part is None else [part]


@settings(max_examples=300, deadline=None)
@given(question=cfq_questions())
def test_every_construction_is_read(question: str) -> None:
    terms = terms_of(question.split())
    assert isinstance(terms, list)
    if len(terms) > MAX_TERMS:
        return
    reading = read(question)
    assert reading is not None, question
    assert sorted(leaves(reading)) == list(range(len(terms)))


@settings(max_examples=300, deadline=None)
@given(sorts=st.lists(st.sampled_from(SORTS), max_size=12))
def test_any_sorts_are_read_whole_or_refused(sorts: list[str]) -> None:
    grammar = Grammar(sorts)
    reading = grammar.question()
    if reading is None:
        assert 0 <= grammar.furthest() <= len(sorts)
    else:
        assert sorted(leaves(reading)) == list(range(len(sorts)))


@pytest.mark.parametrize(
    "question",
    [
        "M0",
        "Did M0",
        "Did M0 directed M1",  # the past form after "Did"
        "Did M0 direct",
        "Did M0 direct M1 M2",
        "What did M0 direct M1",  # nothing is asked for
        "Did M0 , M1 and M2 direct M3",  # a comma is missing
        "Did M0 , and M1 direct M2",  # a comma too many
        "Was M0 directed",
        "Was M0 wrote by M1",
        "Was a director M0",  # a role of nothing
        "Was M0 's person M1",  # no role
        "Was M0 a person that M1 influenced M2",  # nothing left for "that"
        "Was M0 a person that M1 was influenced",
        "Was M0 a person whose M1 married M2",
        "Who French",
        "Which directed M0",
        "directed by M0",
        ", and",
    ],
)
def test_what_is_no_question_of_cfq(question: str) -> None:
    assert read(question) is None


@pytest.mark.parametrize(
    ("start", "again", "end"),
    [
        ("Did M0 marry", "a sibling of", "M1"),
        ("Did M0 marry", "a person that married", "M1"),
        ("Did M0 marry M1 , ", "marry a person that married M2 and married M3 ,", "and marry M4"),
        ("Who was a person", "influenced by a person", "influenced by M0"),
        ("Was a film", "written by a person influenced by M0 and", "written by M1"),
        ("Who", "married , was influenced by ,", "and influenced M1"),
        ("Was M0 M1", "'s sibling and spouse", ""),
        ("Who married", "a person that a person that M0 married , married , and", ""),
        ("Did", "M0 and", "M1"),
    ],
)
def test_long_questions_take_no_long_time(start: str, again: str, end: str) -> None:
    count = 1
    while True:
        terms: list[Term] | int = terms_of(f"{start} {' '.join([again] * count)} {end}".split())
        assert isinstance(terms, list)
        if len(terms) > MAX_TERMS:
            break
        longest, count = [term.sort for term in terms], count + 1
    assert len(longest) > MAX_TERMS - 20
    started = time.process_time()
    Grammar(longest).question()
    assert time.process_time() - started < 5
    assert Grammar(["did"] + ["entity"] * MAX_TERMS).question() is None
