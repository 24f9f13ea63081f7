"""What can be rebuilt from sentence graphs, such as logical forms, and corpora in files of their own.

A text is a field of a row, `{"tokens": ..., "edges": ..., "sparql": "SELECT ..."}`, and a function that gives the text
of a graph. Rows that have it are scored by its exact match, and a parser prints it. A corpus reads official files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from .edges import SentenceGraph

Scores = Callable[[Sequence[SentenceGraph], Sequence[SentenceGraph]], dict[str, float]]


class Text(NamedTuple):
    """What is rebuilt from a graph."""

    title: str  # in scores, and on screen
    place: str  # "module:function", imported at first use: SentenceGraph -> str, or None where a graph has no text
    words: str = ""  # the same, for words as people type them -> the tokens of graphs, where these differ


class Corpus(NamedTuple):
    """Sentence graphs in files of another form than JSON lines."""

    name: str
    text: str  # of TEXTS; "" if there is none
    holds: Callable[[Path], bool]  # whether a folder has its files; never raises
    files: Callable[[Path], dict[str, Path]]  # the files of a folder by split: those that are there
    read: Callable[[Path], Iterator[tuple[SentenceGraph, str]]]  # the rows of a file: graphs and their texts
    scores: Scores | None = None  # of gold and predicted graphs; the first of them is the main score


TEXTS: dict[str, Text] = {  # by field
    "sparql": Text("SPARQL", ".cfq:sparql_of", ".cfq:tokens_of"),
    "logical_form": Text("logical form", ".slog:logical_form_of", ".slog:tokens_of"),
}
CORPORA: tuple[str, ...] = (".slog:SLOG", ".enhanced:ENHANCED")  # as "module:name", imported at first use


def text_of(field: str, graph: SentenceGraph) -> str | None:
    """The text of a graph; None where it has none, as a predicted graph may not."""
    text: str | None = _imported(TEXTS[field].place)(graph)
    return text


def tokens_for(field: str, words: Sequence[str]) -> tuple[str, ...]:
    """The tokens that a parser of graphs with this text reads, for the words of a sentence."""
    place = TEXTS[field].words if field else ""
    return tuple(_imported(place)(words)) if place else tuple(words)


def corpus_of(folder: str | Path) -> Corpus | None:
    """The corpus whose files a folder has, if any."""
    corpora: Iterator[Corpus] = map(_imported, CORPORA)
    return next((corpus for corpus in corpora if corpus.holds(Path(folder))), None)


def _imported(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module, __package__), name)
