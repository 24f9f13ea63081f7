"""Values of tables and graphs of other libraries as a row has them: names of nodes, labels, numbers, queries."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import DataError

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_WHOLE = re.compile(r"[+-]?[0-9]+")
MAX_DEPTH = 20  # of lists in lists; a row needs four
ROW_DEPTH = 6  # how deep the values of a row may lie
_PLAIN = frozenset({str, int, float, bool, type(None)})


class Where(NamedTuple):
    """The place of a value in errors: a file and its line, or the name of something in memory."""

    source: str | Path
    line: int | None = None

    def fail(self, found: str, expected: str) -> DataError:
        """What to raise for a value found here."""
        return DataError(self.source, self.line, found, expected)

    def fail_at(self, field: str, value: Any, expected: str) -> DataError:
        """What to raise for the value of a column or attribute found here."""
        return self.fail(f"no {field}" if value is None else f"{field} = {_shown(value)}", expected)


def _shown(value: Any) -> str:
    try:
        return repr(value)
    except ValueError:  # a whole number of thousands of digits
        return f"a value of the type {type(value).__name__}"


def plain(value: Any, where: Where, field: str, depth: int = MAX_DEPTH) -> Any:
    """The same in JSON's types: scalars and arrays of NumPy and PyTorch become numbers and lists; none is infinite."""
    if depth == 0:
        raise where.fail(f"{field}: lists more than {MAX_DEPTH} deep", "the field of a row")
    if hasattr(value, "tolist") and not isinstance(value, type):
        value = _listed(value)
    if value is None or isinstance(value, str | bool):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, int | float):
        return _finite(value, where, field)
    if isinstance(value, Mapping):
        return {
            name(key, where, f"a key of {field}"): plain(each, where, field, depth - 1) for key, each in value.items()
        }
    if isinstance(value, set | frozenset):
        value = sorted(value, key=str)
    if isinstance(value, list | tuple):
        return [plain(each, where, field, depth - 1) for each in value]
    raise where.fail_at(field, value, "texts, numbers, lists and mappings of them")


def in_python(value: Any, depth: int = ROW_DEPTH) -> Any:
    """A row in memory with Python's own values in place of NumPy's and PyTorch's; nothing is checked."""
    if type(value) in _PLAIN or depth == 0:
        return value
    if isinstance(value, list | tuple):
        return [each if type(each) in _PLAIN else in_python(each, depth - 1) for each in value]
    if isinstance(value, dict):
        return {_key(key): in_python(each, depth - 1) for key, each in value.items()}
    return _scalar(value)


def name(value: Any, where: Where, field: str) -> str:
    """The name of a node or graph: a text, or a whole number, which becomes a text as in JSON rows."""
    value = _scalar(value)
    if isinstance(value, str) and value:
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(_finite(value, where, field))
    raise where.fail_at(field, value, "a text or a whole number")


def label(value: Any, where: Where, field: str) -> str:
    """One label: a text; whole numbers and truth values become one."""
    value = _scalar(value)
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, str | int) and value != "":
        return name(value, where, field)
    raise where.fail_at(field, value, "a label: a text or a whole number")


def labels(value: Any, where: Where, field: str) -> str | list[str]:
    """One label, or a list of several."""
    if isinstance(value, set | frozenset):
        value = sorted(value, key=str)
    value = _scalar(value)
    return (
        [label(each, where, field) for each in value] if isinstance(value, list | tuple) else label(value, where, field)
    )


def number(value: Any, where: Where, field: str) -> int | float:
    """One finite number, also written as a text; truth values are 1 and 0."""
    value = _scalar(value)
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = float(value)
    if isinstance(value, int | float):
        return _finite(value, where, field)
    raise where.fail_at(field, value, "a number")


def numbers(value: Any, where: Where, field: str) -> list[int | float]:
    """Features: one number, or a list of them."""
    value = _scalar(value)
    if isinstance(value, list | tuple):
        return [number(each, where, field) for each in value]
    return [number(value, where, field)]


def query(value: Any, where: Where) -> Any:
    """The query of a row with names of nodes as texts: a pair, a list of pairs, or "all"."""
    value = plain(value, where, "query")
    if value == "all":
        return value
    if isinstance(value, list) and value:
        if len(value) == 2 and not any(isinstance(each, list) for each in value):
            return [name(each, where, "query") for each in value]
        if all(isinstance(each, list) and len(each) == 2 for each in value):
            return [[name(each, where, "query") for each in pair] for pair in value]
    raise where.fail_at("query", value, 'two nodes, a list of such pairs, or "all"')


def is_number(value: Any) -> bool:
    """Whether a value is a number, or a text that is written like one."""
    value = _scalar(value)
    if isinstance(value, str):
        return _NUMBER.fullmatch(value) is not None
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_whole(value: Any) -> bool:
    """Whether a number is one of the whole numbers, in how it is written or in its type."""
    value = _scalar(value)
    return _WHOLE.fullmatch(value) is not None if isinstance(value, str) else not isinstance(value, float)


def _scalar(value: Any) -> Any:
    """A value of NumPy or PyTorch as Python's; others as they are."""
    return _listed(value) if hasattr(value, "tolist") and not isinstance(value, type) else value


def _key(value: Any) -> Any:
    plain = _scalar(value)
    return value if isinstance(plain, list) else plain


def _listed(value: Any) -> Any:
    plain = value.tolist()
    return float(plain) if type(plain) is type(value) else plain  # numpy.longdouble stays what it is


def _finite(value: Any, where: Where, field: str) -> int | float:
    try:
        is_finite = math.isfinite(value)
    except OverflowError:
        is_finite = False
    if not is_finite:
        raise where.fail_at(field, value, "a finite number, not one that is missing, infinite or too large")
    return int(value) if isinstance(value, int) else float(value)
