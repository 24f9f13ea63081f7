"""CFQ's questions with their queries as graphs over the words of the question, and back to the query.

Entities stand for themselves, a variable stands at the first of its nouns or at the wh-word. There are four forms:

- `triples`: an edge from subject to object for each triple, labelled with its predicate; `!=` for a FILTER, `!= 2` for
  two of them; what is said of one node alone (`a film.actor`) is an edge to itself.
- `words`: the word that says a predicate has it as an edge to itself, `!=` too where a FILTER comes with it, and edges
  `subject` and `object` to what it says it of; without `subject`, that is the word itself. "M1 and M2 directed and
  edited M3" has 2 labels and 6 edges, and means the 4 triples of each subject with each object.
- `chains`: as `words`; the members of a list share the edges of the first (`cfq_chains.py`), and what a phrase says
  stands at its noun (`cfq_phrases.py`).
- `trees`: as `chains`, and beside it the dependency tree of the question by our own grammar (`../trees/cfq.py`), which
  reads no query, with labels such as `tree nsubj`. A model learns it too; the query does not need it.

In all, `before` joins two variables whose numbers no rule tells. The sentence label `asks` is `count` or `distinct`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from ...errors import DataError
from ..pairs.cfq import question_words
from ..pairs.rows import Pair
from ..trees.cfq import CfqParser, NotCovered
from ..trees.cfq_words import join_possessives
from .cfq_anchors import Anchors, Placement, Question, read_question
from .cfq_chains import OBJECT, SUBJECT, chained, unchained
from .cfq_phrases import Phrases
from .cfq_queries import DISTINCT, Query, is_entity, read_query, without_implied, write_query
from .edges import Edge, SentenceGraph

TRIPLES, WORDS, CHAINED, WITH_TREES = "triples", "words", "chains", "trees"
FORMS = (TRIPLES, WORDS, CHAINED, WITH_TREES)
ASKS = "asks"  # the label of the sentence
BEFORE, UNEQUAL = "before", "!="
TREE = "tree "  # before the relations of a dependency tree
MOST_NODES = 64  # in a query that is written; CFQ has 10

Triple = tuple[int, str, int | None]  # subject, label, object; by their words


class Row(NamedTuple):
    """A question and its query, read."""

    words: tuple[str, ...]
    question: Question
    query: Query
    text: str  # of the query


class CfqGraph(NamedTuple):
    """A question as a graph, with its query."""

    graph: SentenceGraph
    sparql: str
    covered: bool  # whether the graph gives the query back


def tokens_of(words: Iterable[str]) -> list[str]:
    """The tokens of a question that somebody typed: "M1's" and "M1 ' s" are "M1" and "'s"; a last "?" is left out."""
    tokens = join_possessives(question_words(" ".join(words)))
    return tokens[:-1] if tokens[-1:] == ["?"] and len(tokens) > 1 else tokens


def read_row(pair: Pair) -> Row:
    """Read a question and its query; an error names the first thing that is not CFQ's."""
    words = tuple(join_possessives(pair.source))
    question = read_question(words)
    if isinstance(question, int):
        raise DataError(
            pair.path, pair.line, f"the word {words[question]!r}", "words of CFQ's questions, and M0, M1, ..."
        )
    return Row(words, question, read_query(pair.target, pair.path, pair.line), " ".join(pair.target))


def learn_anchors(rows: Iterable[Row], progress: Callable[[int], None] | None = None) -> Anchors:
    """Learn from training rows where the parts of queries stand in questions."""
    return Anchors.learn(((row.question, row.query) for row in rows), progress)


def graph_of(row: Row, anchors: Anchors, form: str = TRIPLES) -> CfqGraph:
    """A row as a graph; without edges where its query has no place in the question."""
    sentence = {ASKS: row.query.asks}
    placement = anchors.place(row.question, row.query)
    if placement is None:
        return CfqGraph(SentenceGraph(row.words, (), {}, sentence), row.text, False)
    edges = (_by_triples if form == TRIPLES else _by_words)(row.query, placement)
    edges = chained(Phrases(row.words).gathered(edges)) if form in (CHAINED, WITH_TREES) else edges
    edges += _order(row, placement, edges, sentence)
    edges += _tree(row.words) if form == WITH_TREES else []
    graph = SentenceGraph(row.words, tuple(edges), {}, sentence)
    return CfqGraph(graph, row.text, sparql_of(graph) == row.text)


def sparql_of(graph: SentenceGraph) -> str | None:
    """The query of a graph of any form; None if it has none, as a predicted graph may not."""
    statements, unequal = statements_of(graph)
    statements = without_implied(statements)
    if not statements:
        return None
    entities = {token: word for token, word in enumerate(graph.tokens) if is_entity(word)}
    nodes = {node for one, _, other in statements for node in (one, other) if node is not None}
    asked = Phrases(graph.tokens).asked_for(nodes) if graph.sentence.get(ASKS) == DISTINCT else None
    if asked in entities or len(nodes) > MOST_NODES:
        return None
    before = [(one, other) for one, other, label in graph.edges if label == BEFORE]
    return write_query(asked, list(dict.fromkeys(statements)), unequal, entities, before)


def statements_of(graph: SentenceGraph) -> tuple[list[Triple], list[tuple[int, int]]]:
    """The triples of a graph of any form, and its pairs with a FILTER, one for each FILTER."""
    said: dict[int, list[str]] = {}
    ends: dict[str, dict[int, list[int]]] = {SUBJECT: {}, OBJECT: {}}
    statements: list[Triple] = []
    unequal: list[tuple[int, int]] = []
    edges = [edge for edge in graph.edges if not edge[2].startswith(TREE)]
    for head, dependent, label in Phrases(graph.tokens).spread(unchained(edges)):
        if label in ends:
            ends[label].setdefault(head, []).append(dependent)
        elif label.startswith(UNEQUAL) and head != dependent:
            unequal += [(head, dependent)] * (2 if label.endswith("2") else 1)
        elif head == dependent:
            said.setdefault(head, []).append(label)
        elif label != BEFORE:
            statements.append((head, label, dependent))
    for word, labels in said.items():
        subjects = ends[SUBJECT].get(word, [word])
        objects = ends[OBJECT].get(word, [])
        for label in labels:
            if label == UNEQUAL:
                unequal += [(subject, thing) for subject in subjects for thing in objects if subject != thing]
            elif is_about_one(label):
                statements += [(subject, label, None) for subject in subjects]
            else:
                statements += [(subject, label, thing) for subject in subjects for thing in objects]
    return statements, unequal


def is_about_one(label: str) -> bool:
    """Whether a label says something of one node alone: "a film.actor", "people.person.gender m_02zsn"."""
    return " " in label


def as_triples(graph: SentenceGraph) -> SentenceGraph:
    """The same graph in the form `triples`."""
    statements, unequal = statements_of(graph)
    edges: list[Edge] = [(one, one if other is None else other, label) for one, label, other in statements]
    edges += [(*pair, UNEQUAL if count == 1 else f"{UNEQUAL} 2") for pair, count in Counter(unequal).items()]
    edges += [edge for edge in graph.edges if edge[2] == BEFORE]
    return SentenceGraph(graph.tokens, tuple(edges), {}, graph.sentence, graph.group)


def _tree(words: Sequence[str]) -> list[Edge]:
    """The arcs of a question's dependency tree; none where the grammar does not cover it."""
    try:
        arcs = _parser().parse(words).arcs()
    except NotCovered:
        return []
    return [(head - 1, word, TREE + relation) for word, (head, relation) in enumerate(arcs) if head]


@cache
def _parser() -> CfqParser:
    return CfqParser()  # it keeps the trees of what it has seen


def _by_triples(query: Query, placement: Placement) -> list[Edge]:
    edges: list[Edge] = []
    for statement, (_, subject, thing) in zip(query.statements, placement.said, strict=True):
        edges.append((subject, subject if thing is None else thing, statement.label))
    for (first, second), count in Counter(query.unequal).items():
        pair = _joined(first, second, query, placement)
        if pair is not None:
            edges.append((*pair, UNEQUAL if count == 1 else f"{UNEQUAL} {count}"))
    return edges


def _by_words(query: Query, placement: Placement) -> list[Edge]:
    edges: set[Edge] = set()
    subjects: dict[int, set[int]] = {}
    unequal = set(query.unequal)
    for statement, (word, subject, thing) in zip(query.statements, placement.said, strict=True):
        edges.add((word, word, statement.label))
        subjects.setdefault(word, set()).add(subject)
        if thing is not None:
            edges.add((word, thing, OBJECT))
            if (statement.subject, statement.object) in unequal and _says_unequal(statement.label):
                edges.add((word, word, UNEQUAL))
    edges |= {(word, one, SUBJECT) for word, several in subjects.items() if several != {word} for one in several}
    return sorted(edges)


def _says_unequal(label: str) -> bool:
    """Whether a predicate is one of those that come with a FILTER."""
    return label.startswith(("people.person.sibling_s", "people.person.spouse_s"))


def _joined(first: str, second: str, query: Query, placement: Placement) -> tuple[int, int] | None:
    """The words of two nodes with a FILTER: those of a statement about both if there is one."""
    for statement, (_, subject, thing) in zip(query.statements, placement.said, strict=True):
        if (statement.subject, statement.object) == (first, second) and thing is not None:
            return subject, thing
    if first in placement.nodes and second in placement.nodes:
        return placement.nodes[first][0], placement.nodes[second][0]
    return None


def _order(row: Row, placement: Placement, edges: Sequence[Edge], sentence: dict[str, str]) -> list[Edge]:
    """The edges `before` that give the variables their numbers where the rules of `write_query` do not."""
    places = [placement.nodes[name][0] for name in row.query.variables if name in placement.nodes]
    if sparql_of(SentenceGraph(row.words, tuple(edges), {}, sentence)) == row.text:
        return []
    ordered: list[Edge] = [(one, other, BEFORE) for one, other in pairwise(places)]
    for edge in list(ordered):  # leave out those that a rule tells
        fewer = [other for other in ordered if other != edge]
        if sparql_of(SentenceGraph(row.words, (*edges, *fewer), {}, sentence)) == row.text:
            ordered = fewer
    return ordered
