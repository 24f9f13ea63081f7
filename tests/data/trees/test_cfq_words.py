"""The lexicon of CFQ: terms are the longest that fit, unknown words are named."""

from __future__ import annotations

import pytest

from edge_transformer.data.trees import cfq_words
from edge_transformer.data.trees.cfq_words import LEXICON, join_possessives, terms_of


def sorts(question: str) -> list[tuple[str, str]]:
    terms = terms_of(join_possessives(question.split()))
    assert isinstance(terms, list)
    return [(" ".join(term.words), term.sort) for term in terms]


def test_terms_are_the_longest_that_fit() -> None:
    assert sorts("Did a film editor executive produce M12 ' s film") == [
        ("Did", "did"),
        ("a", "a"),
        ("film editor", "kind"),
        ("executive produce", "base"),
        ("M12", "entity"),
        ("'s", "'s"),
        ("film", "kind"),
    ]
    assert sorts("country of nationality of") == [("country of nationality", "role"), ("of", "of")]
    assert sorts("art director director star starred wrote written") == [
        ("art director", "kind or role"),
        ("director", "role"),
        ("star", "star"),
        ("starred", "past or participle"),
        ("wrote", "past"),
        ("written", "participle"),
    ]


@pytest.mark.parametrize(
    ("question", "place"),
    [
        ("Did M0 eat M1", 2),
        ("executive M0", 0),
        ("M0 's executive star", 2),
        ("country of origin", 0),
        ("a country", 1),
        ("Who did M", 2),
        ("M12345", 0),
        ("M٣", 0),
        ("did M0 '", 2),
        ("who", 0),
    ],
)
def test_unknown_words_are_found(question: str, place: int) -> None:
    assert terms_of(join_possessives(question.split())) == place


def test_possessives_are_joined_only_where_they_are_split() -> None:
    assert join_possessives(["M0", "'", "s", "s", "'s", "'"]) == ["M0", "'s", "s", "'s", "'"]
    assert join_possessives([]) == []


def test_every_term_is_one_tree() -> None:
    for term in LEXICON.values():
        assert len(term.words) == len(term.lemmas) == len(term.parts_of_speech)
        hanging = {word: head for word, head, _ in term.inside}
        assert {*hanging, term.head} == set(range(len(term.words)))
        assert term.head not in hanging
    known = {value for name, value in vars(cfq_words).items() if name.isupper() and isinstance(value, str)}
    assert {term.sort for term in LEXICON.values()} <= known
