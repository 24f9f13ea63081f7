"""From rows to tensors: vocabularies, batches of row numbers, and tables of sentences without padding."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
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
        """The distinct names in alphabetical order, independent of the order of rows."""
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


UNKNOWN = 0  # an out-of-vocabulary word; known words follow
PADDING, UNKNOWN_LETTER, START, END = range(4)  # the letters of the alphabet follow
LETTERS_AT_AN_END = 10  # a word of more than twice this is read by its first and last letters
_DIGITS = re.compile(r"[0-9]+")
MOST_LETTERS = 2 * LETTERS_AT_AN_END + 2  # START and END included


class Lexicon:
    """The words and letters that a model knows."""

    def __init__(self, words: Vocab, letters: Vocab, lower_case: bool = False, same_digits: bool = False) -> None:
        self.words, self.letters, self.lower_case, self.same_digits = words, letters, lower_case, same_digits

    @classmethod
    def of(
        cls,
        sentences: Iterable[Sequence[str]],
        min_count: int = 1,
        lower_case: bool = False,
        same_digits: bool = False,
    ) -> Self:
        """The words that occur at least `min_count` times, and the letters of at least two different words.

        `lower_case` lowers words but not letters; `same_digits` reads every number in both as 0.
        """
        forms: Counter[str] = Counter()
        for form, count in Counter(word for words in sentences for word in words).items():
            forms[_same_digits(form) if same_digits else form] += count
        counts: Counter[str] = Counter()
        for form, count in forms.items():
            counts[form.lower() if lower_case else form] += count
        letters = Counter(letter for form in forms for letter in set(form))
        known = Vocab.of(word for word, count in counts.items() if count >= min_count)
        return cls(known, Vocab.of(letter for letter, count in letters.items() if count > 1), lower_case, same_digits)

    def word(self, form: str) -> int:
        """The number of a word."""
        form = _same_digits(form) if self.same_digits else form
        number = self.words.number(form.lower() if self.lower_case else form)
        return UNKNOWN if number is None else number + 1

    def spell(self, form: str) -> list[int]:
        """The numbers of a word's letters, between START and END."""
        form = _same_digits(form) if self.same_digits else form
        if len(form) > 2 * LETTERS_AT_AN_END:
            form = form[:LETTERS_AT_AN_END] + form[-LETTERS_AT_AN_END:]
        numbers = map(self.letters.number, form)
        return [START, *(UNKNOWN_LETTER if number is None else number + END + 1 for number in numbers), END]

    @property
    def word_numbers(self) -> int:
        """The size of a word embedding."""
        return len(self.words) + 1

    @property
    def letter_numbers(self) -> int:
        """The size of a letter embedding."""
        return len(self.letters) + END + 1

    def to_json(self) -> dict[str, Any]:
        """Plain values that `from_json` reads."""
        value = {"words": list(self.words), "letters": "".join(self.letters), "lower_case": self.lower_case}
        return value | ({"same_digits": True} if self.same_digits else {})

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        same_digits = bool(value.get("same_digits", False))
        return cls(Vocab(value["words"]), Vocab(value["letters"]), bool(value["lower_case"]), same_digits)


def _same_digits(form: str) -> str:
    return _DIGITS.sub("0", form)


class WordTypes:
    """The distinct words of some sentences, numbered in order of first occurrence."""

    def __init__(self, lexicon: Lexicon) -> None:
        self.lexicon = lexicon
        self._numbers: dict[str, int] = {}
        self._built: tuple[Tensor, Tensor] | None = None

    def add(self, words: Sequence[str]) -> list[int]:
        """The numbers of these words; new words get new numbers."""
        self._built = None
        return [self._numbers.setdefault(word, len(self._numbers)) for word in words]

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def words(self) -> Tensor:
        """Each word's number in the lexicon: `[types]`."""
        return self._build()[0]

    @property
    def letters(self) -> Tensor:
        """Each word's letters, padded at the end: `[types, MOST_LETTERS]`."""
        return self._build()[1]

    def _build(self) -> tuple[Tensor, Tensor]:
        if self._built is None:
            words = torch.tensor([self.lexicon.word(form) for form in self._numbers], dtype=torch.long)
            spelt = map(self.lexicon.spell, self._numbers)
            rows = [spelling + [PADDING] * (MOST_LETTERS - len(spelling)) for spelling in spelt]
            letters = torch.tensor(rows, dtype=torch.int32).reshape(-1, MOST_LETTERS)
            self._built = words, letters
        return self._built


def shuffled_batches(rows: int, batch_size: int, seed: int, epoch: int) -> list[Tensor]:
    """The batches of one epoch, determined by the arguments, so that a resumed run sees the same ones."""
    generator = torch.Generator().manual_seed((seed * 1_000_003 + epoch) % 2**63)
    return list(torch.randperm(rows, generator=generator).split(batch_size))


POOL_BATCHES = 60  # few enough for epochs to differ, many enough for batches of one length


def batches_by_length(shapes: Tensor, batch_size: int, seed: int, epoch: int) -> list[Tensor]:
    """The batches of one epoch, each of nearly equal shape; `shapes` has a number for every row, such as its length.

    The shuffled rows are sorted by shape inside pools of some batches, and cut. Fewer groups a batch are faster.
    """
    generator = torch.Generator().manual_seed((seed * 1_000_003 + epoch) % 2**63)
    order = torch.randperm(len(shapes), generator=generator)
    pools = [pool[shapes[pool].argsort(stable=True)] for pool in order.split(POOL_BATCHES * batch_size)]
    batches = [batch for pool in pools for batch in pool.split(batch_size)]
    return [batches[number] for number in torch.randperm(len(batches), generator=generator).tolist()]


def count_by_words(sizes: Tensor, words: int) -> int:
    """How many batches `batches_by_words` makes: the same number in every epoch."""
    return min(len(sizes), -(-int(sizes.sum()) // words))


def batches_by_words(sizes: Tensor, words: int, seed: int, epoch: int) -> list[Tensor]:
    """The same for batches of about `words` words, however many rows; `sizes` has the number of words of every row.

    A row goes where its middle lies, so a batch has at most half of its longest row too many. No batch is empty.
    """
    generator = torch.Generator().manual_seed((seed * 1_000_003 + epoch) % 2**63)
    count = count_by_words(sizes, words)
    pools = torch.randperm(len(sizes), generator=generator).split(POOL_BATCHES * -(-len(sizes) // count))
    order = torch.cat([pool[sizes[pool].argsort(stable=True)] for pool in pools])
    until = sizes[order].double().cumsum(0)  # words up to the end of each row
    number = torch.arange(1, count + 1)
    ends = torch.searchsorted(until - sizes[order] / 2, until[-1] / count * number)  # rows before the end of each batch
    ends = ((ends - number).cummax(0).values + number).clamp(min=number, max=len(sizes) - count + number)
    batches = order.tensor_split(ends[:-1])
    return [batches[place] for place in torch.randperm(count, generator=generator).tolist()]


@dataclass(frozen=True)
class SentenceBatch:
    """Sentences of one length."""

    tokens: Tensor  # (B, n)
    targets: Tensor  # (B, n, columns)
    places: Tensor  # (B, n) places of the tokens in the table

    @property
    def edges(self) -> int:
        """The number of pairs of tokens."""
        return self.tokens.numel() * self.tokens.shape[1]


class SentenceTable:
    """Rows of token numbers, with one target a token in each of the `columns`."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self._sizes: list[int] = []
        self._cells: list[Sequence[Sequence[int]]] = []  # for each row: tokens, then the columns of targets
        self._built: tuple[Tensor, Tensor, Tensor] | None = None

    def add(self, tokens: Sequence[int], targets: Sequence[Sequence[int]]) -> None:
        """Add a row: its tokens, and columns of one target a token."""
        if not tokens or len(targets) != self.columns or any(len(column) != len(tokens) for column in targets):
            raise ValueError(f"a row needs tokens, and {self.columns} columns of one target a token")
        self._sizes.append(len(tokens))
        self._cells.append([tokens, *targets])
        self._built = None

    def __len__(self) -> int:
        return len(self._sizes)

    @property
    def sizes(self) -> Tensor:
        """The length of every row."""
        return self._build()[0]

    @property
    def tokens(self) -> Tensor:
        """All tokens, row after row: `[tokens]`."""
        return self._build()[2][:, 0]

    @property
    def targets(self) -> Tensor:
        """The targets of all tokens, row after row: `[tokens, columns]`."""
        return self._build()[2][:, 1:]

    def rows_of_tokens(self) -> Tensor:
        """For each token, row after row, the number of its row: `[tokens]`."""
        return torch.arange(len(self)).repeat_interleave(self.sizes)

    def batches(self, rows: Tensor | None = None, max_edges: int | None = None) -> Iterator[SentenceBatch]:
        """Rows (all by default) in batches of equal length and at most `max_edges` pairs of tokens, or of one row."""
        sizes, starts, cells = self._build()
        rows = torch.arange(len(self)) if rows is None else rows
        of_rows = sizes[rows]
        for size in of_rows.unique().tolist():
            of_size = rows[of_rows == size]
            for part in of_size.split(len(of_size) if max_edges is None else max(1, max_edges // size**2)):
                places = starts[part][:, None] + torch.arange(size)  # (B, n)
                found = cells[places].long()  # (B, n, 1 + columns)
                yield SentenceBatch(found[..., 0], found[..., 1:], places)

    def _build(self) -> tuple[Tensor, Tensor, Tensor]:
        if self._built is None:
            sizes = torch.tensor(self._sizes, dtype=torch.long)
            lines = [torch.tensor(row, dtype=torch.int32).T for row in self._cells]  # (n, 1 + columns) each
            cells = torch.cat(lines) if lines else torch.zeros(0, 1 + self.columns, dtype=torch.int32)
            self._built = sizes, sizes.cumsum(0) - sizes, cells
        return self._built
