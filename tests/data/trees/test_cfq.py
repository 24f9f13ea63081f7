"""Trees of CFQ's questions: by hand for every construction, over the official rows, for questions made at random."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfq_questions import cfq_questions
from edge_transformer.data.trees.cfq import RELATIONS, CfqParser, CfqTree, NotCovered, Shape
from edge_transformer.data.trees.cfq_grammar import MAX_TERMS
from edge_transformer.data.trees.cfq_words import LEXICON
from official_data import benchmark

TREES = Path(__file__).with_name("cfq_trees.txt")
DOCUMENTATION = Path(__file__).parents[3] / "docs/benchmarks.md"
OFFICIAL = benchmark("cfq")
WORDS = sorted({word for term in LEXICON.values() for word in term.words} | {"M0", "M1", "'", "s"})


def check(tree: CfqTree) -> None:
    """One root, everything else below it, known relations."""
    arcs = tree.arcs()
    assert [relation for head, relation in arcs if not head] == ["root"]
    for start in range(1, len(arcs) + 1):
        word, steps = start, 0
        while word:
            word, steps = arcs[word - 1][0], steps + 1
            assert steps <= len(arcs), "a circle"
    assert {relation for _, relation in arcs} <= set(RELATIONS)
    assert len(tree.words) == len(arcs) == len(tree.columns())


# --- by hand ----------------------------------------------------------------------------------------------------------


def by_hand() -> list[tuple[str, str]]:
    lines = [line for line in TREES.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    return list(zip(lines[::2], lines[1::2], strict=True))


def shown(tree: CfqTree) -> str:
    """A tree in the form of the file: each word's relation and head."""
    seen: Counter[str] = Counter()
    names = []
    for word in tree.words:
        seen[word] += 1
        names.append(word if seen[word] == 1 else f"{word}#{seen[word]}")
    return " ".join(f"{relation}({names[head - 1]})" if head else relation for head, relation in tree.arcs())


@pytest.mark.parametrize(("question", "tree"), by_hand())
def test_trees_by_hand(question: str, tree: str) -> None:
    assert shown(CfqParser().parse(question)) == tree


def test_the_trees_of_the_documentation() -> None:
    rules = DOCUMENTATION.read_text(encoding="utf-8").split("\n### The rules\n")[1].split("\n### ")[0]
    lines = [line.strip() for line in rules.splitlines() if line.startswith("    ")]
    assert len(lines) >= 40
    for question, tree in zip(lines[::2], lines[1::2], strict=True):
        assert shown(CfqParser().parse(question)) == " ".join(tree.split()), question


def test_the_trees_by_hand_have_all_relations() -> None:
    trees = by_hand()
    assert len({question for question, _ in trees}) == len(trees) >= 60
    found = re.findall(r"(?:^| )([a-z:]+)", " ".join(tree for _, tree in trees))
    assert set(found) == set(RELATIONS)


def test_columns() -> None:
    tree = CfqParser().parse("What film did M0 ' s executive producer star")
    assert tree.columns() == [
        ("What", "what", "DET", "What"),
        ("film", "film", "NOUN", "NP_SIMPLE"),
        ("did", "do", "AUX", "did"),
        ("M0", "M0", "PROPN", "entity"),
        ("'s", "'s", "PART", "'s"),
        ("executive", "executive", "ADJ", "ROLE_SIMPLE"),
        ("producer", "producer", "NOUN", "ROLE_SIMPLE"),
        ("star", "star", "VERB", "VP_SIMPLE"),
    ]
    assert tree.template == "What [NP_SIMPLE] did [entity] 's [ROLE_SIMPLE] [VP_SIMPLE]"
    tree = CfqParser().parse("Was M0 a female star of M1")
    assert tree.columns()[3:5] == [
        ("female", "female", "ADJ", "ADJECTIVE_SIMPLE"),
        ("star", "star", "NOUN", "ROLE_SIMPLE"),
    ]
    assert CfqParser().parse("Who wrote M0").columns()[:2] == [
        ("Who", "who", "PRON", "Who"),
        ("wrote", "write", "VERB", "VP_SIMPLE"),
    ]


def test_depth_counts_the_words_of_fixed_groups() -> None:
    parse = CfqParser().parse
    assert parse("Was M0 French").depth() == 1
    assert parse("Was M0 executive produced by M1").depth() == 2
    assert parse("Was M0 M1 's country of nationality").depth() == 2
    assert parse("Did M0 influence a sibling of M1").depth() == 3


def test_projectivity() -> None:
    parse = CfqParser().parse
    assert parse("Who was a actor that M0 influenced").shape.projective
    assert not parse("Who was a actor that M0 was influenced by").shape.projective  # "that ... by" around the verb
    for heads, projective in [((1, -1, 1), True), ((2, 3, -1, 2), False), ((2, -1, 1), False), ((-1, 2, 0, 0), True)]:
        assert Shape.of(heads, [""] * len(heads), [""] * len(heads)).projective is projective


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        ("Did M0 eat M1", "word 3 is 'eat', which the grammar does not know"),
        ("Did M0 direct", "fits the question at its end"),
        ("Did M0 's executive producer directed M1", "from word 6, 'directed', on"),
        ("", "no words"),
        ("Did " + "M0 and " * MAX_TERMS + "M1 direct M2", f"{MAX_TERMS} at most"),
    ],
)
def test_what_is_not_covered_has_a_reason(question: str, reason: str) -> None:
    with pytest.raises(NotCovered, match=reason):
        CfqParser().parse(question)


def test_shapes_are_found_once() -> None:
    parser = CfqParser()
    first, second = parser.parse("Did M0 found M1"), parser.parse("Did M7 executive produce M7")
    assert first.shape is second.shape
    assert parser.shapes == 1
    for _ in range(2):
        with pytest.raises(NotCovered, match="word 2, 'marry'"):
            parser.parse("Did marry M0")
    with pytest.raises(NotCovered, match="word 2, 'executive'"):  # the same sorts, other words
        parser.parse("Did executive produce M0")
    assert parser.shapes == 2


# --- at random --------------------------------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(question=cfq_questions())
def test_questions_of_the_grammar_get_trees(question: str) -> None:
    parser = CfqParser()
    try:
        tree = parser.parse(question)
    except NotCovered as error:
        assert f"{MAX_TERMS} at most" in str(error)  # noqa: PT017 - both outcomes are checked
        return
    check(tree)
    assert " ".join(tree.words) == question
    assert parser.parse(question.replace(" 's", " ' s")) == tree
    heads = [head for head, _ in tree.arcs()]
    relations = Counter(relation for _, relation in tree.arcs())
    joined = Counter(question.split())
    assert (relations["cc"], relations["punct"]) == (joined["and"], joined[","])
    assert relations["obl:agent"] == joined["by"]
    assert tree.depth() == max(_depth(heads, word) for word in range(1, len(heads) + 1))


def _depth(heads: list[int], word: int) -> int:
    return 0 if not heads[word - 1] else 1 + _depth(heads, heads[word - 1])


@settings(max_examples=200, deadline=None)
@given(words=st.lists(st.sampled_from(WORDS) | st.text(max_size=3), max_size=15))
def test_any_words_get_a_tree_or_a_reason(words: list[str]) -> None:
    try:
        check(CfqParser().parse(words))
    except NotCovered as error:
        assert str(error)  # noqa: PT017 - both outcomes are right


# --- official data ----------------------------------------------------------------------------------------------------


def test_word_classes_are_those_of_the_official_rows() -> None:
    files = sorted((OFFICIAL / "official_rows").glob("*.json"))
    if not files:
        pytest.skip(f"needs official rows of CFQ in {OFFICIAL / 'official_rows'}")
    parser, count = CfqParser(), 0
    for path in files:
        for row in json.loads(path.read_text(encoding="utf-8")):
            tree = parser.parse(row["questionPatternModEntities"])
            assert tree.template == row["questionTemplate"]
            check(tree)
            count += 1
    assert count == 2_064


def mcd1() -> Iterator[str]:
    for split in ("train", "dev", "test"):
        with gzip.open(OFFICIAL / f"mcd1/{split}.tsv.gz", "rt", encoding="utf-8") as lines:
            yield from (line.partition("\t")[0] for line in lines)


def test_mcd1_is_covered() -> None:
    if not (OFFICIAL / "mcd1").is_dir():
        pytest.skip(f"needs CFQ's MCD1 in {OFFICIAL / 'mcd1'}")
    parser, count, crossing = CfqParser(), 0, 0
    checked = set()  # most trees come many times
    for question in mcd1():
        tree = parser.parse(question)
        arcs = tuple(tree.arcs())
        if arcs not in checked:
            check(tree)
            checked.add(arcs)
        count += 1
        crossing += not tree.shape.projective
    assert count == 119_679
    assert crossing == 3_459  # only "that ... by" crosses another arc


def test_a_question_mark_hangs_on_the_root() -> None:
    parser = CfqParser()
    plain, asked = (parser.parse(f"Was M0 a actor that directed M1{end}") for end in ("", " ?"))
    assert asked.arcs() == [*plain.arcs(), (4, "punct")]
    assert asked.columns()[-1] == ("?", "?", "PUNCT", "?")
    for question in ("?", "Was ? M0 a actor", "Was M0 a actor ? ?"):
        with pytest.raises(NotCovered):
            parser.parse(question)


def test_an_is_a() -> None:
    parser = CfqParser()
    assert parser.parse("Was M0 an actor").arcs() == parser.parse("Was M0 a actor").arcs()
    assert parser.parse("Was M0 an actor").columns()[2] == ("an", "a", "DET", "an")
