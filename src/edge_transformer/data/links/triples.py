"""Readers of one file of facts: columns (.tsv, .txt), CSV with a header, JSON lines, N-Triples; plain or gzipped.

Columns stand between tabs; in a file whose first line has none, lines without tabs are cut at blanks. A first line that
names the columns, such as `head<TAB>relation<TAB>tail`, is skipped and says their order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from ...errors import DataError, UserError, suggestion
from ...io.process import free_memory
from ...io.streams import lines_of, open_text, read_json_lines
from ..relations.tables import open_csv
from .rows import FACT_FIELDS, Entities, Fact, read_fact

ENDINGS = (".tsv", ".txt", ".csv", ".jsonl", ".nt")
BYTES_A_FACT = 120  # of memory: a fact, its place in a list, and its share of names
_AT_ONCE = 20_000  # facts between two looks at memory
_HEADERS = (FACT_FIELDS, ("subject", "predicate", "object"), ("h", "r", "t"))  # names of columns, in any order and case
_COLUMNS = "head, relation and tail with tabs between them"

Progress = Callable[[int], None]


def ending_of(path: Path) -> str:
    """The ending of a file's name that says its form, such as .tsv of train.tsv.gz; "" of other files."""
    ending = Path(path.name.removesuffix(".gz")).suffix
    return ending if ending in ENDINGS else ""


def read_facts(path: str | Path, entities: Entities, progress: Progress | None = None) -> list[Fact]:
    """The facts of a file in order, at least one; what it tells of nodes is added to `entities`."""
    path = Path(path)
    readers = {".csv": _csv_facts, ".jsonl": lambda path: _json_facts(path, entities), ".nt": _ntriples_facts}
    facts: list[Fact] = []
    memory = free_memory()
    most = None if memory is None else memory // BYTES_A_FACT
    found = iter(readers.get(ending_of(path), _column_facts)(path))
    while batch := list(islice(found, _AT_ONCE)):
        facts += batch
        if progress:
            progress(len(batch))
        if memory is not None and most is not None and len(facts) > most:
            need = f"at most {most:,} facts, at {BYTES_A_FACT} bytes each in {memory / 1e9:.3g} GB of free memory"
            raise DataError(path, None, f"more than {most:,} facts", need)
    if not facts:
        raise DataError(path, 1, "no facts", "at least one: head, relation and tail")
    return facts


def read_entities(path: str | Path, entities: Entities) -> None:
    """Read a file of JSON lines that tell of nodes."""
    with open_text(path) as file:
        for number, value in read_json_lines(lines_of(file, path), path):
            read = read_fact(value, path, number)
            if isinstance(read, Fact):
                raise DataError(path, number, "a fact", 'an object with "entity"')
            entities.add(*read, path, number)


class _Names(dict[str, str]):
    """Cells as they stand in lines, and their names: each is stored once, without blanks around it."""

    def __missing__(self, cell: str) -> str:
        name = cell.strip()
        if not name:
            raise KeyError(cell)
        name = self.setdefault(name, name)
        self[cell] = name
        return name


def _column_facts(path: Path) -> Iterator[Fact]:
    with open_text(path) as file:
        lines = _with_content(lines_of(file, path))
        for number, line in lines:
            split = _at_tabs if "\t" in line else _at_blanks
            order = header_order(split(line))
            rest = lines if order else chain([(number, line)], lines)
            if split is _at_tabs and order in (None, (0, 1, 2)):
                yield from _tabbed_facts(rest, path)
            else:
                yield from _other_facts(rest, path, split, order or (0, 1, 2))


def _with_content(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Lines that are not blank, with their numbers."""
    return ((number, line) for number, line in enumerate(lines, start=1) if not line.isspace())


def _tabbed_facts(lines: Iterable[tuple[int, str]], path: Path) -> Iterator[Fact]:
    """The facts of lines in the usual order; this is the fast path."""
    names = _Names()
    new = tuple.__new__  # three times as fast as Fact(...)
    for number, line in lines:
        try:
            head, relation, tail = line.split("\t")
            fact = new(Fact, (names[head], names[relation], names[tail]))
        except (ValueError, KeyError):
            raise _broken(_at_tabs(line), line, path, number) from None
        yield fact


def _other_facts(
    lines: Iterable[tuple[int, str]], path: Path, split: Callable[[str], list[str]], order: Sequence[int]
) -> Iterator[Fact]:
    """The facts of lines cut by `split`, with columns in any order."""
    names = _Names()
    for number, line in lines:
        cells = split(line)
        if len(cells) != 3 or "" in cells:
            raise _broken(cells, line, path, number)
        yield Fact(*(names[cells[place]] for place in order))


def _at_tabs(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("\t")]


def _at_blanks(line: str) -> list[str]:
    if "\t" in line:
        return _at_tabs(line)
    return [cell for cell in re.split("[ \n]+", line) if cell.strip()]


def _broken(cells: list[str], line: str, path: Path, number: int) -> DataError:
    """The error for a line that is no fact."""
    found = f"{len(cells)} column{'s' * (len(cells) != 1)}" if len(cells) != 3 else "an empty column"
    return DataError(path, number, f"{found}: {line.rstrip(chr(10))!r}", _COLUMNS)


def header_order(cells: Sequence[str]) -> tuple[int, ...] | None:
    """The places of head, relation and tail, where the cells of a line are the names of columns; else None."""
    lower = [cell.lower() for cell in cells]
    for header in _HEADERS:
        if sorted(lower) == sorted(header):
            return tuple(lower.index(name) for name in header)
    return None


def _csv_facts(path: Path) -> Iterator[Fact]:
    with open_csv(path) as table:
        columns = [column for column in table.columns if column.lower() != "id"]
        order = header_order(columns)
        if order is None:
            known = [name for header in _HEADERS for name in header]
            unknown = next((column for column in columns if column.lower() not in known), "")
            found = f"the columns {', '.join(table.columns)}" if table.columns else "no header"
            ways = " or ".join(", ".join(header) for header in _HEADERS)
            raise table.where.fail(found, f"a header with {ways}{suggestion(unknown.lower(), known)}")
        names = _Names()
        for where, row in table.rows:
            for column in columns:
                if row[column] is None:
                    raise where.fail(f"an empty {column}", "a head, a relation and a tail in each line")
            yield Fact(*(names[row[columns[place]]] for place in order))


def _json_facts(path: Path, entities: Entities) -> Iterator[Fact]:
    names = _Names()
    with open_text(path) as file:
        for number, value in read_json_lines(lines_of(file, path), path):
            read = read_fact(value, path, number)
            if isinstance(read, Fact):
                yield Fact(*(names.setdefault(name, name) for name in read))
            else:
                entities.add(*read, path, number)


def _ntriples_facts(path: Path) -> Iterator[Fact]:
    """IRIs without brackets, blank nodes with their labels, such as `_:b1`, and the texts of literals.

    The files of a folder mean the same blank node by the same label.
    """
    try:
        from rdflib.plugins.parsers.ntriples import (
            DummySink,
            ParseError,
            W3CNTriplesParser,
            r_literal,
            r_nodeid,
            unquote,
        )
    except ImportError as error:
        raise UserError(
            f"{path}: found N-Triples, and no rdflib to read them; expected it: pip install '.[rdf]' in a clone"
        ) from error

    class Parser(W3CNTriplesParser):
        def nodeid(self, bnode_context: Any = None) -> Any:  # rdflib's own would give new labels in each file
            return f"_:{self.eat(r_nodeid).group(1)}" if self.peek("_") else False

        def literal(self) -> Any:  # rdflib's own would write 01 as 1
            return unquote(self.eat(r_literal).group(1)) if self.peek('"') else False

    class Sink(DummySink):
        def triple(self, s: Any, p: Any, o: Any) -> None:
            found.append((str(s), str(p), str(o)))

    found: list[tuple[str, str, str]] = []
    parser, names = Parser(sink=Sink()), _Names()
    expected = "a triple <subject> <predicate> <object> ."
    with open_text(path) as file:
        for number, line in enumerate(lines_of(file, path), start=1):
            parser.line = line.rstrip("\n")
            try:
                parser.parseline()
            except (ParseError, ValueError, OverflowError) as error:
                raise DataError(path, number, repr(line.strip()), f"{expected} ({error})") from error
            for triple in found:
                if "" in triple:
                    raise DataError(path, number, "an empty literal", "a text")
                yield Fact(*(names.setdefault(name, name) for name in triple))
            found.clear()
