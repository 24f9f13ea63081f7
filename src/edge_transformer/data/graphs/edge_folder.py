"""Folders of sentence graphs: `train.jsonl`, `test*.jsonl` and optionally `dev.jsonl`, or the files of a corpus."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import DataError
from ...io.files import fingerprint
from ...io.streams import json_of_line, lines_of, open_text, read_json_lines, shown_field
from ..jsonl import IN_MEMORY, jsonl_files, numbered, rows_fingerprint
from .corpora import TEXTS, Corpus, Scores, corpus_of
from .edges import SentenceGraph, checked_sentence_graphs

Names = tuple[Iterable[str], Iterable[str]]  # of columns, and of labels of the sentence
Row = tuple[str | Path, int | None, Any]  # source, line, value


@dataclass(frozen=True)
class SentenceFolder:
    """The rows of a folder, by the names of their splits."""

    name: str
    fingerprint: str  # of all files of the folder, read or not
    splits: dict[str, list[SentenceGraph]]
    corpus: str = ""  # the name of a corpus, for its files
    text: str = ""  # of TEXTS: what the rows have besides their graphs
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)  # those of the rows
    scores: Scores | None = None  # further scores of the corpus


def read_sentence_folder(
    folder: str | Path,
    unread: Collection[str] = (),
    training: bool = True,
    testing: bool = True,
    names: Names | None = None,
    progress: Callable[[int], None] | None = None,
) -> SentenceFolder:
    """Read a folder except for the splits in `unread` ("test" means every test file).

    `training` and `testing` say which files are required; `names` are those of a trained model, if any.
    """
    folder = Path(folder)
    files, corpus = sentence_files(folder, training, testing)
    chosen = {split: path for split, path in files.items() if not split.startswith(tuple(unread) or ("\0",))}
    splits: dict[str, list[SentenceGraph]] = {}
    texts: dict[str, list[str]] = {}
    text = corpus.text if corpus else ""
    for split, graph, told in read_rows(chosen, corpus.read if corpus else None, names, text):
        splits.setdefault(split, []).append(graph)
        if told is not None:
            text = told[0]
            texts.setdefault(split, []).append(told[1])
        if progress:
            progress(1)
    name = corpus.name if corpus else ""
    scores = corpus.scores if corpus else None
    return SentenceFolder(folder.resolve().name, fingerprint(files.values()), splits, name, text, texts, scores)


def sentence_files(
    folder: str | Path, training: bool = False, testing: bool = False
) -> tuple[dict[str, Path], Corpus | None]:
    """The files of a folder by split, and the corpus that they are of, if any; required are those asked for."""
    corpus = corpus_of(folder)
    return (corpus.files(Path(folder)) if corpus else jsonl_files(folder, training, testing)), corpus


def read_rows(
    files: Mapping[str, Path],
    read: Callable[[Path], Iterator[tuple[SentenceGraph, str]]] | None = None,
    names: Names | None = None,
    text: str = "",
) -> Iterator[tuple[str, SentenceGraph, tuple[str, str] | None]]:
    """Yield split, graph, and field and text if it has one, for each row of some files, by default JSON lines."""
    texts = _Texts()
    whose = "those of the first graph" if names is None else "those of the model"
    for split, path in files.items():
        graph = None
        if read is None:
            with open_text(path) as lines:
                rows = texts.noted((path, line, row) for line, row in read_json_lines(lines, path))
                for graph in checked_sentence_graphs(rows, names, whose):
                    yield split, graph, texts.last
        else:
            for graph, told in read(path):
                yield split, graph, (text, told)
        if graph is None:
            raise DataError(path, 1, "no rows", "at least one graph a line")
        if names is None:
            names, whose = (graph.labels, graph.sentence), f"those of {path.name}"


def sentence_graphs_of_rows(splits: Mapping[str, Sequence[Any]], names: Names | None = None) -> SentenceFolder:
    """Rows in memory, as lists by split; all must have the same columns and labels of the sentence."""
    graphs: dict[str, list[SentenceGraph]] = {}
    found: dict[str, list[str]] = {}
    texts = _Texts()
    whose = "those of the first row" if names is None else "those of the model"
    for split, rows in splits.items():
        named = texts.noted((source, None, _plain(row)) for source, row in numbered(split, rows))
        for graph in checked_sentence_graphs(named, names, whose):
            graphs.setdefault(split, []).append(graph)
            if texts.last is not None:
                found.setdefault(split, []).append(texts.last[1])
        if names is None and graphs.get(split):
            names = graphs[split][0].labels, graphs[split][0].sentence
    return SentenceFolder(IN_MEMORY, rows_fingerprint(splits), graphs, "", texts.field, found)


def has_edges(row: Any) -> bool:
    """Whether a row is a sentence graph, and not one with one parent a token."""
    return isinstance(row, SentenceGraph) or (isinstance(row, Mapping) and "edges" in row and "tokens" in row)


def holds_sentence_graphs(folder: str | Path) -> bool:
    """Whether a folder has sentence graphs, as JSON lines or as a corpus."""
    return corpus_of(folder) is not None or (Path(folder).is_dir() and has_edges(first_row(folder)))


def first_row(folder: str | Path) -> Any:
    """The first row of the first file of JSON lines; None if there is none, or it is broken: a reader will say so."""
    for path in jsonl_files(folder, training=False, testing=False).values():
        with open_text(path) as file:
            lines = ((number, line) for number, line in enumerate(lines_of(file, path), start=1) if line.strip())
            number, first = next(lines, (1, ""))
        try:
            return json_of_line(first, path, number)
        except DataError:
            return None
    return None


class _Texts:
    """The texts of rows as they pass: all rows have the same field with one, or none has any."""

    def __init__(self) -> None:
        self.field = ""
        self.last: tuple[str, str] | None = None  # field and text of the last row
        self._seen = False

    def noted(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The same rows."""
        for source, line, row in rows:
            given = row if isinstance(row, Mapping) else {}
            if not self._seen:
                self._seen = True
                self.field = next((name for name in TEXTS if isinstance(given.get(name), str)), "")
            self.last = None
            if self.field:
                text = given.get(self.field)
                if not isinstance(text, str):
                    expected = f'"{self.field}": a text, as the first row has'
                    raise DataError(source, line, shown_field(given, self.field), expected)
                self.last = self.field, text
            yield source, line, row


def _plain(row: Any) -> Any:
    return row.to_json() if isinstance(row, SentenceGraph) else row
