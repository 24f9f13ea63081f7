"""Vocabularies: names and numbers belong together, whatever order they came in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_transformer.data.vocab import Vocab


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
