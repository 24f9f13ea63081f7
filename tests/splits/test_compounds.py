"""Atoms and compounds of trees and texts, and the weights of compounds."""

from __future__ import annotations

import numpy as np
import pytest

from edge_transformer.data.trees.conllu import DependencySentence, read_conllu_lines
from edge_transformer.splits.compounds import (
    PartsBuilder,
    text_atoms,
    text_compounds,
    tree_atoms,
    tree_compounds,
    word_classes,
)

TREE = """\
1\tAnn\t_\tPROPN\tNNP\t_\t2\tnsubj\t_\t_
2\tsaw\t_\tVERB\t_\t_\t0\troot\t_\t_
3\tred\t_\t_\tJJ\t_\t4\tamod\t_\t_
4\tfilms\t_\t_\t_\t_\t2\tobj\t_\t_
"""


@pytest.fixture
def tree() -> DependencySentence:
    [sentence] = read_conllu_lines(TREE.splitlines(), "tree")
    return sentence


def test_classes(tree: DependencySentence) -> None:
    assert word_classes(tree) == ("PROPN", "VERB", "JJ", "films")


def test_atoms_of_a_tree(tree: DependencySentence) -> None:
    assert len(tree_atoms(tree)) == 12
    assert {("word", "Ann"), ("class", "JJ"), ("relation", "amod")} <= set(tree_atoms(tree))


def test_compounds_of_a_tree(tree: DependencySentence) -> None:
    found = dict(tree_compounds(tree))
    family = ("family", "VERB", ("nsubj", "PROPN"), ("obj", "films"))
    chain = ("chain", "saw", "obj", "films", "amod", "red")
    assert {name[0] for name in found} == {"arc", "family", "chain", "words"}  # type: ignore[index]
    assert ("arc", "ROOT", "root", "VERB") in found
    assert sum(name[0] == "chain" for name in found) == 3  # type: ignore[index]
    assert set(found["arc", "VERB", "nsubj", "PROPN"]) == {family, ("words", "saw", "nsubj", "Ann")}
    assert set(found["words", "saw", "obj", "films"]) == {chain, ("chain", "ROOT", "root", "saw", "obj", "films")}
    assert found["words", "films", "amod", "red"] == [chain]
    assert found["arc", "films", "amod", "JJ"] == [("words", "films", "amod", "red")]
    assert found[family] == found[chain] == ()
    assert all(larger in found for around in found.values() for larger in around)


def test_compounds_of_texts() -> None:
    sides = [["a", "b", "c"], ["x"]]
    assert text_atoms(sides) == [(0, "a"), (0, "b"), (0, "c"), (1, "x")]
    whole = (0, "a", "b", "c")
    assert text_compounds(sides) == [(whole, []), ((0, "a", "b"), [whole]), ((0, "b", "c"), [whole])]
    found = dict(text_compounds([["a", "b", "c", "d"]]))
    assert found[(0, "b", "c")] == [(0, "a", "b", "c"), (0, "b", "c", "d")]
    assert text_compounds([[], ["x"]]) == []


def test_weights_by_hand() -> None:
    """`ab` is inside `abc` in 2 of its 3 occurrences, `bc` always, and so has no weight of its own."""
    builder = PartsBuilder()
    for text in ("abc", "abc", "ab"):
        builder.add(text_atoms([text]), text_compounds([text]))
    parts = builder.build()
    assert parts.atoms.totals().tolist() == [3, 3, 2]
    assert np.allclose(parts.compounds.totals(), [1 + 1 / 3, 1 + 1 / 3, 1.0])
    assert len(parts.compounds.columns) == 5


def test_the_highest_weight_of_an_example_counts() -> None:
    builder = PartsBuilder()
    text = "abcab"  # ab once inside abc, once inside cab: each is half of its occurrences
    builder.add(text_atoms([text]), text_compounds([text]))
    compounds = builder.build().compounds
    assert np.allclose(np.sort(compounds.weights), [0.5, 1, 1, 1])  # ab, abc, bca, cab; bc and ca are always inside


def test_known_weights() -> None:
    builder = PartsBuilder()
    builder.add_weighted({"a": 2.0}, {"x": 0.5})
    builder.add_weighted({}, {"x": 1.5, "y": 1.0})
    parts = builder.build()
    assert parts.atoms.totals().tolist() == [2.0, 0.0]
    assert parts.compounds.frequencies([0, 1]).tolist() == [2.0, 1.0]
