"""Sentences as they arrive: which form they have is seen from the first of them."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from edge_transformer.data.trees.conllu import arriving_sentences
from edge_transformer.errors import DataError
from edge_transformer.io.streams import ArrivingLines

REST = "\t_" * 8
TWO = f"# sent_id = 1\n1\tHi{REST}\n\n# a comment\n1-2\tdon't{REST}\n1\tdo{REST}\n2\tn't{REST}\n\n"


def words(text: str, conllu: bool | None = None) -> list[tuple[str, ...]]:
    lines = text.splitlines(keepends=True)
    return [sentence.words for sentence in arriving_sentences(lines, "here", conllu)]


def test_conllu_and_text_are_told_apart() -> None:
    assert words(TWO) == [("Hi",), ("do", "n't")]
    assert words("\ufeff" + TWO) == words("\n\n" + TWO) == words(TWO.replace("# sent_id = 1\n", "")) == words(TWO)
    assert words(TWO[:-2]) == words(TWO)  # without the last blank line
    assert words("\ufeff# 1 hit\n\n2 hits\r\n") == [("#", "1", "hit"), ("2", "hits")]
    assert words("# only comments\n") == [("#", "only", "comments")]
    assert words('{"tokens": ["a b", "{"]}\nx\n') == [("a b", "{"), ("x",)]
    assert words('["a", "b"]\n[1] x\n{ y }\n#z\n') == [("a", "b"), ("[1]", "x"), ("{", "y", "}"), ("#z",)]
    assert words("1\ta\n", conllu=False) == [("1", "a")]
    assert words("") == words("\n \n") == []
    assert words("10\u00a0000 mice\n") == [("10\u00a0000", "mice")]


def test_trees_that_are_there_are_not_looked_at() -> None:
    [sentence] = arriving_sentences([f"1\tHi{REST[:-8]}\t7\tnonsense\t_\t_\n"], "here")
    assert (sentence.words, sentence.heads, sentence.line) == (("Hi",), (), 1)


@pytest.mark.parametrize("line", ["Hello there", "#MeToo !"])
def test_a_sentence_is_there_before_the_next_one_comes(line: str) -> None:
    def typed() -> Iterator[str]:
        yield f"{line}\n"
        raise AssertionError("asked for a line too many")

    sentence = next(iter(arriving_sentences(typed(), "here")))
    assert (sentence.words, sentence.source, sentence.line) == (tuple(line.split()), "here", 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a\n\xff b\n", "here:2: found bytes that are no text"),
        (b"\xff b\n", "here:1: found bytes that are no text"),
        (b"1\ta\n", "here:1: found 2 columns"),
        (b"a " * 513, "here:1: found a sentence of 513 words; expected at most 512"),
        (b'a\n{"\n', "here:2: found '{\"'; expected one JSON object a line"),
        (b"a\n" + b"b" * 1_000_001, "here:2: found a line of 1000001 characters"),
        (f"1\ta{REST}\n3\tb{REST}\n".encode(), "here:2: found ID 3"),
    ],
)
def test_mistakes_name_the_line(text: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(arriving_sentences(ArrivingLines(io.BytesIO(text)), "here"))
