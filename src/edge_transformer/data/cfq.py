"""CFQ in its official files: `dataset.json`, whose rows are questions and SPARQL queries, and a file for each split.

A split file has lists of row numbers, `trainIdxs`, `devIdxs` and `testIdxs`. Questions and queries are cut into words
as the authors of CFQ do for their experiments; see `sparql.py`.
"""

from __future__ import annotations

import json
import string
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..errors import DataError, UserError
from ..files import fingerprint
from .json_rows import read_json_array
from .pairs import Pair, PairData, make_pair, open_text
from .sparql import tokenise

SPLIT_KEYS = {"train": "trainIdxs", "dev": "devIdxs", "test": "testIdxs"}
QUESTION = "questionPatternModEntities"
QUERIES = ("sparqlPatternModEntities", "sparql")  # with M0, M1, ... for the entities of the question; with their names
MAX_SPLIT_FILE = 1 << 27  # characters
_APART = str.maketrans({mark: f" {mark} " for mark in string.punctuation})


def question_words(question: str) -> list[str]:
    """The words of a question; every punctuation mark is a word of its own."""
    return question.translate(_APART).split()


def read_cfq(
    dataset: str | Path, split: str | Path, query: str | None = None, progress: Callable[[int], None] | None = None
) -> PairData:
    """Read the rows that a split file names, in its order.

    Args:
        dataset: the official `dataset.json`, plain or gzipped. It is read row by row: it need not fit into memory.
        split: a split file, such as `mcd1.json`, plain or gzipped.
        query: the field with the query; by default the first of `QUERIES` that the first row has.
        progress: is told each row of the dataset.
    """
    dataset, split = Path(dataset), Path(split)
    numbers = read_split(split)
    wanted = {number for part in numbers.values() for number in part}
    rows: dict[int, Pair] = {}
    count = 0
    for pair in read_cfq_rows(dataset, query, wanted):
        if pair is not None:
            rows[count] = pair
        count += 1
        if progress:
            progress(1)
    last = max(wanted, default=-1)
    if last >= count:
        raise DataError(split, None, f"row {last}", f"rows of {dataset}, which are 0 to {count - 1}")
    name = f"cfq-{split.name.removesuffix('.gz').removesuffix('.json')}"
    parts = {part: tuple(rows[number] for number in chosen) for part, chosen in numbers.items()}
    return PairData(name, fingerprint([dataset, split]), parts)


def read_split(path: str | Path) -> dict[str, tuple[int, ...]]:
    """The row numbers of each part of a split. No row is in two parts."""
    with open_text(path) as file:
        try:
            text = file.read(MAX_SPLIT_FILE + 1)
            if len(text) > MAX_SPLIT_FILE:
                raise DataError(path, None, "a longer file", f"at most {MAX_SPLIT_FILE} characters")
            value = json.loads(text)
        except DataError:
            raise
        except (ValueError, RecursionError) as error:
            raise DataError(
                path, None, f"no JSON ({error})", f"an object with {', '.join(SPLIT_KEYS.values())}"
            ) from error
    if not isinstance(value, dict):
        raise DataError(path, None, f"a {type(value).__name__}", f"an object with {', '.join(SPLIT_KEYS.values())}")
    parts = {}
    taken: dict[int, str] = {}
    for part, key in SPLIT_KEYS.items():
        numbers = value.get(key)
        if not isinstance(numbers, list) or not all(type(number) is int and number >= 0 for number in numbers):
            raise DataError(path, None, f"{key} = {json.dumps(numbers)}", "a list of row numbers")
        for number in numbers:
            if taken.setdefault(number, key) != key:
                raise DataError(path, None, f"row {number} in {taken[number]} and in {key}", "each row in one part")
        parts[part] = tuple(numbers)
    return parts


def read_cfq_rows(path: str | Path, query: str | None = None, wanted: set[int] | None = None) -> Iterator[Pair | None]:
    """Read a file of rows as they are asked for: None for a row that is not wanted. All are, by default."""
    with open_text(path) as file:
        number = -1
        for number, (line, row) in enumerate(read_json_array(file, path)):
            query = _query_field(row) if query is None and isinstance(row, dict) else query
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


def find_cfq(folder: str | Path, name: str) -> tuple[Path, Path]:
    """`dataset.json` of a folder and its split file `NAME.json`, in the folder or in `splits/`; plain or gzipped."""
    folder = Path(folder)
    places = {"dataset.json": [folder], f"{name}.json": [folder / "splits", folder]}
    found = []
    for file, folders in places.items():
        paths = [place / f"{file}{end}" for place in folders for end in ("", ".gz")]
        path = next((path for path in paths if path.is_file()), None)
        if path is None:
            raise UserError(f"{folder}: no {file}; expected it there, plain or gzipped, as CFQ's archive has it")
        found.append(path)
    return found[0], found[1]
