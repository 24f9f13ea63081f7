"""Graph parsing: a parent and labels for every token of a sentence, with any number of label columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, cast, overload

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..baselines import SEQUENCE_KINDS
from ..baselines.token_encoder import TokenEncoder
from ..config import require_fraction, require_positive
from ..data.clutrr import no_text
from ..data.exchange import Exchange
from ..data.sentences import SentenceBatch, SentenceTable
from ..data.token_graph_folders import read_splits, token_graph_files
from ..data.token_graphs import (
    MAX_TOKENS,
    TokenGraph,
    check_length,
    other_fields,
    text_or_json,
    tokens_from_json,
)
from ..data.treebanks import ROW_OF_CONLLU
from ..data.vocab import Vocab
from ..encoder import Encoded
from ..errors import DataError, UserError
from ..files import fingerprint
from ..forests import best_forests
from ..heads import AttentionParentHead, NodeLabelHead, ParentHead
from ..inputs import TokenSequenceInput
from .base import Progress, TaskModel, build_encoder, model_options
from .splits import SplitTaskData

PREDICT_EDGES = 20_000  # pairs of tokens computed at once outside training: bounds memory, whatever the lengths
TRAIN_EDGES = 20_000  # the same in training; a larger batch is computed in parts
UNKNOWN = 0  # the number of a word that no training sentence has; known words follow
MOST_EXCHANGED = 100  # new sentences for each that a file has
UNSEEN = -1  # the number of a label that no training sentence has, which nothing is ever answered with


@dataclass(frozen=True)
class ParserOptions:
    """What a parser's `model:` section has besides the settings of its encoder."""

    max_distance: int = 16  # relative positions are clipped here

    def __post_init__(self) -> None:
        require_positive(self, "max_distance")


@dataclass(frozen=True)
class Parse:
    """What a model says about a sentence."""

    graph: TokenGraph
    logical_form: str | None = None  # None where the graph is not that of any form, or the task has no forms
    unknown: tuple[str, ...] = ()  # words of the sentence that the model never saw
    fields: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)  # what came with it in JSON

    def to_json(self) -> dict[str, Any]:
        """A graph as `data/token_graphs.py` reads it, with what else was found, and what came with the sentence."""
        found = {"logical_form": self.logical_form, "unknown": list(self.unknown)}
        return dict(self.fields) | self.graph.to_json() | found


class GraphParser(TaskModel):
    """Token sequence in; the parent of every token and one label a column out."""

    Options = ParserOptions
    kinds = SEQUENCE_KINDS
    tree = False  # set it to True for predictions, and scores, in which parents never go in a circle

    def __init__(self, settings: Mapping[str, Any], tokens: Vocab, columns: Mapping[str, Vocab]) -> None:
        super().__init__()
        self.settings, self.tokens, self.columns = dict(settings), tokens, dict(columns)
        options = model_options(settings, ParserOptions)
        self.encoder = build_encoder(settings, ParserOptions, SEQUENCE_KINDS)
        dim = self.encoder.config.dim
        distance = options.max_distance if self.encoder.takes_edges else None
        self.input = TokenSequenceInput(len(tokens) + 1, dim, distance)
        self.parent = ParentHead(dim) if self.encoder.has_edge_states else AttentionParentHead(dim)
        self.labels = nn.ModuleList(NodeLabelHead(dim, len(labels)) for labels in self.columns.values())

    def forward(self, tokens: Tensor | Sequence[Tensor], node_mask: Tensor | None = None) -> Any:
        """`[batch, n]` token numbers -> logits: `[batch, n, n]` of the parents, `[batch, n, labels]` of each column.

        Several groups of sentences, each with a length of its own, give a pair: a list with the logits of the parents
        of each group, and a list with those of each column for the tokens of all groups, `[tokens, labels]`.
        """
        if not isinstance(tokens, Tensor):
            return self._forward_groups(tokens)
        encoded = self._encode(tokens, node_mask)
        return [self.parent(encoded, node_mask), *(head(encoded) for head in self.labels)]

    def _encode(self, tokens: Tensor, node_mask: Tensor | None = None) -> Encoded:
        if isinstance(self.encoder, TokenEncoder):
            return self.encoder.encode_tokens(self.input.of_tokens(tokens), node_mask)
        return self.encoder.encode(self.input(tokens), node_mask)

    def _forward_groups(self, groups: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        if isinstance(self.encoder, TokenEncoder):
            encoded = [self._encode(tokens) for tokens in groups]
        else:
            encoded = self.encoder.encode_groups(self.input.forward_groups(groups))
        nodes = torch.cat([each.nodes.flatten(0, 1) for each in encoded])[None]  # (1, tokens of all groups, dim)
        everywhere = Encoded(nodes, nodes[:, :, None])
        return self._parents(encoded), [head(everywhere)[0] for head in self.labels]

    def _parents(self, encoded: Sequence[Encoded]) -> list[Tensor]:
        """The logits of the parents of each group; one product for all of them where edges have states."""
        if not isinstance(self.parent, ParentHead):
            return [self.parent(each) for each in encoded]
        edges = torch.cat([each.edges.flatten(0, 2) for each in encoded])[None, :, None]  # (1, all edges, 1, dim)
        logits = self.parent(Encoded(edges[:, :, 0], edges)).flatten()
        sizes = [each.edges.shape[:3] for each in encoded]
        parts = logits.split([size.numel() for size in sizes])
        return [part.view(size) for part, size in zip(parts, sizes, strict=True)]

    def description(self) -> dict[str, Any]:
        columns = {name: list(labels) for name, labels in self.columns.items()}
        return {"model": self.settings, "tokens": list(self.tokens), "columns": columns}

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Self:
        columns = {name: Vocab(labels) for name, labels in description["columns"].items()}
        return cls(description["model"], Vocab(description["tokens"]), columns)

    def predict(self, inputs: Sequence[str | Sequence[str] | Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The graphs of sentences: texts, lists of tokens, or objects {"tokens": [...]}."""
        sentences = [read_sentence(value, f"input {number}") for number, value in enumerate(inputs)]
        return [parse.to_json() for parse in with_fields(self._parse(sentences), map(other_fields, inputs))]

    def predict_lines(
        self, lines: Iterable[str], source: str, pausing: Callable[[], bool] = lambda: False
    ) -> Iterator[dict[str, Any]]:
        """The graphs of lines: JSON as `predict` takes it where they begin with "{" or "[", else plain sentences."""
        waiting: list[SentenceLine] = []
        edges = 0

        def answers() -> Iterator[dict[str, Any]]:
            parsed = self._parse([line.tokens for line in waiting])
            yield from map(Parse.to_json, with_fields(parsed, (line.fields for line in waiting)))

        try:
            for line in read_sentence_lines(lines, source):
                waiting.append(line)
                edges += len(line.tokens) ** 2
                if edges > PREDICT_EDGES or pausing():
                    yield from answers()
                    waiting, edges = [], 0
        except DataError:  # the lines before the broken one were good questions
            yield from answers()
            raise
        yield from answers()

    @overload
    def parse(self, sentences: str) -> Parse: ...  # type: ignore[overload-overlap]
    @overload
    def parse(self, sentences: Sequence[str | Sequence[str]]) -> list[Parse]: ...
    def parse(self, sentences: str | Sequence[str | Sequence[str]]) -> Parse | list[Parse]:
        """The graph of one sentence, given as a text; or those of several, given as texts or as lists of tokens."""
        if isinstance(sentences, str):
            return self.parse([sentences])[0]
        return self._parse([read_sentence(value, f"sentence {n}") for n, value in enumerate(sentences, start=1)])

    def logical_form(self, graph: TokenGraph) -> str | None:
        """The logical form of a graph, where the task has such."""
        return None

    @torch.no_grad()
    def _parse(self, sentences: Sequence[tuple[str, ...]]) -> list[Parse]:
        if not sentences:
            return []
        table = SentenceTable(0)
        for tokens in sentences:
            table.add(word_numbers(self.tokens, tokens), [])
        was_training = self.training
        self.eval()
        found = predict_table(self, table, next(self.parameters()).device, 1 + len(self.columns))
        self.train(was_training)
        return [
            Parse(graph, self.logical_form(graph), self._unknown(graph.tokens))
            for graph in graphs_of(sentences, found, self.columns)
        ]

    def _unknown(self, tokens: Iterable[str]) -> tuple[str, ...]:
        """The words among these that the model does not know, each once."""
        return tuple(dict.fromkeys(token for token in tokens if token not in self.tokens))


def word_numbers(known: Vocab, words: Iterable[str]) -> list[int]:
    """The numbers of words; all that are not known have the same."""
    numbers = (known.number(word) for word in words)
    return [UNKNOWN if number is None else number + 1 for number in numbers]


def read_sentence(value: Any, source: str, line: int | None = None) -> tuple[str, ...]:
    """The tokens of a sentence: a text is cut at its spaces and before a full stop at its end."""
    if isinstance(value, str):
        words = value.split()
        if words and len(words[-1]) > 1 and words[-1].endswith("."):
            words[-1:] = [words[-1][:-1], "."]
        value = words
    if isinstance(value, list | tuple):
        if not value:
            raise DataError(source, line, "no words", "a sentence of at least one word")
        value = {"tokens": list(value)}
    return tokens_from_json(value, source, line)


class SentenceLine(NamedTuple):
    """A sentence that a line holds."""

    number: int
    tokens: tuple[str, ...]
    fields: dict[str, Any]  # what else its object had, where it was JSON


def with_fields(parses: Iterable[Parse], fields: Iterable[Mapping[str, Any]]) -> list[Parse]:
    """Answers together with what came with their sentences."""
    return [replace(parse, fields=came) for parse, came in zip(parses, fields, strict=True)]


def read_sentence_lines(lines: Iterable[str], source: str) -> Iterator[SentenceLine]:
    """The sentences of lines: JSON (`text_or_json`) or text; blank lines are passed over."""
    number = 0
    try:
        for number, line in enumerate(lines, start=1):
            text = line.removeprefix("\ufeff") if number == 1 else line
            check_length(text, source, number)
            if ROW_OF_CONLLU.match(text):
                expected = "sentences, one a line, or a model of dependency trees with --model"
                raise DataError(source, number, "CoNLL-U", expected)
            if text.strip():
                value = text_or_json(text, source, number)
                yield SentenceLine(number, read_sentence(value, source, number), other_fields(value))
    except UnicodeDecodeError as error:
        raise no_text(source, number, error) from error


def predict_table(
    model: nn.Module, table: SentenceTable, device: torch.device, columns: int, progress: Progress | None = None
) -> Tensor:
    """What a model predicts for all tokens of a table, row after row: `[tokens, columns]`, the parent first."""
    choose_parents = best_forests if getattr(model, "tree", False) else _best_alone
    found = torch.empty(int(table.sizes.sum()), columns, dtype=torch.long)
    for batch in table.batches(max_edges=PREDICT_EDGES):
        parents, *labels = model(batch.tokens.to(device))
        chosen = [choose_parents(parents), *map(_best_alone, labels)]  # (B, n) each
        found[batch.places] = torch.stack([each.cpu() for each in chosen], dim=-1)
        if progress:
            progress(len(batch.tokens))
    return found


def graphs_of(
    sentences: Sequence[tuple[str, ...]], found: Tensor, columns: Mapping[str, Vocab]
) -> Iterator[TokenGraph]:
    """The predictions for all tokens of some sentences, `[tokens, 1 + columns]`, as graphs."""
    cells = found.tolist()
    labels_of = {name: list(labels) for name, labels in columns.items()}
    start = 0
    for tokens in sentences:
        parents, *numbers = zip(*cells[start : start + len(tokens)], strict=True)
        start += len(tokens)
        columns_of = zip(labels_of.items(), numbers, strict=True)
        labels = {name: tuple(known[number] for number in column) for (name, known), column in columns_of}
        yield TokenGraph(tokens, parents, labels)


@dataclass(frozen=True)
class ParsingSettings:
    """The `data:` section of a preset."""

    test: bool = True  # False leaves the test files unread, for runs that recipes are chosen by
    unknown: float = 0.0  # in training, a word that only one sentence has is read as unknown with this probability
    hidden: float = 0.0  # the same for all words, whatever sentences have them
    name_column: str = ""  # the column, if any, that says what words are called: nobody is asked that of a hidden word
    exchanged: float = 0.0  # so many sentences more for each sentence, whose phrases changed places (data/exchange.py)
    exchanged_tokens: int = 24  # the largest number of tokens in them
    exchanged_kind: str = ""  # the column that says which phrases may change places
    exchanged_place: str = ""  # the column that belongs to the place of a phrase, if any: what it is to its parent
    exchanged_evenly: bool = False  # what has rare words changes places as often as what has frequent ones
    exchanged_words: float = 0.0  # in so many of them a word that is a row of its own stands in for another

    def __post_init__(self) -> None:
        require_fraction(self, "unknown", "hidden", "exchanged_words")
        if not 1 <= self.exchanged_tokens <= MAX_TOKENS:
            raise ValueError(f"exchanged_tokens must be from 1 to {MAX_TOKENS}, but is {self.exchanged_tokens}")
        if not 0 <= self.exchanged <= MOST_EXCHANGED:
            raise ValueError(f"exchanged must be from 0 to {MOST_EXCHANGED}, but is {self.exchanged}")
        if self.exchanged and not self.exchanged_kind:
            raise ValueError("exchanged needs exchanged_kind, the column that says which phrases may change places")


class ParsingData(SplitTaskData):
    """Graphs as tensors, and how a model is trained and scored on them.

    `splits` has the graphs by name. "train" is there unless a trained model is to be scored; "dev", where there is one,
    is what is looked at while training goes on.
    """

    Settings: ClassVar[type] = ParsingSettings
    Model: ClassVar[type[GraphParser]] = GraphParser

    def __init__(
        self,
        name: str,
        files_hash: str,
        splits: Mapping[str, Sequence[TokenGraph]],
        settings: ParsingSettings,
        seed: int,
        model: GraphParser | None = None,
    ) -> None:
        self._name, self._fingerprint, self._settings = name, files_hash, settings
        self._train = splits.get("train", ())
        if model is None:
            self._check_columns()
        self._exchanged = self._exchange_phrases(seed) if model is None and settings.exchanged else []
        self._splits = {split: graphs for split, graphs in splits.items() if split != "train"}
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
    def load(
        cls,
        folder: Path,
        settings: Any,
        seed: int,
        model: TaskModel | None = None,
        progress: Progress | None = None,
    ) -> Self:
        # Who asks for the scores of a trained model means those of all there are.
        files = token_graph_files(folder, training=model is None, testing=settings.test or model is not None)
        unread = ("train",) if model is not None else () if settings.test else ("test",)
        wanted = {split: path for split, path in files.items() if not split.startswith(unread)}
        columns = cast(GraphParser, model).columns if model is not None else None
        splits = read_splits(wanted, columns, progress)
        hashed = fingerprint(files.values())
        return cls(Path(folder).resolve().name, hashed, splits, settings, seed, cast(GraphParser | None, model))

    @classmethod
    def fingerprint(cls, folder: Path, training: bool = True, testing: bool = True, split: str | None = None) -> str:
        return fingerprint(token_graph_files(folder, training, testing).values())

    @cached_property
    def _table(self) -> SentenceTable:
        """The training rows, made when the first of them are asked for: who only scores needs none."""
        return self._tabulate([*self._train, *self._exchanged])

    def _check_columns(self) -> None:
        """Columns that settings name must be there."""
        columns = self._train[0].labels
        for option in ("exchanged_kind", "exchanged_place", "name_column"):
            name = getattr(self._settings, option)
            if name and name not in columns:
                known = ", ".join(columns) or "none"
                raise UserError(f"data.{option}: found {name}; expected one of the columns of the rows: {known}")

    def _exchange_phrases(self, seed: int) -> list[TokenGraph]:
        """New training sentences out of those there are."""
        settings = self._settings
        wanted = round(settings.exchanged * len(self._train))
        source = Exchange(
            self._train,
            settings.exchanged_kind,
            settings.exchanged_place,
            settings.exchanged_evenly,
            settings.exchanged_words,
            settings.name_column,
        )
        made = source.new_sentences(wanted, settings.exchanged_tokens, seed)
        if wanted and not made:
            raise UserError(
                f"data.exchanged_kind: found no phrases of up to {settings.exchanged_tokens} tokens that can change "
                f"places by their labels in {settings.exchanged_kind}; expected some of the same kind"
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
        """For each word number, whether only one training sentence has it: `[words]`."""
        counts = Counter(token for graph in self._train for token in set(graph.tokens))
        return torch.tensor([False, *(counts[token] == 1 for token in self.tokens)])

    @property
    def train_rows(self) -> int:
        return len(self._train) + len(self._exchanged)

    def train_sizes(self) -> Tensor:
        return self._table.sizes

    def identity(self) -> dict[str, Any]:
        more = {"exchanged_rows": len(self._exchanged)} if self._exchanged else {}
        return {"name": self._name, "fingerprint": self._fingerprint, "train_rows": self.train_rows, **more}

    def notes(self) -> list[str]:
        notes = []
        wanted = round(self._settings.exchanged * len(self._train))
        if 2 * len(self._exchanged) < wanted:
            notes.append(f"data.exchanged asks for {wanted} new sentences; {len(self._exchanged)} could be made")
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
        return self.Model(settings, self.tokens, self.columns)

    def batches(self, rows: Tensor) -> Iterator[list[SentenceBatch]]:
        """Groups of sentences of equal length that are computed together."""
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
        """A batch in which some words are read as unknown this time."""
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
            F.cross_entropy(exact(logits), target.to(device), reduction="sum", ignore_index=UNSEEN)
            for logits, target in zip(found, wanted, strict=True)
        ]
        return torch.stack(losses).sum()

    def _score(self, split: str, model: nn.Module, device: torch.device, progress: Progress | None) -> dict[str, float]:
        return self._scores_of(split, self._predict(split, model, device, progress))

    @torch.no_grad()
    def _predict(self, split: str, model: nn.Module, device: torch.device, progress: Progress | None) -> Tensor:
        return predict_table(model, self._tables[split], device, 1 + len(self.columns), progress)

    def _matches(self, split: str, found: Tensor) -> Tensor:
        """For each row whether every prediction at every token is right: bool `[rows]`."""
        table = self._tables[split]
        wrong = (found != table.targets).any(-1)  # (tokens,)
        return torch.zeros(len(table), dtype=torch.long).index_add(0, table.rows_of_tokens(), wrong.long()) == 0

    def _scores_of(self, split: str, found: Tensor) -> dict[str, float]:
        """The exact match of a split, and of each group where its rows name several."""
        matches = self._matches(split, found)
        scores = {split: float(matches.double().mean())}
        groups = [graph.group for graph in self._splits[split]]
        if len(set(groups)) > 1:
            for group in sorted(set(groups)):
                chosen = matches[torch.tensor([each == group for each in groups])]
                scores[f"{split}/{group or 'no group'}"] = float(chosen.double().mean())
        return scores


def exact(logits: Tensor) -> Tensor:
    """Losses are sums over many tokens: never in 16 bits."""
    return logits if logits.dtype == torch.float64 else logits.float()


def _best_alone(logits: Tensor) -> Tensor:
    return logits.argmax(-1)


def _label_numbers(known: Vocab, labels: Iterable[str]) -> list[int]:
    numbers = map(known.number, labels)
    return [UNSEEN if number is None else number for number in numbers]
