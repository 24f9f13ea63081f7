"""Phrases that change places, and words that stand in for each other: all else of a sentence stays as it was."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_transformer.data.graphs.augment import Augmentation, Phrase, WordSubstitution, phrases, swap, words_before
from edge_transformer.data.graphs.cogs import read_cogs
from edge_transformer.data.graphs.logical_forms import form_of_graph, graph_of_form
from edge_transformer.data.graphs.rows import TokenGraph
from official_data import benchmark

COGS = benchmark("cogs")


def graph(text: str) -> TokenGraph:
    """A graph from "the cat>2/agent/N ran/-/V .": a word, its parent, what it is to it, and its kind."""
    tokens, parents, roles, kinds = [], [], [], []
    for place, word in enumerate(text.split()):
        head, *labels = word.split("/")
        token, _, parent = head.partition(">")
        tokens.append(token)
        parents.append(int(parent) if parent else place)
        roles.append(labels[0].strip("-") if labels else "")
        kinds.append(labels[1].strip("-") if len(labels) > 1 else "")
    return TokenGraph(tuple(tokens), tuple(parents), {"role": tuple(roles), "kind": tuple(kinds)})


SAW = graph("Ann>1/agent/P saw/-/V the cat>1/theme/N on>3/prep the mat>4/noun/N .")
SLEPT = graph("the dog>2/agent/N slept/-/V .")
SAID = graph("Bob>1/agent/P said/-/V that a boy>5/agent/N ran>1/that/V .")
SENTENCES = [SAW, SLEPT, SAID]


def texts(of: TokenGraph) -> list[str]:
    before = words_before(SENTENCES, "kind")
    return [" ".join(of.tokens[phrase.first : phrase.last + 1]) for phrase in phrases(of, "kind", before)]


def test_what_a_phrase_is() -> None:
    assert words_before(SENTENCES, "kind") == {"P": 0, "N": 1, "V": 0}
    assert texts(SAW) == ["Ann", "Ann saw the cat on the mat", "the cat on the mat", "the mat"]
    assert texts(SLEPT) == ["the dog", "the dog slept"]
    assert texts(SAID) == ["Bob", "Bob said that a boy ran", "a boy", "a boy ran"]


def test_phrases_that_are_not_in_one_piece_are_none() -> None:
    crossed = graph("Ann>2/agent/P Bob>3/agent/P saw/-/V ran/-/V")
    assert texts(crossed) == ["Ann", "Bob"]  # Bob stands within "Ann saw"
    assert texts(graph("cat/-/N")) == []  # no article
    assert texts(graph("Ann>1/a/P Bob>0/a/P")) == []  # each on the other
    assert texts(graph("the cat/-/- .")) == []  # of no kind


def at(of: TokenGraph, word: str) -> Phrase:
    before = words_before(SENTENCES, "kind")
    return next(phrase for phrase in phrases(of, "kind", before) if of.tokens[phrase.top] == word)


def test_a_swap() -> None:
    made = swap(at(SLEPT, "dog"), at(SAW, "cat"), "role")
    assert made == graph("the cat>5/agent/N on>1/prep the mat>2/noun/N slept/-/V .")  # it acts here
    assert swap(at(SLEPT, "dog"), at(SAW, "cat")) == graph("the cat>5/theme/N on>1/prep the mat>2/noun/N slept/-/V .")
    deeper = swap(at(SAID, "ran"), at(SAW, "saw"), "role")
    assert deeper == graph(
        "Bob>1/agent/P said/-/V that Ann>4/agent/P saw>1/that/V the cat>4/theme/N on>6/prep the mat>7/noun/N ."
    )
    whole = swap(at(SLEPT, "slept"), at(SAID, "ran"), "role")
    assert whole == graph("a boy>2/agent/N ran/-/V .")  # nobody says it any more


def test_the_first_word_of_a_sentence_has_a_capital_where_it_can() -> None:
    the, saw = (
        graph("The dog>2/agent/N slept/-/V ."),
        graph("Ann>1/agent/P saw/-/V the cat>1/theme/N on>3/prep a mat>4/noun/N ."),
    )
    kinds = Augmentation([the, saw, graph("Ann>1/agent/P likes/-/V Bob>1/theme/P .")], "kind", "role")

    def phrase(of: TokenGraph, top: int) -> Phrase:
        return next(each for each in phrases(of, "kind", kinds.before) if each.top == top)

    assert kinds.swap(phrase(the, 1), phrase(saw, 3)).tokens == ("The", "cat", "on", "a", "mat", "slept", ".")
    assert kinds.swap(phrase(saw, 3), phrase(the, 1)).tokens == ("Ann", "saw", "the", "dog", ".")
    assert kinds.swap(phrase(the, 1), phrase(saw, 6)).tokens == ("a", "mat", "slept", ".")  # "A" is no known word
    assert kinds.swap(phrase(the, 1), phrase(the, 1)).tokens == the.tokens
    names = kinds.sentences[2]
    assert kinds.swap(phrase(names, 2), phrase(names, 0)).tokens == ("Ann", "likes", "Ann", ".")


@given(seed=st.integers(0, 10_000))
def test_swapping_back_gives_the_same_sentence(seed: int) -> None:
    chance = random.Random(seed)
    kinds = Augmentation(SENTENCES, "kind", "role")
    start = kinds.sentence(20, chance) or SAW
    there = chance.choice(phrases(start, "kind", kinds.before))
    new = chance.choice(kinds.by_kind[start.labels["kind"][there.top]])
    made = swap(there, new, "role")
    assert made.size == start.size - len(there) + len(new)
    top = there.first + new.top - new.first
    place = next(phrase for phrase in phrases(made, "kind", kinds.before) if phrase.top == top)
    assert (place.first, len(place)) == (there.first, len(new))
    assert swap(place, there, "role") == start


def test_new_sentences() -> None:
    made = Augmentation(SENTENCES, "kind", "role").new_sentences(300, 12, seed=1)
    assert 150 < len(made) < 300  # the others are sentences that there are
    assert {4, 5, 7, 8, 10, 11} <= {each.size for each in made} <= set(range(3, 13))
    words = {token for each in SENTENCES for token in each.tokens}
    acting = set()
    assert all(each not in SENTENCES for each in made)
    for each in made:
        assert set(each.tokens) <= words
        assert each.tokens[-1] == "."
        acting |= {each.tokens[place] for place, role in enumerate(each.labels["role"]) if role == "agent"}
    assert acting == {"Ann", "Bob", "boy", "cat", "dog", "mat"}
    assert made == Augmentation(SENTENCES, "kind", "role").new_sentences(300, 12, seed=1)
    assert made != Augmentation(SENTENCES, "kind", "role").new_sentences(300, 12, seed=2)


def test_single_words_take_part_where_phrases_are_that_short() -> None:
    words = [graph("Eve/-/P"), graph("hedgehog/-/N"), graph("crawl/-/V")]
    made = Augmentation([*SENTENCES, *words], "kind", "role").new_sentences(400, 12, seed=1)
    told = {token for each in made for token in each.tokens}
    assert "Eve" in told
    assert told.isdisjoint({"hedgehog", "crawl"})  # no article, and nobody who crawls


def test_rare_words_are_drawn_as_often_as_others() -> None:
    often = [
        graph(f"{who}>1/agent/P saw/-/V the {what}>1/theme/N .") for who in ("Ann", "Bob") for what in ("cat", "dog")
    ]
    rows = [*often * 50, graph("Eve>1/agent/P met/-/V the cat>1/theme/N ."), graph("Uma/-/P")]

    def shares(evenly: bool) -> dict[str, float]:
        made = Augmentation(rows, "kind", "role", evenly).new_sentences(3000, 5, seed=1)
        assert all(row not in rows for row in made)
        return {word: sum(word in each.tokens for each in made) / 3000 for word in ("saw", "met", "Eve", "Uma")}

    as_they_are, evenly = shares(evenly=False), shares(evenly=True)
    assert max(as_they_are[word] for word in ("met", "Eve", "Uma")) < 0.05
    assert min(evenly[word] for word in ("met", "Eve", "Uma")) > 0.08


def test_words_stand_in_for_others() -> None:
    alone = [graph("Eve/-/P"), graph("Ann/-/P")]
    source = Augmentation([*SENTENCES, *alone], "kind", "role", words=1.0)
    made = [source.sentence(12, random.Random(seed)) for seed in range(60)]
    assert sum(each is not None and "Eve" in each.tokens for each in made) > 20
    without = Augmentation(SENTENCES, "kind", "role", words=1.0)  # no row of one word
    assert without.new_sentences(20, 12, seed=1) == Augmentation(SENTENCES, "kind", "role").new_sentences(
        20, 12, seed=1
    )


def test_where_nothing_can_be_swapped() -> None:
    assert Augmentation([], "kind").new_sentences(5, 12, seed=1) == []
    assert Augmentation([graph("Eve/-/P")], "kind").new_sentences(5, 12, seed=1) == []
    assert Augmentation([graph("no kinds here")], "kind").new_sentences(5, 12, seed=1) == []


@pytest.mark.skipif(not COGS.is_dir(), reason="needs the official COGS files beside the project")
@pytest.mark.parametrize("evenly", [False, True])
def test_what_cogs_sentences_become_has_a_logical_form(evenly: bool) -> None:
    train = [row.graph() for row in read_cogs(COGS, ["train"]).splits["train"]]
    made = Augmentation(train, "category", "role", evenly, words=0.2 * evenly, name="verb_name").new_sentences(
        500, 24, seed=1
    )
    assert 350 < len(made) < 500  # some are rows that there are already
    for each in made:
        form, kinds = form_of_graph(each), zip(each.tokens, each.labels["category"], strict=True)
        names = [token for token, kind in kinds if kind == "PNOUN"]
        assert each not in train
        assert {"A", "The"}.isdisjoint(each.tokens[1:])
        assert {"a", "the"}.isdisjoint(each.tokens[:1])
        if len(set(names)) == len(names):  # a form does not say which Emma it means
            assert graph_of_form(each.tokens, form) == each


# --- words that are rows of their own and stand in for each other -----------------------------------------------------


def named_graph(text: str) -> TokenGraph:
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
    named_graph(text)
    for text in ("Ann/-/P/-", "Eve/-/P/-", "run/-/V/run", "sit/-/V/sit", "crawl/-/V/crawl", "cat/-/N/-")
]
RAN = named_graph("Ann>1/agent/P/- liked/-/V/like to run>1/to/-/run")
SAT = named_graph("Bob>1/agent/P/- hoped/-/V/hope to sit>1/to/-/sit")
ODD = named_graph("Bob>1/agent/P/- run/-/V/manage the cat>1/theme/N/-")  # here it has another name than alone


def test_words_stand_in_for_others_of_their_kind() -> None:
    words = WordSubstitution([*ALONE, RAN, SAT, ODD], "name")
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
    assert made["Bob hoped to crawl"] == named_graph("Bob>1/agent/P/- hoped/-/V/hope to crawl>1/to/-/crawl")
    assert made["Eve liked to run"] == named_graph("Eve>1/agent/P/- liked/-/V/like to run>1/to/-/run")


@pytest.mark.parametrize("rows", [[], [RAN], ALONE, [ALONE[0], RAN]])
def test_nothing_to_stand_in_for(rows: list[TokenGraph]) -> None:
    assert WordSubstitution(rows, "name").instead_of == {}
    assert WordSubstitution(rows).instead_of == {}


def test_without_names_all_labels_must_agree() -> None:
    words = WordSubstitution([*ALONE, RAN, SAT, ODD])
    assert words.instead_of == {"Eve": ["Ann"]}
    assert words.sentence(random.Random(1)) == named_graph("Eve>1/agent/P/- liked/-/V/like to run>1/to/-/run")


@pytest.mark.skipif(not COGS.is_dir(), reason="needs the official COGS files beside the project")
def test_cogs_sentences_with_words_that_stand_in_have_a_logical_form() -> None:
    words = WordSubstitution([row.graph() for row in read_cogs(COGS, ["train"]).splits["train"]], "verb_name")
    assert len(words.instead_of) == 143  # all rows of one word that there are
    chance = random.Random(1)
    for _ in range(300):
        made = words.sentence(chance)
        called = [token for token, kind in zip(made.tokens, made.labels["category"], strict=True) if kind == "PNOUN"]
        if len(set(called)) == len(called):  # a form does not say which Emma it means
            assert graph_of_form(made.tokens, form_of_graph(made)) == made
