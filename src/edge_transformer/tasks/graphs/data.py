"""Graph parsing: a parent and labels for every token of a sentence, with any number of label columns.

Rows with "edges" in place of "parents" are read by `edge_data.py`; which form rows have is seen from the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...data.graphs.augment import Augmentation
from ...data.graphs.cogs import GENERALISATIONS
from ...data.graphs.corpora import corpus_of
from ...data.graphs.edge_folder import has_edges, holds_sentence_graphs
from ...data.graphs.folder import GraphFolder, graph_fingerprint, graphs_of_rows, read_graph_folder
from ...data.graphs.rows import MAX_TOKENS, TokenGraph
from ...data.tensors import SentenceBatch, SentenceTable, Vocab
from ...errors import UserError
from ...io.files import fingerprint
from ...io.settings import require_fraction, require_positive
from ..base import Progress, TaskModel, in_full
from ..splits import SplitTaskData
from .edge_data import EdgeData
from .edge_model import EdgeParser
from .model import UNKNOWN, GraphParser, graphs_of, logical_form, predict_table, word_numbers

TRAIN_EDGES = 20_000  # pairs of tokens computed at once in training; a larger batch is computed in parts
MOST_AUGMENTED = 100  # new sentences for each sentence of the file
GEN = "gen"
UNSEEN = -1  # number of a label that no training sentence has; never predicted


@dataclass(frozen=True)
class GraphSettings:
    """The `data:` section of a preset."""

    test: bool = True  # False leaves the test files unread, for runs that choose recipes
    gen: bool = True  # False leaves the generalisation set of COGS unread, for runs that choose recipes
    unknown: float = 0.0  # in training, probability that a word of a single sentence is read as unknown
    hidden: float = 0.0  # in training, probability that any word is read as unknown
    min_count: int = 1  # rows with "edges": words that occur less often in training are read as unknown
    lower_case: bool = False  # rows with "edges": lower-case the words; the character model still sees their case
    same_digits: bool = False  # rows with "edges": read every number in a word as 0, so that M0 and M7 are one word
    name_column: str = ""  # the column, if any, with the names of words; it is not predicted for unknown words
    augmented: float = 0.0  # augmented sentences per training sentence, in which phrases swap places
    augmented_tokens: int = 24  # the most tokens of an augmented sentence
    augmented_kind: str = ""  # the column that says which phrases may swap places
    augmented_place: str = ""  # the column, if any, that stays with the place of a phrase: its role at its parent
    augmented_evenly: bool = False  # choose phrases with rare words as often as those with frequent ones
    augmented_words: float = 0.0  # share of augmented sentences in which a one-word training row replaces another word
    augmented_gaps: float = 0.0  # rows with "edges": share in which a clause with a gap is made of a whole one
    augmented_nested: float = 0.0  # rows with "edges": share with deep recursion, phrases of one form inside each other

    def __post_init__(self) -> None:
        require_positive(self, "min_count")
        require_fraction(self, "unknown", "hidden", "augmented_words", "augmented_gaps", "augmented_nested")
        if not 1 <= self.augmented_tokens <= MAX_TOKENS:
            raise ValueError(f"augmented_tokens must be from 1 to {MAX_TOKENS}, but is {self.augmented_tokens}")
        if not 0 <= self.augmented <= MOST_AUGMENTED:
            raise ValueError(f"augmented must be from 0 to {MOST_AUGMENTED}, but is {self.augmented}")
        if self.augmented and not self.augmented_kind:
            raise ValueError("augmented needs augmented_kind, the column that says which phrases may swap places")


class GraphData(SplitTaskData):
    """Graphs as tensors, and how a model is trained and scored on them."""

    Settings: ClassVar[type] = GraphSettings

    def __init__(self, data: GraphFolder, settings: GraphSettings, seed: int, model: GraphParser | None = None) -> None:
        self._data, self._settings = data, settings
        self._train = data.splits.get("train", [])
        if model is None:
            self._check_settings()
        self._augmented = self._augment(seed) if model is None and settings.augmented else []
        self._splits = {split: graphs for split, graphs in data.splits.items() if split != "train"}
        if model is None:
            columns = self._train[0].labels
            self.tokens = Vocab.of(token for graph in self._train for token in graph.tokens)
            self.columns = {
                name: Vocab.of(label for graph in self._train for label in graph.labels[name]) for name in columns
            }
        else:
            self.tokens, self.columns = model.tokens, model.columns
        self._tables = {split: self._tabulate(graphs) for split, graphs in self._splits.items()}

    @classmethod
    def from_rows(
        cls, splits: Mapping[str, Sequence[Any]], settings: Any, seed: int, model: TaskModel | None = None
    ) -> Self:
        if _have_edges(model, any(has_edges(row) for rows in splits.values() for row in rows[:1])):
            return cast(Self, EdgeData.from_rows(splits, settings, seed, model))
        parser = cast(GraphParser | None, model)
        return cls(graphs_of_rows(splits, parser.columns if parser else None), settings, seed, parser)

    @classmethod
    def load(
        cls,
        folder: Path,
        settings: Any,
        seed: int,
        model: TaskModel | None = None,
        progress: Progress | None = None,
    ) -> Self:
        if _have_edges(model, holds_sentence_graphs(folder)):
            return cast(Self, EdgeData.load(folder, settings, seed, model, progress))
        if model is not None:  # a trained model is scored on every split there is
            parser = cast(GraphParser, model)
            data = read_graph_folder(folder, ("train",), training=False, columns=parser.columns, progress=progress)
            return cls(data, settings, seed, parser)
        unread = () if settings.test and settings.gen else ("gen",) if settings.test else ("test", "gen")
        return cls(read_graph_folder(folder, unread, testing=settings.test, progress=progress), settings, seed)

    @classmethod
    def fingerprint(cls, folder: Path, training: bool = True, testing: bool = True, split: str | None = None) -> str:
        if (corpus := corpus_of(folder)) is not None:
            return fingerprint(corpus.files(folder).values())
        return graph_fingerprint(folder, training, testing)

    @cached_property
    def _table(self) -> SentenceTable:
        """The training rows, made at first use: scoring needs none."""
        return self._tabulate([*self._train, *self._augmented])

    def _check_settings(self) -> None:
        """Check that the columns in the settings exist, and refuse settings of rows with edges."""
        for option in ("min_count", "lower_case", "augmented_gaps", "augmented_nested"):
            if (value := getattr(self._settings, option)) != getattr(GraphSettings, option):
                raise UserError(f'data.{option}: found {value!r}, and rows with "parents"; expected rows with "edges"')
        columns = self._train[0].labels
        for option in ("augmented_kind", "augmented_place", "name_column"):
            name = getattr(self._settings, option)
            if name and name not in columns:
                known = ", ".join(columns) or "none"
                raise UserError(f"data.{option}: found {name}; expected one of the columns of the rows: {known}")

    def _augment(self, seed: int) -> list[TokenGraph]:
        """Make augmented sentences from the training sentences."""
        settings = self._settings
        wanted = round(settings.augmented * len(self._train))
        source = Augmentation(
            self._train,
            settings.augmented_kind,
            settings.augmented_place,
            settings.augmented_evenly,
            settings.augmented_words,
            settings.name_column,
        )
        made = source.new_sentences(wanted, settings.augmented_tokens, seed)
        if wanted and not made:
            raise UserError(
                f"data.augmented_kind: found no phrases of up to {settings.augmented_tokens} tokens that can swap "
                f"places by their labels in {settings.augmented_kind}; expected some of the same kind"
            )
        return made

    def _tabulate(self, graphs: Iterable[TokenGraph]) -> SentenceTable:
        table = SentenceTable(1 + len(self.columns))
        for graph in graphs:
            labels = [_label_numbers(known, graph.labels[name]) for name, known in self.columns.items()]
            table.add(word_numbers(self.tokens, graph.tokens), [graph.parents, *labels])
        return table

    @cached_property
    def _is_rare(self) -> Tensor:
        """For each word number, whether only one training sentence has it: bool `[words]`."""
        counts = Counter(token for graph in self._train for token in set(graph.tokens))
        return torch.tensor([False, *(counts[token] == 1 for token in self.tokens)])

    @property
    def train_rows(self) -> int:
        return len(self._train) + len(self._augmented)

    def train_sizes(self) -> Tensor:
        return self._table.sizes

    def identity(self) -> dict[str, Any]:
        more = {"augmented_rows": len(self._augmented)} if self._augmented else {}
        corpus = {"corpus": self._data.corpus} if self._data.corpus else {}
        about = {"name": self._data.name, "fingerprint": self._data.fingerprint, "train_rows": self.train_rows}
        return {**about, **corpus, **more}

    def notes(self) -> list[str]:
        notes = []
        wanted = round(self._settings.augmented * len(self._train))
        if 2 * len(self._augmented) < wanted:
            notes.append(f"data.augmented asks for {wanted} new sentences; {len(self._augmented)} could be made")
        for split, table in self._tables.items():
            row = table.rows_of_tokens()
            unknown = len(row[table.tokens == UNKNOWN].unique())
            unseen = len(row[(table.targets == UNSEEN).any(-1)].unique())
            of = f"of {len(table)} rows have a"
            if unknown:
                notes.append(f"{split}: {unknown} {of} word that no training row has; it is read as unknown")
            if unseen:
                notes.append(f"{split}: {unseen} {of} label that no training row has; they count as wrong")
        return notes

    def new_model(self, settings: Mapping[str, Any]) -> GraphParser:
        return GraphParser(settings, self.tokens, self.columns)

    def batches(self, rows: Tensor) -> Iterator[list[SentenceBatch]]:
        """Batches of groups; the sentences of a group have equal length."""
        groups: list[SentenceBatch] = []
        edges = 0
        for batch in self._table.batches(rows, TRAIN_EDGES):
            if self._settings.unknown or self._settings.hidden:
                batch = self._hide(batch)
            if groups and edges + batch.edges > TRAIN_EDGES:
                yield groups
                groups, edges = [], 0
            groups.append(batch)
            edges += batch.edges
        if groups:
            yield groups

    def _hide(self, batch: SentenceBatch) -> SentenceBatch:
        """Replace random words of a batch by the unknown word."""
        chance = self._is_rare[batch.tokens] * self._settings.unknown
        hidden = torch.rand(batch.tokens.shape) < chance.clamp(min=self._settings.hidden)  # (B, n)
        targets = batch.targets
        if self._settings.name_column:
            unasked = torch.zeros(targets.shape[-1], dtype=torch.bool)
            unasked[1 + list(self.columns).index(self._settings.name_column)] = True
            targets = targets.masked_fill(hidden[..., None] & unasked, UNSEEN)
        return replace(batch, tokens=batch.tokens.masked_fill(hidden, UNKNOWN), targets=targets)

    def weight(self, rows: Tensor) -> float:
        return float(self._table.sizes[rows].sum())

    def loss(self, model: nn.Module, batch: list[SentenceBatch], device: torch.device) -> Tensor:
        parents, labels = model([group.tokens.to(device) for group in batch])
        found = [logits.flatten(0, 1) for logits in parents]  # (tokens of the group, n) each
        wanted = [group.targets[..., 0].flatten() for group in batch]
        everywhere = torch.cat([group.targets.flatten(0, 1) for group in batch])  # (tokens, 1 + columns)
        found += labels
        wanted += everywhere.unbind(-1)[1:]
        losses = [
            F.cross_entropy(in_full(logits), target.to(device), reduction="sum", ignore_index=UNSEEN)
            for logits, target in zip(found, wanted, strict=True)
        ]
        return torch.stack(losses).sum()

    def _score(self, split: str, model: nn.Module, device: torch.device, progress: Progress | None) -> dict[str, float]:
        return self._scores_of(split, self._predict(split, model, device, progress))

    @torch.no_grad()
    def _predict(self, split: str, model: nn.Module, device: torch.device, progress: Progress | None) -> Tensor:
        return predict_table(model, self._tables[split], device, 1 + len(self.columns), progress)

    def _matches(self, split: str, found: Tensor) -> Tensor:
        """Whether all predictions of a row are right: bool `[rows]`."""
        table = self._tables[split]
        wrong = (found != table.targets).any(-1)  # (tokens,)
        return torch.zeros(len(table), dtype=torch.long).index_add(0, table.rows_of_tokens(), wrong.long()) == 0

    def _scores_of(self, split: str, found: Tensor) -> dict[str, float]:
        """Exact match of a split, of its kinds of generalisation, of its logical forms, and of each of its groups."""
        matches = self._matches(split, found)
        scores = {split: float(matches.double().mean())}
        groups = [graph.group for graph in self._splits[split]]
        kinds = [GENERALISATIONS.get(group) if split == GEN else None for group in groups]
        for kind in dict.fromkeys(GENERALISATIONS.values()):
            if kind in kinds:
                scores[f"{split} {kind}"] = _share(matches, [each == kind for each in kinds])
        if split in self._data.forms:
            scores[f"{split} logical form"] = self._form_matches(split, found)
        if len(set(groups)) > 1:
            for group in sorted(set(groups)):
                scores[f"{split}/{group or 'no group'}"] = _share(matches, [each == group for each in groups])
        return scores

    def _form_matches(self, split: str, found: Tensor) -> float:
        """The share of rows whose predicted graph gives exactly the logical form of the file."""
        sentences = [graph.tokens for graph in self._splits[split]]
        forms = map(logical_form, graphs_of(sentences, found, self.columns))
        right = sum(form == wanted for form, wanted in zip(forms, self._data.forms[split], strict=True))
        return right / len(sentences)


def _share(matches: Tensor, chosen: Sequence[bool]) -> float:
    """The share of matches among the chosen rows."""
    return float(matches[torch.tensor(chosen)].double().mean())


def _have_edges(model: TaskModel | None, rows_have: bool) -> bool:
    """Whether rows are sentence graphs; a trained model reads rows of one form only."""
    if model is not None and isinstance(model, EdgeParser) != rows_have:
        found, expected = ('"edges"', '"parents"') if rows_have else ('"parents"', '"edges"')
        raise UserError(f"found rows with {found}; expected {expected}, as the model was trained on")
    return rows_have


def _label_numbers(known: Vocab, labels: Iterable[str]) -> list[int]:
    numbers = map(known.number, labels)
    return [UNSEEN if number is None else number for number in numbers]
