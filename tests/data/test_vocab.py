"""Names, words and letters as numbers: they belong together in any order, what is known, what is read of long words."""

from __future__ import annotations

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from edge_transformer.data.tensors import (
    END,
    LETTERS_AT_AN_END,
    MOST_LETTERS,
    PADDING,
    START,
    UNKNOWN,
    UNKNOWN_LETTER,
    Lexicon,
    Vocab,
    WordTypes,
)


def test_names_keep_their_order() -> None:
    vocab = Vocab(["son", "aunt", "niece"])
    assert list(vocab) == ["son", "aunt", "niece"]
    assert [vocab.number(name) for name in vocab] == [0, 1, 2]
    assert vocab.name(1) == "aunt"
    assert len(vocab) == 3


def test_of_sorts_and_drops_repetitions() -> None:
    assert list(Vocab.of(["son", "aunt", "son", "niece", "aunt"])) == ["aunt", "niece", "son"]


def test_unknown_names() -> None:
    vocab = Vocab(["son"])
    assert vocab.number("sun") is None
    assert "sun" not in vocab
    assert "son" in vocab
    assert 0 not in vocab
    with pytest.raises(IndexError):
        vocab.name(1)


def test_each_name_once() -> None:
    with pytest.raises(ValueError, match="each name once"):
        Vocab(["son", "aunt", "son"])


def test_empty() -> None:
    assert len(Vocab([])) == 0
    assert list(Vocab.of([])) == []


@given(names=st.lists(st.text(max_size=4)))
def test_numbers_lead_back_to_names_and_the_order_of_rows_does_not_matter(names: list[str]) -> None:
    vocab = Vocab.of(names)
    assert set(vocab) == set(names)
    numbers = [vocab.number(name) for name in names]
    assert [vocab.name(number) for number in numbers if number is not None] == names
    assert list(Vocab.of(reversed(names))) == list(vocab)


# --- words and letters ------------------------------------------------------------------------------------------------


SENTENCES = [["The", "cat", "saw", "the", "dog"], ["the", "cats", "ran"], ["x"]]


def test_words_are_known_where_they_occur_often_enough() -> None:
    assert list(Lexicon.of(SENTENCES).words) == ["The", "cat", "cats", "dog", "ran", "saw", "the", "x"]
    assert list(Lexicon.of(SENTENCES, min_count=2).words) == ["the"]
    lower = Lexicon.of(SENTENCES, min_count=3, lower_case=True)
    assert list(lower.words) == ["the"]
    assert lower.word("The") == lower.word("THE") == lower.word("the") == 1
    assert lower.word("cat") == UNKNOWN
    assert lower.word_numbers == 2


def test_letters_are_known_where_two_words_have_them() -> None:
    lexicon = Lexicon.of(SENTENCES, lower_case=True)
    assert list(lexicon.letters) == ["a", "c", "e", "h", "s", "t"]
    a, c, e, h, s, t = range(END + 1, END + 7)
    assert lexicon.spell("cat") == [START, c, a, t, END]
    assert lexicon.spell("The") == [START, UNKNOWN_LETTER, h, e, END]  # the case of letters is kept
    assert lexicon.spell("s\N{SNOWMAN}") == [START, s, UNKNOWN_LETTER, END]
    assert lexicon.letter_numbers == END + 7


def test_of_long_words_both_ends_are_read() -> None:
    lexicon = Lexicon.of([["a" * 40 + "b" * 40, "ab"]])
    a, b = END + 1, END + 2
    middle = [a] * LETTERS_AT_AN_END + [b] * LETTERS_AT_AN_END
    assert lexicon.spell("a" * 40 + "b" * 40) == [START, *middle, END]
    assert lexicon.spell("ab" * LETTERS_AT_AN_END) == [START, *[a, b] * LETTERS_AT_AN_END, END]


def test_numbers_can_be_one_word() -> None:
    lexicon = Lexicon.of([["M0", "met", "M12"], ["M7"]], same_digits=True)
    assert list(lexicon.words) == ["M0", "met"]
    assert lexicon.word("M345") == lexicon.word("M0") != UNKNOWN
    assert lexicon.spell("M99") == lexicon.spell("M0")
    assert Lexicon.from_json(lexicon.to_json()).word("M8") == lexicon.word("M0")
    assert Lexicon.of([["M0"]]).word("M1") == UNKNOWN


def test_different_words_are_numbered_as_they_come() -> None:
    types = WordTypes(Lexicon.of(SENTENCES, lower_case=True))
    assert types.add(["the", "cat", "The", "cat"]) == [0, 1, 2, 1]
    assert types.words.tolist() == [types.lexicon.word(word) for word in ("the", "cat", "the")]
    assert types.add(["nix", "the"]) == [3, 0]  # after the tensors were asked for
    assert types.words.tolist()[3] == UNKNOWN
    assert types.letters.shape == (len(types), MOST_LETTERS) == (4, MOST_LETTERS)
    assert types.letters[1].tolist() == [*types.lexicon.spell("cat"), *[PADDING] * (MOST_LETTERS - 5)]


def test_nothing() -> None:
    types = WordTypes(Lexicon.of([]))
    assert types.words.shape == (0,)
    assert types.letters.shape == (0, MOST_LETTERS)


@given(st.lists(st.lists(st.text(min_size=1, max_size=30), max_size=5), max_size=5), st.integers(1, 3), st.booleans())
def test_a_lexicon_comes_back_and_numbers_are_within_bounds(
    sentences: list[list[str]], min_count: int, lower_case: bool
) -> None:
    lexicon = Lexicon.of(sentences, min_count, lower_case)
    again = Lexicon.from_json(json.loads(json.dumps(lexicon.to_json())))
    assert again.to_json() == lexicon.to_json()
    for words in sentences:
        types = WordTypes(lexicon)
        types.add(words)
        assert int(types.words.max() if len(types) else 0) < lexicon.word_numbers
        assert int(types.letters.max() if len(types) else 0) < lexicon.letter_numbers
        for word in words:
            assert again.word(word) == lexicon.word(word)
            assert again.spell(word) == lexicon.spell(word)
            assert 3 <= len(lexicon.spell(word)) <= MOST_LETTERS
    assert torch.equal(WordTypes(lexicon).words, torch.zeros(0, dtype=torch.long))
