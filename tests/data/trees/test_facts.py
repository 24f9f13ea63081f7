"""What is counted of a treebank."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from edge_transformer.data.facts import TreeFacts, describe_treebank, has_crossing_arcs
from edge_transformer.data.trees.conllu import DependencySentence, tree_problem


def tree(text: str, heads: list[int], relations: str) -> DependencySentence:
    return DependencySentence.of_words(text.split()).with_tree(heads, relations.split())


def test_counts() -> None:
    train = [tree("a b c", [2, 0, 2], "x root y"), tree("a", [0], "root")]
    test = [tree("a", [0], "root"), tree("d a b c", [3, 0, 2, 1], "x root y z")]
    facts = describe_treebank({"train": train, "dev": [], "test": test})
    assert facts.relations == {"root": 2, "x": 1, "y": 1}
    assert facts.splits == {
        "train": TreeFacts(2, 4, 3, crossing=0, in_train=2, unseen_words=0, unseen_relations=0),
        "test": TreeFacts(2, 5, 4, crossing=1, in_train=1, unseen_words=1, unseen_relations=1),
    }


@given(st.lists(st.integers(0, 7), min_size=1, max_size=7))
def test_crossing_arcs_as_the_definition_has_them(heads: list[int]) -> None:
    if tree_problem(heads) is not None:
        return
    arcs = [tuple(sorted((word, head))) for word, head in enumerate(heads, start=1)]
    crossing = any(a < c < b < d or c < a < d < b for (a, b), (c, d) in combinations(arcs, 2))
    assert has_crossing_arcs(heads) == crossing
