"""Sentences to be parsed into trees, as they arrive: CoNLL-U, or lines of words with spaces between them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

from ...errors import DataError
from ..graphs.rows import other_fields, text_or_json, tokens_from_json
from ..relations.clutrr import no_text
from .conllu import MAX_LINE, ROW_OF_CONLLU, DependencySentence, read_conllu_lines

MAX_WORDS = 512  # in a sentence that is parsed; a model keeps a vector for each pair of them
_COMMENT = re.compile(r"#(\s|$)")  # a line that begins with #MeToo is a sentence
_MOST_COMMENTS = 1_000  # before the first sentence


def arriving_sentences(lines: Iterable[str], source: str, conllu: bool | None = None) -> Iterator[DependencySentence]:
    """The sentences of a file or stream, each as soon as it is complete.

    Without `conllu` the first line that is no comment decides which form they have. A line of text may also be an
    object {"tokens": [...]} or a list of words. A tree that a CoNLL-U sentence already has is not looked at.
    """
    arriving, first = iter(lines), []
    if conllu is None:
        conllu = False
        try:
            for line in arriving:
                first.append(line)
                text = line.removeprefix("\ufeff") if len(first) == 1 else line
                if (text.strip() and not _COMMENT.match(text)) or len(first) > _MOST_COMMENTS:
                    conllu = ROW_OF_CONLLU.match(text) is not None
                    break
        except UnicodeDecodeError as error:
            raise no_text(source, len(first), error) from error
    everything = chain(first, arriving)
    if conllu:
        return read_conllu_lines(everything, source, trees=False, max_words=MAX_WORDS)
    return _sentences_of_text(everything, source)


def _sentences_of_text(lines: Iterable[str], source: str) -> Iterator[DependencySentence]:
    number = 0
    try:
        for number, line in enumerate(lines, start=1):
            if len(line) > MAX_LINE:
                raise DataError(source, number, f"a line of {len(line)} characters", f"at most {MAX_LINE}")
            text = line.removeprefix("\ufeff") if number == 1 else line
            if text.strip(" \t\r\n"):
                yield read_words(text_or_json(text, source, number), source, number)
    except UnicodeDecodeError as error:
        raise no_text(source, number, error) from error


def read_words(value: Any, source: str, line: int | None = None) -> DependencySentence:
    """A sentence to be parsed, from any of the forms in which one may be given."""
    if isinstance(value, DependencySentence):
        sentence = value
    else:
        fields = other_fields(value)
        # Nothing but these separates words: treebanks have other kinds of space inside them.
        words = tuple(word for word in re.split(r"[ \t\r\n]+", value) if word) if isinstance(value, str) else value
        if isinstance(words, list | tuple):
            if not words or not all(isinstance(word, str) for word in words):
                raise DataError(source, line, repr(value), "a sentence of at least one word, all of them texts")
        else:
            words = tokens_from_json(words, source, line)
        try:
            sentence = DependencySentence.of_words(words, fields.get("id"))
        except DataError as error:
            raise DataError(source, line, error.found, error.expected) from error
        sentence = replace(sentence, fields=fields, source=source, line=line)
    if sentence.size > MAX_WORDS:
        raise DataError(source, line, f"a sentence of {sentence.size} words", f"at most {MAX_WORDS}")
    return sentence
