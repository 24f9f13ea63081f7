"""SPARQL as words: the style of the experiments, the way back, and which queries are the same."""

from __future__ import annotations

import gzip
import random
import re
from collections.abc import Iterable, Mapping
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyparsing import ParseException
from rdflib.plugins.sparql.parser import parseQuery

from edge_transformer.data.pairs.cfq import read_cfq_rows
from edge_transformer.data.pairs.rows import Pair, read_pair_file
from edge_transformer.data.pairs.sparql import (
    MOST_LOOKS,
    _Labelling,
    are_words_of_queries,
    canonical,
    detokenise,
    parse,
    runnable,
    same_query,
    tokenise,
)
from official_data import benchmark


def cut(text: str) -> list[str]:
    return text.split()


CFQ = benchmark("cfq")
OFFICIAL = (
    "SELECT count(*) WHERE {\n?x0 a ns:film.actor .\nFILTER ( ?x0 != ns:m.04lk0rs ) .\n"
    "ns:m.04lk0rs ^ns:people.person.gender ?x0 .\n?x0 ns:film.actor.film/ns:film.performance.film ns:g.1yx\n}"
)
WORDS = cut(
    "SELECT count ( * ) WHERE { ?x0 a film.actor . FILTER ( ?x0 != m_04lk0rs ) . "
    "m_04lk0rs ^ns:people.person.gender ?x0 . ?x0 film.actor.film/ns:film.performance.film g.1yx }"
)


def test_words_of_a_query() -> None:
    assert tokenise(OFFICIAL) == WORDS
    assert tokenise(" ".join(WORDS)) == WORDS
    assert tokenise("select COUNT( * )where{}") == cut("select COUNT ( * ) where { }")


def test_the_way_back() -> None:
    assert detokenise(WORDS) == OFFICIAL
    assert detokenise(cut("SELECT DISTINCT ?x0 WHERE { ?x0 a film.actor . ?x0 film.director.film M0 }")) == (
        "SELECT DISTINCT ?x0 WHERE {\n?x0 a ns:film.actor .\n?x0 ns:film.director.film M0\n}"
    )


def test_queries_that_can_be_run() -> None:
    prefix = "PREFIX ns: <http://rdf.freebase.com/ns/> "
    lower = "select distinct ?x0 where { ?x0 a film.actor . ?x0 film.director.film m0 . filter ( ?x0 != m_0f8l9c ) }"
    assert runnable(cut(lower)) == (
        f"{prefix}SELECT DISTINCT ?x0 WHERE {{ ?x0 a ns:film.actor . ?x0 ns:film.director.film M0 . "
        "FILTER ( ?x0 != ns:m.0f8l9c ) }"
    )
    assert runnable(cut("SELECT count ( * ) WHERE { M0 film.editor.film M1 }")) == (
        f"{prefix}SELECT (count(*) AS ?count) WHERE {{ M0 ns:film.editor.film M1 }}"
    )
    assert runnable([]) == prefix


def is_standard(query: str) -> bool:
    """Whether rdflib reads a query, with entities in the places of M0, M1, ..."""
    try:
        parseQuery(re.sub(r"\bM(\d+)\b", r"ns:m.0\1", query))
    except ParseException:
        return False
    return True


def test_queries_that_can_be_run_are_standard() -> None:
    assert is_standard(runnable(WORDS))
    assert is_standard(runnable([word.lower() for word in WORDS]))
    assert not is_standard(" ".join(WORDS))
    assert not is_standard(runnable(WORDS[:-1]))


@pytest.mark.skipif(not CFQ.is_dir(), reason=f"needs {CFQ}")
def test_real_queries_that_can_be_run_are_standard() -> None:
    rows = list(read_pair_file(CFQ / "mcd1/test.tsv.gz"))[::100]
    broken = [row.target for row in rows if not is_standard(runnable([word.lower() for word in row.target]))]
    assert len(rows) > 100
    assert broken == []
    assert are_words_of_queries(["select", "WHERE", "}", "{", "x"])
    assert not are_words_of_queries(["select", "where", "("])


@pytest.fixture(scope="module")
def official_rows() -> list[Pair]:
    if not (CFQ / "official_rows").is_dir():
        pytest.skip(f"needs official rows of CFQ in {CFQ}")
    paths = sorted((CFQ / "official_rows").glob("*.json"))
    return [pair for path in paths for pair in read_cfq_rows(path) if pair is not None]


def test_official_queries_come_back(official_rows: list[Pair]) -> None:
    for pair in official_rows:
        text = detokenise(pair.target)
        assert tuple(tokenise(text)) == pair.target
        assert parse(pair.target) is not None
        assert canonical(pair.target) is not None


def test_official_queries_in_the_style_of_the_prepared_split(official_rows: list[Pair]) -> None:
    """A question of both files has the same query in both, but for the names of its entities."""
    prepared: dict[str, str] = {}
    for split in ("train", "dev", "test"):
        path = CFQ / f"mcd1/{split}.tsv.gz"
        if not path.is_file():
            pytest.skip(f"needs the MCD1 split of CFQ in {path}")
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                question, query = line.rstrip("\n").split("\t")
                prepared[question] = query
    both = [pair for pair in official_rows if " ".join(pair.source) in prepared]
    assert len(both) == len(official_rows)

    def anonymous(words: tuple[str, ...] | list[str], entity: str) -> list[str]:
        """Entities as variables: what is left to compare is everything else."""
        return [f"?{word}" if word.startswith(entity) and "." not in word[2:] else word for word in words]

    for pair in both:
        words = prepared[" ".join(pair.source)].split()
        constants = {word for word in words if word.startswith("m_")}  # nationalities and genders, named in both
        official = [f"?{word}" if word[:2] in ("m_", "g.") and word not in constants else word for word in pair.target]
        assert same_query(official, anonymous(words, "M")), words


def test_prepared_queries_have_a_canonical_form() -> None:
    path = CFQ / "mcd1/dev.tsv.gz"
    if not path.is_file():
        pytest.skip(f"needs the MCD1 split of CFQ in {path}")
    shuffler = random.Random(0)
    for number, pair in enumerate(read_pair_file(path)):
        assert tuple(tokenise(detokenise(pair.target))) == pair.target
        if number % 20 == 0:
            form = canonical(pair.target)
            assert form is not None
            assert canonical(form) == form
            assert canonical(rewritten(pair.target, shuffler)) == form


def rewritten(words: tuple[str, ...], shuffler: random.Random) -> tuple[str, ...]:
    """The same query with other names, in another order, some filters turned round, some conjuncts said twice."""
    query = parse(words)
    assert query is not None
    names = sorted({word for word in words if word.startswith("?")})
    others = [f"?x{number}" for number in range(len(names) + 2)]
    shuffler.shuffle(others)
    new = dict(zip(names, others, strict=False))
    conjuncts = [[new.get(word, word) for word in conjunct] for conjunct in query.conjuncts]
    for conjunct in conjuncts:
        if conjunct[0].lower() == "filter" and shuffler.random() < 0.5:
            conjunct[2], conjunct[4] = conjunct[4], conjunct[2]
    conjuncts += [list(conjunct) for conjunct in conjuncts if shuffler.random() < 0.1]  # saying it again adds nothing
    shuffler.shuffle(conjuncts)
    body = [word for conjunct in conjuncts for word in (*conjunct, ".")][:-1]
    return (*(new.get(word, word) for word in query.head), "{", *body, "}")


TERMS = st.sampled_from(cut("?x0 ?x1 ?x2 ?x3 M0 M1"))
TRIPLES = st.tuples(TERMS, st.sampled_from(["p", "q"]), TERMS)
FILTERS = st.tuples(TERMS, TERMS).map(lambda pair: ("FILTER", "(", pair[0], "!=", pair[1], ")"))
HEADS = st.sampled_from([("SELECT", "count", "(", "*", ")", "WHERE"), ("SELECT", "DISTINCT", "?x0", "WHERE")])


@st.composite
def queries(draw: st.DrawFn) -> tuple[str, ...]:
    conjuncts = draw(st.lists(TRIPLES | FILTERS, min_size=1, max_size=7))
    body = [word for conjunct in conjuncts for word in (*conjunct, ".")][:-1]
    return (*draw(HEADS), "{", *body, "}")


@settings(max_examples=300, deadline=None)
@given(words=queries(), seed=st.integers(0, 1000))
def test_order_and_names_make_no_difference(words: tuple[str, ...], seed: int) -> None:
    other = rewritten(words, random.Random(seed))
    form = canonical(words)
    assert form is not None
    assert canonical(other) == form
    assert canonical(form) == form
    assert same_query(words, other)


@settings(max_examples=200, deadline=None)
@given(words=queries(), seed=st.integers(0, 1000), data=st.data())
def test_another_predicate_makes_one(words: tuple[str, ...], seed: int, data: st.DataObject) -> None:
    places = [place for place, word in enumerate(words) if word in ("p", "q", "M0")]
    if not places:
        return
    changed = list(words)
    changed[data.draw(st.sampled_from(places))] = "another"
    assert not same_query(words, rewritten(tuple(changed), random.Random(seed)))


def in_order(conjunct: Iterable[str]) -> tuple[str, ...]:
    """The sides of a filter in one order."""
    words = list(conjunct)
    if words[0] == "FILTER":
        words[2], words[4] = sorted((words[2], words[4]))
    return tuple(words)


@settings(max_examples=150, deadline=None)
@given(words=queries(), others=queries())
def test_same_means_that_some_renaming_fits(words: tuple[str, ...], others: tuple[str, ...]) -> None:
    """Against trying all renamings."""
    first, second = parse(words), parse(others)
    assert first is not None
    assert second is not None
    names = sorted({word for word in words if word.startswith("?")})
    targets = sorted({word for word in others if word.startswith("?")})
    fits = False
    if len(names) == len(targets):
        for order in permutations(targets):
            new = dict(zip(names, order, strict=True))
            head = tuple(new.get(word, word) for word in first.head)
            body = {in_order(new.get(word, word) for word in conjunct) for conjunct in first.conjuncts}
            fits |= head == second.head and body == set(map(in_order, second.conjuncts))
    assert same_query(words, others) == fits


def test_directions_count_and_repetitions_do_not() -> None:
    def query(body: str) -> list[str]:
        return f"SELECT count ( * ) WHERE {{ {body} }}".split()

    cycle = query("?x0 p ?x1 . ?x1 p ?x2 . ?x2 p ?x0")
    assert same_query(cycle, query("?x1 p ?x0 . ?x2 p ?x1 . ?x0 p ?x2"))
    assert not same_query(cycle, query("?x0 p ?x1 . ?x1 p ?x2 . ?x0 p ?x2"))
    assert not same_query(query("?x0 p M0"), query("M0 p ?x0"))
    assert same_query(query("?x0 p M0 . ?x0 p M0"), query("?x0 p M0"))
    assert not same_query(query("?x0 p M0 . ?x1 p M0"), query("?x0 p M0"))
    assert same_query(query("?x0 p M0 . FILTER ( ?x0 != M0 )"), query("FILTER ( M0 != ?x1 ) . ?x1 p M0"))
    assert not same_query(query("?x0 p M0 . FILTER ( ?x0 != M0 )"), query("?x0 p M0 . FILTER ( ?x0 != M1 )"))
    both_ways = query("FILTER ( ?x0 != ?x1 ) . ?x0 p ?x1 . FILTER ( ?x1 != ?x0 )")
    assert canonical(both_ways) == tuple(query("?x0 p ?x1 . FILTER ( ?x0 != ?x1 )"))
    assert same_query(both_ways, query("?x5 p ?x2 . FILTER ( ?x2 != ?x5 )"))
    # Two triangles and a hexagon: every variable looks like every other.
    triangles = query("?a p ?b . ?b p ?c . ?c p ?a . ?d p ?e . ?e p ?f . ?f p ?d")
    hexagon = query("?a p ?b . ?b p ?c . ?c p ?d . ?d p ?e . ?e p ?f . ?f p ?a")
    assert not same_query(triangles, hexagon)
    assert same_query(triangles, query("?f p ?e . ?e p ?b . ?b p ?f . ?d p ?a . ?a p ?c . ?c p ?d"))


def test_what_is_asked_for_counts() -> None:
    first = cut("SELECT DISTINCT ?x0 WHERE { ?x0 p ?x1 }")
    assert same_query(first, cut("SELECT DISTINCT ?x1 WHERE { ?x1 p ?x0 }"))
    assert not same_query(first, cut("SELECT DISTINCT ?x1 WHERE { ?x0 p ?x1 }"))


def test_lower_case_queries() -> None:
    words = cut("select count ( * ) where { ?x0 a film.actor . filter ( ?x0 != m0 ) }")
    assert canonical(words) is not None
    assert same_query(words, cut("select count ( * ) where { filter ( ?x1 != m0 ) . ?x1 a film.actor }"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SELECT",
        "WHERE { }",
        "SELECT count ( * ) WHERE { }",
        "SELECT count ( * ) WHERE { ?x0 p }",
        "SELECT count ( * ) WHERE { ?x0 p M0 .",
        "SELECT count ( * ) WHERE { ?x0 p M0 . }",
        "SELECT count ( * ) WHERE { FILTER ( ?x0 != M0 }",
        "SELECT count ( * ) { ?x0 p M0 }",
        "SELECT WHERE { a b c } WHERE { a b c }",
    ],
)
def test_what_is_no_query(text: str) -> None:
    words = text.split()
    assert parse(words) is None
    assert canonical(words) is None
    assert same_query(words, list(words))
    assert not same_query(words, WORDS)


def of(conjuncts: list[str]) -> list[str]:
    return cut(f"SELECT count ( * ) WHERE {{ {' . '.join(conjuncts)} }}")


def test_many_variables_that_may_be_swapped_are_no_trouble() -> None:
    star = of([f"?x{number} p M0" for number in range(20)])
    assert canonical(star) is not None
    assert same_query(star, of([f"?y{number} p M0" for number in range(20)]))
    assert not same_query(star, of([f"?y{number} p M0" for number in range(19)] + ["?y18 p M0"]))


def test_queries_with_too_many_ways_to_name_their_variables_are_given_up() -> None:
    pairs = of([f"?x{number} p ?y{number}" for number in range(10)])
    assert canonical(pairs) is None
    assert same_query(pairs, list(pairs))
    assert canonical(of([f"?x{number} p ?y{number}" for number in range(5)])) is not None
    assert canonical(of([f"?x{number} p M{number}" for number in range(40)])) is None


def test_the_work_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    cube = of([f"?x{one} p ?x{one ^ 1 << bit}" for one in range(32) for bit in range(5)])
    other = of([f"?y{one} p ?y{one ^ 1 << bit}" for one in range(32) for bit in range(5)])
    looked_at: list[_Labelling] = []
    search = _Labelling.search

    def remember(self: _Labelling, colours: Mapping[str, int]) -> None:
        looked_at.append(self)
        search(self, colours)

    monkeypatch.setattr(_Labelling, "search", remember)
    assert not same_query(cube, other)  # given up
    assert max(labelling.looks for labelling in looked_at) < 1.1 * MOST_LOOKS
    looked_at.clear()
    assert not same_query(cube, of([*(f"?y{one} p ?y{one ^ 1}" for one in range(32)), "?y1 q M0"]))
    assert not same_query(cube, [*other[:-4], "?y3", "q", "?y4", "}"])
    assert not looked_at  # other predicates are seen without any search


@settings(max_examples=200, deadline=None)
@given(words=st.lists(st.sampled_from(cut("SELECT WHERE { } . ( ) != FILTER ?x0 a"))))
def test_any_words_are_read_or_refused(words: list[str]) -> None:
    form = canonical(words)
    if form is not None:
        assert same_query(form, words)
    assert tokenise(detokenise(words)) == words
