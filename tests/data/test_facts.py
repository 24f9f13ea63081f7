"""The facts about data of every kind: a few counted by hand, and what is known of the official sets."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_transformer.data.facts import (
    Facts,
    PairFacts,
    TokenGraphFacts,
    TreeFacts,
    best_accuracy,
    describe,
    describe_pairs,
    describe_token_graphs,
    describe_treebank,
    has_crossing_arcs,
    is_chain,
)
from edge_transformer.data.graphs.cogs import GENERALISATIONS, cogs_files, read_cogs_graphs
from edge_transformer.data.graphs.rows import TokenGraph
from edge_transformer.data.pairs.folder import pair_files
from edge_transformer.data.pairs.rows import Pair
from edge_transformer.data.relations.clutrr import read_clutrr
from edge_transformer.data.relations.rows import RelationRows, Story, Target
from edge_transformer.data.trees.conllu import DependencySentence, tree_problem
from official_data import benchmark

# --- relations --------------------------------------------------------------------------------------------------------


CLUTRR = benchmark("clutrr/data_db9b8f04")


def story(*edges: tuple[int, str, int], target: Target = "t", query: tuple[int, int] = (0, 1), nodes: int = 0) -> Story:
    size = nodes or max(max(start, end) for start, _, end in edges) + 1
    return Story(
        edges=tuple((start, end) for start, _, end in edges),
        relations=tuple(relation for _, relation, _ in edges),
        query=query,
        target=target,
        names=tuple(map(str, range(size))),
    )


A, B = (0, "a", 1), (1, "b", 2)


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (story(A), True),
        (story(A, B), True),
        (story((2, "a", 0), (0, "b", 1)), True),  # numbers do not matter
        (story(B, A), False),  # not told in order
        (story(A, (1, "b", 0)), False),  # comes back
        (story(A, (1, "b", 0), nodes=3), False),  # the same, with a person nobody speaks of
        (story(A, (0, "b", 2)), False),  # two from one
        (story(A, B, (2, "c", 0)), False),  # a circle
        (story(A, nodes=3), False),
        (story((0, "a", 0)), False),
    ],
)
def test_chains(graph: Story, expected: bool) -> None:
    assert is_chain(graph) is expected


def test_numbers_as_answers_have_a_range_and_no_best_accuracy() -> None:
    train = (story(A, target=1.5), story(A, target=4.5), story(B, target=-3.0))
    facts = describe(
        RelationRows("name", "print", train, {1: (story(A, target=77.0), story((0, "new", 1), target=1.5))})
    )
    assert facts.numbers == (-3.0, 1.0, 4.5)
    assert facts.targets == {}
    assert [rows.best for rows in facts.splits.values()] == [None, None]
    assert facts.splits["test"].unanswerable == 1  # of relations, as no number is unknown
    assert describe(RelationRows("name", "print", (story(A, target="x"),), {})).numbers is None


def test_best_accuracy() -> None:
    assert best_accuracy([story(A, target="x"), story(B, target="y")]) == 1.0
    conflicting = [story(A, B, target=target) for target in "xxyz"]
    assert best_accuracy(conflicting) == 0.5
    assert best_accuracy([*conflicting, story(A, B, query=(1, 0)), story(A)]) == pytest.approx(4 / 6)
    assert best_accuracy([story(A, B, target="x"), story(B, A, target="y")]) == 0.5  # the same graph, told otherwise


SON, AUNT = (0, "son", 1), (1, "aunt", 2)


def test_relations_counted_by_hand() -> None:
    train = (
        story(SON, target="x"),
        story(SON, target="y"),
        story(SON, AUNT, target="x"),
        story(SON, (1, "son", 0), target="x"),
    )
    tests = {
        1: (story(SON, target="x"), story((0, "aunt", 1), target="x")),
        2: (story(SON, (1, "wife", 2), target="x"), story(SON, AUNT, target="new"), story(SON, AUNT, target="y")),
    }
    facts = describe(RelationRows("name", "print", train, tests, valid=(story(SON, target="new"),)))
    assert (facts.name, facts.fingerprint) == ("name", "print")
    assert list(facts.relations.items()) == [("son", 5), ("aunt", 1)]
    assert list(facts.targets.items()) == [("x", 3), ("y", 1)]
    assert list(facts.splits) == ["train", "valid", "test k=1", "test k=2"]
    learned, valid, short, long = facts.splits.values()
    assert (learned.rows, learned.graphs, learned.chains, learned.nodes) == (4, 3, 3, (2, 3))
    assert (learned.in_train, learned.unanswerable, learned.best) == (4, 0, 0.75)
    assert (valid.in_train, valid.unanswerable) == (1, 1)
    assert (short.rows, short.graphs, short.in_train, short.unanswerable, short.best) == (2, 2, 1, 0, 1.0)
    assert (long.rows, long.graphs, long.in_train, long.unanswerable) == (3, 2, 2, 2)
    assert long.best == pytest.approx(2 / 3)


def test_tests_of_other_graphs_are_one_split() -> None:
    tests = {0: (story(nodes=2),), 1: (story(A, target="x"), story(A, target="y"))}
    facts = describe(RelationRows("name", "print", (story(A, target="x"),), tests))
    assert list(facts.splits) == ["train", "test"]
    both = facts.splits["test"]
    assert (both.rows, both.graphs, both.chains, both.nodes, both.unanswerable) == (3, 2, 2, (2, 2), 2)


def test_no_validation_rows() -> None:
    facts = describe(RelationRows("name", "print", (story(A),), {1: (story(A),)}))
    assert list(facts.splits) == ["train", "test"]


@pytest.fixture(scope="module")
def clutrr() -> Facts:
    if not CLUTRR.is_dir():
        pytest.skip(f"needs the official CLUTRR set in {CLUTRR}")
    return describe(read_clutrr(CLUTRR))


def test_train_of_clutrr(clutrr: Facts) -> None:
    train = clutrr.splits["train"]
    assert (train.rows, train.graphs) == (15_083, 2_340)
    assert (len(clutrr.relations), len(clutrr.targets)) == (14, 18)
    assert train.nodes == (3, 5)
    assert 0.9 < train.chains / train.rows < 1  # most rows are chains; from k = 4 on some are not
    assert sum(clutrr.targets.values()) == 15_083
    assert train.in_train == train.rows
    assert train.best is not None
    assert train.best < 1  # 29 graphs carry conflicting labels


def test_tests_of_clutrr(clutrr: Facts) -> None:
    for k in range(2, 11):
        split = clutrr.splits[f"test k={k}"]
        assert split.in_train == (split.rows if k == 2 else 0)
        assert split.unanswerable == 0
        assert split.best == (pytest.approx(0.953, abs=5e-4) if k == 3 else 1.0)


# --- graphs -----------------------------------------------------------------------------------------------------------


COGS = benchmark("cogs")


def graph(text: str, kinds: str, group: str = "") -> TokenGraph:
    tokens = tuple(text.split())
    labels = {"kind": tuple(kind.strip("-") for kind in kinds.split()), "none": ("",) * len(tokens)}
    return TokenGraph(tokens, tuple(range(len(tokens))), labels, group)


def test_graphs_counted_by_hand() -> None:
    train = [graph("a b c", "x - y"), graph("a", "x", "short"), graph("a", "y")]
    test = [
        graph("a", "-", "old"),
        graph("a d", "x x", "new"),
        graph("d a e b", "z x x x", "new"),
        graph("c", "z"),
    ]
    facts = describe_token_graphs([*(("train", row) for row in train), *(("test", row) for row in test)])
    assert facts == {
        "train": TokenGraphFacts(
            rows=3,
            words=(1, 5 / 3, 3),
            in_train=3,
            unseen_words=(),
            with_unseen_word=0,
            with_unseen_label=0,
            labels={"kind": 2, "none": 0},
            groups={"short": 1},
        ),
        "test": TokenGraphFacts(
            rows=4,
            words=(1, 2.0, 4),
            in_train=1,
            unseen_words=("d", "e"),
            with_unseen_word=2,
            with_unseen_label=2,
            labels={"kind": 2, "none": 0},
            groups={"new": 2, "old": 1},
        ),
    }


def test_graphs_without_training_rows() -> None:
    facts = describe_token_graphs([("test", graph("a b", "x -"))])
    assert list(facts) == ["test"]
    assert (facts["test"].in_train, facts["test"].unseen_words) == (0, ("a", "b"))
    assert facts["test"].with_unseen_word == facts["test"].with_unseen_label == 1
    assert describe_token_graphs([]) == {}


@pytest.mark.skipif(not COGS.is_dir(), reason=f"needs the COGS files in {COGS}")
def test_cogs() -> None:
    facts = describe_token_graphs(read_cogs_graphs(cogs_files(COGS)))
    assert {split: rows.rows for split, rows in facts.items()} == {
        "train": 24_155,
        "dev": 3_000,
        "test": 3_000,
        "gen": 21_000,
    }
    gen = facts["gen"]
    assert gen.groups == dict.fromkeys(GENERALISATIONS, 1000)
    assert len(gen.groups) == 21
    assert gen.unseen_words == ("gardner", "monastery")
    assert gen.with_unseen_word == 22
    assert (gen.words[0], gen.words[2], facts["train"].words[2]) == (3, 61, 22)
    assert gen.labels == facts["train"].labels == {"role": 7, "category": 3, "noun_type": 2, "verb_name": 134}
    assert gen.in_train == gen.with_unseen_label == 0


# --- trees ------------------------------------------------------------------------------------------------------------


def tree(text: str, heads: list[int], relations: str) -> DependencySentence:
    return DependencySentence.of_words(text.split()).with_tree(heads, relations.split())


def test_trees_counted_by_hand() -> None:
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


# --- pairs ------------------------------------------------------------------------------------------------------------


def pair(source: str, target: str) -> Pair:
    return Pair(tuple(source.split()), tuple(target.split()))


def test_pairs_counted_by_hand() -> None:
    train = [pair("a b", "x y a"), pair("c", "x " * 25), pair("c", "y")]
    test = [pair("a b", "x y a"), pair("c", "a"), pair("c", "c"), pair("z", "x " * 49)]
    facts = describe_pairs({"train": train, "dev": [], "test": test})
    assert list(facts.splits) == ["train", "test"]
    assert (facts.source_vocabulary, facts.target_vocabulary, facts.both) == (3, 3, 1)
    assert facts.splits["train"] == PairFacts(3, (4 / 3, 2), (29 / 3, 25), {25: 2, 30: 3, 50: 3}, 3, 3, 0)
    assert facts.splits["test"] == PairFacts(4, (5 / 4, 2), (54 / 4, 49), {25: 3, 30: 3, 50: 4}, 1, 3, 2)


def test_pairs_without_training_rows() -> None:
    facts = describe_pairs({"test": [pair("a", "b")]})
    assert facts.splits["test"].in_train == facts.source_vocabulary == 0
    assert facts.splits["test"].unseen == 1


@pytest.mark.parametrize(
    ("name", "rows", "under"), [("scan", (8365, 1045), None), ("cfq/mcd1", (95_743, 11_968), (61_933, 92_353))]
)
def test_official_pairs(name: str, rows: tuple[int, int], under: tuple[int, int] | None) -> None:
    if not benchmark(name).is_dir():
        pytest.skip(f"needs the official pairs in {benchmark(name)}")
    facts = describe_pairs(pair_files(benchmark(name)).read(["train", "test"]))
    assert tuple(facts.splits[split].rows for split in ("train", "test")) == rows
    assert facts.splits["test"].in_train == facts.splits["test"].unseen == 0
    assert under is None or (facts.splits["train"].under[30], facts.splits["train"].under[50]) == under
