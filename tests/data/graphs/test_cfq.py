"""CFQ's questions as graphs: by hand, of any predicted graph, and over the benchmark's own rows."""

from __future__ import annotations

import gzip
from functools import cache
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_transformer.data.graphs.cfq import (
    FORMS,
    TREE,
    TRIPLES,
    WITH_TREES,
    WORDS,
    CfqGraph,
    Row,
    as_triples,
    graph_of,
    learn_anchors,
    read_row,
    sparql_of,
    statements_of,
)
from edge_transformer.data.graphs.cfq_anchors import Anchors, read_question
from edge_transformer.data.graphs.cfq_queries import read_query
from edge_transformer.data.graphs.corpora import tokens_for
from edge_transformer.data.graphs.edges import SentenceGraph
from edge_transformer.data.pairs.rows import Pair, read_pair_file
from edge_transformer.errors import DataError
from official_data import benchmark

MCD1 = benchmark("cfq/mcd1")
SPOUSE = "people.person.spouse_s"
ROWS = [
    ("Did M0 direct M1", "count ( * )", "M0 film.director.film M1"),
    ("Did M0 edit M1", "count ( * )", "M0 film.editor.film M1"),
    ("Was M1 directed by M0", "count ( * )", "M1 film.film.directed_by M0"),
    ("Was M1 edited by M0", "count ( * )", "M1 film.film.edited_by M0"),
    ("Did M0 and M1 direct and edit M2", "count ( * )",
     "M0 film.director.film M2 . M0 film.editor.film M2 . M1 film.director.film M2 . M1 film.editor.film M2"),
    ("Did a actor direct M1", "count ( * )", "?x0 a film.actor . ?x0 film.director.film M1"),
    ("Did a film director edit M1", "count ( * )", "?x0 a film.director . ?x0 film.editor.film M1"),
    ("Which actor edited M1", "DISTINCT ?x0", "?x0 a film.actor . ?x0 film.editor.film M1"),
    ("Who directed M1", "DISTINCT ?x0", "?x0 a people.person . ?x0 film.director.film M1"),
    ("Did M1 ' s director and editor edit M2", "count ( * )",
     "?x0 film.director.film M1 . ?x0 film.editor.film M1 . ?x0 film.editor.film M2"),
    ("Did M1 ' s spouse marry a male actor", "count ( * )",
     f"?x0 {SPOUSE} ?x1 . ?x0 {SPOUSE} M1 . ?x1 a film.actor . ?x1 people.person.gender m_05zppz . "
     "FILTER ( ?x0 != ?x1 ) . FILTER ( ?x0 != M1 )"),
    ("Did M1 marry M0", "count ( * )", f"FILTER ( M1 != M0 ) . M1 {SPOUSE} M0"),
    ("Did a male film director marry M0", "count ( * )",
     f"?x0 a film.director . ?x0 {SPOUSE} M0 . ?x0 people.person.gender m_05zppz . FILTER ( ?x0 != M0 )"),
]  # fmt: skip


def row(question: str, head: str, body: str) -> Row:
    conjuncts = " . ".join(sorted(body.split(" . ")))
    return read_row(Pair(tuple(question.split()), tuple(f"SELECT {head} WHERE {{ {conjuncts} }}".split()), "rows", 1))


@cache
def anchors() -> Anchors:
    return learn_anchors([row(*each) for each in ROWS] * 3)


def made(number: int, form: str) -> CfqGraph:
    return graph_of(row(*ROWS[number]), anchors(), form)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("number", range(len(ROWS)))
def test_rows_by_hand_come_back(number: int, form: str) -> None:
    graph = made(number, form)
    assert graph.covered
    assert sparql_of(graph.graph) == graph.sparql
    assert sparql_of(as_triples(graph.graph)) == graph.sparql


def test_triples_are_labelled_edges() -> None:
    graph = made(4, TRIPLES).graph  # Did M0 and M1 direct and edit M2
    assert graph.sentence == {"asks": "count"}
    assert graph.edges == (
        (1, 7, "film.director.film"),
        (1, 7, "film.editor.film"),
        (3, 7, "film.director.film"),
        (3, 7, "film.editor.film"),
    )


def test_variables_stand_at_nouns_and_wh_words() -> None:
    graph = made(9, TRIPLES).graph  # Did M1 's director and editor edit M2
    assert graph.tokens == ("Did", "M1", "'s", "director", "and", "editor", "edit", "M2")
    assert graph.edges == ((3, 1, "film.director.film"), (3, 1, "film.editor.film"), (3, 7, "film.editor.film"))
    assert made(7, TRIPLES).graph.edges == ((0, 0, "a film.actor"), (0, 3, "film.editor.film"))
    assert made(7, TRIPLES).graph.sentence == {"asks": "distinct"}


def test_a_filter_is_an_edge() -> None:
    assert made(11, TRIPLES).graph.edges == ((1, 3, "!="), (1, 3, SPOUSE))


def test_words_say_predicates() -> None:
    assert made(4, WORDS).graph.edges == (
        *((4, 1, "subject"), (4, 3, "subject"), (4, 4, "film.director.film"), (4, 7, "object")),
        *((6, 1, "subject"), (6, 3, "subject"), (6, 6, "film.editor.film"), (6, 7, "object")),
    )
    assert made(11, WORDS).graph.edges == (*((2, 1, "subject"), (2, 2, "!="), (2, 2, SPOUSE), (2, 3, "object")),)
    # A noun says its own predicate of itself.
    assert made(5, WORDS).graph.edges == (
        *((2, 2, "a film.actor"), (3, 2, "subject"), (3, 3, "film.director.film"), (3, 4, "object")),
    )


def test_two_filters_of_one_pair() -> None:
    graph = SentenceGraph(
        ("M0", "M1"), ((0, 1, "p.spouse"), (0, 1, "p.sibling"), (0, 1, "!= 2")), {}, {"asks": "count"}
    )
    text = "SELECT count ( * ) WHERE { FILTER ( M0 != M1 ) . FILTER ( M0 != M1 ) . M0 p.sibling M1 . M0 p.spouse M1 }"
    assert sparql_of(graph) == text


@pytest.mark.parametrize("typed", ["Did M1's star marry M0", "Did M1 ' s star marry M0 ?", "Did M1 's star marry M0?"])
def test_questions_as_people_type_them(typed: str) -> None:
    tokens = ("Did", "M1", "'s", "star", "marry", "M0")
    assert tokens_for("sparql", typed.split()) == tokens
    assert tokens_for("sparql", tokens) == tokens
    assert tokens_for("", typed.split()) == tuple(typed.split())


def test_words_that_are_not_of_cfq() -> None:
    assert read_question(["Did", "M0", "eat", "M1"]) == 2
    with pytest.raises(DataError, match=r"^rows:1: found the word 'eat'; expected words of CFQ's questions"):
        row("Did M0 eat M1", "count ( * )", "M0 film.director.film M1")
    with pytest.raises(DataError, match=r"^rows:1: found the conjunct 'M0 OPTIONAL "):
        row("Did M0 direct M1", "count ( * )", "M0 OPTIONAL film.film")


def test_a_query_without_place_in_its_question_is_not_covered() -> None:
    for question, head, body in (
        ("Did M0 direct M1", "count ( * )", "M0 film.director.film M2"),  # no such entity
        ("Did M0 direct M1", "DISTINCT ?x0", "?x0 film.director.film M1"),  # no wh-word
        ("Did M0 direct M1", "count ( * )", "?x0 film.director.film M1"),  # no noun
    ):
        for form in FORMS:
            graph = graph_of(row(question, head, body), anchors(), form)
            assert not graph.covered
            assert graph.graph.edges == ()


ROLES = ["subject", "object", "and", "too", "before", "!=", "!= 2"]
LABELS = st.sampled_from([*ROLES, "film.director.film", SPOUSE, "a film.actor", "strange", "", " x"]).filter(bool)


@given(
    st.lists(st.sampled_from(["Who", "M0", "M1", "director", "edited", "M0"]), min_size=1, max_size=7).flatmap(
        lambda tokens: st.tuples(
            st.just(tuple(tokens)),
            st.lists(st.tuples(st.integers(0, len(tokens) - 1), st.integers(0, len(tokens) - 1), LABELS), max_size=20),
        )
    ),
    st.sampled_from(["count", "distinct", "other"]),
)
def test_any_predicted_graph_has_a_query_or_none(
    drawn: tuple[tuple[str, ...], list[tuple[int, int, str]]], asks: str
) -> None:
    graph = SentenceGraph(drawn[0], tuple(drawn[1]), {}, {"asks": asks})
    text = sparql_of(graph)
    statements, _ = statements_of(graph)
    if text is None:
        assert not statements or asks == "distinct"
    else:
        assert text.startswith("SELECT count" if asks != "distinct" else "SELECT DISTINCT ?x0 WHERE {")
        assert text.count(" . ") + 1 >= len(set(statements))


@pytest.mark.skipif(not (MCD1 / "train.tsv.gz").exists(), reason="needs data/cfq/mcd1, the benchmark's own rows")
@pytest.mark.parametrize("form", FORMS)
def test_official_rows_come_back(form: str) -> None:
    train = [read_row(pair) for pair in islice(read_pair_file(MCD1 / "train.tsv.gz"), 0, 40_000, 40)]
    found = learn_anchors(train)
    asked = [read_row(pair) for pair in islice(read_pair_file(MCD1 / "test.tsv.gz"), 0, None, 25)]
    graphs = [graph_of(each, found, form) for each in [*train, *asked]]
    covered = [graph for graph in graphs if graph.covered]
    assert len(covered) >= 0.99 * len(graphs)
    assert all(sparql_of(graph.graph) == graph.sparql for graph in covered)
    labels = {label for graph in covered for *_, label in graph.graph.edges}
    assert len({label for label in labels if not label.startswith(TREE)}) < 80
    assert any(label.startswith(TREE) for label in labels) == (form == WITH_TREES)


@pytest.mark.skipif(not (MCD1 / "dev.tsv.gz").exists(), reason="needs data/cfq/mcd1, the benchmark's own rows")
def test_official_queries_are_read() -> None:
    with gzip.open(MCD1 / "dev.tsv.gz", "rt", encoding="utf-8") as file:
        for line in islice(file, 0, None, 50):
            text = line.rstrip("\n").split("\t")[1]
            query = read_query(text.split())
            assert len(query.statements) + len(query.unequal) == text.count(" . ") + 1
