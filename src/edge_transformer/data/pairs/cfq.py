"""CFQ in its official files: `dataset.json`, with questions and SPARQL queries, and a file of row numbers a split.

Questions and queries are tokenised as in the experiments of CFQ's authors; see `sparql.py`.
"""

from __future__ import annotations

import json
import string
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ...errors import DataError
from ...io.streams import open_text
from ..json_array import read_json_array
from ..splits import read_split_file
from .rows import Note, Pair, make_pair
from .sparql import tokenise

QUESTION = "questionPatternModEntities"
QUERIES = ("sparqlPatternModEntities", "sparql")  # with M0, M1, ... for entities; with their names
_APART = str.maketrans({mark: f" {mark} " for mark in string.punctuation})


def question_words(question: str) -> list[str]:
    """The words of a question; every punctuation mark is a word of its own."""
    return question.translate(_APART).split()


def read_cfq(
    dataset: str | Path,
    split: str | Path,
    query: str | None = None,
    progress: Callable[[int], None] | None = None,
    note: Note | None = None,
) -> dict[str, tuple[Pair, ...]]:
    """The rows of `train`, `dev` and `test`, in the order of a split file.

    Args:
        dataset: the official `dataset.json`, plain or gzipped, which need not fit into memory.
        split: a split file, such as `mcd1.json`, plain or gzipped.
        query: the field with the query; by default the first of `QUERIES` that the first row has.
        progress: counts rows of the dataset.
        note: receives remarks about the rows.
    """
    dataset, split = Path(dataset), Path(split)
    numbers = read_split_file(split)
    wanted = {number for part in numbers.values() for number in part}
    rows: dict[int, Pair] = {}
    count = 0
    for pair in read_cfq_rows(dataset, query, wanted, note):
        if pair is not None:
            rows[count] = pair
        count += 1
        if progress:
            progress(1)
    last = max(wanted, default=-1)
    if last >= count:
        raise DataError(split, None, f"row {last}", f"rows of {dataset}, which are 0 to {count - 1}")
    return {part: tuple(rows[number] for number in chosen) for part, chosen in numbers.items()}


def read_cfq_rows(
    path: str | Path, query: str | None = None, wanted: set[int] | None = None, note: Note | None = None
) -> Iterator[Pair | None]:
    """Read rows lazily; None for those not in `wanted`, which is all by default."""
    with open_text(path) as file:
        number = -1
        for number, (line, row) in enumerate(read_json_array(file, path)):
            if query is None and isinstance(row, dict):
                query = _query_field(row)
                if query != QUERIES[0] and note:
                    names = "name entities (m_...) that questions do not have"
                    note(f"{path}: rows have no {QUERIES[0]}; the queries of {query} {names}")
            if wanted is not None and number not in wanted:
                yield None
            else:
                yield _pair(row, query or QUERIES[0], str(path), line)
    if number < 0:
        raise DataError(path, 1, "no rows", f"at least one, with {QUESTION} and {QUERIES[0]}")


def _query_field(row: dict[str, Any]) -> str:
    return next((name for name in QUERIES if name in row), QUERIES[0])


def _pair(row: Any, query: str, path: str, line: int) -> Pair:
    if not isinstance(row, dict):
        raise DataError(path, line, json.dumps(row), f"an object with {QUESTION} and {query}")
    for name in (QUESTION, query):
        if not isinstance(row.get(name), str):
            found = f"{name} = {json.dumps(row[name])}" if name in row else f"the fields {', '.join(row) or 'none'}"
            raise DataError(path, line, found, f"a text as {name}")
    return make_pair(question_words(row[QUESTION]), tokenise(row[query]), path, line)
