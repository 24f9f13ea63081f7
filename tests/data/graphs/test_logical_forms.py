"""Logical forms: what is read is written back the same, and nothing else is read."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_transformer.data.graphs.logical_forms import MAX_FORM, Atom, LogicalForm, is_word, parse_logical_form
from edge_transformer.errors import DataError


def test_parts_of_a_sentence() -> None:
    form = parse_logical_form(
        "* cake ( x _ 3 ) ; * table ( x _ 6 ) ; eat . agent ( x _ 1 , Emma ) AND cake . nmod . on ( x _ 3 , x _ 6 )"
    )
    assert form == LogicalForm(
        definites=(Atom(("cake",), (3,)), Atom(("table",), (6,))),
        conjuncts=(Atom(("eat", "agent"), (1, "Emma")), Atom(("cake", "nmod", "on"), (3, 6))),
    )


def test_nouns_alone() -> None:
    assert parse_logical_form("* cake ( x _ 1 )") == LogicalForm(definites=(Atom(("cake",), (1,)),))
    assert parse_logical_form("cake ( x _ 1 )") == LogicalForm(conjuncts=(Atom(("cake",), (1,)),))


def test_lambda_and_name() -> None:
    form = parse_logical_form("LAMBDA a . LAMBDA e . walk . agent ( e , a )")
    assert form == LogicalForm(conjuncts=(Atom(("walk", "agent"), ("e", "a")),), bound=("a", "e"))
    assert parse_logical_form("Emma") == LogicalForm(name="Emma")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "conjunct 1 ''"),
        ("two words", "conjunct 1 'two words'"),
        ("cake ( x _ 1 ) AND", "conjunct 1 'cake ( x _ 1 ) AND'"),
        ("cake ( x _ 1 ) AND eat . agent ( x _ 1 )", "conjunct 2 'eat . agent ( x _ 1 )'"),
        ("cake ( x _ 1 , x _ 2 )", "conjunct 1"),
        ("a . b . c . d ( x _ 1 , x _ 2 )", "conjunct 1"),
        ("eat . agent ( x _ 1 , )", "conjunct 1"),
        ("cake ( x _ 01 )", "conjunct 1"),
        ("cake ( x _ 1234567 )", "conjunct 1"),
        ("cake ( x _ 1)", "conjunct 1"),
        ("cake  ( x _ 1 )", "conjunct 1"),
        ("cake ( x _ 1 ) ; table ( x _ 2 )", "'cake ( x _ 1 )' before a semicolon"),
        ("* cake ( x _ 1 ) ; ", "conjunct 1 ''"),
        ("* eat . agent ( x _ 1 , x _ 2 ) ; cake ( x _ 1 )", "definite 'eat . agent"),
        ("LAMBDA a . ", "conjunct 1 ''"),
        ("LAMBDA a . LAMBDA a . cake ( a )", "LAMBDA a . LAMBDA a"),
        ("LAMBDA", "conjunct 1 'LAMBDA'"),
        ("AND", "conjunct 1 'AND'"),
    ],
)
def test_broken_forms_are_quoted(text: str, found: str) -> None:
    with pytest.raises(DataError) as error:
        parse_logical_form(text, "train.tsv", 7)
    assert (str(error.value.path), error.value.line) == ("train.tsv", 7)
    assert found in error.value.found
    assert error.value.expected


def test_length_has_a_limit() -> None:
    parse_logical_form("a" * MAX_FORM)
    with pytest.raises(DataError, match="characters"):
        parse_logical_form("a" * (MAX_FORM + 1))


words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5).filter(is_word)
words |= st.sampled_from(["x", "_", "LAMBDAS", "and", "a"])
terms = st.integers(0, 999_999) | words
nouns = st.builds(lambda word, term: Atom((word,), (term,)), words, terms)
relations = st.builds(
    lambda path, first, second: Atom(tuple(path), (first, second)),
    st.lists(words, min_size=2, max_size=3),
    terms,
    terms,
)
forms = st.builds(
    LogicalForm,
    st.lists(nouns, max_size=3).map(tuple),
    st.lists(nouns | relations, max_size=4).map(tuple),
    st.lists(words, max_size=3, unique=True).map(tuple),
).filter(lambda form: form.definites or form.conjuncts) | st.builds(LogicalForm, name=words)


@settings(max_examples=300, deadline=None)
@given(form=forms)
def test_random_forms_are_read_as_they_were_written(form: LogicalForm) -> None:
    assert parse_logical_form(str(form)) == form


pieces = st.sampled_from(["*", "(", ")", ",", ";", ".", "x", "_", "3", "AND", "LAMBDA", "a", "cake", "nmod", "", "\n"])


@settings(max_examples=500, deadline=None)
@given(text=st.text(max_size=40) | st.lists(pieces, max_size=16).map(" ".join))
def test_any_text_is_refused_or_written_back_the_same(text: str) -> None:
    try:
        form = parse_logical_form(text)
    except DataError:
        return
    assert str(form) == text
