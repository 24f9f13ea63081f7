"""Sentences to be parsed into trees, as they arrive: CoNLL-U, or lines of words with spaces between them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain

from .data.clutrr import no_text
from .data.token_graphs import text_or_json
from .data.treebanks import MAX_LINE, ROW_OF_CONLLU, DependencySentence, read_conllu_lines
from .errors import DataError
from .tasks.tree_parser import MAX_WORDS, read_words

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
