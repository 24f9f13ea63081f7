"""What a translator is asked: texts, lists of words and JSON objects, alone or one a line."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...data.graphs.rows import text_or_json
from ...data.pairs.cfq import question_words
from ...data.relations.clutrr import no_text
from ...errors import DataError

MAX_WORDS = 512  # of one side; the decoder keeps a vector for each pair of words of both
_PUNCTUATION = frozenset(string.punctuation)


@dataclass(frozen=True)
class Question:
    """The words of a question. Of an empty line they are none."""

    words: tuple[str, ...]
    left_out: tuple[str, ...] = ()  # punctuation at the end that the model never saw
    fields: Mapping[str, Any] = field(default_factory=dict)  # what else a JSON object had


@dataclass(frozen=True)
class Line:
    """A line that asks something, or why it cannot be read."""

    number: int
    question: Question
    error: DataError | None = None


def read_question(
    value: Any, is_known: Callable[[str], bool], source: str, line: int | None = None, fewest: int = 1
) -> Question:
    """A question from a text, a list of words, or an object with one of them as "source".

    A list says what the words are. A text is cut at its spaces, and a word that is not known also around its
    punctuation, where that leads to known words. Punctuation at the end of a text that is not known is left out:
    models trained on questions without question marks are asked with them. `fewest` is how many words there must be.
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
    """A question for each line, empty where the line is; what is wrong with one does not end the others."""
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
