"""CFQ's queries in parts and back: the official order and names, and what is no such query is named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_transformer.data.graphs.cfq_queries import COUNT, DISTINCT, Statement, is_entity, read_query, write_query
from edge_transformer.data.pairs.sparql import same_query
from edge_transformer.errors import DataError

LABELS = ("film.film.directed_by", "film.film.written_by", "film.director.film", "people.person.children")
KINDS = ("a film.actor", "a film.film", "people.person.gender m_02zsn")


def test_parts_of_a_query() -> None:
    said = "?x0 a film.actor . ?x0 film.editor.film M1 . ?x0 people.person.gender m_02zsn"
    query = read_query(f"SELECT DISTINCT ?x0 WHERE {{ {said} . FILTER ( ?x0 != M1 ) }}".split())
    assert query.asks == DISTINCT
    assert query.statements == (
        Statement("?x0", "a film.actor"),
        Statement("?x0", "film.editor.film", "M1"),
        Statement("?x0", "people.person.gender m_02zsn"),
    )
    assert query.unequal == (("?x0", "M1"),)
    assert query.variables == ["?x0"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ASK WHERE { M0 a film.film }", "the query 'ASK WHERE"),
        ("SELECT ?x0 WHERE { ?x0 a film.film }", "a query that begins with 'SELECT \\?x0 WHERE'"),
        ("SELECT count ( * ) WHERE { M0 a film.film . }", "the query"),
        ("SELECT count ( * ) WHERE { film.film a M0 }", "the conjunct 'film.film a M0'"),
        ("SELECT count ( * ) WHERE { M0 a M1 }", "the conjunct 'M0 a M1'"),
        ("SELECT count ( * ) WHERE { M0 film.film.sequel film.film }", "the conjunct 'M0 film.film.sequel film.film'"),
        ("SELECT count ( * ) WHERE { FILTER ( M0 != m_02zsn ) }", "the conjunct 'FILTER"),
        ("SELECT count ( * ) WHERE { OPTIONAL M0 M1 }", "the conjunct 'OPTIONAL M0 M1'"),
    ],
)
def test_other_constructs_are_named(text: str, found: str) -> None:
    with pytest.raises(DataError, match=f"^train.tsv:7: found {found}") as error:
        read_query(text.split(), "train.tsv", 7)
    assert "expected" in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        # A subject comes before its object, and is no larger for it.
        "SELECT count ( * ) WHERE { ?x0 film.film.prequel ?x1 . ?x1 a film.film . M1 film.writer.film ?x0 }",
        # Variables that only entities lead to: by the predicates that do.
        "SELECT count ( * ) WHERE { ?x0 a film.director . ?x1 a film.actor . M3 film.film.directed_by ?x1 . "
        "M3 film.film.edited_by ?x0 }",
        # Other variables: by the names of predicates.
        "SELECT DISTINCT ?x0 WHERE { ?x0 film.film.edited_by ?x1 . ?x0 film.film.written_by ?x2 . ?x1 a film.writer . "
        "?x2 a film.actor }",
        # Of one predicate: by the entities they lead to.
        "SELECT DISTINCT ?x0 WHERE { ?x0 organization.organization.founders ?x1 . "
        "?x0 organization.organization.founders ?x2 . ?x1 film.editor.film M0 . ?x2 a film.cinematographer }",
    ],
)
def test_official_names_of_variables(text: str) -> None:
    assert rewritten(text) == text


def rewritten(text: str) -> str:
    """A query written anew from nodes that say nothing of its names and order."""
    query = read_query(text.split())
    named = {node for each in query.statements for node in each.nodes} | {node for two in query.unequal for node in two}
    nodes = [*query.variables, *sorted(filter(is_entity, named))]
    number = {node: (7 * place) % 1009 for place, node in enumerate(reversed(nodes))}
    return write_query(
        number["?x0"] if query.asks == DISTINCT else None,
        [(number[one], label, None if other is None else number[other]) for one, label, other in query.statements],
        [(number[one], number[other]) for one, other in query.unequal],
        {place: node for node, place in number.items() if is_entity(node)},
    )


def test_an_order_that_no_rule_tells() -> None:
    statements: list[tuple[str, str, str | None]] = [
        *(("M", "film.film.starring", "a"), ("M", "film.film.starring", "b")),
        *(("a", "a film.actor", None), ("b", "a film.writer", None)),
    ]
    by_rule = write_query(None, statements, (), {"M": "M0"})
    assert "?x0 a film.actor . ?x1 a film.writer" in by_rule
    asked_for = write_query(None, statements, (), {"M": "M0"}, [("b", "a")])
    assert "?x0 a film.writer . ?x1 a film.actor" in asked_for
    assert write_query(None, statements, (), {"M": "M0"}, [("a", "b"), ("b", "a")])  # a circle gives some order


NODES = st.sampled_from(["?a", "?b", "?c", "?d", "M0", "M1", "M2"])
STATEMENTS = st.lists(
    st.one_of(st.tuples(NODES, st.sampled_from(LABELS), NODES), st.tuples(NODES, st.sampled_from(KINDS), st.none())),
    min_size=1,
    max_size=8,
    unique=True,
)


@given(STATEMENTS, st.lists(st.tuples(NODES, NODES), max_size=3), st.booleans(), st.randoms())
def test_any_query_is_written_and_read(
    statements: list[tuple[str, str, str | None]], unequal: list[tuple[str, str]], asks: bool, random: object
) -> None:
    entities = {f"M{number}": f"M{number}" for number in range(3)}
    text = write_query("?a" if asks else None, statements, unequal, entities)
    query = read_query(text.split())
    assert query.asks == (DISTINCT if asks else COUNT)
    assert len(query.statements) == len(statements)
    assert len(query.unequal) == len(unequal)
    variables = {node for one, _, other in statements for node in (one, other) if node and node not in entities}
    variables |= {node for pair in unequal for node in pair if node not in entities} | ({"?a"} if asks else set())
    assert query.variables == [f"?x{number}" for number in range(len(variables))]
    # Written in another order, it is equivalent.
    random.shuffle(statements)  # type: ignore[attr-defined]
    again = write_query("?a" if asks else None, statements, unequal, entities)
    assert same_query(again.split(), text.split())
    assert same_query(rewritten(text).split(), text.split())
