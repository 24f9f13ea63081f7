"""Dependency trees in CoNLL-U: read and check them, write predicted trees; also sentences without trees.

A sentence keeps its lines, with comments, multi-word tokens (`3-4`) and empty nodes (`5.1`); a parser sees the words
only. Written files differ from what was read in nothing but line ends (line feeds), byte order mark (none) and blank
lines (one after each sentence).
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import conllu
from conllu.exceptions import ParseException
from conllu.parser import parse_id_value, parse_int_value

from ...draw.arcs import diagram_of_tree
from ...draw.svg import draw_svg
from ...errors import DataError, UserError, no_text
from ...io.files import replacing
from ...io.streams import MAX_CHARACTERS, check_fields, shown_field, text_or_json
from ..graphs.rows import other_fields, tokens_from_json

MAX_LINE = MAX_CHARACTERS
MAX_WORDS = 5_000  # in a sentence; models have lower limits of their own
MAX_ID = 9  # digits
NO_VALUE = "_"
ROW_OF_CONLLU = re.compile(r"\d+(-\d+|\.\d+)?\t")  # the start of a line that is no comment
_NO_LETTERS = ("Cc", "Cs")  # control characters and lone surrogates
_SENT_ID = re.compile(r"#\s*sent_id\s*=\s*(.*?)\s*")
_LFS_POINTER = "version https://git-lfs"
_COLUMNS = "10 columns with tabs between them: ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC"
_ID, _FORM, _UPOS, _XPOS, _HEAD, _DEPREL, _DEPS, _COUNT = 0, 1, 3, 4, 6, 7, 8, 10
_Id = int | tuple[int, str, int]  # a word, a multi-word token (3, "-", 4) or an empty node (5, ".", 1)


@dataclass(frozen=True, slots=True)
class DependencySentence:
    """The words of a sentence and their tree; word numbers count from 1, as in the files."""

    words: tuple[str, ...]
    heads: tuple[int, ...]  # heads[i] is the head of word i + 1; 0 is the root. Empty where there is no tree
    relations: tuple[str, ...]  # of each word to its head; empty where there is no tree
    upos: tuple[str, ...]
    xpos: tuple[str, ...]
    lines: tuple[str, ...] = field(compare=False, repr=False)  # as read, with all that is no word
    source: str = field(default="sentence", compare=False, repr=False)
    line: int | None = field(default=None, compare=False, repr=False)  # number of the first line
    fields: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)  # others of its JSON object

    @classmethod
    def of_words(cls, words: Sequence[str], sent_id: Any = None) -> DependencySentence:
        """A sentence of words, named by `sent_id` where it is a text or a whole number."""
        for number, word in enumerate(words, start=1):
            if not word.strip() or any(unicodedata.category(letter) in _NO_LETTERS for letter in word):
                expected = "texts, not empty, without tabs, line ends and other control characters"
                raise DataError("sentence", None, f"word {number} = {word!r}", expected)
        if not 0 < len(words) <= MAX_WORDS:
            raise DataError("sentence", None, f"{len(words)} words", f"1 to {MAX_WORDS}")
        rows = (f"{number}\t{word}" + f"\t{NO_VALUE}" * (_COUNT - 2) for number, word in enumerate(words, start=1))
        unknown = (NO_VALUE,) * len(words)
        named = [f"# sent_id = {sent_id}"] if _is_name(sent_id) else []
        return cls(tuple(words), (), (), unknown, unknown, (*named, f"# text = {' '.join(words)}", *rows))

    @property
    def size(self) -> int:
        """The number of words."""
        return len(self.words)

    @property
    def comments(self) -> tuple[str, ...]:
        """The lines that start with #."""
        return tuple(line for line in self.lines if line.startswith("#"))

    @property
    def sent_id(self) -> str | None:
        """The name of the sentence in its comments, if any."""
        return next((match[1] for line in self.comments if (match := _SENT_ID.fullmatch(line))), None)

    @property
    def text(self) -> str:
        """The sentence in CoNLL-U, with the blank line after it."""
        return "\n".join(self.lines) + "\n\n"

    def _repr_svg_(self) -> str | None:
        """The tree as arcs, for notebooks; None where there is no tree."""
        return draw_svg(diagram_of_tree(self)) if self.heads else None

    def tokens(self) -> conllu.TokenList:
        """All lines as parsed by the `conllu` library, with features, lemmas and metadata."""
        return conllu.parse_token_and_metadata("\n".join(self.lines))

    def with_tree(self, heads: Sequence[int], relations: Sequence[str]) -> DependencySentence:
        """The same sentence with another tree, also in its lines. DEPS, which belongs to the old tree, becomes `_`."""
        if not len(heads) == len(relations) == self.size:
            found = f"{len(heads)} heads and {len(relations)} relations"
            raise DataError(self.source, self.line, found, f"one of each for every one of the {self.size} words")
        for relation in relations:
            if not _is_relation(relation):
                raise DataError(self.source, self.line, f"relation {relation!r}", "a text without spaces")
        problem = tree_problem(heads)
        if problem:
            word, found, expected = problem
            raise DataError(self.source, self.line, f"word {word}: {found}", expected)
        lines, word = [], 0
        for line in self.lines:
            cells = line.split("\t")
            if cells[_ID].isdecimal() and not line.startswith("#"):
                cells[_HEAD], cells[_DEPREL], cells[_DEPS] = str(heads[word]), relations[word], NO_VALUE
                line, word = "\t".join(cells), word + 1
            lines.append(line)
        return replace(self, heads=tuple(map(int, heads)), relations=tuple(relations), lines=tuple(lines))


def read_conllu(path: str | Path, trees: bool = True, max_words: int = MAX_WORDS) -> Iterator[DependencySentence]:
    """Read a file lazily; a broken line raises an error. Without `trees`, HEAD and DEPREL are not read."""
    count = 0
    try:
        # Only a line feed ends a line: treebanks of web text have other separators inside words.
        with open(path, encoding="utf-8-sig", newline="\n") as lines:
            for sentence in read_conllu_lines(lines, path, trees, max_words):
                count += 1
                yield sentence
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    if not count:
        raise DataError(path, 1, "no sentences", f"at least one: lines of {_COLUMNS}")


def read_conllu_lines(
    lines: Iterable[str], source: str | Path, trees: bool = True, max_words: int = MAX_WORDS
) -> Iterator[DependencySentence]:
    """Read sentences from lines, each as soon as the blank line after it arrives."""
    name, number = str(source), 0
    block: list[str] = []
    try:
        for number, line in enumerate(lines, start=1):
            if len(line) > MAX_LINE:
                raise DataError(source, number, f"a line of {len(line)} characters", f"at most {MAX_LINE}")
            line = line.removesuffix("\n").removesuffix("\r")
            if number == 1:
                line = line.removeprefix("\ufeff")
            if line.strip(" "):
                block.append(line)
                if len(block) > 4 * max_words + 1_000:  # leaves room for comments and empty nodes
                    found = f"{len(block)} lines without a blank one"
                    raise DataError(
                        source, number, found, f"sentences of at most {max_words} words, blank lines between"
                    )
            elif block:
                yield _sentence(tuple(block), name, number - len(block), trees, max_words)
                block = []
    except UnicodeDecodeError as error:
        raise no_text(source, number, error) from error
    if block:
        yield _sentence(tuple(block), name, number - len(block) + 1, trees, max_words)


def write_conllu(path: str | Path, sentences: Iterable[DependencySentence]) -> int:
    """Write sentences and return their number."""
    count = 0
    with replacing(path) as aside, open(aside, "w", encoding="utf-8", newline="\n") as file:
        for sentence in sentences:
            file.write(sentence.text)
            count += 1
    return count


def tree_problem(heads: Sequence[int]) -> tuple[int, str, str] | None:
    """Why heads are no tree with one root, as (word, found, expected); None where they are."""
    size, root = len(heads), 0
    for word, head in enumerate(heads, start=1):
        if not 0 <= head <= size:
            return word, f"head {head}", f"0 for the root, or a word of the sentence, 1 to {size}"
        if head == 0:
            if root:
                return word, f"a second root beside word {root}", "one word with head 0"
            root = word
    if not root:
        return 1, "no root", "one word with head 0"
    above = [0] * (size + 1)  # the word from which each was first reached; 0: not yet
    for word in range(1, size + 1):
        at = word
        while at and not above[at]:
            above[at] = word
            at = heads[at - 1]
        if at and above[at] == word:
            return at, "a cycle through its head", "a tree: every word is below the root"
    return None


def _sentence(lines: tuple[str, ...], source: str, first: int, trees: bool, max_words: int) -> DependencySentence:
    """Parse and check the lines of a sentence; `first` is the number of the first line."""
    rows: list[list[str]] = []
    places: list[int] = []  # line number of each word
    span_end = empty = 0  # the last word of the open multi-word token; empty nodes since the last word
    for number, line in enumerate(lines, start=first):
        if line.startswith("#"):
            if line[1:].lstrip().startswith("global.columns"):
                _check_columns(line, source, number)
            continue
        cells = line.split("\t")
        if number == 1 and line.startswith(_LFS_POINTER):
            raise DataError(source, number, "a Git LFS pointer", "the file itself: run `git lfs pull` where it lies")
        if len(cells) != _COUNT:
            raise DataError(source, number, f"{_plural(len(cells), 'column')} in {line!r}", _COLUMNS)
        if not cells[_FORM]:
            raise DataError(source, number, "an empty FORM", "a word")
        kind = _parse_id(cells[_ID])
        if kind == len(rows) + 1:
            rows.append(cells)
            places.append(number)
            empty = 0
            if len(rows) > max_words:
                raise DataError(source, number, f"a sentence of more than {max_words} words", f"at most {max_words}")
        elif isinstance(kind, tuple) and kind[1] == "-" and kind[0] == len(rows) + 1 > span_end:
            span_end = kind[2]
            if span_end - kind[0] >= max_words:
                raise DataError(source, number, f"ID {cells[_ID]}", f"a sentence of at most {max_words} words")
        elif isinstance(kind, tuple) and kind[1] == "." and kind[::2] == (len(rows), empty + 1):
            empty += 1
        else:
            node = f"{len(rows)}.{empty + 1} for an empty node"
            raise DataError(source, number, f"ID {cells[_ID]}", f"{len(rows) + 1} for the next word, or {node}")
    if not rows:
        raise DataError(source, first, "comments without a sentence", f"lines of {_COLUMNS}")
    if span_end > len(rows):
        found = f"a sentence that ends with word {len(rows)}"
        raise DataError(source, first + len(lines) - 1, found, f"all words of its multi-word token, up to {span_end}")
    heads, relations = _tree(rows, places, source) if trees else ((), ())
    words, upos, xpos = (tuple(sys.intern(row[column]) for row in rows) for column in (_FORM, _UPOS, _XPOS))
    return DependencySentence(words, heads, relations, upos, xpos, lines, source, first)


def _tree(rows: list[list[str]], places: list[int], source: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
    heads = []
    for row, number in zip(rows, places, strict=True):
        head = _parse_head(row[_HEAD])
        if head is None:
            raise DataError(source, number, f"HEAD {row[_HEAD]}", f"0 for the root, or a word, 1 to {len(rows)}")
        if not _is_relation(row[_DEPREL]):
            expected = "a relation, without spaces; dep is one for what is not known"
            raise DataError(source, number, f"DEPREL {row[_DEPREL]!r}", expected)
        heads.append(head)
    problem = tree_problem(heads)
    if problem:
        word, found, expected = problem
        raise DataError(source, places[word - 1], found, expected)
    return tuple(heads), tuple(sys.intern(row[_DEPREL]) for row in rows)


@lru_cache(maxsize=65536)
def _is_relation(name: str) -> bool:
    return name not in ("", NO_VALUE) and not any(letter.isspace() for letter in name)


@lru_cache(maxsize=65536)
def _parse_id(cell: str) -> _Id | None:
    try:
        return parse_id_value(cell) if len(cell) <= 2 * MAX_ID and cell.isascii() else None
    except ParseException:
        return None


@lru_cache(maxsize=65536)
def _parse_head(cell: str) -> int | None:
    try:
        return parse_int_value(cell) if len(cell) <= MAX_ID and cell.isascii() else None
    except ParseException:
        return None


def _check_columns(line: str, source: str, number: int) -> None:
    """Refuse CoNLL-U Plus with columns other than CoNLL-U's."""
    names = " ".join(line.partition("=")[2].split()).upper()
    if names != _COLUMNS.partition(": ")[2]:
        raise DataError(source, number, f"the columns {names}", _COLUMNS)


def _is_name(value: Any) -> bool:
    if isinstance(value, str):
        return bool(value.strip()) and not any(unicodedata.category(letter) in _NO_LETTERS for letter in value)
    return isinstance(value, int) and not isinstance(value, bool)


def _plural(count: int, name: str) -> str:
    return f"{count} {name}" if count == 1 else f"{count} {name}s"


MAX_PARSED = 512  # words to parse; a model keeps a vector for each pair
_COMMENT = re.compile(r"#(\s|$)")  # a line that begins with #MeToo is a sentence
_MOST_COMMENTS = 1_000  # before the first sentence


def arriving_sentences(lines: Iterable[str], source: str, conllu: bool | None = None) -> Iterator[DependencySentence]:
    """Yield the sentences of a file or stream, each as soon as it is complete.

    If `conllu` is None, the first line that is no comment decides the format. A line of text may also be an object
    {"tokens": [...]} or a list of words. Trees of CoNLL-U sentences are ignored.
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
        return read_conllu_lines(everything, source, trees=False, max_words=MAX_PARSED)
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


def tree_from_json(value: Any, source: str, line: int | None = None) -> DependencySentence:
    """A sentence with its tree, {"tokens": [...], "heads": [...], "relations": [...]}; heads count from 1."""
    sentence = read_words(value, source, line)
    row = value if isinstance(value, dict) else {}
    check_fields(row, ("tokens", "heads", "relations", "id"), source, line)
    heads, relations = row.get("heads"), row.get("relations")
    if not isinstance(heads, list | tuple) or not all(type(head) is int for head in heads):
        expected = '"heads": a list with the head of each token, from 1; 0 for the root'
        raise DataError(source, line, shown_field(row, "heads"), expected)
    if not isinstance(relations, list | tuple):
        expected = '"relations": a list with a text for each token'
        raise DataError(source, line, shown_field(row, "relations"), expected)
    return sentence.with_tree(heads, relations)


def read_words(value: Any, source: str, line: int | None = None) -> DependencySentence:
    """A sentence to parse, from any accepted form."""
    if isinstance(value, DependencySentence):
        sentence = value
    else:
        fields = other_fields(value)
        # Only these separate words: treebanks have other spaces inside words.
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
    if sentence.size > MAX_PARSED:
        raise DataError(source, line, f"a sentence of {sentence.size} words", f"at most {MAX_PARSED}")
    return sentence
