"""How questions are read: texts, lists of words and JSON, one by one and one a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import pytest

from edge_transformer.errors import DataError
from edge_transformer.io.streams import ArrivingLines
from edge_transformer.tasks.seq2seq.questions import Question, read_lines, read_question

KNOWN = frozenset(["Did", "M0", "M1", "'", "s", "child", "marry", ","])


def read(value: Any) -> Question:
    return read_question(value, KNOWN.__contains__, "here", 3)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Did M0's child marry M1", "Did M0 ' s child marry M1"),
        ("Did M0,Bob marry", "Did M0 , Bob marry"),  # one of the parts is known
        ("Did O'Brien marry", "Did O'Brien marry"),  # a mark alone is no reason to cut
        ("Did (M0) marry", "Did ( M0 ) marry"),  # the marks are unknown words, but M0 is not
        ("M1 ,", "M1 ,"),  # a known mark stays
    ],
)
def test_texts_are_cut_where_that_leads_to_known_words(text: str, words: str) -> None:
    assert read(text) == Question(tuple(words.split()))


@pytest.mark.parametrize("text", ["Did M0 marry M1?", "Did M0 marry M1 ?", " Did M0 marry M1? "])
def test_unknown_punctuation_at_the_end_is_left_out(text: str) -> None:
    assert read(text) == Question(("Did", "M0", "marry", "M1"), ("?",))


def test_what_is_left_out_is_told_in_order() -> None:
    assert read("M1 ? !") == Question(("M1",), ("?", "!"))
    assert read("M1?!") == Question(("M1",), ("?", "!"))
    assert read("? !") == Question(("?",), ("!",))  # something must be asked


def test_a_list_says_what_the_words_are() -> None:
    assert read(["M0's", "child", "?"]) == Question(("M0's", "child", "?"))
    assert read({"source": ["M0's"], "id": 7, "target": None}) == Question(("M0's",), (), {"id": 7, "target": None})


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("", "0 words"),
        ([], "0 words"),
        ({"text": "a"}, "the fields text"),
        ({}, "the fields none"),
        (7, "7"),
        (["a b"], "a b"),
        (["a", 7], "7"),
        ({"source": None}, "None"),
        ("a " * 600, "600 words"),
    ],
)
def test_questions_that_are_none(value: Any, found: str) -> None:
    with pytest.raises(DataError, match=f"^here:3: found .*{found}"):
        read(value)


def words_of(*lines: str) -> list[tuple[str, ...]]:
    found = list(read_lines(lines, KNOWN.__contains__, "here"))
    assert all(line.error is None for line in found)
    return [line.question.words for line in found]


@pytest.mark.parametrize(
    "text", ["[M0] marry", "{ M0", "[1, 2]", "[", "{", "[[]]", "{M0: 1}", "[null]", '[ M0 , "M1', "{]", "[1" * 99]
)
def test_brackets_alone_make_no_json(text: str) -> None:
    [words] = words_of(text)
    assert "".join(words) == "".join(text.split())


def test_a_line_for_each_line() -> None:
    lines = ["\ufeffDid M0\n", "\n", '{"source": "marry"}\n', ' ["M0", "M1"]', "\t", '{"source": ""}', "[]"]
    assert words_of(*lines) == [("Did", "M0"), (), ("marry",), ("M0", "M1"), (), (), ()]


@pytest.mark.parametrize(
    ("line", "found", "fields"),
    [
        ("M0 " * 600, "600 words", {}),
        ('{"source": "M0"', "one JSON object", {}),
        ('{ "source": M0}', "one JSON object", {}),
        ('["M0", ', "one JSON object", {}),
        ('["M0 M1"]', "without spaces", {}),
        ('{"id": 7}', "the fields id", {"id": 7}),
        ('{"id": 7, "source": 8}', "a text, or a list", {"id": 7, "source": 8}),
    ],
)
def test_a_bad_line_does_not_end_the_others(line: str, found: str, fields: dict[str, Any]) -> None:
    before, bad, after = read_lines(["M0", line, "M1"], KNOWN.__contains__, "here")
    assert (before.question.words, after.question.words) == (("M0",), ("M1",))
    assert str(bad.error).startswith("here:2: found ")
    assert found in str(bad.error)
    assert bad.question == Question((), (), fields)
    json.dumps(bad.question.fields)


def test_bytes_that_are_no_text() -> None:
    lines = ArrivingLines(BytesIO(b"M0\n\xff M0\nM1\n"))
    before, bad, after = read_lines(lines, KNOWN.__contains__, "here")
    assert (before.question.words, bad.question.words, after.question.words) == (("M0",), (), ("M1",))
    assert "here:2: found bytes that are no text" in str(bad.error)


def test_a_line_that_is_too_long_for_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edge_transformer.io.streams.MAX_BYTES", 9)
    lines = ArrivingLines(BytesIO(b"M0\n" + b"M0 " * 99 + b"\nM1\n"), "here")
    before, bad, after = read_lines(lines, KNOWN.__contains__, "here")
    assert (before.question.words, bad.question.words, after.question.words) == (("M0",), (), ("M1",))
    assert str(bad.error).startswith("here:2: found a line of more than 9 bytes")


def test_lines_are_read_as_they_are_asked_for() -> None:
    taken: list[int] = []

    def lines() -> Iterator[str]:
        for number in range(3):
            taken.append(number)
            yield "M0"

    next(read_lines(lines(), KNOWN.__contains__, "here"))
    assert taken == [0]
