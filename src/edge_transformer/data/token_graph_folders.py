"""A folder of token graphs of your own: `train.jsonl`, `dev.jsonl` if you like, and one or more `test*.jsonl`.

To score a trained model, any of dev and test files are enough.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from ..errors import DataError, UserError
from .token_graphs import TokenGraph, read_token_graphs


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


def read_splits(
    files: Mapping[str, Path], columns: Collection[str] | None = None, progress: Callable[[int], None] | None = None
) -> dict[str, list[TokenGraph]]:
    """Read files of graphs, all of which must have the same label columns: `columns`, or those of the first file."""
    splits: dict[str, list[TokenGraph]] = {}
    whose = "those of the model" if columns is not None else f"those of {next(iter(files.values())).name}"
    for split, path in files.items():
        graphs = splits[split] = []
        for graph in read_token_graphs(path):
            columns = list(graph.labels) if columns is None else columns
            if set(graph.labels) != set(columns):
                found, expected = ", ".join(sorted(graph.labels)) or "none", ", ".join(sorted(columns)) or "none"
                raise DataError(path, None, f"the columns {found}", f"{whose}: {expected}")
            graphs.append(graph)
            if progress:
                progress(1)
        if not graphs:
            raise DataError(path, 1, "no rows", "at least one graph a line")
    return splits
