"""Folders of token graphs: your own `train.jsonl`, `test*.jsonl` and optionally `dev.jsonl`, or the files of COGS."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import DataError, UserError, no_folder
from ...io.files import fingerprint
from ...io.streams import counted
from ..jsonl import IN_MEMORY, jsonl_files, numbered, rows_fingerprint
from .cogs import SPLITS, cogs_files, read_cogs
from .edge_folder import first_row, has_edges
from .logical_forms import COLUMNS
from .rows import TokenGraph, checked_graphs, read_token_graphs


def holds_token_graphs(folder: str | Path) -> bool:
    """Whether a folder has token graphs; labelled graphs have the same file names, but other lines."""
    value = first_row(folder)
    return isinstance(value, dict) and "tokens" in value and not has_edges(value)


def read_splits(
    files: Mapping[str, Path], columns: Collection[str] | None = None, progress: Callable[[int], None] | None = None
) -> dict[str, list[TokenGraph]]:
    """Read files of graphs; see `read_split_graphs`."""
    splits: dict[str, list[TokenGraph]] = {split: [] for split in files}
    for split, graph in read_split_graphs(files, columns, progress):
        splits[split].append(graph)
    return splits


def read_split_graphs(
    files: Mapping[str, Path], columns: Collection[str] | None = None, progress: Callable[[int], None] | None = None
) -> Iterator[tuple[str, TokenGraph]]:
    """Yield (split, graph) for each row; all must have the same columns: `columns`, or those of the first file."""
    whose = "those of the model" if columns is not None else "those of the first graph"
    for split, path in files.items():
        graph = None
        for graph in read_token_graphs(path, columns, whose):
            yield split, graph
            if progress:
                progress(1)
        if graph is None:
            raise DataError(path, 1, "no rows", "at least one graph a line")
        if columns is None:
            columns, whose = graph.labels, f"those of {path.name}"


@dataclass(frozen=True)
class GraphFolder:
    """The rows of a folder, by the names of their splits."""

    name: str
    fingerprint: str  # of all files of the folder, read or not
    splits: dict[str, list[TokenGraph]]
    corpus: str = ""  # "cogs" for the official files
    forms: Mapping[str, Sequence[str]] = field(default_factory=dict)  # logical forms of the rows, if any


def read_graph_folder(
    folder: str | Path,
    unread: Collection[str] = (),
    training: bool = True,
    testing: bool = True,
    columns: Collection[str] | None = None,
    progress: Callable[[int], None] | None = None,
) -> GraphFolder:
    """Read a folder except for the splits in `unread` ("test" means every test file).

    `training` and `testing` say which files are required; `columns` are those of a trained model, if any.
    """
    folder = Path(folder)
    if _has_cogs_files(folder):
        if columns is not None and tuple(columns) != COLUMNS:
            raise UserError(f"{folder}: found COGS; expected a model with the columns {', '.join(COLUMNS)}")
        there = cogs_files(folder, training=False)
        wanted = SPLITS if training else [path.stem for path in there]
        data = read_cogs(folder, [split for split in wanted if split not in unread])
        splits = {split: [row.graph() for row in counted(rows, progress)] for split, rows in data.splits.items()}
        forms = {split: [row.logical_form for row in rows] for split, rows in data.splits.items()}
        return GraphFolder(data.name, fingerprint(there), splits, "cogs", forms)
    _require_some_files(folder)
    files = jsonl_files(folder, training, testing)
    chosen = {split: path for split, path in files.items() if not split.startswith(tuple(unread) or ("\0",))}
    return GraphFolder(folder.resolve().name, fingerprint(files.values()), read_splits(chosen, columns, progress))


def graphs_of_rows(splits: Mapping[str, Sequence[Any]], columns: Collection[str] | None = None) -> GraphFolder:
    """Rows in memory, as lists by split; all must have the same columns: `columns`, or those of the first row."""
    graphs: dict[str, list[TokenGraph]] = {}
    whose = "those of the first row" if columns is None else "those of the model"
    for split, rows in splits.items():
        named = ((source, None, row) for source, row in numbered(split, rows))
        graphs[split] = list(checked_graphs(named, columns, whose))
        if columns is None and graphs[split]:
            columns = graphs[split][0].labels
    return GraphFolder(IN_MEMORY, rows_fingerprint(splits), graphs)


def graph_fingerprint(folder: str | Path, training: bool = True, testing: bool = True) -> str:
    """The hash of a folder's files, without parsing rows."""
    if _has_cogs_files(folder):
        return fingerprint(cogs_files(folder, training))
    _require_some_files(folder)
    return fingerprint(jsonl_files(folder, training, testing).values())


def _has_cogs_files(folder: str | Path) -> bool:
    """Whether a folder has tables and no JSON lines of the same names."""
    tables, lines = (
        any((Path(folder) / f"{split}{ending}").is_file() for split in SPLITS) for ending in (".tsv", ".jsonl")
    )
    return tables and not lines


def _require_some_files(folder: str | Path) -> None:
    """Refuse a folder that has files of neither form."""
    folder = Path(folder)
    if not folder.is_dir() or not jsonl_files(folder, training=False, testing=False):
        found = "found no files of graphs; expected" if folder.is_dir() else f"{no_folder(folder)}; expected one with"
        official = ", ".join(f"{split}.tsv" for split in SPLITS)
        raise UserError(f"{folder}: {found} train.jsonl and test.jsonl, or the files of COGS: {official}")
