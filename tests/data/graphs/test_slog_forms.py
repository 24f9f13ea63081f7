"""The logical forms of SLOG: graphs as they should be, both ways on sentences of any structure, what is refused."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_transformer.data.graphs.edges import Edge, SentenceGraph
from edge_transformer.data.graphs.logical_forms import parse_logical_form
from edge_transformer.data.graphs.slog_forms import COLUMNS, form_of_sentence_graph, sentence_graph_of_form
from edge_transformer.errors import DataError
from slog_sentences import Speaker

# Sentences and their forms, and edges by words.
CASES = {
    "relative clause on the subject": (
        "The cat that Ann saw slept .",
        "* cat ( x _ 1 ) ; cat . nmod ( x _ 1 , x _ 4 ) AND see . agent ( x _ 4 , Ann ) "
        "AND see . theme ( x _ 4 , x _ 1 ) "
        "AND sleep . agent ( x _ 5 , x _ 1 )",
        [(1, 4, "nmod"), (4, 1, "theme"), (4, 3, "agent"), (5, 1, "agent")],
    ),
    "preposition on the indirect object": (
        "Ann gave a cake to the cat on a mat .",
        "* cat ( x _ 6 ) ; give . agent ( x _ 1 , Ann ) AND give . theme ( x _ 1 , x _ 3 ) AND "
        "give . recipient ( x _ 1 , x _ 6 ) AND cake ( x _ 3 ) AND cat . nmod . on ( x _ 6 , x _ 9 ) AND mat ( x _ 9 )",
        [
            *((1, 0, "agent"), (1, 3, "theme"), (1, 6, "recipient")),
            *((6, 7, "nmod"), (7, 9, "pobj")),
        ],
    ),
    "indirect object of a relative clause": (
        "a cat that Ann gave the cake to",
        "* cake ( x _ 6 ) ; cat ( x _ 1 ) AND cat . nmod ( x _ 1 , x _ 4 ) AND give . agent ( x _ 4 , Ann ) AND "
        "give . theme ( x _ 4 , x _ 6 ) AND give . recipient ( x _ 4 , x _ 1 )",
        [(1, 4, "nmod"), (4, 1, "recipient"), (4, 3, "agent"), (4, 6, "theme")],
    ),
    "indirect object asked for": (
        "Who did Ann give the cake to ?",
        "* cake ( x _ 5 ) ; give . agent ( x _ 3 , Ann ) AND give . theme ( x _ 3 , x _ 5 ) "
        "AND give . recipient ( x _ 3 , ? )",
        [(3, 0, "recipient"), (3, 2, "agent"), (3, 5, "theme")],
    ),
    "direct object asked for, before the indirect one": (
        "What did Ann give to Bob ?",
        "give . agent ( x _ 3 , Ann ) AND give . theme ( x _ 3 , ? ) AND give . recipient ( x _ 3 , Bob )",
        [(3, 0, "theme"), (3, 2, "agent"), (3, 5, "recipient")],
    ),
    "direct object asked for, after the indirect one": (
        "What did Ann give Bob ?",
        "give . agent ( x _ 3 , Ann ) AND give . recipient ( x _ 3 , Bob ) AND give . theme ( x _ 3 , ? )",
        [(3, 0, "theme"), (3, 2, "agent"), (3, 4, "recipient")],
    ),
    "subject of a passive asked for": (
        "What was given to Bob by Ann ?",
        "give . theme ( x _ 2 , ? ) AND give . recipient ( x _ 2 , Bob ) AND give . agent ( x _ 2 , Ann )",
        [(2, 0, "theme"), (2, 4, "recipient"), (2, 6, "agent")],
    ),
    "long movement": (
        "What did Ann say that Bob hoped that Cid ate ?",
        "say . agent ( x _ 3 , Ann ) AND say . ccomp ( x _ 3 , x _ 6 ) AND hope . agent ( x _ 6 , Bob ) AND "
        "hope . ccomp ( x _ 6 , x _ 9 ) AND eat . agent ( x _ 9 , Cid ) AND eat . theme ( x _ 9 , ? )",
        [
            *((3, 2, "agent"), (3, 6, "ccomp"), (6, 5, "agent"), (6, 9, "ccomp")),
            *((9, 0, "theme"), (9, 8, "agent")),
        ],
    ),
    "two relative clauses, one in the centre of the other": (
        "Ann saw the cat that a dog that Bob fed liked .",
        "* cat ( x _ 3 ) ; see . agent ( x _ 1 , Ann ) AND see . theme ( x _ 1 , x _ 3 ) "
        "AND cat . nmod ( x _ 3 , x _ 10 ) AND "
        "dog ( x _ 6 ) AND dog . nmod ( x _ 6 , x _ 9 ) AND feed . agent ( x _ 9 , Bob ) "
        "AND feed . theme ( x _ 9 , x _ 6 ) "
        "AND like . agent ( x _ 10 , x _ 6 ) AND like . theme ( x _ 10 , x _ 3 )",
        [
            *((1, 0, "agent"), (1, 3, "theme"), (3, 10, "nmod"), (6, 9, "nmod")),
            *((9, 6, "theme"), (9, 8, "agent"), (10, 3, "theme"), (10, 6, "agent")),
        ],
    ),
    "infinitive in a relative clause": (
        "the cat that wanted to sleep",
        "* cat ( x _ 1 ) ; cat . nmod ( x _ 1 , x _ 3 ) AND want . agent ( x _ 3 , x _ 1 ) "
        "AND want . xcomp ( x _ 3 , x _ 5 ) AND "
        "sleep . agent ( x _ 5 , x _ 1 )",
        [(1, 3, "nmod"), (3, 1, "agent"), (3, 5, "xcomp"), (5, 1, "agent")],
    ),
    "one name twice": (
        "Ann said that Ann was seen by Ann .",
        "say . agent ( x _ 1 , Ann ) AND say . ccomp ( x _ 1 , x _ 5 ) "
        "AND see . theme ( x _ 5 , Ann ) AND see . agent ( x _ 5 , Ann )",
        [(1, 0, "agent"), (1, 5, "ccomp"), (5, 3, "theme"), (5, 7, "agent")],
    ),
    "a noun with capitals": ("a TV", "TV ( x _ 1 )", []),
    "a transitive verb alone": (
        "see",
        "LAMBDA a . LAMBDA b . LAMBDA e . see . agent ( e , b ) AND see . theme ( e , a )",
        [(0, 0, "agent"), (0, 0, "theme")],
    ),
    "an unaccusative verb alone": ("fall", "LAMBDA a . LAMBDA e . fall . theme ( e , a )", [(0, 0, "theme")]),
    "a noun alone": ("cat", "LAMBDA a . cat ( a )", []),
    "a name alone": ("Ann", "Ann", []),
}


@pytest.mark.parametrize(("sentence", "form", "edges"), CASES.values(), ids=CASES)
def test_graphs_of_forms_and_back(sentence: str, form: str, edges: list[Edge]) -> None:
    graph = sentence_graph_of_form(sentence.split(), form, group="some")
    assert graph.edges == tuple(edges)
    assert (graph.tokens, graph.group, tuple(graph.labels)) == (tuple(sentence.split()), "some", COLUMNS)
    assert form_of_sentence_graph(graph) == form


def test_labels_of_words() -> None:
    graph = sentence_graph_of_form(
        ["Who", "gave", "Ann", "the", "cake", "?"],
        "* cake ( x _ 4 ) ; give . agent ( x _ 1 , ? ) AND give . recipient ( x _ 1 , Ann ) "
        "AND give . theme ( x _ 1 , x _ 4 )",
    )
    assert graph.labels == {
        "category": ("WH", "VERB", "PNOUN", "", "CNOUN", ""),
        "noun_type": ("", "", "", "", "DEF", ""),
        "verb_name": ("", "give", "", "", "", ""),
    }


@settings(max_examples=300, deadline=None)
@given(
    chance=st.randoms(use_true_random=False),
    depth=st.integers(0, 5),
    kind=st.sampled_from(["statement", "question", "phrase"]),
)
def test_sentences_of_any_structure_come_back(chance: random.Random, depth: int, kind: str) -> None:
    spoken = getattr(Speaker(chance, depth), kind)()
    if not 1 < len(spoken.tokens) < 512:
        return
    graph = sentence_graph_of_form(spoken.tokens, spoken.form)
    assert form_of_sentence_graph(graph) == spoken.form
    arguments = [atom for atom in parse_logical_form(spoken.form).conjuncts if len(atom.arguments) == 2]
    assert len([label for _, _, label in graph.edges if label != "pobj"]) == len(arguments)


def chain(count: int, words: str, form: str, step: int, first: str) -> tuple[list[str], str]:
    """A sentence that repeats a part, whose variables move on by `step`."""
    atoms = [form.format(*(place + step * number for place in range(20))) for number in range(count)]
    return (first + words * count).split(), " AND ".join(atoms)


@pytest.mark.parametrize("depth", [1, 3, 5, 12, 40])
def test_recursion_has_no_limit_but_length(depth: int) -> None:
    clauses, inner = chain(
        depth, "Ann said that ", "say . agent ( x _ {1} , Ann ) AND say . ccomp ( x _ {1} , x _ {4} )", 3, ""
    )
    tokens, form = [*clauses, "Bob", "slept"], f"{inner} AND sleep . agent ( x _ {3 * depth + 1} , Bob )"
    # The last clause is a different one, whose verb is at the same place.
    assert form_of_sentence_graph(sentence_graph_of_form(tokens, form)) == form
    tokens, modifiers = chain(
        depth, "on a mat ", "mat . nmod . on ( x _ {1} , x _ {4} ) AND mat ( x _ {4} )", 3, "a mat "
    )
    form = f"mat ( x _ 1 ) AND {modifiers}"
    graph = sentence_graph_of_form(tokens, form)
    assert form_of_sentence_graph(graph) == form
    assert len(graph.edges) == 2 * depth


SENTENCE = "Ann gave the cat that slept a cake on Bob ."


@pytest.mark.parametrize(
    ("form", "found", "expected"),
    [
        ("dog ( x _ 3 )", "'dog' for token 3, 'cat'", "the token itself"),
        ("cat ( x _ 3 ) AND cat ( x _ 3 )", "a second meaning 'cat' for token 3", "one noun or name"),
        ("give . agent ( x _ 1 , Eve )", "'Eve'", "a name of the sentence"),
        ("give . agent ( x _ 1 , ? )", "'?'", "a question word"),
        ("give . agent ( x _ 1 , x _ 3 )", "'cat' as agent of 'gave'", "CNOUN or PNOUN or WH"),
        ("give . agent ( x _ 1 , x _ 11 )", "x _ 11", "x _ 0 to x _ 10"),
        ("give . agent ( Ann , x _ 3 )", "give . agent ( Ann , x _ 3 )", "a variable of a token"),
        (
            "give . agent ( x _ 1 , Ann ) AND take . theme ( x _ 1 , Bob )",
            "take . theme ( x _ 1 , Bob ) after give",
            "one verb",
        ),
        (
            "give . agent ( x _ 1 , Ann ) AND give . agent ( x _ 1 , Bob )",
            "a second give . agent",
            "each role of a verb once",
        ),
        ("give . ccomp ( x _ 1 , x _ 5 )", "'slept' as ccomp of 'gave'", "VERB"),
        ("give . manner ( x _ 1 , Ann )", "give . manner", "agent, theme, recipient, ccomp, xcomp, or nmod"),
        ("cake . nmod . on ( x _ 7 , Bob )", "cake . nmod . on", "nmod of the noun"),
        ("* cake ( x _ 7 ) ; cake . nmod . in ( x _ 7 , Bob )", "cake . nmod . in", "a token 'in' between"),
        ("* cat ( x _ 3 ) ; cat . nmod ( x _ 3 , x _ 5 )", "cat . nmod ( x _ 3 , x _ 5 )", "the VERB"),
        ("* cake ( x _ 7 ) ; * cat ( x _ 3 )", "* cake", "order of the sentence: * cat"),
        ("sleep . agent ( x _ 5 , Ann ) AND give . agent ( x _ 1 , Ann )", "sleep", "order of the sentence: give"),
        ("LAMBDA a . cat ( a )", "for 11 tokens", "a single word"),
        ("Ann", "for 11 tokens", "a single word"),
        ("give . agent ( x _ 1 )", "conjunct 1", "such as cake"),
    ],
)
def test_what_is_no_form_of_the_sentence_is_refused(form: str, found: str, expected: str) -> None:
    with pytest.raises(DataError) as error:
        sentence_graph_of_form(SENTENCE.split(), form, "train.tsv", 3)
    assert (str(error.value.path), error.value.line) == ("train.tsv", 3)
    assert found in error.value.found
    assert expected in error.value.expected


@pytest.mark.parametrize(
    ("word", "form", "found"),
    [
        ("cat", "Ann", "the name 'Ann'"),
        ("cat", "LAMBDA a . dog ( a )", "'dog' for token 0"),
        ("see", "LAMBDA e . LAMBDA a . see . agent ( e , a )", "LAMBDA e . LAMBDA a"),
        ("see", "LAMBDA a . LAMBDA e . see . ccomp ( e , a )", "see . ccomp"),
        ("see", "LAMBDA a . LAMBDA e . see . nmod . on ( e , a )", "see . nmod . on"),
    ],
)
def test_what_is_no_form_of_a_word_is_refused(word: str, form: str, found: str) -> None:
    with pytest.raises(DataError) as error:
        sentence_graph_of_form([word], form, "train.tsv", 3)
    assert found in error.value.found


def graph_of(edges: list[Edge], **labels: str) -> SentenceGraph:
    columns = {
        name: tuple("" if label == "-" else label for label in labels.get(name, "- - - -").split()) for name in COLUMNS
    }
    return SentenceGraph(("Ann", "saw", "on", "."), tuple(edges), columns)


@pytest.mark.parametrize(
    ("edges", "labels", "expected"),
    [
        ([], {}, "at least one"),
        ([(1, 0, "agent")], {"category": "PNOUN - - -"}, "the category VERB"),
        ([(1, 0, "agent")], {"category": "- VERB - -", "verb_name": "- see - -"}, "CNOUN, PNOUN, VERB or WH"),
        ([(1, 0, "agent")], {"category": "PNOUN VERB - -"}, "a word without space"),
        ([(1, 0, "agent")], {"category": "PNOUN VERB - -", "verb_name": "- x; - -"}, "a word without space"),
        ([(1, 0, "other")], {"category": "PNOUN VERB - -", "verb_name": "- see - -"}, "agent, theme, recipient"),
        ([(0, 2, "nmod"), (2, 0, "pobj")], {"category": "PNOUN - - -"}, "the category CNOUN"),
        ([(0, 2, "nmod"), (2, 1, "agent")], {"category": "CNOUN CNOUN - -"}, "pobj"),
    ],
)
def test_graphs_without_a_form_are_refused(edges: list[Edge], labels: dict[str, str], expected: str) -> None:
    with pytest.raises(DataError) as error:
        form_of_sentence_graph(graph_of(edges, **labels), "rows.jsonl", 5)
    assert (str(error.value.path), error.value.line) == ("rows.jsonl", 5)
    assert expected in error.value.expected


def test_graphs_of_other_columns_are_refused() -> None:
    with pytest.raises(DataError, match="found the columns role; expected category, noun_type, verb_name"):
        form_of_sentence_graph(SentenceGraph(("a",), (), {"role": ("",)}))


@st.composite
def any_graph(draw: st.DrawFn) -> SentenceGraph:
    """Anything with SLOG's columns, as a model may predict it."""
    size = draw(st.integers(1, 5))
    token = st.integers(0, size - 1)
    edge = st.tuples(
        token, token, st.sampled_from(["agent", "theme", "recipient", "ccomp", "xcomp", "nmod", "pobj", "root"])
    )
    words = st.sampled_from(["Ann", "Who", "on", "to", "cat", ".", "AND"])
    labels = {
        "category": st.sampled_from(["CNOUN", "PNOUN", "VERB", "WH", "", "odd"]),
        "noun_type": st.sampled_from(["DEF", "INDEF", ""]),
        "verb_name": st.sampled_from(["see", "give", ""]),
    }
    columns = {name: tuple(draw(st.lists(label, min_size=size, max_size=size))) for name, label in labels.items()}
    tokens = tuple(draw(st.lists(words, min_size=size, max_size=size)))
    return SentenceGraph(tokens, tuple(draw(st.lists(edge, max_size=6))), columns)


@settings(max_examples=800, deadline=None)
@given(graph=any_graph())
def test_any_graph_has_a_form_or_is_refused(graph: SentenceGraph) -> None:
    try:
        form = form_of_sentence_graph(graph)
    except DataError:
        return
    assert str(parse_logical_form(form)) == form


TOKENS = ("Who", "saw", "Ann", "on", "a", "cat", "Ann")
atoms = st.builds(
    "{} ( x _ {} , {} )".format,
    st.sampled_from(["see . agent", "see . theme", "see . ccomp", "cat . nmod", "cat . nmod . on", "cat . nmod . in"]),
    st.integers(0, 7),
    st.sampled_from(["Ann", "?", "cat", *(f"x _ {token}" for token in range(8))]),
) | st.sampled_from(["cat ( x _ 5 )", "on ( x _ 3 )"])


@settings(max_examples=800, deadline=None)
@given(parts=st.lists(atoms, min_size=1, max_size=4), definite=st.booleans())
def test_any_form_is_refused_or_comes_back(parts: list[str], definite: bool) -> None:
    form = "* cat ( x _ 5 ) ; " * definite + " AND ".join(parts)
    try:
        graph = sentence_graph_of_form(TOKENS, form)
    except DataError:
        return
    assert form_of_sentence_graph(graph) == form
