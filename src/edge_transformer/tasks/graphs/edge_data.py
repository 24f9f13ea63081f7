"""Sentence graphs: any number of labelled edges between the tokens of a sentence, as tensors; their loss and scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import torch
from torch import Tensor, nn

from ...data.graphs.edge_augment import EdgeAugmentation
from ...data.graphs.edge_folder import SentenceFolder, read_sentence_folder, sentence_graphs_of_rows
from ...data.graphs.edges import SentenceGraph
from ...data.tensors import UNKNOWN, Lexicon, WordTypes
from ...errors import UserError
from ..base import Progress, TaskModel
from ..splits import SplitTaskData
from .edge_loss import graph_loss
from .edge_model import EdgeParser, graphs_of, predict_graphs
from .edge_scores import graph_scores
from .edge_table import UNSEEN, EdgeGroups, EdgeTable, EdgeTargets, GraphVocabs

if TYPE_CHECKING:
    from .data import GraphSettings

TRAIN_EDGES = 20_000  # pairs of tokens computed at once in training; a larger batch is computed in parts
OF_PARENTS = ("augmented_place", "augmented_evenly")  # edges stay with the place, and words are drawn evenly


@dataclass(frozen=True)
class EdgeBatch:
    """Groups of sentences: their distinct words, the place of each, and their targets."""

    words: Tensor  # (types,)
    letters: Tensor  # (types, most)
    tokens: list[Tensor]  # (B, n) each
    targets: EdgeTargets


class EdgeData(SplitTaskData):
    """Sentence graphs as tensors, and how a model is trained and scored on them."""

    def __init__(
        self, data: SentenceFolder, settings: GraphSettings, seed: int, model: EdgeParser | None = None
    ) -> None:
        self._data, self._settings = data, settings
        self._train = data.splits.get("train", [])
        self._splits = {split: graphs for split, graphs in data.splits.items() if split != "train"}
        self._augmented: list[SentenceGraph] = []
        if model is None:
            self._check_settings()
            self._augmented = self._augment(seed) if settings.augmented else []
            sentences = [graph.tokens for graph in self._rows]
            self.lexicon = Lexicon.of(sentences, settings.min_count, settings.lower_case, settings.same_digits)
            self.vocabs = GraphVocabs.of(self._train)
            if not len(self.vocabs.edges):
                raise UserError("train: found no edge between two tokens in any row; expected some")
        else:
            self.lexicon, self.vocabs = model.lexicon, model.vocabs
        self._types = WordTypes(self.lexicon)
        self._tables = {split: EdgeTable(graphs, self._types, self.vocabs) for split, graphs in self._splits.items()}

    @classmethod
    def from_rows(
        cls, splits: Mapping[str, Sequence[Any]], settings: Any, seed: int, model: TaskModel | None = None
    ) -> Self:
        parser = cast(EdgeParser | None, model)
        return cls(sentence_graphs_of_rows(splits, _names(parser)), settings, seed, parser)

    @classmethod
    def load(
        cls,
        folder: Path,
        settings: Any,
        seed: int,
        model: TaskModel | None = None,
        progress: Progress | None = None,
    ) -> Self:
        if model is not None:  # a trained model is scored on every split there is
            parser = cast(EdgeParser, model)
            data = read_sentence_folder(folder, ("train",), training=False, names=_names(parser), progress=progress)
            return cls(data, settings, seed, parser)
        unread = () if settings.test and settings.gen else ("gen",) if settings.test else ("test", "gen")
        return cls(read_sentence_folder(folder, unread, testing=settings.test, progress=progress), settings, seed)

    def _check_settings(self) -> None:
        settings = self._settings
        for each in fields(settings):
            if each.name in OF_PARENTS and getattr(settings, each.name) != each.default:
                found = f"data.{each.name}: found {getattr(settings, each.name)!r}"
                raise UserError(f'{found}, and rows with "edges"; expected rows with "parents"')
        columns = self._train[0].labels
        for option in ("augmented_kind", "name_column"):
            name = getattr(settings, option)
            if name and name not in columns:
                known = ", ".join(columns) or "none"
                raise UserError(f"data.{option}: found {name}; expected one of the columns of the rows: {known}")

    def _augment(self, seed: int) -> list[SentenceGraph]:
        """Make augmented sentences from the training sentences."""
        settings = self._settings
        wanted = round(settings.augmented * len(self._train))
        source = EdgeAugmentation(
            self._train,
            settings.augmented_kind,
            settings.augmented_words,
            settings.augmented_gaps,
            settings.augmented_nested,
            settings.name_column,
        )
        made = source.new_sentences(wanted, settings.augmented_tokens, seed)
        if wanted and not made:
            raise UserError(
                f"data.augmented_kind: found no phrases of up to {settings.augmented_tokens} tokens that can swap "
                f"places by their labels in {settings.augmented_kind}; expected some of the same kind"
            )
        return made

    @property
    def _rows(self) -> list[SentenceGraph]:
        """The training rows and those made of them."""
        return [*self._train, *self._augmented]

    @cached_property
    def _table(self) -> EdgeTable:
        """The training rows, made at first use: scoring needs none."""
        return EdgeTable(self._rows, self._types, self.vocabs)

    @cached_property
    def _most(self) -> int:
        """The most labels that a pair of a training row has."""
        table = self._table
        counts = [0]
        for rows, items in ((table.row_of_edge, table.edges), (table.row_of_own, table.own)):
            if len(items):
                pairs = torch.cat([rows[:, None], items[:, :-1].long()], 1)
                counts.append(int(pairs.unique(dim=0, return_counts=True)[1].max()))
        return max(counts)

    @cached_property
    def _is_rare(self) -> Tensor:
        """For each word number, whether only one training sentence has it: bool `[words]`."""
        counts = Counter(
            number for graph in (*self._train, *self._augmented) for number in set(map(self.lexicon.word, graph.tokens))
        )
        return torch.tensor([counts[number] == 1 for number in range(self.lexicon.word_numbers)])

    @property
    def train_rows(self) -> int:
        return len(self._rows)

    def train_sizes(self) -> Tensor:
        return self._table.sizes

    def identity(self) -> dict[str, Any]:
        about = {"name": self._data.name, "fingerprint": self._data.fingerprint, "train_rows": self.train_rows}
        corpus = {"corpus": self._data.corpus} if self._data.corpus else {}
        return {**about, **corpus, **({"augmented_rows": len(self._augmented)} if self._augmented else {})}

    def notes(self) -> list[str]:
        notes = []
        if self._train:
            how = f"have up to {self._most} labels" if self._most > 1 else "have one label at most"
            notes.append(f"train: pairs of tokens {how}, so model.edges is {self._edges()!r} unless it is set")
        wanted = round(self._settings.augmented * len(self._train))
        if 2 * len(self._augmented) < wanted:
            notes.append(f"data.augmented asks for {wanted} new sentences; {len(self._augmented)} could be made")
        for split, table in self._tables.items():
            unknown = len(table.row_of_token[self._types.words[table.tokens.long()] == UNKNOWN].unique())
            rows = [
                table.row_of_edge[table.edges[:, -1] == UNSEEN],
                table.row_of_own[table.own[:, -1] == UNSEEN],
                table.row_of_token[(table.columns == UNSEEN).any(-1)],
                (table.sentence == UNSEEN).any(-1).nonzero().flatten(),
            ]
            of = f"of {len(table)} rows have a"
            if unknown:
                notes.append(f"{split}: {unknown} {of} word that no training row has; it is read as unknown")
            if unseen := len(torch.cat(rows).unique()):
                notes.append(f"{split}: {unseen} {of} label that no training row has; they count as wrong")
        return notes

    def _edges(self) -> str:
        return "several" if self._most > 1 else "one"

    def new_model(self, settings: Mapping[str, Any]) -> EdgeParser:
        edges = settings.get("edges", "auto")
        edges = self._edges() if edges == "auto" else edges
        if edges == "one" and self._most > 1:
            raise UserError(f"model.edges: found 'one', and pairs with {self._most} labels; expected 'several'")
        return EdgeParser({**settings, "edges": edges}, self.lexicon, self.vocabs, self._data.text)

    def batches(self, rows: Tensor) -> Iterator[EdgeBatch]:
        for groups in self._table.groups(rows, TRAIN_EDGES):
            yield self._batch(groups)

    def _batch(self, groups: EdgeGroups) -> EdgeBatch:
        settings, total = self._settings, len(self._types)
        targets = self._table.targets(groups)
        tokens = torch.cat([each.flatten() for each in groups.tokens])
        if settings.unknown or settings.hidden:
            chance = self._is_rare[self._types.words[tokens]] * settings.unknown
            hidden = torch.rand(tokens.shape) < chance.clamp(min=settings.hidden)
            tokens = tokens + total * hidden  # a hidden word is another type with the same letters
            if settings.name_column:
                targets.columns[hidden, list(self.vocabs.columns).index(settings.name_column)] = UNSEEN
        types, places = tokens.unique(return_inverse=True)
        is_hidden, types = types >= total, types % total
        words = self._types.words[types].masked_fill(is_hidden, UNKNOWN)
        parts = places.split([each.numel() for each in groups.tokens])
        of_groups = [part.view_as(each) for part, each in zip(parts, groups.tokens, strict=True)]
        return EdgeBatch(words, self._types.letters[types], of_groups, targets)

    def weight(self, rows: Tensor) -> float:
        """Every token counts the same, whatever the length of its sentence."""
        return float(self._table.sizes[rows].sum())

    def loss(self, model: nn.Module, batch: EdgeBatch, device: torch.device) -> Tensor:
        logits = model(batch.words.to(device), batch.letters.to(device), [each.to(device) for each in batch.tokens])
        return graph_loss(logits, batch.targets.to(device), _parser(model).form)

    @torch.no_grad()
    def _score(self, split: str, model: nn.Module, device: torch.device, progress: Progress | None) -> dict[str, float]:
        """The scores of a split; see `edge_scores.py`."""
        parser, table, gold = _parser(model), self._tables[split], self._splits[split]
        found = predict_graphs(parser, model, self._types, table, device, progress)
        groups = [graph.group for graph in gold]
        text = self._data.text
        graphs = graphs_of(found, [graph.tokens for graph in gold], self.vocabs)
        if not text or text != parser.text:
            scores = graph_scores(split, found, table, self.vocabs, groups)
            if self._data.scores is None:
                return scores
            more = self._data.scores(gold, list(graphs))
            exact = {f"{split} exact match": scores.pop(split)}
            return (
                {split: next(iter(more.values()))} | {f"{split} {name}": more[name] for name in more} | exact | scores
            )
        same = zip(map(parser.text_of, graphs), self._data.texts[split], strict=True)
        right = torch.tensor([said == wanted for said, wanted in same])
        return graph_scores(split, found, table, self.vocabs, groups, right)


def _names(model: EdgeParser | None) -> tuple[list[str], list[str]] | None:
    return None if model is None else (list(model.vocabs.columns), list(model.vocabs.sentence))


def _parser(model: nn.Module) -> EdgeParser:
    """The parser itself, if training has wrapped it."""
    return cast(EdgeParser, getattr(model, "module", model))
