"""Words that are rows of their own and stand in for each other, with their names and nothing else."""

from __future__ import annotations

import random

import pytest

from edge_transformer.data.graphs.augment import StandIns
from edge_transformer.data.graphs.cogs import read_cogs
from edge_transformer.data.graphs.cogs_graphs import form_of_graph, graph_of_form
from edge_transformer.data.graphs.rows import TokenGraph
from official_data import benchmark

COGS = benchmark("cogs")


def graph(text: str) -> TokenGraph:
    """A graph from "Ann>1/agent/P/- ran/-/V/run": a word, its parent, what it is to it, its kind and its name."""
    tokens, parents, labels = [], [], []
    for place, word in enumerate(text.split()):
        head, *rest = word.split("/")
        token, _, parent = head.partition(">")
        tokens.append(token)
        parents.append(int(parent) if parent else place)
        labels.append([label.strip("-") for label in rest] or ["", "", ""])
    columns = zip(*labels, strict=True)
    return TokenGraph(tuple(tokens), tuple(parents), dict(zip(("role", "kind", "name"), columns, strict=True)))


ALONE = [
    graph(text) for text in ("Ann/-/P/-", "Eve/-/P/-", "run/-/V/run", "sit/-/V/sit", "crawl/-/V/crawl", "cat/-/N/-")
]
RAN = graph("Ann>1/agent/P/- liked/-/V/like to run>1/to/-/run")
SAT = graph("Bob>1/agent/P/- hoped/-/V/hope to sit>1/to/-/sit")
ODD = graph("Bob>1/agent/P/- run/-/V/manage the cat>1/theme/N/-")  # here it has another name than alone


def test_words_stand_in_for_others_of_their_kind() -> None:
    words = StandIns([*ALONE, RAN, SAT, ODD], "name")
    assert {word: set(those) for word, those in words.instead_of.items()} == {
        "Eve": {"Ann"},
        "run": {"sit"},
        "sit": {"run"},
        "crawl": {"run", "sit"},
    }
    chance = random.Random(1)
    made = {" ".join(each.tokens): each for each in (words.sentence(chance) for _ in range(100))}
    assert set(made) == {
        "Eve liked to run",
        "Ann liked to sit",
        "Bob hoped to run",
        "Ann liked to crawl",
        "Bob hoped to crawl",
    }
    assert made["Bob hoped to crawl"] == graph("Bob>1/agent/P/- hoped/-/V/hope to crawl>1/to/-/crawl")
    assert made["Eve liked to run"] == graph("Eve>1/agent/P/- liked/-/V/like to run>1/to/-/run")


@pytest.mark.parametrize("rows", [[], [RAN], ALONE, [ALONE[0], RAN]])
def test_nothing_to_stand_in_for(rows: list[TokenGraph]) -> None:
    assert StandIns(rows, "name").instead_of == {}
    assert StandIns(rows).instead_of == {}


def test_without_names_all_labels_must_agree() -> None:
    words = StandIns([*ALONE, RAN, SAT, ODD])
    assert words.instead_of == {"Eve": ["Ann"]}
    assert words.sentence(random.Random(1)) == graph("Eve>1/agent/P/- liked/-/V/like to run>1/to/-/run")


@pytest.mark.skipif(not COGS.is_dir(), reason="needs the official COGS files beside the project")
def test_what_cogs_sentences_become_has_a_logical_form() -> None:
    words = StandIns([row.graph() for row in read_cogs(COGS, ["train"]).splits["train"]], "verb_name")
    assert len(words.instead_of) == 143  # all rows of one word that there are
    chance = random.Random(1)
    for _ in range(300):
        made = words.sentence(chance)
        called = [token for token, kind in zip(made.tokens, made.labels["category"], strict=True) if kind == "PNOUN"]
        if len(set(called)) == len(called):  # a form does not say which Emma it means
            assert graph_of_form(made.tokens, form_of_graph(made)) == made
