"""Tables with a header: CSV files and frames of pandas, line by line."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import UserError
from ...io.streams import MAX_CHARACTERS, lines_of, open_text
from .values import Where


@dataclass(frozen=True)
class Table:
    """A header, and cells by column; None for a missing one."""

    where: Where  # of its header
    columns: tuple[str, ...]
    rows: Iterable[tuple[Where, dict[str, Any]]]

    def require(self, *columns: str) -> None:
        """Refuse a table without one of these columns."""
        for column in columns:
            if column not in self.columns:
                found = f"the columns {', '.join(self.columns)}" if self.columns else "no header"
                raise self.where.fail(found, f"a header with {column}")


@contextmanager
def open_csv(path: str | Path) -> Iterator[Table]:
    """Open a CSV file; blank lines and blanks around cells are skipped."""
    csv.field_size_limit(MAX_CHARACTERS)
    with open_text(path) as file:
        rows = _cells(csv.reader(lines_of(file, path), strict=True), path)
        where, header = next(rows, (Where(path, 1), []))
        yield Table(where, _checked(header, where), _by_column(rows, header))


def _cells(reader: Any, path: str | Path) -> Iterator[tuple[Where, list[str]]]:
    """Yield the cells of lines that have any, with the number of the first line where a cell spans several."""
    while True:
        where = Where(path, reader.line_num + 1)
        try:
            cells = [cell.strip() for cell in next(reader)]
        except StopIteration:
            return
        except csv.Error as error:
            raise where.fail(str(error), "a line of a CSV file") from error
        if any(cells):
            yield where, cells


def _by_column(rows: Iterator[tuple[Where, list[str]]], header: list[str]) -> Iterator[tuple[Where, dict[str, Any]]]:
    for where, cells in rows:
        if len(cells) != len(header):
            raise where.fail(f"{len(cells)} cells", f"{len(header)}, as the header has")
        yield where, {column: cell or None for column, cell in zip(header, cells, strict=True)}


def _checked(columns: Sequence[Any], where: Where) -> tuple[str, ...]:
    for column in columns:
        if not isinstance(column, str) or not column or column.startswith("Unnamed: "):
            found = f"the column {column!r}" if column != "" else "a column without name"
            expected = "a name for each column; to_csv(index=False) writes no numbers of lines"
            raise where.fail(found, expected)
    if repeated := [column for column in columns if list(columns).count(column) > 1]:
        raise where.fail(f"the column {repeated[0]} twice", "one column of a name")
    return tuple(columns)


def frame_table(frame: Any, name: str) -> Table:
    """A frame of pandas as a table; errors count its lines from 0, as the frame does with `iloc`."""
    if not hasattr(frame, "columns") or not hasattr(frame, "isna"):
        raise UserError(f"{name}: found a {type(frame).__name__}; expected a DataFrame of pandas")
    source = f"the frame of {name}"
    columns = _checked(list(frame.columns), Where(source))
    cells = [zip(frame[each].tolist(), frame[each].isna().tolist(), strict=True) for each in columns]

    def rows() -> Iterator[tuple[Where, dict[str, Any]]]:
        for number, row in enumerate(zip(*cells, strict=True)):
            known = {each: None if lost else cell for each, (cell, lost) in zip(columns, row, strict=True)}
            yield Where(f"{source}, iloc[{number}]"), known

    return Table(Where(source), columns, rows())


def check_floats(frame: Any) -> None:
    """Refuse targets that may be numbers or labels: pandas turns whole numbers into floats where some are missing."""
    if "target" not in frame.columns or getattr(frame["target"].dtype, "kind", "") != "f":
        return
    known = frame["target"].dropna()
    if len(known) < len(frame) and all(float(target).is_integer() for target in known.tolist()):
        found = "target: found whole numbers as floats, and missing ones"
        raise UserError(
            f"the frame of queries, {found}; expected numbers=True or, for labels, numbers=False and a text"
        )
