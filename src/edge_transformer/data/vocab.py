"""Names and their numbers: a plain vocabulary, and words of real text with their letters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

import torch
from torch import Tensor


class Vocab:
    """An immutable list of distinct names, numbered from 0 in the order given."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(names)
        self._numbers = {name: number for number, name in enumerate(self._names)}
        if len(self._numbers) != len(self._names):
            raise ValueError("a vocabulary holds each name once")

    @classmethod
    def of(cls, names: Iterable[str]) -> Vocab:
        """The distinct names in alphabetical order, so that the order of rows does not matter."""
        return cls(sorted(set(names)))

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._numbers

    def number(self, name: str) -> int | None:
        """The number of a name; None where it is not known."""
        return self._numbers.get(name)

    def name(self, number: int) -> str:
        """The name with this number."""
        return self._names[number]


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
