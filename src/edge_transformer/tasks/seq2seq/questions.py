"""Input of a translator, alone or one per line, and its decoding options."""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...data.pairs.cfq import question_words
from ...errors import DataError, UserError, no_text
from ...io.streams import text_or_json
from ...nn.generation import MAX_LENGTH_PENALTY

MAX_WORDS = 512  # of one side; the decoder keeps a vector for each pair of words
_PUNCTUATION = frozenset(string.punctuation)


@dataclass(frozen=True)
class Question:
    """The words of a question; an empty line has none."""

    words: tuple[str, ...]
    left_out: tuple[str, ...] = ()  # unknown punctuation at the end
    fields: Mapping[str, Any] = field(default_factory=dict)  # other fields of JSON input


@dataclass(frozen=True)
class Line:
    """A line with a question, or the reason why it cannot be read."""

    number: int
    question: Question
    error: DataError | None = None


def read_question(
    value: Any, is_known: Callable[[str], bool], source: str, line: int | None = None, fewest: int = 1
) -> Question:
    """Read a question from a text, a list of words, or an object with either as "source".

    A text is split at spaces, and an unknown word also around its punctuation if that gives known words. Unknown
    punctuation at the end of a text, such as a question mark, is left out. `fewest` is the least number of words.
    """
    fields: dict[str, Any] = {}
    if isinstance(value, Mapping):
        if "source" not in value:
            raise DataError(source, line, f"the fields {', '.join(map(str, value)) or 'none'}", 'one named "source"')
        fields = {name: item for name, item in value.items() if name != "source"}
        value = value["source"]
    left_out: list[str] = []
    if isinstance(value, str):
        words = [part for word in value.split() for part in _parts(word, is_known)]
        while len(words) > 1 and _is_punctuation(words[-1]) and not is_known(words[-1]):
            left_out.insert(0, words.pop())
    elif _is_list_of_texts(value) and all(word.split() == [word] for word in value):
        words = list(value)
    else:
        raise DataError(source, line, repr(value)[:200], "a text, or a list of words without spaces")
    if not fewest <= len(words) <= MAX_WORDS:
        raise DataError(source, line, f"{len(words)} words", f"1 to {MAX_WORDS}")
    return Question(tuple(words), tuple(left_out), fields)


def _parts(word: str, is_known: Callable[[str], bool]) -> list[str]:
    if is_known(word):
        return [word]
    parts = question_words(word)
    return parts if any(is_known(part) and not _is_punctuation(part) for part in parts) else [word]


def _is_punctuation(word: str) -> bool:
    return _PUNCTUATION.issuperset(word)


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(word, str) for word in value)


def read_lines(lines: Iterable[str], is_known: Callable[[str], bool], source: str) -> Iterator[Line]:
    """Read a question from each line; an error in one line does not stop the others."""
    arriving, number = iter(lines), 0
    while True:
        number += 1
        value: Any = {}
        try:
            line = next(arriving)
            value = text_or_json(line.removeprefix("\ufeff") if number == 1 else line, source, number)
            yield Line(number, read_question(value, is_known, source, number, fewest=0))
        except StopIteration:
            return
        except UnicodeDecodeError as error:
            yield Line(number, Question(()), no_text(source, number - 1, error))
        except DataError as error:
            yield Line(number, Question((), fields=value if isinstance(value, Mapping) else {}), error)


MAX_BEAMS = 64
MAX_SAMPLES = 1000
MAX_SEED = 2**32 - 1
DEFAULT_BEAMS = 4  # for several translations


@dataclass(frozen=True)
class Decoding:
    """How to decode, and how many translations to return."""

    beams: int = 1
    n_best: int = 1
    length_penalty: float = 0.0
    limit: int | None = None  # the most words; by default twice the longest target in training
    sample: int = 0  # number of random translations, instead of the best
    temperature: float = 1.0  # this and the options below: see `generation.sample`
    top_k: int | None = None
    top_p: float = 1.0
    seed: int = 1

    def __post_init__(self) -> None:
        _require_count(self.beams, MAX_BEAMS, "a beam of {}")
        _require_count(self.n_best, self.beams, f"{{}} translations of a beam of {self.beams}")
        if self.limit is not None:
            _require_count(self.limit, MAX_WORDS, "a limit of {} words")
        _require_number(self.length_penalty, -MAX_LENGTH_PENALTY, MAX_LENGTH_PENALTY, "a length penalty of {}")
        if self.sample:
            self._check_sampling()
        elif (self.temperature, self.top_k, self.top_p) != (1.0, None, 1.0):
            raise UserError("found a temperature, top-k or top-p without samples; expected a number of samples as well")
        elif self.length_penalty and self.beams == 1:
            raise UserError(
                f"a length penalty of {self.length_penalty} with greedy decoding, which ranks nothing; "
                "expected a beam of 2 or more"
            )

    def _check_sampling(self) -> None:
        _require_count(self.sample, MAX_SAMPLES, "{} samples")
        if (self.beams, self.n_best, self.length_penalty) != (1, 1, 0.0):
            raise UserError("found samples and a beam, n-best or length penalty; expected one of the two")
        if not 0 < _number(self.temperature) < math.inf:
            raise UserError(f"a temperature of {self.temperature}; expected a number above 0")
        if self.top_k is not None and (type(self.top_k) is not int or self.top_k < 1):
            raise UserError(f"a top-k of {self.top_k}; expected a whole number of at least 1")
        if not 0 < _number(self.top_p) <= 1:
            raise UserError(f"a top-p of {self.top_p}; expected a number above 0 and at most 1")
        if type(self.seed) is not int or not 0 <= self.seed <= MAX_SEED:
            raise UserError(f"a seed of {self.seed}; expected 0 to {MAX_SEED}")

    @property
    def count(self) -> int:
        """The most translations of a text."""
        return self.sample or self.n_best


def beams_for(n_best: int) -> int:
    """The default width of the beam; greedy decoding finds one translation."""
    return 1 if n_best == 1 else max(DEFAULT_BEAMS, n_best)


def _require_count(value: object, most: int, what: str) -> None:
    if type(value) is not int or not 1 <= value <= most:
        raise UserError(f"{what.format(value)}; expected 1 to {most}, a whole number")


def _require_number(value: object, least: float, most: float, what: str) -> None:
    if not least <= _number(value) <= most:
        raise UserError(f"{what.format(value)}; expected {least:g} to {most:g}")


def _number(value: object) -> float:
    """The value as a float; nan, which fails all comparisons, if it is no number."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
