"""Lists of CFQ's questions as chains, and back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edge_transformer.data.graphs.cfq_chains import chained, unchained
from edge_transformer.data.graphs.edges import Edge

WORDS = st.integers(0, 5)
ENDS = st.tuples(WORDS, WORDS, st.sampled_from(["subject", "object"]))
OTHERS = st.tuples(WORDS, WORDS, st.sampled_from(["before", "film.director.film"]))


def test_each_member_of_a_list_follows_the_one_before_it() -> None:
    # M1 and M2 directed and edited M3 , M4 and M5
    ends: list[Edge] = [(word, one, "subject") for word in (3, 5) for one in (0, 2)]
    ends += [(word, thing, "object") for word in (3, 5) for thing in (6, 8, 10)]
    said: list[Edge] = [(3, 3, "film.director.film"), (5, 5, "film.editor.film")]
    lists: list[Edge] = [(0, 2, "and"), (6, 8, "and"), (8, 10, "and"), (3, 5, "too")]
    assert chained(ends + said) == sorted([*said, *lists, (3, 0, "subject"), (3, 6, "object")])


def test_nouns_that_say_what_they_say_of_themselves() -> None:
    # M1 's director and editor: the editor is the director
    edges: list[Edge] = [(2, 0, "object"), (4, 0, "object"), (4, 2, "subject")]
    assert chained(edges) == [(2, 0, "object"), (2, 4, "too")]
    assert unchained([(2, 0, "object"), (2, 4, "too"), (4, 6, "too")]) == [
        *((word, 0, "object") for word in (2, 4)),
        (4, 2, "subject"),
        (6, 0, "object"),
        (6, 2, "subject"),
    ]


@given(st.sets(ENDS, max_size=14), st.sets(OTHERS, max_size=3))
def test_all_edges_come_back(ends: set[Edge], others: set[Edge]) -> None:
    edges = ends | others
    short = chained(edges)
    assert unchained(short) == sorted(edges)
    assert len(short) <= len(edges)


@given(st.sets(st.tuples(WORDS, WORDS, st.sampled_from(["subject", "object", "and", "too", "x"])), max_size=20))
def test_chains_of_any_graph_end(edges: set[Edge]) -> None:
    assert not {label for _, _, label in unchained(sorted(edges))} & {"and", "too"}
