"""Questions about links, as `predict` takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from ...data.links.rows import Fact, fact_of
from ...data.relations.fields import node_name
from ...data.relations.values import in_python
from ...errors import DataError, suggestion
from .graph import Named, unknown_entity, unknown_relation

FIELDS = ("head", "relation", "tail", "facts", "id")
_EXPECTED = 'two of "head", "relation" and "tail"'
_LINK = '"head", "relation" and "tail", or two of them'


class Question(NamedTuple):
    """A link of which one part is asked for."""

    head: str | None
    relation: str | None
    tail: str | None
    facts: tuple[Fact, ...] = ()
    id: Any = None
    where: str = "the question"

    @property
    def is_complete(self) -> bool:
        """Whether nothing is asked for: the question is about a link."""
        return None not in (self.head, self.relation, self.tail)

    @property
    def asked(self) -> str:
        """What is asked for: "head", "relation" or "tail"."""
        return next(name for name in FIELDS if getattr(self, name) is None)

    def said(self) -> dict[str, Any]:
        """What the question says, as the beginning of its answer."""
        named = {} if self.id is None else {"id": self.id}
        return named | {name: getattr(self, name) for name in FIELDS[:3] if getattr(self, name) is not None}

    def checked(self, graph: Named) -> Self:
        """The question itself; names that neither the graph nor its own facts have are refused."""
        for relation in (self.relation, *(fact.relation for fact in self.facts)):
            if relation is not None and relation not in graph.relations:
                raise unknown_relation(relation, graph.relations, self.where)
        told = {node for fact in self.facts for node in (fact.head, fact.tail)}
        for node in (self.head, self.tail):
            if node is not None and node not in graph.entities and node not in told:
                raise unknown_entity(node, graph.entities, self.where)
        return self


def read_question(value: Any, where: str, complete: bool = False) -> Question:
    """Check one question; with `complete`, it may also have all three parts of a link."""
    value, wanted = in_python(value), _LINK if complete else _EXPECTED
    if not isinstance(value, Mapping):
        raise DataError(where, None, type(value).__name__, f"an object with {wanted}")
    for name in value:
        if name not in FIELDS:
            expected = f"no other than {', '.join(FIELDS)}{suggestion(name, FIELDS)}"
            raise DataError(where, None, f'the field "{name}"', expected)
    parts: dict[str, str | None] = {}
    for name in FIELDS[:3]:
        part = value.get(name)
        if part is not None and not node_name(part):
            raise DataError(where, None, f"{name} {part!r}", "a text that is not empty, or a whole number")
        parts[name] = None if part is None else node_name(part)
    given = [name for name, part in parts.items() if part is not None]
    if len(given) != 2 and not (complete and len(given) == 3):
        raise DataError(where, None, " and ".join(given) or "none of them", wanted)
    told = value.get("facts") or ()
    if not isinstance(told, list | tuple):
        raise DataError(where, None, f"facts of {type(told).__name__}", "a list of [head, relation, tail]")
    rows = [fact_of(row, f"{where}: facts[{number}]") for number, row in enumerate(told)]
    facts = tuple(row for row in rows if isinstance(row, Fact))
    if len(facts) < len(rows):
        raise DataError(where, None, "a row about a node in facts", "links, such as [head, relation, tail]")
    return Question(**parts, facts=facts, id=value.get("id"), where=where)
