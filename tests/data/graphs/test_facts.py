"""The facts about graphs over sentences: a few counted by hand, and what is known of COGS."""

from __future__ import annotations

import pytest

from edge_transformer.data.facts import TokenGraphFacts, describe_token_graphs
from edge_transformer.data.graphs.cogs import GENERALISATIONS, cogs_files, read_cogs_graphs
from edge_transformer.data.graphs.rows import TokenGraph
from official_data import benchmark

COGS = benchmark("cogs")


def graph(text: str, kinds: str, group: str = "") -> TokenGraph:
    tokens = tuple(text.split())
    labels = {"kind": tuple(kind.strip("-") for kind in kinds.split()), "none": ("",) * len(tokens)}
    return TokenGraph(tokens, tuple(range(len(tokens))), labels, group)


def test_counts() -> None:
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


def test_without_training_rows() -> None:
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
