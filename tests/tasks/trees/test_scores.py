"""Scores of trees, by hand."""

from __future__ import annotations

import pytest

from edge_transformer.data.trees.conllu import read_conllu
from edge_transformer.tasks.trees.scores import CONTENT_RELATIONS, TreeCounts
from official_data import benchmark

EWT = benchmark("ud/EWT/en_ewt-ud-test.conllu")
# "Ann 's dog ran ."
HEADS, RELATIONS = [3, 1, 4, 0, 4], ["nmod:poss", "case", "nsubj", "root", "punct"]


def counts(heads: list[int], relations: list[str]) -> TreeCounts:
    counted = TreeCounts()
    counted.add(HEADS, RELATIONS, heads, relations)
    return counted


def scores(found: TreeCounts) -> set[float]:
    return {found.uas, found.las, found.clas, found.exact, found.exact_content}


def test_all_right() -> None:
    assert scores(counts(HEADS, RELATIONS)) == {1.0}


def test_nothing_to_score() -> None:
    assert scores(TreeCounts()) == {0.0}


def test_a_wrong_subtype() -> None:
    found = counts(HEADS, ["nmod", *RELATIONS[1:]])
    assert (found.uas, found.las, found.clas) == (1.0, 0.8, 1.0)
    assert (found.exact, found.exact_content) == (0, 1)


def test_a_wrong_head_of_punctuation() -> None:
    found = counts([3, 1, 4, 0, 3], RELATIONS)
    assert (found.uas, found.las, found.clas) == (0.8, 0.8, 1.0)
    assert (found.exact, found.exact_content) == (0, 1)


def test_a_right_label_on_a_wrong_head() -> None:
    found = counts([4, 1, 4, 0, 4], RELATIONS)
    assert (found.uas, found.las) == (0.8, 0.8)
    assert found.clas == pytest.approx(2 / 3)
    assert found.exact_content == 0


def test_content_words_are_counted_on_both_sides() -> None:
    found = counts(HEADS, ["nmod:poss", "case", "det", "root", "punct"])  # 3 content words, 2 of them predicted
    assert found.clas == pytest.approx(2 * 2 / (3 + 2))
    assert len(CONTENT_RELATIONS) == 29
    assert not CONTENT_RELATIONS & {"punct", "aux", "case", "cc", "clf", "cop", "det", "mark"}


def test_words_count_not_sentences() -> None:
    found = counts(HEADS, RELATIONS)
    found.add([0], ["root"], [0], ["dep"])
    assert (found.words, found.sentences) == (6, 2)
    assert (found.uas, found.las, found.exact) == (1.0, pytest.approx(5 / 6), 0.5)


def test_trees_of_different_sizes() -> None:
    with pytest.raises(ValueError, match="same number of words"):
        counts(HEADS[:-1], RELATIONS[:-1])


def test_flat_trees_on_ewt() -> None:
    if not EWT.is_file():
        pytest.skip(f"needs Universal Dependencies English EWT in {EWT.parent}")
    found = TreeCounts()
    for one in read_conllu(EWT):
        found.add(one.heads, one.relations, (0, *[1] * (one.size - 1)), ("root", *["dep"] * (one.size - 1)))
    assert (found.words, found.sentences) == (25_094, 2_077)
    assert 0 < found.las < found.uas < 0.3
    assert found.exact <= found.exact_content
