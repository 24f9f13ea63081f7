"""A folder of token graphs of your own: `train.jsonl`, `dev.jsonl` if you like, and one or more `test*.jsonl`.

To score a trained model, any of dev and test files are enough.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

from ...errors import DataError, UserError
from ..pairs.rows import lines_of, open_text
from .rows import TokenGraph, json_of_line, read_token_graphs


def token_graph_files(folder: str | Path, training: bool = True, testing: bool = True) -> dict[str, Path]:
    """The files of a folder by split: "train", "dev", and the name of each test file, such as "test" or "test-long".

    Without `training` it needs no training file, but something to score; without `testing` it needs no test file.
    """
    folder = Path(folder)
    names = "train.jsonl, test.jsonl and, if there is one, dev.jsonl"
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; expected one with {names}")
    tested = sorted(folder.glob("test*.jsonl"), key=lambda path: path.stem)
    paths = [folder / "train.jsonl", folder / "dev.jsonl", *tested]
    files = {path.stem: path for path in paths if path.is_file()}
    if training and "train" not in files:
        raise UserError(f"{folder}: found no train.jsonl; expected {names}")
    tests = [split for split in files if split.startswith("test")]
    if (training and testing and not tests) or (not training and testing and not {*tests, "dev"} & set(files)):
        raise UserError(f"{folder}: found no test*.jsonl; expected {names}")
    return files


def holds_token_graphs(folder: str | Path) -> bool:
    """Whether a folder has files of token graphs: labelled graphs may have the same names, but other lines."""
    for path in token_graph_files(folder, training=False, testing=False).values():
        with open_text(path) as file:
            lines = ((number, line) for number, line in enumerate(lines_of(file, path), start=1) if line.strip())
            number, first = next(lines, (1, ""))
        try:
            value = json_of_line(first, path, number)
        except DataError:  # of no kind, which is for a reader to say
            return False
        return isinstance(value, dict) and "tokens" in value
    return False


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
    """The graphs of files one by one, each with the name of its split, so that none need be kept.

    All must have the same label columns: `columns`, or those of the first file.
    """
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
