"""Folders of relational data: your own JSON lines (see `fields`), tables of edges as CSV, or CLUTRR's CSV files.

Training needs `train.jsonl`, one or more `*test.jsonl` and optionally `valid.jsonl`; scoring needs the test files only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from ...errors import UserError, no_folder
from ...io.files import fingerprint
from ...io.streams import counted, open_text, read_json_lines
from .clutrr import clutrr_files, read_clutrr, read_stories
from .fields import graph_from_json, read_graph_lines
from .rows import SPLIT_PATTERNS, RelationRows, Story
from .stream import MOST_VALID, STREAM_ROWS, StreamedStories, count_rows
from .table_rows import csv_files, read_csv_split
from .tables import open_csv


def read_folder(
    folder: str | Path,
    progress: Callable[[int], None] | None = None,
    training: bool = True,
    testing: bool = True,
    asks: str = "pairs",
    valid_share: float = 0.0,
) -> RelationRows:
    """Read a folder of labelled graphs; `training` and `testing` say which rows to read and to require.

    Training files with many rows are streamed: `valid_share` of them is held out if there are no validation files.
    """
    files = graph_files(folder, training, testing)
    tables = csv_files(folder)
    if not tables and any(path.suffix == ".csv" for paths in files.values() for path in paths):
        if asks != "pairs":
            raise UserError(
                f"{folder}: found CLUTRR's files, which ask for pairs of nodes; expected the task relations"
            )
        return read_clutrr(folder, progress, training, testing)
    rows: dict[str, list[Story]] = {split: [] for split in files}
    needed = [split for split, is_needed in (("train", training), ("test", testing)) if is_needed]
    streamed = None
    if training and count_rows(path for path in files["train"] if path.suffix == ".jsonl") > STREAM_ROWS:
        share = 0.0 if files["valid"] else valid_share
        streamed = StreamedStories(files["train"], asks, share, MOST_VALID, progress)
        needed.remove("train")
    for split in (*needed, "valid"):
        if tables:
            rows[split] = list(counted(_read_tables(folder, split, asks), progress)) if files[split] else []
        else:
            rows[split] = [story for path in files[split] for story in _read_file(path, progress, asks)]
    for split in needed:
        if not rows[split]:
            where = f"{split}-edges.csv" if tables else f"*{split}.jsonl"
            raise UserError(f"{folder}: found no rows in {where}; expected at least one labelled graph")
    read = RelationRows.of_files(folder, files, rows)
    return read if streamed is None else replace(read, train=streamed)


def asks_of(folder: str | Path) -> str:
    """What the rows of a folder ask for, by the first of them: "pairs", "nodes" or "graph"."""
    tables = csv_files(folder)
    if tables:
        files = next(iter(tables.values()))
        if "queries" not in files:
            return "pairs"
        with open_csv(files["queries"]) as queries:
            columns = queries.columns
        return "nodes" if "node" in columns else "pairs" if "from" in columns else "graph"
    files_of = graph_files(folder, training=False, testing=False)
    for path in (path for paths in files_of.values() for path in paths if path.suffix == ".jsonl"):
        with open_text(path) as lines:
            _, row = next(read_json_lines(lines, path), (0, None))
        if isinstance(row, dict) and "query" not in row and "target" in row:
            return "nodes" if isinstance(row["target"], dict) else "graph"
        if row is not None:
            break
    return "pairs"


def read_valid(
    folder: str | Path, progress: Callable[[int], None] | None = None, asks: str = "pairs"
) -> tuple[str, list[Story]]:
    """The fingerprint of the validation files of a folder, and their stories."""
    files = valid_files(folder)
    if files[0].suffix == ".csv":
        return fingerprint(files), [story for path in files for story in read_stories(path, progress)]
    return fingerprint(files), [story for path in files for story in _read_file(path, progress, asks)]


def valid_files(folder: str | Path) -> list[Path]:
    """The validation files of a folder: JSON lines where there are any, else CLUTRR's CSV files."""
    for ending in ("jsonl", "csv"):
        files = sorted(Path(folder).glob(f"*{SPLIT_PATTERNS['valid']}.{ending}"))
        if files:
            return files
    raise UserError(f"{folder}: found neither *valid*.jsonl nor *valid*.csv; expected a folder with validation stories")


def _read_file(path: Path, progress: Callable[[int], None] | None, asks: str = "pairs") -> list[Story]:
    with open_text(path) as lines:
        return list(counted(read_graph_lines(lines, path, needs_target=True, asks=asks), progress))


def _read_tables(folder: str | Path, split: str, asks: str) -> Iterator[Story]:
    """The rows of a split in CSV tables; errors name the graph as the tables do."""
    for row in read_csv_split(folder, split):
        graph = f", graph {row['id']}" if row.get("id") is not None else ""
        yield graph_from_json(row, Path(folder) / f"{split}-*.csv{graph}", needs_target=True, asks=asks)


def graph_files(folder: str | Path, training: bool = True, testing: bool = True) -> dict[str, list[Path]]:
    """The files of a folder by split, JSON lines or CSV, as its training files are, or else its test files."""
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(
            f"{folder}: {no_folder(folder)}; expected one with train and test files, .jsonl or CLUTRR's .csv"
        )
    if tables := csv_files(folder):
        for split in [name for name, is_needed in (("train", training), ("test", testing)) if is_needed]:
            if split not in tables:
                raise UserError(f"{folder}: found no {split}-edges.csv; expected it, and {split}-queries.csv")
        return {split: list(tables.get(split, {}).values()) for split in SPLIT_PATTERNS}
    for split in ("train",) if training else ("train", "test"):
        if any(folder.glob(f"*{split}.jsonl")):
            return {name: sorted(folder.glob(f"*{pattern}.jsonl")) for name, pattern in SPLIT_PATTERNS.items()}
        if any(folder.glob(f"*{split}.csv")):
            return clutrr_files(folder, training, testing)
    raise UserError(
        f"{folder}: found neither *{split}.jsonl nor *{split}.csv; expected one of them"
        + (", and test files" if training and testing else "")
    )
