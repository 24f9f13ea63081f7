"""Words of real text as numbers: a vocabulary of known words, and the letters of every word.

A text has far fewer different words than words, so each is looked up and spelt once. `WordTypes` numbers the different
words of some sentences as they come; sentences are then rows of these numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Self

import torch
from torch import Tensor

from .vocab import Vocab

UNKNOWN = 0  # the number of a word that is not in the vocabulary; known words follow
PADDING, UNKNOWN_LETTER, START, END = range(4)  # the letters of the alphabet follow
LETTERS_AT_AN_END = 10  # of a longer word than two times this, only the first and the last letters are read
MOST_LETTERS = 2 * LETTERS_AT_AN_END + 2  # START and END included


class Lexicon:
    """The words and letters that a model knows."""

    def __init__(self, words: Vocab, letters: Vocab, lower_case: bool = False) -> None:
        self.words, self.letters, self.lower_case = words, letters, lower_case

    @classmethod
    def of(cls, sentences: Iterable[Sequence[str]], min_count: int = 1, lower_case: bool = False) -> Self:
        """The words that occur at least `min_count` times, and the letters of at least two different words.

        `lower_case` makes no difference between `The` and `the` as words; letters stay as they are.
        """
        forms = Counter(word for words in sentences for word in words)
        counts: Counter[str] = Counter()
        for form, count in forms.items():
            counts[form.lower() if lower_case else form] += count
        letters = Counter(letter for form in forms for letter in set(form))
        known = Vocab.of(word for word, count in counts.items() if count >= min_count)
        return cls(known, Vocab.of(letter for letter, count in letters.items() if count > 1), lower_case)

    def word(self, form: str) -> int:
        """The number of a word."""
        number = self.words.number(form.lower() if self.lower_case else form)
        return UNKNOWN if number is None else number + 1

    def spell(self, form: str) -> list[int]:
        """The numbers of a word's letters, between those of START and END."""
        if len(form) > 2 * LETTERS_AT_AN_END:
            form = form[:LETTERS_AT_AN_END] + form[-LETTERS_AT_AN_END:]
        numbers = map(self.letters.number, form)
        return [START, *(UNKNOWN_LETTER if number is None else number + END + 1 for number in numbers), END]

    @property
    def word_numbers(self) -> int:
        """How many numbers words may have."""
        return len(self.words) + 1

    @property
    def letter_numbers(self) -> int:
        """How many numbers letters may have."""
        return len(self.letters) + END + 1

    def to_json(self) -> dict[str, Any]:
        """Plain values that `from_json` reads."""
        return {"words": list(self.words), "letters": "".join(self.letters), "lower_case": self.lower_case}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        return cls(Vocab(value["words"]), Vocab(value["letters"]), bool(value["lower_case"]))


class WordTypes:
    """The different words of some sentences, numbered in the order in which they first occur."""

    def __init__(self, lexicon: Lexicon) -> None:
        self.lexicon = lexicon
        self._numbers: dict[str, int] = {}
        self._built: tuple[Tensor, Tensor] | None = None

    def add(self, words: Sequence[str]) -> list[int]:
        """The numbers of these words, new ones where they did not occur before."""
        self._built = None
        return [self._numbers.setdefault(word, len(self._numbers)) for word in words]

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def words(self) -> Tensor:
        """For each of them its number in the vocabulary: `[types]`."""
        return self._build()[0]

    @property
    def letters(self) -> Tensor:
        """For each of them its letters, padded at the end: `[types, MOST_LETTERS]`."""
        return self._build()[1]

    def _build(self) -> tuple[Tensor, Tensor]:
        if self._built is None:
            words = torch.tensor([self.lexicon.word(form) for form in self._numbers], dtype=torch.long)
            spelt = map(self.lexicon.spell, self._numbers)
            rows = [spelling + [PADDING] * (MOST_LETTERS - len(spelling)) for spelling in spelt]
            letters = torch.tensor(rows, dtype=torch.int32).reshape(-1, MOST_LETTERS)
            self._built = words, letters
        return self._built
