"""SLOG in its official files, whose columns are those of COGS: sentence, logical form and category.

A row becomes a sentence graph with its category as group. `gen.tsv` tests generalisation beyond `train.tsv`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ...errors import DataError, UserError
from .cogs import SPLITS, CogsRow, cogs_files, read_rows
from .corpora import Corpus
from .edges import SentenceGraph
from .slog_forms import COLUMNS, form_of_sentence_graph, sentence_graph_of_form

TRAIN = "train"
_ONLY_IN_SLOG = (" . nmod ( ", " , ? )")  # a relative clause, a question


def slog_files(folder: str | Path) -> dict[str, Path]:
    """The official files of a folder by split; a single file, such as gen.tsv, is a split of its name."""
    if Path(folder).is_file():
        return {Path(folder).stem: Path(folder)}
    return {path.stem: path for path in cogs_files(folder, training=False)}


def holds_slog(folder: str | Path) -> bool:
    """Whether a folder has SLOG's files; COGS has files of the same names without relative clauses and questions."""
    if any((Path(folder) / f"{split}.jsonl").is_file() for split in SPLITS):
        return False
    try:
        first, *_ = slog_files(folder).values()
        text = first.read_text(encoding="utf-8")
    except (UserError, OSError, UnicodeDecodeError):
        return False
    return any(mark in text for mark in _ONLY_IN_SLOG)


def read_slog(path: str | Path) -> Iterator[tuple[SentenceGraph, str]]:
    """The graphs and logical forms of a file, row by row.

    A row whose form gives no graph is refused in the training file. Other files keep it, with a graph without edges and
    labels, as its form can be scored nevertheless.
    """
    strict = Path(path).stem == TRAIN
    for row in read_rows(path):
        try:
            yield graph_of_row(row), row.logical_form
        except DataError:
            if strict:
                raise
            none = ("",) * len(row.tokens)
            yield SentenceGraph(row.tokens, (), dict.fromkeys(COLUMNS, none), group=row.category), row.logical_form


def graph_of_row(row: CogsRow) -> SentenceGraph:
    """The graph of a row, with its category as group."""
    return sentence_graph_of_form(row.tokens, row.logical_form, row.source, row.line, row.category)


def logical_form_of(graph: SentenceGraph) -> str | None:
    """The logical form of a graph; None if it has none, as a predicted graph may not."""
    try:
        return form_of_sentence_graph(graph)
    except DataError:
        return None


def tokens_of(words: Sequence[str]) -> tuple[str, ...]:
    """The words of a sentence as SLOG has them: a question mark at the end stands alone."""
    *rest, last = words
    return (*rest, last[:-1], "?") if len(last) > 1 and last.endswith("?") else tuple(words)


SLOG = Corpus("slog", "logical_form", holds_slog, slog_files, read_slog)
