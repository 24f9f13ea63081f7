"""CLUTRR in its official CSV layout: reading, checking, writing.

A folder has files `*train.csv`, `*test.csv` and optionally `*valid*.csv`. A row is a story: a graph of people with
relations on directed edges, and a query edge whose relation is to be inferred. An edge (a, b) labelled `son` says that
b is a's son.
"""

from __future__ import annotations

import ast
import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...errors import DataError, UserError, no_folder, no_text
from ...io.files import replacing
from .rows import SPLIT_PATTERNS, Fact, ProofStep, RelationRows, Story

REQUIRED_COLUMNS = ("story_edges", "edge_types", "query_edge", "target")
COLUMNS = (  # of the official files, in their order
    *("", "id", "story", "query", "text_query", "target", "text_target", "clean_story", "proof_state", "f_comb"),
    *("task_name", "story_edges", "edge_types", "query_edge", "genders", "syn_story", "node_mapping", "task_split"),
)
MAX_PEOPLE = 512  # of a story
MAX_CELL = 1_000_000  # characters; a story is a few hundred


def read_clutrr(
    folder: str | Path, progress: Callable[[int], None] | None = None, training: bool = True, testing: bool = True
) -> RelationRows:
    """Read a CLUTRR folder; `progress` counts rows, `training` and `testing` say what to read and to require."""
    files = clutrr_files(folder, training, testing)
    unread = {"train": not training, "test": not testing}
    rows = {
        split: [story for path in paths for story in read_stories(path, progress)]
        for split, paths in files.items()
        if not unread.get(split)
    }
    return replace(RelationRows.of_files(folder, files, rows), corpus="clutrr")


def clutrr_files(folder: str | Path, training: bool = True, testing: bool = True) -> dict[str, list[Path]]:
    """The CSV files of a folder by split; `training` and `testing` say which must be there."""
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"{folder}: {no_folder(folder)}; expected a CLUTRR folder with *train.csv and *test.csv files")
    files = {split: sorted(folder.glob(f"*{pattern}.csv")) for split, pattern in SPLIT_PATTERNS.items()}
    needed = [split for split, is_needed in (("train", training), ("test", testing)) if is_needed]
    for split in needed:
        if not files[split]:
            wanted = f"{' and '.join(needed)} files"
            raise UserError(f"{folder}: found no *{split}.csv; expected a CLUTRR folder with {wanted}")
    return files


def read_stories(path: str | Path, progress: Callable[[int], None] | None = None) -> list[Story]:
    """Read one CSV file; a broken row raises an error that names its line."""
    path = Path(path)
    stories = []
    line = 1  # the first one of the row being read: a quoted story may span several
    csv.field_size_limit(MAX_CELL)
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            header = next(reader, [])
            if not set(header).issuperset(REQUIRED_COLUMNS):
                found = ", ".join(header) if header else "no header"
                raise DataError(path, 1, found, f"the columns {', '.join(REQUIRED_COLUMNS)}")
            line = reader.line_num + 1
            for cells in reader:
                if cells:  # none on a blank line
                    if len(cells) != len(header):
                        raise DataError(path, line, f"a row of {len(cells)} cells", f"{len(header)}, as the header has")
                    stories.append(_read_row(dict(zip(header, cells, strict=True)), path, line))
                    if progress:
                        progress(1)
                line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(path, line, str(error), "a CSV file") from error
    except UnicodeDecodeError as error:
        raise no_text(path, reader.line_num, error) from error
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    if not stories:
        raise DataError(path, 1, "no rows", "at least one story")
    return stories


def _read_row(row: dict[str, str], path: Path, line: int) -> Story:
    def fail(column: str, expected: str) -> DataError:
        return DataError(path, line, f"{column} = {row.get(column)!r}", expected)

    pairs = "a list of pairs of node numbers, such as [(0, 1), (1, 2)]"
    edges = _literal(row["story_edges"])
    if not isinstance(edges, list) or not edges or not all(map(_is_edge, edges)):
        raise fail("story_edges", pairs)
    relations = _literal(row["edge_types"])
    if not isinstance(relations, list) or not all(isinstance(relation, str) and relation for relation in relations):
        raise fail("edge_types", "a list of relations, such as ['son', 'sister']")
    if len(relations) != len(edges):
        expected = f"one relation for each of the {len(edges)} edges"
        if len(relations) < len(edges) and not (row.get("task_name") or "task_1").startswith("task_1"):
            expected += "; in CLUTRR's robustness sets only the text of the story tells the relations of added facts"
        raise fail("edge_types", expected)
    query = _literal(row["query_edge"])
    if not _is_edge(query):
        raise fail("query_edge", "a pair of node numbers, such as (0, 2)")
    # Some releases number the targets and have their names in another column.
    target = row.get("target_text") or row["target"]
    if not target:
        raise fail("target", "a relation")

    names, genders = _people(row, edges, query)
    if names is None:
        raise fail("genders", "name:gender for each node, such as Ann:female,Bob:male")
    for column, pairs_of_column in (("story_edges", edges), ("query_edge", [query])):
        for pair in pairs_of_column:
            if max(pair) >= len(names):
                raise fail(column, f"nodes that exist, 0 to {len(names) - 1}")
    told = dict(zip(edges, relations, strict=True))
    if any(told[edge] != relation for edge, relation in zip(edges, relations, strict=True)):
        raise fail("edge_types", "one relation an edge; repeated edges must have the same one")
    proof = _read_proof(row.get("proof_state") or "", names)
    if proof is None:
        step = "{(a, relation, c): [(a, relation, b), (b, relation, c)]}"
        raise fail("proof_state", f"a list of {step} over the names of the nodes, which are all different")
    return Story(tuple(edges), tuple(relations), query, target, names, genders, proof, _needed(row, len(edges)))


def _needed(row: dict[str, str], edges: int) -> int | None:
    """k from the task's name ("task_2.4" has k = 4), where the story has more edges."""
    k = row.get("task_name", "").rpartition(".")[2]
    return int(k) if k.isdecimal() and len(k) < 10 and 1 < int(k) < edges else None


def _people(
    row: dict[str, str], edges: list[tuple[int, int]], query: tuple[int, int]
) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """Names and genders of the nodes; without a `genders` column, names are numbers."""
    cell = row.get("genders")
    if not cell:
        count = max(max(pair) for pair in (*edges, query)) + 1
        return tuple(str(node) for node in range(count)), ()
    people = [person.rsplit(":", 1) for person in cell.split(",")]
    if any(len(person) != 2 for person in people) or len(people) > MAX_PEOPLE:
        return None, ()
    genders = tuple(person[1] for person in people)
    return tuple(person[0] for person in people), genders if any(genders) else ()


def _read_proof(cell: str, names: tuple[str, ...]) -> tuple[ProofStep, ...] | None:
    """The gold proof over node numbers; None where the cell is broken."""
    if not cell.strip():
        return ()
    steps = _literal(cell)
    if not isinstance(steps, list):
        return None
    number = {name: node for node, name in enumerate(names)}
    if steps and len(number) != len(names):
        return None  # two nodes of one name make the steps ambiguous

    def fact(triple: Any) -> Fact:
        a, relation, c = triple
        if not isinstance(relation, str):
            raise TypeError
        return number[a], relation, number[c]

    proof = []
    try:
        for step in steps:
            for conclusion, (first, second) in step.items():
                proof.append(ProofStep(fact(conclusion), (fact(first), fact(second))))
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return tuple(proof)


@lru_cache(maxsize=65536)  # most cells of these files occur many times
def _parse_literal(cell: str) -> Any:
    return ast.literal_eval(cell)


def _literal(cell: str) -> Any:
    """The Python literal of a cell, or None. Evaluates no code."""
    try:
        return _parse_literal(cell.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _is_edge(pair: Any) -> bool:
    return (
        isinstance(pair, tuple)
        and len(pair) == 2
        and all(type(node) is int and 0 <= node < MAX_PEOPLE for node in pair)
    )


def write_clutrr(
    folder: str | Path,
    train: Sequence[Story],
    tests: Mapping[int, Sequence[Story]],
    valid: Mapping[int, Sequence[Story]] | None = None,
) -> list[Path]:
    """Write stories in the official layout: a training file, and a test and a validation file for each k.

    Writes nothing if a story would be read back differently, or if the folder has other data files.
    """
    folder = Path(folder)
    train_ks = sorted({story.k for story in train})
    files = {",".join(f"1.{k}" for k in train_ks) + "_train.csv": (train, "train")}
    files |= {f"1.{k}_test.csv": (stories, "test") for k, stories in sorted(tests.items())}
    files |= {f"1.{k}_valid.csv": (stories, "valid") for k, stories in sorted((valid or {}).items())}
    others = {path.name for pattern in SPLIT_PATTERNS.values() for path in folder.glob(f"*{pattern}.csv")} - set(files)
    others |= {path.name for ending in ("jsonl", "tsv", "conllu") for path in folder.glob(f"*.{ending}")}
    if others:
        raise UserError(f"{folder}: has other data in it, {', '.join(sorted(others))}; expected a folder without")
    texts = {}
    csv.field_size_limit(MAX_CELL)
    for name, (stories, split) in files.items():
        if not stories:
            raise UserError(f"{folder / name}: found no stories to write; expected at least one")
        rows = [_row_text(number, story, split, folder / name) for number, story in enumerate(stories)]
        texts[name] = "".join([_csv_line(COLUMNS), *rows])
    for name, text in texts.items():
        with replacing(folder / name) as aside:
            aside.write_text(text, encoding="utf-8", newline="")
    return [folder / name for name in files]


_PLAIN = re.compile(r"[^\W\d_]+([- ][^\W\d_]+)*")  # letters only: nothing that CSV or a literal could misread


@lru_cache(maxsize=65536)
def _is_plain_text(text: str) -> bool:
    return _PLAIN.fullmatch(text) is not None and text.isprintable()


def _is_plain(story: Story) -> bool:
    """Whether a story is so simple that reading its row gives it back for sure."""
    facts = [fact for step in story.proof for fact in (step.conclusion, *step.premises)]
    nodes = {*story.query, *(node for edge in story.edges for node in edge)}
    nodes |= {node for start, _, end in facts for node in (start, end)}
    texts = {story.label, *story.names, *story.relations, *story.genders, *(relation for _, relation, _ in facts)}
    return (
        0 < len(story.edges) == len(set(story.edges)) == len(story.relations)
        and len(set(story.names)) == story.size == len(story.genders) <= MAX_PEOPLE
        and nodes <= set(range(story.size))
        and story.needed is None
        and all(map(_is_plain_text, texts))
    )


def _row_text(number: int, story: Story, split: str, path: Path) -> str:
    """A story as a row of CSV that is read back as the same story."""
    if _is_plain(story):
        return _csv_line(_format_row(number, story, split))

    def fail(reason: str) -> UserError:
        return UserError(f"{path}: story {number} (counted from 0) cannot be written in CLUTRR's layout: {reason}")

    try:
        text = _csv_line(_format_row(number, story, split))
        text.encode()
        [cells] = csv.reader(io.StringIO(text, newline=""), strict=True)
        again = _read_row(dict(zip(COLUMNS, cells, strict=True)), path, number)
    except DataError as error:
        raise fail(f"{error.found} would be read; expected {error.expected}") from error
    except (ValueError, csv.Error) as error:
        raise fail(str(error)) from error
    if again.k == story.k:
        again = replace(again, needed=story.needed)
    for name in (field.name for field in fields(Story)):
        mine, theirs = getattr(story, name), getattr(again, name)
        if mine != theirs:
            raise fail(f"its {name} {mine!r} would be read as {theirs!r}")
    return text


def _csv_line(cells: Sequence[str]) -> str:
    line = io.StringIO(newline="")
    returns = any("\r" in cell for cell in cells)  # some versions of Python do not quote these
    csv.writer(line, lineterminator="\n", quoting=csv.QUOTE_ALL if returns else csv.QUOTE_MINIMAL).writerow(cells)
    return line.getvalue()


def _format_row(number: int, story: Story, split: str) -> list[str]:
    names, genders = story.names, story.genders or ("",) * story.size

    def fact(a: int, relation: str, c: int) -> str:
        return f"({names[a]!r}, {relation!r}, {names[c]!r})"

    proof = ", ".join(
        f"{{{fact(*step.conclusion)}: [{fact(*step.premises[0])}, {fact(*step.premises[1])}]}}" for step in story.proof
    )
    told = " ".join(
        f"[{names[b]}] is [{names[a]}]'s {relation}."
        for (a, b), relation in zip(story.edges, story.relations, strict=True)
    )
    start, end = (names[node] for node in story.query)
    cells = {
        "": str(number),
        "id": f"{split}-{story.k}-{number}",
        "story": told,
        "query": repr((start, end)),
        "target": story.label,
        "text_target": repr([f"[{end}] is [{start}]'s {story.label}."]),
        "clean_story": told,
        "proof_state": f"[{proof}]",
        "f_comb": "-".join(story.relations),
        "task_name": f"task_1.{story.k}",
        "story_edges": repr(list(story.edges)),
        "edge_types": repr(list(story.relations)),
        "query_edge": repr(story.query),
        "genders": ",".join(f"{name}:{gender}" for name, gender in zip(names, genders, strict=True)),
        "node_mapping": repr({node: node for node in range(story.size)}),
        "task_split": split,
    }
    return [cells.get(column, "") for column in COLUMNS]
