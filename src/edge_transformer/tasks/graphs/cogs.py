"""COGS: graph parsing of its official files, scored by graph and by logical form, and by kind of generalisation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self, cast

import torch
from torch import Tensor

from ...data.graphs.cogs import GENERALISATIONS, LEXICAL, SPLITS, STRUCTURAL, CogsRow, cogs_files, read_cogs
from ...data.graphs.cogs_graphs import COLUMNS, form_of_graph
from ...data.graphs.rows import TokenGraph
from ...errors import DataError, UserError
from ...io.files import fingerprint
from ..base import Progress, TaskModel
from .data import ParsingData, ParsingSettings
from .model import GraphParser, graphs_of

TRAIN, GEN = "train", "gen"


@dataclass(frozen=True)
class CogsSettings(ParsingSettings):
    """The `data:` section of a preset."""

    gen: bool = True  # False leaves gen.tsv unread: recipes must not be chosen by it


class CogsParser(GraphParser):
    """A graph parser that can write its graphs as logical forms."""

    def logical_form(self, graph: TokenGraph) -> str | None:
        return logical_form(graph)


class CogsData(ParsingData):
    """The official files: dev is scored while training goes on, and all of them at its end."""

    Settings: ClassVar[type] = CogsSettings
    Model: ClassVar[type[GraphParser]] = CogsParser

    _forms: dict[str, list[str]]  # the logical forms of the rows of each split

    @classmethod
    def load(
        cls,
        folder: Path,
        settings: CogsSettings,
        seed: int,
        model: TaskModel | None = None,
        progress: Progress | None = None,
    ) -> Self:
        wanted = [split for split in SPLITS if split != GEN or settings.gen]
        if not settings.test:
            wanted = [split for split in wanted if split not in ("test", GEN)]
        if model is not None:  # who asks for the scores of a trained model means those of all there are
            wanted = [path.stem for path in cogs_files(folder, training=False) if path.stem != TRAIN]
        if model is not None and tuple(cast(GraphParser, model).columns) != COLUMNS:
            raise UserError(f"{folder}: found COGS; expected a model with the columns {', '.join(COLUMNS)}")
        data = read_cogs(folder, wanted)
        splits = {split: [_told(row, progress) for row in rows] for split, rows in data.splits.items()}
        hashed = fingerprint(cogs_files(folder, training=False))  # the same with and without gen
        loaded = cls(data.name, hashed, splits, settings, seed, cast(GraphParser | None, model))
        loaded._forms = {split: [row.logical_form for row in rows] for split, rows in data.splits.items()}
        return loaded

    @classmethod
    def fingerprint(cls, folder: Path, training: bool = True, testing: bool = True, split: str | None = None) -> str:
        return fingerprint(cogs_files(folder, training))

    def _scores_of(self, split: str, found: Tensor) -> dict[str, float]:
        scores = super()._scores_of(split, found)
        if split == GEN:
            matches = self._matches(split, found)
            kinds = [GENERALISATIONS.get(graph.group) for graph in self._splits[split]]
            for kind in (LEXICAL, STRUCTURAL):
                of_kind = torch.tensor([each == kind for each in kinds])
                if of_kind.any():
                    scores[f"{split} {kind}"] = float(matches[of_kind].double().mean())
        scores[f"{split} logical form"] = self._form_matches(split, found)
        # The summary comes before the categories.
        return dict(sorted(scores.items(), key=lambda score: "/" in score[0]))

    def _form_matches(self, split: str, found: Tensor) -> float:
        """The share of rows whose predicted graph gives the logical form of the file, to the letter."""
        sentences = [graph.tokens for graph in self._splits[split]]
        forms = map(logical_form, graphs_of(sentences, found, self.columns))
        right = sum(form == wanted for form, wanted in zip(forms, self._forms[split], strict=True))
        return right / len(sentences)


def logical_form(graph: TokenGraph) -> str | None:
    """The logical form of a graph; None where it has none, for what a model predicts need not make sense."""
    try:
        return form_of_graph(graph)
    except DataError:
        return None


def _told(row: CogsRow, progress: Progress | None) -> TokenGraph:
    graph = row.graph()
    if progress:
        progress(1)
    return graph
