"""How questions are read: texts, lists of words and JSON, one by one and one a line; how they are to be answered."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import pytest

from edge_transformer.errors import DataError, UserError
from edge_transformer.io.streams import ArrivingLines
from edge_transformer.tasks.seq2seq.questions import Decoding, Question, beams_for, read_lines, read_question

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


# --- ways of decoding that make no sense ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"beams": 0}, "a beam of 0; expected 1 to 64"),
        ({"beams": 1000}, "a beam of 1000; expected 1 to 64"),
        ({"beams": 2.5}, "a beam of 2.5; expected 1 to 64, a whole number"),
        ({"beams": True}, "a beam of True"),
        ({"beams": "4"}, "a beam of 4; expected 1 to 64, a whole number"),
        ({"beams": 2, "n_best": 3}, "3 translations of a beam of 2; expected 1 to 2"),
        ({"n_best": 0}, "0 translations"),
        ({"limit": 0}, "a limit of 0 words; expected 1 to 512"),
        ({"limit": 513}, "a limit of 513 words"),
        *(
            ({"beams": 4, "length_penalty": value}, "expected -5 to 5")
            for value in (1000, -1000, math.nan, math.inf, "1", None)
        ),
        ({"length_penalty": 0.6}, "a length penalty of 0.6 with greedy decoding.*expected a beam of 2 or more"),
        ({"sample": -1}, "-1 samples; expected 1 to 1000"),
        ({"sample": 2, "beams": 4}, "found samples and a beam"),
        ({"sample": 2, "beams": 4, "n_best": 2}, "found samples and a beam"),
        ({"sample": 2, "length_penalty": 1.0}, "found samples and a beam, n-best or length penalty"),
        ({"temperature": 0.5}, "without samples"),
        ({"top_k": 5}, "without samples"),
        ({"sample": 1, "temperature": 0.0}, "a temperature of 0.0; expected a number above 0"),
        ({"sample": 1, "temperature": math.nan}, "a temperature of nan"),
        ({"sample": 1, "temperature": math.inf}, "a temperature of inf"),
        ({"sample": 1, "top_k": 0}, "a top-k of 0"),
        ({"sample": 1, "top_k": 1.5}, "a top-k of 1.5"),
        ({"sample": 1, "top_p": 1.1}, "a top-p of 1.1"),
        ({"sample": 1, "seed": -1}, "a seed of -1"),
    ],
)
def test_what_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Decoding(**values)


def test_what_is_allowed() -> None:
    assert Decoding().count == 1
    assert Decoding(beams=4, n_best=3, length_penalty=-5).count == 3
    assert Decoding(sample=7, temperature=0.1, top_k=3, top_p=0.5, seed=0).count == 7
    assert [beams_for(count) for count in (1, 2, 4, 9)] == [1, 4, 4, 9]
