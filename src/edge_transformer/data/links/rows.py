"""Facts of a knowledge graph, and what is known of its nodes: the rows of the task links, and their one validator.

A row is ["Ann", "mother", "Eve"] or {"head": "Ann", "relation": "mother", "tail": "Eve"}, or tells of a node:
{"entity": "Ann", "types": ["person"], "features": [0.1, 2]}. Nodes and relations are texts or whole numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import DataError, UserError
from ...io.streams import check_fields, shown, shown_field
from ..jsonl import IN_MEMORY, numbered, rows_fingerprint
from ..relations.fields import is_number, node_name
from ..relations.values import in_python

FACT_FIELDS = ("head", "relation", "tail")
ENTITY_FIELDS = ("entity", "types", "features")
_EXPECTED = 'a fact, such as ["Ann", "mother", "Eve"], or an object with "head", "relation" and "tail"'


class Fact(NamedTuple):
    """One link: `tail` is the `relation` of `head`."""

    head: str
    relation: str
    tail: str


@dataclass(frozen=True)
class Entity:
    """What is known of a node besides its links."""

    types: tuple[str, ...] = ()
    features: tuple[float, ...] = ()


@dataclass(frozen=True)
class LinkRows:
    """The facts of a knowledge graph by split."""

    name: str
    fingerprint: str  # of the files they were read from, or of rows in memory
    splits: dict[str, list[Fact]]  # "train", "valid", "test" and further test files by their stem, as far as there
    entities: dict[str, Entity] = field(default_factory=dict)  # by name, where something is known
    candidates: tuple[str, ...] = ()  # the only nodes asked for; empty where all are


def fact_of(value: Any, where: str) -> Fact | tuple[str, Entity]:
    """Check a row in memory, which may have values of NumPy and PyTorch: a fact, or what is known of a node."""
    return read_fact(in_python(value), where)


def read_fact(value: Any, source: str | Path, line: int | None = None) -> Fact | tuple[str, Entity]:
    """Check a row; errors name its source and line."""
    if isinstance(value, list | tuple):
        if len(value) != 3:
            raise DataError(source, line, shown(value), _EXPECTED)
        given = dict(zip(FACT_FIELDS, value, strict=True))
    elif isinstance(value, Mapping):
        if "entity" in value:
            return _entity(value, source, line)
        check_fields(value, (*FACT_FIELDS, "id"), source, line)
        given = dict(value)
    else:
        raise DataError(source, line, shown(value), _EXPECTED)
    names = [_named(given, name, source, line) for name in FACT_FIELDS]
    return Fact(*names)


def _entity(row: Mapping[str, Any], source: str | Path, line: int | None) -> tuple[str, Entity]:
    check_fields(row, (*ENTITY_FIELDS, "id"), source, line)
    name = _named(row, "entity", source, line)
    types, features = ([] if row.get(key) is None else row[key] for key in ("types", "features"))
    types = [types] if isinstance(types, str) else types
    if not isinstance(types, list | tuple) or not all(isinstance(each, str) and each for each in types):
        raise DataError(source, line, shown_field(row, "types"), '"types": a text that is not empty, or a list of them')
    features = [features] if is_number(features) else features
    if not isinstance(features, list | tuple) or not all(map(is_number, features)):
        raise DataError(source, line, shown_field(row, "features"), '"features": finite numbers')
    return name, Entity(tuple(dict.fromkeys(types)), tuple(map(float, features)))


def _named(row: Mapping[str, Any], key: str, source: str | Path, line: int | None) -> str:
    """The name of a node or relation."""
    name = node_name(row.get(key))
    if not name:
        expected = f'"{key}": a text that is not empty, or a whole number'
        raise DataError(source, line, shown_field(row, key), expected)
    return name


class Entities:
    """Collects what is known of nodes: of each only once, and as many features of all that have some."""

    def __init__(self) -> None:
        self.known: dict[str, Entity] = {}
        self._length = 0  # of features

    def add(self, name: str, entity: Entity, source: str | Path, line: int | None = None) -> None:
        """Note what is known of a node; errors name the source and line of its row."""
        if self.known.get(name, entity) != entity:
            found = f"the entity {shown(name)} a second time, with other values"
            raise DataError(source, line, found, "each entity once")
        if entity.features:
            self._length = self._length or len(entity.features)
            if len(entity.features) != self._length:
                found = f"{len(entity.features)} features of {shown(name)}"
                raise DataError(source, line, found, f"{self._length}, as many as of the entities before")
        self.known[name] = entity


def link_rows(splits: Mapping[str, Iterable[Any]]) -> LinkRows:
    """Check rows in memory by split: "train", "valid" or "dev", and any whose name begins with "test"."""
    if {"dev", "valid"} <= splits.keys():
        raise UserError("data: found the splits dev and valid, two names for the same; expected one of them")
    facts: dict[str, list[Fact]] = {}
    entities = Entities()
    given: dict[str, list[Any]] = {}
    for split, rows in splits.items():
        name = "valid" if split == "dev" else split
        if name not in ("train", "valid") and not name.startswith("test"):
            raise UserError(f"data: found the split {split!r}; expected train, valid and test")
        if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
            raise DataError(split, None, shown(rows), "a list of facts")
        given[split], facts[name] = list(rows), []
        for where, row in numbered(split, given[split]):
            read = fact_of(row, where)
            if isinstance(read, Fact):
                facts[name].append(read)
            else:
                entities.add(*read, where)
    ordered = {split: facts[split] for split in sorted(facts, key=split_order)}
    return LinkRows(IN_MEMORY, rows_fingerprint(given), ordered, entities.known)


def split_order(split: str) -> tuple[int, str]:
    """The place of a split: train, valid, test, and further test files by name."""
    names = ("train", "valid", "test")
    return names.index(split) if split in names else len(names), split


def without_duplicates(facts: Iterable[Fact]) -> list[Fact]:
    """Each fact once, in the order of first mention."""
    return list(dict.fromkeys(facts))
