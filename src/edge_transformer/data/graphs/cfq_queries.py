"""CFQ's queries as statements about nodes, and the text of a query in CFQ's order and with its names of variables.

    SELECT DISTINCT ?x0 WHERE { ?x0 a film.actor . ?x0 film.editor.film M1 . ?x0 people.person.gender m_02zsn }

says three things: `a film.actor` and `people.person.gender m_02zsn` of ?x0, and `film.editor.film` of ?x0 and M1.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from ...errors import DataError
from ..pairs.sparql import parse

COUNT, DISTINCT = "count", "distinct"  # what a query asks: whether something is so, or what is so
IS_A = "a"  # the predicate of types
_HEADS = {("SELECT", "count", "(", "*", ")"): COUNT, ("SELECT", "DISTINCT", "?x0"): DISTINCT}
_ENTITY, _VARIABLE = re.compile(r"M[0-9]{1,4}"), re.compile(r"\?x[0-9]{1,2}")
_CONSTANT = re.compile(r"m_\w+")
# CFQ numbers variables that only entities lead to by the predicates that do, in this order; counted in MCD1's training
# queries, where it decides 6,000 pairs of variables without exception. All other predicates follow.
_FIRST = (
    *("film.film.executive_produced_by", "film.film.written_by", "influence.influence_node.influenced"),
    "film.film.distributors/ns:film.film_film_distributor_relationship.distributor",
    *("film.film.produced_by|ns:film.film.production_companies", "film.film.edited_by", "film.editor.film"),
    *("film.writer.film", "film.producer.films_executive_produced"),
    "film.film_distributor.films_distributed/ns:film.film_film_distributor_relationship.film",
    *("film.producer.film|ns:film.production_company.films", "influence.influence_node.influenced_by"),
    *("organization.organization.founders", "film.film.directed_by", "film.director.film"),
    "business.employer.employees/ns:business.employment_tenure.person",
    "film.actor.film/ns:film.performance.film",
)
# Types that CFQ never writes beside a predicate that implies them, counted in MCD1's training queries: 0 times, where
# independent draws would give 200 to 550 of each.
_IMPLIED = {
    "film.director.film": "a film.director",
    "film.cinematographer.film": "a film.cinematographer",
    "film.film_art_director.films_art_directed": "a film.film_art_director",
    "film.film_costumer_designer.costume_design_for_film": "a film.film_costumer_designer",
    "film.actor.film/ns:film.performance.character": "a film.actor",
}
_RANK = {predicate: number for number, predicate in enumerate(_FIRST)}

Node = TypeVar("Node", bound=Hashable)


class Statement(NamedTuple):
    """What a query says of a subject, or of a subject and an object. The two are entities or variables."""

    subject: str
    label: str  # a predicate; or, without object, a predicate and a constant: "a film.actor"
    object: str | None = None

    @property
    def nodes(self) -> tuple[str, ...]:
        """The subject and, if there is one, the object."""
        return (self.subject,) if self.object is None else (self.subject, self.object)


class Query(NamedTuple):
    """A query in parts."""

    asks: str  # COUNT, or DISTINCT: then it asks for ?x0
    statements: tuple[Statement, ...]
    unequal: tuple[tuple[str, str], ...]  # FILTER ( a != b ), as often as they stand there

    @property
    def variables(self) -> list[str]:
        """All variables, ?x0 first."""
        found = {node for statement in self.statements for node in statement.nodes if is_variable(node)}
        found |= {node for pair in self.unequal for node in pair if is_variable(node)}
        found |= {"?x0"} if self.asks == DISTINCT else set()
        return sorted(found, key=lambda name: int(name[2:]))


def is_variable(name: str) -> bool:
    """Whether this is a variable, and no entity."""
    return name.startswith("?")


def is_entity(word: str) -> bool:
    """Whether a word stands for an entity: M0, M1, ..."""
    return _ENTITY.fullmatch(word) is not None


def read_query(words: Sequence[str], source: str = "query", line: int | None = None) -> Query:
    """The parts of a query; an error names what is no part of CFQ's queries."""
    parsed = parse(words)
    if parsed is None:
        expected = "SELECT count ( * ) or SELECT DISTINCT ?x0, WHERE, and conjuncts in braces"
        raise DataError(source, line, f"the query {_shown(words)}", expected)
    asks = _HEADS.get(parsed.head[:-1])
    if asks is None:
        expected = "SELECT count ( * ) or SELECT DISTINCT ?x0"
        raise DataError(source, line, f"a query that begins with {_shown(parsed.head)}", expected)
    statements: list[Statement] = []
    unequal: list[tuple[str, str]] = []
    for conjunct in parsed.conjuncts:
        if len(conjunct) == 6:
            first, second = conjunct[2], conjunct[4]
            known = _is_node(first) and _is_node(second)
            unequal.append((first, second))
        else:
            subject, predicate, thing = conjunct
            known = _is_node(subject) and not _is_node(predicate)
            if _is_node(thing) and predicate != IS_A:
                statements.append(Statement(subject, predicate, thing))
            else:
                known = known and not _is_node(thing) and (predicate == IS_A or bool(_CONSTANT.fullmatch(thing)))
                statements.append(Statement(subject, f"{predicate} {thing}"))
        if not known:
            expected = "a triple of a variable or M0, M1, ..., a predicate, and one of these or a constant; or a FILTER"
            raise DataError(source, line, f"the conjunct {_shown(conjunct)}", expected)
    return Query(asks, tuple(statements), tuple(unequal))


def without_implied(statements: Sequence[tuple[Node, str, Node | None]]) -> list[tuple[Node, str, Node | None]]:
    """Statements, subject, label and object, without types that others imply."""
    implied = {(subject, _IMPLIED[label]) for subject, label, _ in statements if label in _IMPLIED}
    return [each for each in statements if each[:2] not in implied]


def write_query(
    asked: Node | None,
    statements: Sequence[tuple[Node, str, Node | None]],
    unequal: Sequence[tuple[Node, Node]],
    entities: Mapping[Node, str],
    before: Sequence[tuple[Node, Node]] = (),
) -> str:
    """The text of a query: conjuncts in order, variables numbered as CFQ numbers them.

    Args:
        asked: the node that is asked for; None for a query that counts.
        statements: subject, label and object or None.
        unequal: pairs of nodes with a FILTER.
        entities: the names of nodes that are no variables.
        before: pairs of variables of which the first has the smaller number, where no rule tells.
    """
    numbers = _numbers(asked, statements, unequal, entities, before)
    names = {**{node: f"?x{number}" for node, number in numbers.items()}, **entities}
    conjuncts = [f"FILTER ( {names[first]} != {names[second]} )" for first, second in unequal]
    conjuncts += [
        f"{names[subject]} {label}" + ("" if thing is None else f" {names[thing]}")
        for subject, label, thing in statements
    ]
    head = "count ( * )" if asked is None else f"DISTINCT {names[asked]}"
    return f"SELECT {head} WHERE {{ {' . '.join(sorted(conjuncts))} }}"


def _numbers(
    asked: Node | None,
    statements: Sequence[tuple[Node, str, Node | None]],
    unequal: Sequence[tuple[Node, Node]],
    entities: Mapping[Node, str],
    before: Sequence[tuple[Node, Node]],
) -> dict[Node, int]:
    """The numbers of variables: a subject before its objects, then by the predicates that lead there, and others."""
    nodes = [node for subject, _, thing in statements for node in (subject, thing)] + [
        n for two in unequal for n in two
    ]
    left = [node for node in dict.fromkeys(nodes) if node is not None and node not in entities and node != asked]
    own: dict[Node, list[tuple[str, Node | None]]] = {}
    leads: dict[Node, list[tuple[Node, str]]] = {}
    for subject, label, thing in statements:
        own.setdefault(subject, []).append((label, thing))
        if thing is not None and thing not in entities:
            leads.setdefault(thing, []).append((subject, label))
    first = {node: {one for one, other in before if other == node} for node in left}
    subjects = {node: {one for one, _ in leads.get(node, ()) if one not in entities} | first[node] for node in left}
    mentioned = {node: _first_entity(node, own, entities) for node in left}
    numbers: dict[Node, int] = {} if asked is None or asked in entities else {asked: 0}

    def place(node: Node) -> tuple[object, ...]:
        """What decides among variables that may be next."""
        led = leads.get(node, ())
        by_variables = sorted((numbers[one], label) for one, label in led if one in numbers)
        by_entities = min((_RANK.get(label, len(_RANK)) for one, label in led if one in entities), default=-1)
        said = [
            (label, "" if thing is None else entities.get(thing, f"?{numbers.get(thing, '')}"))
            for label, thing in own.get(node, ())
        ]
        return not by_variables, by_variables, by_entities, mentioned[node], sorted(said)

    while left:
        free = [node for node in left if subjects[node] <= numbers.keys()] or left
        chosen = min(free, key=place)
        numbers[chosen] = len(numbers)
        left.remove(chosen)
    return numbers


def _first_entity(
    node: Node, own: Mapping[Node, Sequence[tuple[str, Node | None]]], entities: Mapping[Node, str]
) -> tuple[bool, int]:
    """The smallest number of an entity that statements lead to from a node."""
    seen, waiting = {node}, [node]
    found: list[int] = []
    while waiting:
        for _, thing in own.get(waiting.pop(), ()):
            if thing is not None and thing in entities:
                found.append(int(entities[thing][1:]))
            elif thing is not None and thing not in seen:
                seen.add(thing)
                waiting.append(thing)
    return not found, min(found, default=0)


def _is_node(word: str) -> bool:
    return is_entity(word) or _VARIABLE.fullmatch(word) is not None


def _shown(words: Sequence[str]) -> str:
    text = " ".join(words)
    return repr(text if len(text) <= 200 else f"{text[:200]}...")
