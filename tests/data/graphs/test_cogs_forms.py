"""COGS graphs: every construction by hand, random sentences, and whatever is no graph of a sentence."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_transformer.data.graphs.logical_forms import COLUMNS, form_of_graph, graph_of_form, parse_logical_form
from edge_transformer.data.graphs.rows import TokenGraph
from edge_transformer.errors import DataError


def graph(*rows: str) -> TokenGraph:
    """A graph from rows of `token parent role category noun_type verb_name`, with - for nothing."""
    cells = [["" if cell == "-" else cell for cell in (row + 5 * " -").split()[:6]] for row in rows]
    columns = {name: tuple(row[2 + n] for row in cells) for n, name in enumerate(COLUMNS)}
    parents = tuple(int(row[1]) if row[1] else n for n, row in enumerate(cells))
    return TokenGraph(tuple(row[0] for row in cells), parents, columns)


SENTENCES = {
    "transitive": (
        graph("Emma 1 agent PNOUN", "ate - - VERB - eat", "a", "cake 1 theme CNOUN INDEF", "."),
        "eat . agent ( x _ 1 , Emma ) AND eat . theme ( x _ 1 , x _ 3 ) AND cake ( x _ 3 )",
    ),
    "object omitted": (
        graph("The", "dog 2 agent CNOUN DEF", "ate - - VERB - eat", "."),
        "* dog ( x _ 1 ) ; eat . agent ( x _ 2 , x _ 1 )",
    ),
    "proper nouns": (
        graph("Emma 1 agent PNOUN", "saw - - VERB - see", "Liam 1 theme PNOUN", "."),
        "see . agent ( x _ 1 , Emma ) AND see . theme ( x _ 1 , Liam )",
    ),
    "definite nouns come first, in their order": (
        graph("A", "dog 2 agent CNOUN INDEF", "ate - - VERB - eat", "the", "cake 2 theme CNOUN DEF", "."),
        "* cake ( x _ 4 ) ; dog ( x _ 1 ) AND eat . agent ( x _ 2 , x _ 1 ) AND eat . theme ( x _ 2 , x _ 4 )",
    ),
    "unaccusative": (
        graph("The", "ball 2 theme CNOUN DEF", "rolled - - VERB - roll", "."),
        "* ball ( x _ 1 ) ; roll . theme ( x _ 2 , x _ 1 )",
    ),
    "passive": (
        graph("A", "cake 3 theme CNOUN INDEF", "was", "eaten - - VERB - eat", "by", "Emma 3 agent PNOUN", "."),
        "cake ( x _ 1 ) AND eat . theme ( x _ 3 , x _ 1 ) AND eat . agent ( x _ 3 , Emma )",
    ),
    "passive without agent": (
        graph("The", "cake 3 theme CNOUN DEF", "was", "eaten - - VERB - eat", "."),
        "* cake ( x _ 1 ) ; eat . theme ( x _ 3 , x _ 1 )",
    ),
    "double object": (
        graph("Emma 1 agent PNOUN", "gave - - VERB - give", "Liam 1 recipient PNOUN", "the", "cake 1 theme CNOUN DEF"),
        "* cake ( x _ 4 ) ; give . agent ( x _ 1 , Emma ) AND give . recipient ( x _ 1 , Liam ) "
        "AND give . theme ( x _ 1 , x _ 4 )",
    ),
    "dative with a preposition": (
        graph(
            *("Emma 1 agent PNOUN", "gave - - VERB - give", "a", "cake 1 theme CNOUN INDEF"),
            *("to", "Liam 1 recipient PNOUN", "."),
        ),
        "give . agent ( x _ 1 , Emma ) AND give . theme ( x _ 1 , x _ 3 ) AND give . recipient ( x _ 1 , Liam ) "
        "AND cake ( x _ 3 )",
    ),
    "complement clause": (
        graph(
            *("Emma 1 agent PNOUN", "said - - VERB - say", "that", "a", "dog 5 agent CNOUN INDEF"),
            *("thought 1 ccomp VERB - think", "that", "Liam 8 agent PNOUN", "ran 5 ccomp VERB - run", "."),
        ),
        "say . agent ( x _ 1 , Emma ) AND say . ccomp ( x _ 1 , x _ 5 ) AND dog ( x _ 4 ) "
        "AND think . agent ( x _ 5 , x _ 4 ) AND think . ccomp ( x _ 5 , x _ 8 ) AND run . agent ( x _ 8 , Liam )",
    ),
    "xcomp drops the agent it shares": (
        graph("The", "dog 2 agent CNOUN DEF", "wanted - - VERB - want", "to", "run 2 xcomp - - run", "."),
        "* dog ( x _ 1 ) ; want . agent ( x _ 2 , x _ 1 ) AND want . xcomp ( x _ 2 , x _ 4 ) "
        "AND run . agent ( x _ 4 , x _ 1 )",
    ),
    "xcomp of a name, within another, with an object": (
        graph(
            *("Emma 1 agent PNOUN", "hoped - - VERB - hope", "to", "try 1 xcomp - - try", "to"),
            *("eat 3 xcomp - - eat", "Liam 5 theme PNOUN", "."),
        ),
        "hope . agent ( x _ 1 , Emma ) AND hope . xcomp ( x _ 1 , x _ 3 ) AND try . agent ( x _ 3 , Emma ) "
        "AND try . xcomp ( x _ 3 , x _ 5 ) AND eat . agent ( x _ 5 , Emma ) AND eat . theme ( x _ 5 , Liam )",
    ),
    "xcomp with an agent of its own": (
        graph("Emma 1 agent PNOUN", "wanted - - VERB - want", "Liam 4 agent PNOUN", "to", "run 1 xcomp - - run"),
        "want . agent ( x _ 1 , Emma ) AND want . xcomp ( x _ 1 , x _ 4 ) AND run . agent ( x _ 4 , Liam )",
    ),
    "chain of modifiers": (
        graph(
            *("Emma 1 agent PNOUN", "ate - - VERB - eat", "the", "cake 1 theme CNOUN DEF", "on 3 PREP", "a"),
            *("table 4 PP_NOUN CNOUN INDEF", "on 6 PREP", "the", "TV 7 PP_NOUN CNOUN DEF", "."),
        ),
        "* cake ( x _ 3 ) ; * tv ( x _ 9 ) ; eat . agent ( x _ 1 , Emma ) AND eat . theme ( x _ 1 , x _ 3 ) "
        "AND cake . nmod . on ( x _ 3 , x _ 6 ) AND table ( x _ 6 ) AND table . nmod . on ( x _ 6 , x _ 9 )",
    ),
    "modified subject": (
        graph("A", "dog 5 agent CNOUN INDEF", "in 1 PREP", "the", "car 2 PP_NOUN CNOUN DEF", "ran - - VERB - run", "."),
        "* car ( x _ 4 ) ; dog ( x _ 1 ) AND dog . nmod . in ( x _ 1 , x _ 4 ) AND run . agent ( x _ 5 , x _ 1 )",
    ),
    "two nouns after one preposition": (
        graph("the", "dog - - CNOUN DEF", "on 1 PREP", "Emma 2 PP_NOUN PNOUN", "and", "Liam 2 PP_NOUN PNOUN"),
        "* dog ( x _ 1 ) ; dog . nmod . on ( x _ 1 , Emma ) AND dog . nmod . on ( x _ 1 , Liam )",
    ),
    "noun phrases alone": (
        graph("The", "dog - - CNOUN DEF", "beside 1 PREP", "Emma 2 PP_NOUN PNOUN"),
        "* dog ( x _ 1 ) ; dog . nmod . beside ( x _ 1 , Emma )",
    ),
    "a definite noun alone": (graph("The", "dog - - CNOUN DEF"), "* dog ( x _ 1 )"),
    "one token with an article's type": (graph("dog - - CNOUN INDEF"), "dog ( x _ 0 )"),
    "primitive name": (graph("Emma - - PNOUN"), "Emma"),
    "primitive noun": (graph("dog - - CNOUN"), "LAMBDA a . dog ( a )"),
    "primitive verb": (
        graph("eat - - VERB - eat"),
        "LAMBDA a . LAMBDA b . LAMBDA e . eat . agent ( e , b ) AND eat . theme ( e , a )",
    ),
}


@pytest.mark.parametrize(("graph", "form"), SENTENCES.values(), ids=SENTENCES)
def test_by_hand(graph: TokenGraph, form: str) -> None:
    assert graph_of_form(graph.tokens, form) == graph
    assert form_of_graph(graph) == form


@pytest.mark.parametrize("role", ["agent", "theme"])
def test_verbs_alone_have_one_graph(role: str) -> None:
    assert graph_of_form(["eat"], f"LAMBDA a . LAMBDA e . eat . {role} ( e , a )") == graph("eat - - VERB - eat")


def test_order_of_conjuncts_is_made_official() -> None:
    tokens = ["Emma", "ate", "the", "cake", "."]
    form = "* cake ( x _ 3 ) ; eat . theme ( x _ 1 , x _ 3 ) AND eat . agent ( x _ 1 , Emma )"
    assert form_of_graph(graph_of_form(tokens, form)) == (
        "* cake ( x _ 3 ) ; eat . agent ( x _ 1 , Emma ) AND eat . theme ( x _ 1 , x _ 3 )"
    )


def test_nearest_preposition() -> None:
    tokens = ["on", "the", "dog", "on", "on", "a", "car"]
    found = graph_of_form(tokens, "* dog ( x _ 2 ) ; dog . nmod . on ( x _ 2 , x _ 6 ) AND car ( x _ 6 )")
    assert found.parents == (0, 1, 2, 3, 2, 5, 4)


def test_group() -> None:
    assert graph_of_form(["Emma"], "Emma", group="primitive").group == "primitive"


@pytest.mark.parametrize(
    ("sentence", "form", "found", "expected"),
    [
        ("Emma ran", "run . agent ( x _ 2 , Emma )", "x _ 2", "x _ 0 to x _ 1"),
        ("Emma ran", "run . agent ( Emma , x _ 1 )", "run . agent ( Emma", "variable"),
        ("Emma ran", "run . agent ( x _ 1 , Liam )", "'Liam' 0 times", "occur once"),
        ("Emma saw Emma", "see . agent ( x _ 1 , Emma )", "'Emma' 2 times", "occur once"),
        ("Emma ran", "run . cause ( x _ 1 , Emma )", "run . cause", "agent, theme"),
        ("Emma ran", "run . agent ( x _ 1 , Emma ) AND ran . theme ( x _ 1 , Emma )", "after 'run'", "one verb"),
        (
            "Emma ran",
            "run . agent ( x _ 1 , Emma ) AND run . theme ( x _ 1 , Emma )",
            "agent and as theme",
            "one parent",
        ),
        ("Emma ran", "run . agent ( x _ 1 , Emma ) AND run . agent ( x _ 1 , Emma )", "second run . agent", "once"),
        ("the dog ran", "* cat ( x _ 1 ) ; run . agent ( x _ 2 , x _ 1 )", "'cat' for token 1, 'dog'", "lower case"),
        ("the dog ran", "* dog ( x _ 1 ) ; dog ( x _ 1 )", "second noun 'dog'", "one noun"),
        ("the dog ran", "run . agent ( x _ 2 , x _ 1 )", "token 1, 'dog'", "role"),
        ("the dog ran", "* dog ( x _ 1 ) ; run . agent ( x _ 2 , dog )", "a noun as well", "x _ 1"),
        ("the dog ran", "* dog ( x _ 1 ) ; dog . agent ( x _ 1 , ran )", "token 1, 'dog'", "none of them"),
        ("Emma said ran", "say . ccomp ( x _ 1 , x _ 2 ) AND say . agent ( x _ 1 , Emma )", "token 2", "role"),
        ("Emma said ran", "say . ccomp ( x _ 1 , Emma )", "say . ccomp", "variable"),
        ("say ran", "say . ccomp ( x _ 0 , x _ 1 ) AND run . ccomp ( x _ 1 , x _ 0 )", "token 0", "without one"),
        ("say", "say . ccomp ( x _ 0 , x _ 0 )", "token 0", "a parent"),
        (
            "Emma hoped to see Liam",
            "hope . agent ( x _ 1 , Emma ) AND hope . xcomp ( x _ 1 , x _ 3 ) AND see . theme ( x _ 3 , Liam )",
            "'see', xcomp of 'hoped', without agent",
            "that of the verb above",
        ),
        ("a dog on a car", "dog ( x _ 1 ) AND car ( x _ 4 ) AND dog . nmod . in ( x _ 1 , x _ 4 )", "nmod", "'in'"),
        ("a dog on a car", "dog ( x _ 1 ) AND car ( x _ 4 ) AND car . nmod . on ( x _ 4 , x _ 1 )", "nmod", "between"),
        (
            "a dog on a car",
            "dog ( x _ 1 ) AND car ( x _ 4 ) AND cat . nmod . on ( x _ 1 , x _ 4 )",
            "cat",
            "the noun of",
        ),
        ("a dog on a car", "dog ( x _ 1 ) AND car ( x _ 4 ) AND dog . mod . on ( x _ 1 , x _ 4 )", "mod", "nmod"),
        ("two words", "words", "2 tokens", "single word"),
        ("Emma", "Liam", "'Liam' for 'Emma'", "the word itself"),
        ("cat", "LAMBDA a . dog ( a )", "'dog' for token 0", "lower case"),
        ("two dogs", "LAMBDA a . dog ( a )", "2 tokens", "single word"),
        ("dog", "LAMBDA a . dog ( b )", "dog ( b )", "each variable"),
        ("dog", "LAMBDA a . LAMBDA b . dog ( a )", "LAMBDA b", "each variable"),
        ("dog", "LAMBDA a . dog ( a ) AND dog ( a )", "LAMBDA a", "a noun, or a verb"),
        ("dog", "LAMBDA a . * dog ( a )", "LAMBDA a", "conjuncts about one"),
        ("eat", "LAMBDA a . LAMBDA e . eat . ccomp ( e , a )", "ccomp", "agent, theme"),
        ("eat", "LAMBDA a . LAMBDA e . eat . agent ( e , a ) AND see . theme ( e , a )", "see", "one noun or verb"),
    ],
)
def test_forms_that_do_not_fit_their_sentence(sentence: str, form: str, found: str, expected: str) -> None:
    with pytest.raises(DataError) as error:
        graph_of_form(sentence.split(), form, "train.tsv", 4)
    assert (str(error.value.path), error.value.line) == ("train.tsv", 4)
    assert found in error.value.found
    assert expected in error.value.expected


@pytest.mark.parametrize(
    ("broken", "found", "expected"),
    [
        (graph("a", "b"), "no noun and no verb", "at least one"),
        (graph("Emma 1", "ran - - VERB - run"), "token 0", "a role for each token that has a parent"),
        (graph("Emma 1 agent", "ran - - VERB - run"), "token 0", "a role of such tokens"),
        (graph("Emma - agent PNOUN", "ran - - VERB - run"), "token 0", "a role for each token that has a parent"),
        (graph("run - - VERB", "Emma 0 agent PNOUN"), "token 0", "a VERB with its name"),
        (graph("Emma 1 agent PNOUN DEF", "ran - - VERB - run"), "token 0", "a PNOUN"),
        (graph("Emma 1 agent PNOUN", "ran"), "token 0", "a verb as parent"),
        (graph("the", "dog - - CNOUN"), "token 1", "DEF or INDEF"),
        (graph("Emma - - PNOUN", "ran"), "token 0", "a role of such tokens"),
        (graph("Emma", "ran - - VERB - run"), "token 1", "at least one argument"),
        (graph("Emma 1 agent PNOUN", "ran - - VERB - run", "Liam 1 agent PNOUN"), "token 2", "once"),
        (graph("Emma 1 agent PNOUN", "said - - VERB - say", "run 1 ccomp VERB - run"), "token 2", "one argument"),
        (graph("a", "dog - - CNOUN INDEF", "on 1 PREP"), "token 2", "PP_NOUN"),
        (graph("on 1 PREP", "ran - - VERB - run"), "token 0", "a common noun"),
        (graph("dog - - CNOUN DEF", "car 0 PP_NOUN CNOUN DEF"), "token 1", "a preposition before it"),
        (graph("car 1 PP_NOUN CNOUN DEF", "on 2 PREP", "dog - - CNOUN DEF"), "token 0", "a preposition before it"),
        (
            graph("dog - - CNOUN DEF", "on 0 PREP", "on", "car 1 PP_NOUN CNOUN DEF"),
            "token 3",
            "no other such word between",
        ),
        (graph("say 1 ccomp VERB - say", "run 0 ccomp VERB - run"), "token 0", "without one"),
        (graph("AND 1 agent PNOUN", "ran - - VERB - run"), "'AND'", "a word"),
        (graph("( 1 agent PNOUN", "ran - - VERB - run"), "'('", "a word"),
        (graph("; - - PNOUN"), "';'", "a word"),
        (TokenGraph(("a",), (0,), {"role": ("",)}), "the columns role", "verb_name"),
    ],
)
def test_graphs_of_no_form(broken: TokenGraph, found: str, expected: str) -> None:
    with pytest.raises(DataError) as error:
        form_of_graph(broken, "predictions.jsonl", 2)
    assert (str(error.value.path), error.value.line) == ("predictions.jsonl", 2)
    assert found in error.value.found
    assert expected in error.value.expected


def test_a_name_that_occurs_twice_is_written_but_not_read() -> None:
    twice = graph("Emma 1 agent PNOUN", "saw - - VERB - see", "Emma 1 theme PNOUN")
    form = form_of_graph(twice)
    assert form == "see . agent ( x _ 1 , Emma ) AND see . theme ( x _ 1 , Emma )"
    with pytest.raises(DataError, match="2 times"):
        graph_of_form(twice.tokens, form)


def test_too_many_tokens_are_located() -> None:
    with pytest.raises(DataError, match=r"^train.tsv:3: found 600 tokens"):
        graph_of_form(["dog"] * 600, "dog ( x _ 0 )", "train.tsv", 3)


# --- random sentences -------------------------------------------------------------------------------------------------


class Sentence:
    """Draws a sentence of the grammar, and its graph token by token."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.rows: list[list[str]] = []
        self.names = (f"Name{number}" for number in itertools.count())

    def add(self, *row: str) -> int:
        self.rows.append(list(row))
        return len(self.rows) - 1

    def hang(self, token: int, parent: int, role: str) -> None:
        row = self.rows[token]
        row[1:3] = [str(parent), role]

    def noun_phrase(self, depth: int = 0) -> int:
        kind = self.draw(st.sampled_from(["name", "the", "a"]))
        if kind == "name":
            return self.add(next(self.names), "-", "-", "PNOUN")
        self.add(kind)
        noun = self.draw(st.sampled_from(["cake", "dog", "TV"]))
        head = self.add(noun, "-", "-", "CNOUN", "DEF" if kind == "the" else "INDEF")
        if depth < 3 and self.draw(st.booleans()):
            preposition = self.add(self.draw(st.sampled_from(["on", "in"])))
            self.rows[preposition] += [str(head), "PREP"]
            self.hang(self.noun_phrase(depth + 1), preposition, "PP_NOUN")
        return head

    def clause(self, depth: int = 0) -> int:
        roles = self.draw(st.permutations(["agent", "theme", "recipient"]))
        subject = self.noun_phrase()
        verb = self.add(f"verb{len(self.rows)}ed", "-", "-", "VERB", "-", self.draw(st.sampled_from(["see", "be"])))
        self.hang(subject, verb, roles[0])
        for role in roles[1 : self.draw(st.integers(1, 3))]:
            self.hang(self.noun_phrase(), verb, role)
        if depth < 3 and self.draw(st.booleans()):
            self.add("that")
            self.hang(self.clause(depth + 1), verb, "ccomp")
        if roles[0] == "agent" and self.draw(st.booleans()):
            self.infinitive(verb, 0)
        return verb

    def infinitive(self, above: int, depth: int) -> None:
        self.add("to")
        verb = self.add("run", str(above), "xcomp", "-", "-", "run")
        if self.draw(st.booleans()):
            self.hang(self.noun_phrase(), verb, self.draw(st.sampled_from(["agent", "theme"])))
        if depth < 2 and self.draw(st.booleans()):
            self.infinitive(verb, depth + 1)


@st.composite
def random_sentences(draw: st.DrawFn) -> TokenGraph:
    sentence = Sentence(draw)
    sentence.clause()
    sentence.add(".")
    return graph(*map(" ".join, sentence.rows))


@settings(max_examples=200, deadline=None)
@given(sentence=random_sentences())
def test_random_sentences_come_back(sentence: TokenGraph) -> None:
    assert graph_of_form(sentence.tokens, form_of_graph(sentence)) == sentence


@st.composite
def random_columns(draw: st.DrawFn) -> TokenGraph:
    """Anything with COGS's columns; kinds are drawn together so that some of them are graphs of a form."""
    kind = st.sampled_from(
        [
            *(("agent", "PNOUN", "", ""), ("agent", "CNOUN", "DEF", ""), ("theme", "CNOUN", "INDEF", "")),
            *(("PREP", "", "", ""), ("PP_NOUN", "CNOUN", "INDEF", ""), ("", "VERB", "", "eat"), ("", "", "", "")),
            *(("ccomp", "VERB", "", "say"), ("xcomp", "", "", "run"), ("", "CNOUN", "", ""), ("", "PNOUN", "", "")),
            *(("xcomp", "VERB", "", "run"), ("agent", "", "", ""), ("", "CNOUN", "DEF", "")),
        ]
    )
    size = draw(st.integers(1, 5))
    kinds = [draw(kind) for _ in range(size)]
    tokens = draw(st.lists(st.sampled_from(["a", "b", "C", "on", ".", "AND"]), min_size=size, max_size=size))
    parents = [draw(st.integers(0, size - 1)) if row[0] else token for token, row in enumerate(kinds)]
    columns = {name: tuple(row[n] for row in kinds) for n, name in enumerate(COLUMNS)}
    return TokenGraph(tuple(tokens), tuple(parents), columns)


@settings(max_examples=800, deadline=None)
@given(anything=random_columns())
def test_any_graph_is_refused_or_comes_back(anything: TokenGraph) -> None:
    try:
        form = form_of_graph(anything)
    except DataError:
        return
    names = [token for token, kind in zip(anything.tokens, anything.labels["category"], strict=True) if kind == "PNOUN"]
    if all(anything.tokens.count(name) == 1 for name in names):
        assert graph_of_form(anything.tokens, form) == anything


TOKENS = ("Emma", "dog", "on", "cake", "in", "run")
atoms = st.one_of(
    st.sampled_from(["dog ( x _ 1 )", "cake ( x _ 3 )", "dog . nmod . on ( x _ 1 , x _ 3 )", "* dog ( x _ 1 ) ; "]),
    st.builds(
        "{} ( x _ {} , {} )".format,
        st.sampled_from(
            ["run . agent", "run . theme", "run . xcomp", "run . ccomp", "dog . nmod . on", "cake . nmod . in"]
        ),
        st.integers(0, 6),
        st.sampled_from(["Emma", "dog", *(f"x _ {token}" for token in range(7))]),
    ),
)


@settings(max_examples=800, deadline=None)
@given(parts=st.lists(atoms, min_size=1, max_size=5))
def test_any_form_is_refused_or_keeps_its_conjuncts(parts: list[str]) -> None:
    text = " AND ".join(parts).replace("; AND ", "; ").replace(" ;  AND ", " ; ")
    try:
        form = parse_logical_form(text)
        graph = graph_of_form(TOKENS, form)
    except DataError:
        return
    again = parse_logical_form(form_of_graph(graph))
    assert sorted(map(str, again.conjuncts)) == sorted(map(str, form.conjuncts))
    assert sorted(again.definites) == sorted(form.definites)


def test_graphs_compare_by_every_column() -> None:
    """The tests above lean on this."""
    one = SENTENCES["transitive"][0]
    for column in COLUMNS:
        changed = (*one.labels[column][:-1], "other")
        assert replace(one, labels=one.labels | {column: changed}) != one
