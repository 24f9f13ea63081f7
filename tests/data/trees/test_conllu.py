"""CoNLL-U: real treebanks come back byte for byte, trees can be written into them, broken lines are named; and
sentences as they arrive, whose form is seen from the first of them.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_transformer.data.trees.conllu import (
    MAX_LINE,
    DependencySentence,
    arriving_sentences,
    read_conllu,
    read_conllu_lines,
    tree_problem,
    write_conllu,
)
from edge_transformer.errors import DataError, UserError
from edge_transformer.io.streams import ArrivingLines
from official_data import benchmark

EWT = benchmark("ud/EWT")
TEXT = """\
# sent_id = a-1
# text = Il va au café .
# no key
1\tIl\til\tPRON\tPRP\tNumber=Sing\t2\tnsubj\t2:nsubj\t_
2\tva\taller\tVERB\tVB\t_\t0\troot\t0:root\t_
2.1\tlui\tlui\tPRON\t_\t_\t_\t_\t2:dep\tCopyOf=1
3-4\tau\t_\t_\t_\t_\t_\t_\t_\t_
3\tà\tà\tADP\tIN\t_\t5\tcase\t5:case\t_
4\tle\tle\tDET\tDT\t_\t5\tdet\t5:det\t_
5\tcafé noir\tcafé\tNOUN\tNN\t_\t2\tobl:arg\t2:obl\tSpaceAfter=No
6\t.\t.\tPUNCT\t.\t_\t2\tpunct\t2:punct\t_

"""
HEADS, RELATIONS = (2, 0, 5, 5, 2, 2), ("nsubj", "root", "case", "det", "obl:arg", "punct")


def rows(*heads: int | str, relation: str = "dep") -> str:
    return "".join(f"{n}\tw{n}\t_\t_\t_\t_\t{head}\t{relation}\t_\t_\n" for n, head in enumerate(heads, start=1))


def read(text: str, **options: bool | int) -> list[DependencySentence]:
    return list(read_conllu_lines(text.splitlines(keepends=True), "x.conllu", **options))  # type: ignore[arg-type]


# --- real treebanks ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("split", "sentences", "words", "longest"),
    [("train", 12_544, 204_577, 159), ("dev", 2_001, 25_147, 75), ("test", 2_077, 25_094, 81)],
)
def test_ewt_comes_back_byte_for_byte(split: str, sentences: int, words: int, longest: int, tmp_path: Path) -> None:
    path = EWT / f"en_ewt-ud-{split}.conllu"
    if not path.is_file():
        pytest.skip(f"needs Universal Dependencies English EWT in {EWT}")
    read = list(read_conllu(path))
    sizes = [sentence.size for sentence in read]
    assert (len(read), sum(sizes), max(sizes)) == (sentences, words, longest)
    assert write_conllu(tmp_path / "again.conllu", read) == sentences
    assert (tmp_path / "again.conllu").read_bytes() == path.read_bytes()
    changed = [sentence.with_tree(sentence.heads, sentence.relations) for sentence in read]
    write_conllu(tmp_path / "changed.conllu", changed)
    assert list(read_conllu(tmp_path / "changed.conllu")) == read
    assert all(sentence.comments == other.comments for sentence, other in zip(read, changed, strict=True))


# --- sentences --------------------------------------------------------------------------------------------------------


def test_words_only_are_parsed() -> None:
    [sentence] = read(TEXT)
    assert sentence.words == ("Il", "va", "à", "le", "café noir", ".")
    assert (sentence.heads, sentence.relations) == (HEADS, RELATIONS)
    assert sentence.upos == ("PRON", "VERB", "ADP", "DET", "NOUN", "PUNCT")
    assert sentence.xpos[1] == "VB"
    assert sentence.comments == ("# sent_id = a-1", "# text = Il va au café .", "# no key")
    assert (sentence.line, sentence.source) == (1, "x.conllu")
    assert sentence.text == TEXT


def test_a_tree_is_written_into_what_was_read() -> None:
    [sentence] = read(TEXT)
    other = sentence.with_tree((2, 0, 2, 3, 4, 5), ("a", "root", "b:c", "d", "e", "f"))
    before, after = TEXT.splitlines(), other.text.splitlines()
    assert len(before) == len(after)
    for old, new in zip(before, after, strict=True):
        if old[:1].isdecimal() and old.split("\t")[0].isdecimal():
            assert [*new.split("\t")[:6], new.split("\t")[9]] == [*old.split("\t")[:6], old.split("\t")[9]]
            assert new.split("\t")[8] == "_"
        else:
            assert new == old
    [again] = read(other.text)
    assert again == other
    assert sentence.text == TEXT


@pytest.mark.parametrize(
    ("heads", "relations", "found"),
    [
        ((2, 0), ("a", "b"), "2 heads"),
        ((2, 0, 0, 2, 2, 2), RELATIONS, "word 3: a second root beside word 2"),
        (HEADS, (*RELATIONS[:-1], "a b"), "relation 'a b'"),
        (HEADS, (*RELATIONS[:-1], "_"), "relation '_'"),
    ],
)
def test_what_is_no_tree_is_not_written(heads: tuple[int, ...], relations: tuple[str, ...], found: str) -> None:
    with pytest.raises(DataError, match=found):
        read(TEXT)[0].with_tree(heads, relations)


def test_the_library_reads_the_rest() -> None:
    [sentence] = read(TEXT)
    tokens = sentence.tokens()
    assert tokens.metadata["sent_id"] == "a-1"
    assert tokens[0]["feats"] == {"Number": "Sing"}
    assert [token["id"] for token in tokens[2:4]] == [(2, ".", 1), (3, "-", 4)]


def test_byte_order_mark_and_other_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "x.conllu"
    path.write_bytes(("\ufeff\r\n" + TEXT.replace("\n", "\r\n") + "\r\n\r\n" + TEXT.strip()).encode())
    first, second = read_conllu(path)
    assert first.text == second.text == TEXT
    assert (first.line, second.line) == (2, 16)


def test_other_separators_stay_inside_words(tmp_path: Path) -> None:
    path = tmp_path / "x.conllu"
    text = "1\ta\u2028b\x85\x0bc\t_\t_\t_\t_\t0\troot\t_\t_\n\n"
    path.write_text(text, newline="\n", encoding="utf-8")
    [sentence] = read_conllu(path)
    assert sentence.words == ("a\u2028b\x85\x0bc",)
    write_conllu(tmp_path / "y.conllu", [sentence])
    assert (tmp_path / "y.conllu").read_bytes() == path.read_bytes()


def test_a_sentence_comes_as_soon_as_it_has_ended() -> None:
    def lines() -> Iterator[str]:
        yield from TEXT.splitlines(keepends=True)
        raise AssertionError("asked for more than the first sentence")

    assert next(read_conllu_lines(lines(), "stream")).heads == HEADS


def test_files_without_heads_are_there_to_be_parsed() -> None:
    text = rows("_", "_", relation="_")
    with pytest.raises(DataError, match=r"^x.conllu:1: found HEAD _; expected 0 for the root"):
        read(text)
    [sentence] = read(text, trees=False)
    assert (sentence.words, sentence.heads, sentence.relations) == (("w1", "w2"), (), ())
    assert sentence.with_tree((2, 0), ("x", "root")).text == (
        "1\tw1\t_\t_\t_\t_\t2\tx\t_\t_\n2\tw2\t_\t_\t_\t_\t0\troot\t_\t_\n\n"
    )
    [broken] = read(rows(7, 7), trees=False)
    assert broken.heads == ()


# --- broken files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "found", "expected"),
    [
        ("1\tw\t_\t_\t_\t_\t0\troot\t_\n", 1, "9 columns", "10 columns"),
        ("1 w _ _ _ _ 0 root _ _\n", 1, "1 column in", "tabs"),
        ("1\t\t_\t_\t_\t_\t0\troot\t_\t_\n", 1, "empty FORM", "a word"),
        (rows(0, 3), 2, "head 3", "1 to 2"),
        (rows(0, -1), 2, "head -1", "1 to 2"),
        (rows(0, "x"), 2, "HEAD x", "1 to 2"),
        (rows(0, "1" * 5000), 2, "HEAD 1", "1 to 2"),
        (rows(0, "²"), 2, "HEAD ²", "1 to 2"),
        (rows(0, 1, 0), 3, "a second root beside word 1", "one word with head 0"),
        (rows(2, 1), 1, "no root", "one word with head 0"),
        (rows(0, 1, 4, 3), 3, "a cycle", "a tree"),
        (rows(0, 2), 2, "a cycle", "a tree"),
        (rows(0, relation="_"), 1, "DEPREL '_'", "a relation"),
        (rows(0, relation=""), 1, "DEPREL", "a relation"),
        (rows(0, relation="pu nct"), 1, "DEPREL 'pu nct'", "a relation, without spaces"),
        (rows(0) + rows(0), 2, "ID 1", "2 for the next word"),
        (rows(0, 1).replace("2\tw2", "3\tw2"), 2, "ID 3", "2 for the next word"),
        (rows(0).replace("1\t", "01\t", 1), 1, "ID 01", "1 for the next word"),
        (rows(0).replace("1\t", "_\t", 1), 1, "ID _", "1 for the next word"),
        ("1-2" + "\t_" * 9 + "\n" + rows(0), 2, "ends with word 1", "up to 2"),
        ("2-1" + "\t_" * 9 + "\n" + rows(0), 1, "ID 2-1", "1 for the next word"),
        (("1-2" + "\t_" * 9 + "\n") * 2 + rows(0), None, "", ""),
        ("1.1" + "\t_" * 9 + "\n" + rows(0), 1, "ID 1.1", "0.1 for an empty node"),
        ("0.2" + "\t_" * 9 + "\n" + rows(0), 1, "ID 0.2", "0.1 for an empty node"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:0a\n", 1, "a Git LFS pointer", "git lfs pull"),
        ("# only a comment\n\n" + rows(0), 1, "comments without", "lines of"),
        ("# global.columns = ID FORM HEAD\n" + rows(0), 1, "the columns ID FORM HEAD", "10 columns"),
        ("# " + "x" * MAX_LINE + "\n", 1, "characters", str(MAX_LINE)),
        (rows(0) + "\n\n" + rows(0, 5), 5, "head 5", "1 to 2"),
    ],
)
def test_broken_lines_are_named(text: str, line: int | None, found: str, expected: str) -> None:
    with pytest.raises(DataError) as error:
        read(text)
    assert str(error.value.path) == "x.conllu"
    assert line is None or error.value.line == line
    assert found in error.value.found
    assert expected in error.value.expected


def test_empty_nodes_before_the_first_word() -> None:
    text = "0.1" + "\te" * 9 + "\n" + "0.2" + "\te" * 9 + "\n" + rows(0) + "1.1" + "\te" * 9 + "\n\n"
    [sentence] = read(text)
    assert (sentence.words, sentence.text) == (("w1",), text)


def test_long_sentences() -> None:
    text = rows(0, *[1] * 5)
    assert read(text, max_words=6)[0].size == 6
    with pytest.raises(DataError, match=r"x.conllu:6: found a sentence of more than 5 words"):
        read(text, max_words=5)
    with pytest.raises(DataError, match=r"lines without a blank one"):
        read("# comment\n" * 2_000, max_words=5)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file"):
        list(read_conllu(tmp_path / "absent.conllu"))
    path = tmp_path / "x.conllu"
    path.write_bytes(TEXT.encode() + b"1\t\xff\xfe\n")
    with pytest.raises(DataError, match=rf"x.conllu:{len(TEXT.splitlines()) + 1}: .*UTF-8"):
        list(read_conllu(path))
    path.write_text("\n\n")
    with pytest.raises(DataError, match="no sentences"):
        list(read_conllu(path))


# --- words ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [[], [""], ["a\tb"], ["a\nb"], ["a\r"], [" "], ["a\0"], ["a\ud800b"]])
def test_words_that_no_line_can_hold(words: list[str]) -> None:
    with pytest.raises(DataError):
        DependencySentence.of_words(words)


# --- properties -------------------------------------------------------------------------------------------------------


def is_tree(heads: list[int]) -> bool:
    """By definition: one root, and from every word the root is reached."""
    if heads.count(0) != 1 or not all(0 <= head <= len(heads) for head in heads):
        return False
    for word in range(1, len(heads) + 1):
        for _ in heads:
            word = heads[word - 1] if word else 0
        if word:
            return False
    return True


@settings(max_examples=500, deadline=None)
@given(heads=st.lists(st.integers(0, 5), min_size=1, max_size=5))
def test_what_is_a_tree(heads: list[int]) -> None:
    assert (tree_problem(heads) is None) == is_tree(heads)


cells = st.text(st.characters(exclude_characters="\t\n\r", exclude_categories=["Cs"]), min_size=1, max_size=4)


@settings(max_examples=100, deadline=None)
@given(words=st.lists(cells, min_size=1, max_size=5), comments=st.lists(cells, max_size=3), data=st.data())
def test_sentences_come_back(words: list[str], comments: list[str], data: st.DataObject) -> None:
    lines = [f"#{comment}" for comment in comments if not comment.lstrip().startswith("global")]
    root = data.draw(st.integers(1, len(words)))
    for number, word in enumerate(words, start=1):
        head = 0 if number == root else root
        lines.append(f"{number}\t{word}\tlemma\t_\t_\t_\t{head}\trel\t_\t_")
    text = "\n".join(lines) + "\n\n"
    [sentence] = read_conllu_lines([line + "\n" for line in text.split("\n")], "x")
    assert sentence.words == tuple(words)
    assert sentence.text == text


pieces = st.sampled_from(["1", "2", "1-2", "1.1", "0", "_", "w", "\t", "\t_\t_\t_\t_\t", "\troot\t_\t_", "\n", "#"])


@settings(max_examples=300, deadline=None)
@given(text=st.lists(pieces, max_size=20).map("".join) | st.text(max_size=30))
def test_any_text_is_refused_or_read(text: str) -> None:
    lines = [line + "\n" for line in text.split("\n")]
    with suppress(DataError):
        for sentence in read_conllu_lines(lines, "x"):
            assert is_tree(list(sentence.heads))


# --- sentences as they arrive -----------------------------------------------------------------------------------------


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
        (b"a\n" + b"b" * (MAX_LINE + 1), f"here:2: found a line of {MAX_LINE + 1} characters"),
        (f"1\ta{REST}\n3\tb{REST}\n".encode(), "here:2: found ID 3"),
    ],
)
def test_mistakes_name_the_line(text: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(arriving_sentences(ArrivingLines(io.BytesIO(text)), "here"))


def test_a_notebook_shows_the_tree() -> None:
    sentence = DependencySentence.of_words(["<script>", "ran"])
    assert sentence._repr_svg_() is None
    svg = sentence.with_tree([2, 0], ["nsubj", "root"])._repr_svg_()
    assert svg is not None
    assert "<script" not in svg
    assert ElementTree.fromstring(svg).findtext("{http://www.w3.org/2000/svg}title") == "ROOT <script> ran"
