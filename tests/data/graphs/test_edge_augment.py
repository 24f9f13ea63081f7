"""Sentence graphs made of others: phrases swap places and nest, clauses get gaps, and all keep a meaning."""

from __future__ import annotations

import random

import pytest

from edge_transformer.data.graphs.augment import words_before
from edge_transformer.data.graphs.edge_augment import EdgeAugmentation, gaps, nesting
from edge_transformer.data.graphs.edge_augment.gaps import Gaps
from edge_transformer.data.graphs.edge_augment.nesting import Nesting
from edge_transformer.data.graphs.edge_augment.phrases import EdgePhrase, loose_tokens, phrases, swap
from edge_transformer.data.graphs.edges import SentenceGraph
from edge_transformer.data.graphs.slog import logical_form_of, read_slog, slog_files
from edge_transformer.data.graphs.slog_forms import sentence_graph_of_form
from official_data import benchmark

OFFICIAL = benchmark("slog")


def form(short: str) -> str:
    """ "* cat ( x _ 3 ) ; see . agent ( x _ 1 , Ann )" of "*cat(3); see.agent(1,Ann)"."""
    for mark in ".(),;*":
        short = short.replace(mark, f" {mark} ")
    words = (f"x _ {word}" if word.isdecimal() else word for word in short.replace("&", " AND ").split())
    return " ".join(words)


def graph(text: str, short: str) -> SentenceGraph:
    return sentence_graph_of_form(text.split(), form(short))


ATE = graph("Ann ate a cake .", "eat.agent(1,Ann) & eat.theme(1,3) & cake(3)")
SAW = graph(
    "Bob saw the cat that Ann met .",
    "*cat(3); see.agent(1,Bob) & see.theme(1,3) & cat.nmod(3,6) & meet.agent(6,Ann) & meet.theme(6,3)",
)
MET = graph(
    "Bob met a cat that slept .", "meet.agent(1,Bob) & meet.theme(1,3) & cat(3) & cat.nmod(3,5) & sleep.agent(5,3)"
)
GAVE = graph(
    "The dog gave a cake to Dan .", "*dog(1); give.agent(2,1) & give.theme(2,4) & give.recipient(2,Dan) & cake(4)"
)
SENT = graph("Eve sent Dan a cake .", "send.agent(1,Eve) & send.recipient(1,Dan) & send.theme(1,4) & cake(4)")
LENT = graph(
    "Eve saw the cake that Ann lent Dan .",
    "*cake(3); see.agent(1,Eve) & see.theme(1,3) & cake.nmod(3,6) & lend.agent(6,Ann) & lend.recipient(6,Dan) & "
    "lend.theme(6,3)",
)
GIVEN = graph(
    "Eve met the cat that was given a cake .",
    "*cat(3); meet.agent(1,Eve) & meet.theme(1,3) & cat.nmod(3,6) & give.recipient(6,3) & give.theme(6,8) & cake(8)",
)
SAID = graph(
    "Cem said that Ann ate a cake .", "say.agent(1,Cem) & say.ccomp(1,4) & eat.agent(4,Ann) & eat.theme(4,6) & cake(6)"
)
ASKED = graph("What did Ann eat ?", "eat.agent(3,Ann) & eat.theme(3,?)")
WHO = graph("Who ate a cake ?", "eat.agent(1,?) & eat.theme(1,3) & cake(3)")
INSIDE = graph(
    "Ann saw a cat that a dog met .",
    "see.agent(1,Ann) & see.theme(1,3) & cat(3) & cat.nmod(3,7) & dog(6) & meet.agent(7,6) & meet.theme(7,3)",
)
ROWS = [ATE, SAW, MET, GAVE, SENT, LENT, GIVEN, SAID, ASKED, WHO, INSIDE]
BEFORE = words_before(ROWS, "category", loose_tokens)


def phrase(of: SentenceGraph, word: str) -> EdgePhrase:
    """The phrase with this word as its top."""
    [found] = [each for each in phrases(of, "category", BEFORE) if of.tokens[each.top] == word]
    return found


def texts(of: SentenceGraph) -> list[str]:
    return [" ".join(of.tokens[each.first : each.last + 1]) for each in phrases(of, "category", BEFORE)]


def test_articles_belong_to_nouns_and_relative_clauses_too() -> None:
    assert BEFORE == {"CNOUN": 1, "PNOUN": 0, "VERB": 0, "WH": 0}
    assert texts(SAW) == ["Bob", "Bob saw the cat that Ann met", "the cat that Ann met", "Ann"]
    assert texts(ATE) == ["Ann", "Ann ate a cake", "a cake"]
    assert [each.is_root for each in phrases(ATE, "category", BEFORE)] == [False, True, False]


def test_of_a_noun_and_the_verb_that_modifies_it_the_first_is_the_top() -> None:
    alone = graph("a cat that slept", "cat(1) & cat.nmod(1,3) & sleep.agent(3,1)")
    assert [(each.top, each.is_root) for each in phrases(alone, "category", BEFORE)] == [(1, True)]


def test_a_swap_keeps_the_edges_to_the_place() -> None:
    made = swap(phrase(GAVE, "dog"), phrase(SAW, "cat"))
    assert " ".join(made.tokens) == "the cat that Ann met gave a cake to Dan ."
    assert logical_form_of(made) == form(
        "*cat(1); cat.nmod(1,4) & meet.agent(4,Ann) & meet.theme(4,1) & give.agent(5,1) & give.theme(5,7) & "
        "give.recipient(5,Dan) & cake(7)"
    )
    back = swap(phrase(made, "cat"), phrase(GAVE, "dog"))
    assert back == GAVE


@pytest.fixture
def gapped(monkeypatch: pytest.MonkeyPatch) -> Gaps:
    monkeypatch.setattr(gaps, "LEAST", 1)
    return Gaps(ROWS, "category", BEFORE, "verb_name")


def made_of(source: Gaps, count: int = 300) -> dict[str, str | None]:
    """New sentences with their forms."""
    chance = random.Random(1)
    words = {word for row in ROWS for word in row.tokens}
    made = [source.sentence(words, chance) for _ in range(count)]
    return {" ".join(each.tokens): logical_form_of(each) for each in made if each is not None}


def test_clauses_with_a_gap_are_made_of_whole_ones(gapped: Gaps) -> None:
    made = made_of(gapped)
    assert made["Who gave a cake to Dan ?"] == form(
        "give.agent(1,?) & give.theme(1,3) & give.recipient(1,Dan) & cake(3)"
    )
    assert made["What did the dog give a cake to ?"] == form(
        "*dog(3); give.agent(4,3) & give.theme(4,6) & give.recipient(4,?) & cake(6)"
    )
    assert made["What did Cem say that Ann ate ?"] == form(
        "say.agent(3,Cem) & say.ccomp(3,6) & eat.agent(6,Ann) & eat.theme(6,?)"
    )
    assert made["Bob saw the cat that the dog gave a cake to ."] == form(
        "*cat(3); *dog(6); see.agent(1,Bob) & see.theme(1,3) & cat.nmod(3,7) & give.agent(7,6) & give.theme(7,9) & "
        "give.recipient(7,3) & cake(9)"
    )
    assert None not in made.values()


def test_what_the_rows_show_with_another_meaning_is_not_made(gapped: Gaps) -> None:
    made = made_of(gapped)
    assert made["Bob saw the cat that Eve sent Dan ."] == form(  # no cat that gets the cake
        "*cat(3); see.agent(1,Bob) & see.theme(1,3) & cat.nmod(3,6) & send.agent(6,Eve) & send.recipient(6,Dan) & "
        "send.theme(6,3)"
    )
    assert not [text for text in made if "sent a cake" in text]
    assert not [text for text in made if "that that" in text]


def test_phrases_nest_in_their_like(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nesting, "LEAST", 1)
    source = Nesting([each for row in ROWS for each in phrases(row, "category", BEFORE)], "category", BEFORE)
    chance = random.Random(1)
    made = [source.sentence(24, swap, chance) for _ in range(50)]
    assert max(each.size for each in made) > 20
    assert all(each.size <= 24 and logical_form_of(each) is not None for each in made)
    sentences = [" ".join(each.tokens) for each in made]
    assert [text for text in sentences if "a cat that a cat that a cat that a dog met met met" in text]
    assert [text for text in sentences if "that Cem said that Cem said that Ann ate" in text]


def test_nothing_to_make() -> None:
    bare = SentenceGraph(("Ann", "ran"), ((1, 0, "agent"),), {"category": ("", "")})
    source = EdgeAugmentation([bare], "category", 0.5, 0.5, 0.5)
    assert source.new_sentences(5, 9, seed=1) == []


@pytest.mark.skipif(not OFFICIAL.is_dir(), reason=f"needs SLOG in {OFFICIAL}")
def test_what_official_sentences_become_has_a_logical_form() -> None:
    rows = [row for row, _ in read_slog(slog_files(OFFICIAL)["train"])][::8]
    source = EdgeAugmentation(rows, "category", 0.1, 0.4, 0.3, "verb_name")
    made = source.new_sentences(1000, 30, seed=1)
    assert len(made) > 900
    assert max(each.size for each in made) == 30
    assert all(logical_form_of(each) is not None for each in made)
    known = {(row.tokens, row.edges) for row in rows}
    assert not [each for each in made if (each.tokens, each.edges) in known]
    assert made == source.new_sentences(1000, 30, seed=1)
