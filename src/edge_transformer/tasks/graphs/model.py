"""The model of graph parsing: sentences in, a parent and labels for every token out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self, cast, overload

import torch
from torch import Tensor, nn

from ...data.graphs.edges import SentenceGraph
from ...data.graphs.logical_forms import COLUMNS, form_of_graph
from ...data.graphs.rows import TokenGraph, other_fields, tokens_from_json
from ...data.tensors import SentenceTable, Vocab
from ...data.trees.conllu import ROW_OF_CONLLU
from ...draw.arcs import ArcDiagram, GraphDiagram, diagram_of_edges, diagram_of_graph
from ...draw.svg import draw_html
from ...errors import DataError, UserError, no_text
from ...io.settings import require_choice, require_fraction, require_positive
from ...io.streams import answered, check_length, never, text_or_json, unquoted
from ...nn.encoder import Encoded, TokenEncoder
from ...nn.heads import POOLS, AttentionParentHead, NodeLabelHead, ParentHead
from ...nn.inputs import TokenSequenceInput
from ...nn.spanning import best_forests
from ..base import Progress, TaskModel, answering, build_encoder, model_options, require_list
from .decode import CONSTRAINTS

PREDICT_EDGES = 20_000  # pairs of tokens computed at once outside training, to bound memory
STREAM_EDGES = 5 * PREDICT_EDGES  # pairs of tokens of a stream that are answered together
LOGICAL_FORM = "logical_form"
EDGES = "edges"  # the form of a model whose rows have edges; others have parents
UNKNOWN = 0  # the number of all unknown words; known words follow


@dataclass(frozen=True)
class ParserOptions:
    """Settings of a parser's `model:` section besides those of its encoder."""

    max_distance: int = 16  # relative positions are clipped here
    # The others are for rows with "edges".
    edges: str = "auto"  # labels of a pair: "several" | "one" at most | "auto": as in the training rows
    factored: bool = False  # score an edge first, then its labels
    threshold: float = 0.5  # the least probability of an edge
    constraint: str = ""  # what edges must be: "one-head" | "forest": one head, no cycles | "acyclic"
    root: str = ""  # a label of tokens that one token of each sentence has
    at_most_one: tuple[str, ...] = ()  # patterns such as "gender:*": at most one such label a pair
    ends: bool = False  # add words to all edges that start or end at them, not only to their self-edges
    characters: int = 0  # filters of the character model; 0 for none
    word_dim: int | None = None  # width of word embeddings; by default that of a state
    input_dropout: float = 0.0  # of word embeddings
    arc_dim: int = 128  # width of the biaffine scores of edges, for encoders without edge states
    label_dim: int = 64
    pool: str = "mean"  # how labels of the sentence are read: "mean" | "attention" | "max" | "mean-max"

    def __post_init__(self) -> None:
        require_positive(self, "max_distance", "arc_dim", "label_dim")
        require_fraction(self, "input_dropout")
        require_choice(self, "pool", POOLS)
        require_choice(self, "constraint", CONSTRAINTS)
        require_choice(self, "edges", ("auto", "several", "one"))
        if not 0 < self.threshold < 1:
            raise ValueError(f"threshold must be above 0 and below 1, but is {self.threshold}")
        if self.word_dim is not None:
            require_positive(self, "word_dim")
        if self.characters < 0:
            raise ValueError(f"characters must not be negative, but is {self.characters}")


@dataclass(frozen=True)
class Parse:
    """The parse of a sentence."""

    graph: TokenGraph | SentenceGraph
    text: str | None = None  # what is rebuilt from the graph, such as its logical form; None if it has none
    unknown: tuple[str, ...] = ()  # words that no training sentence has
    fields: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)  # other fields of JSON input
    text_field: str = LOGICAL_FORM  # what the text is, as a field of JSON; "" where rows have none

    @property
    def logical_form(self) -> str | None:
        """The logical form, if that is the text of these graphs."""
        return self.text if self.text_field == LOGICAL_FORM else None

    def to_json(self) -> dict[str, Any]:
        """The graph as a row of data, with all other fields."""
        text = {self.text_field: self.text} if self.text_field else {}
        return dict(self.fields) | self.graph.to_json() | text | {"unknown": list(self.unknown)}

    def diagram(self) -> ArcDiagram | GraphDiagram:
        """The graph as arcs."""
        return diagram_of_edges(self.graph) if isinstance(self.graph, SentenceGraph) else diagram_of_graph(self.graph)

    def _repr_html_(self) -> str:
        """The graph as arcs, with its text and a warning of unknown words, for notebooks."""
        guess = f"never seen in training, so a guess: {', '.join(self.unknown)}" if self.unknown else ""
        return draw_html(self.diagram(), self.text or "", guess)


class GraphParser(TaskModel):
    """Token sequence in; the parent of every token and one label a column out.

    A model of rows with edges is an `EdgeParser`, which is one of these: `load` and `train` know which.
    """

    task = "graphs"
    Options = ParserOptions
    reads = "tokens"
    tree = False  # True makes predicted parents free of cycles

    def __init__(self, settings: Mapping[str, Any], tokens: Vocab, columns: Mapping[str, Vocab]) -> None:
        super().__init__()
        self.settings, self.tokens, self.columns = dict(settings), tokens, dict(columns)
        options = model_options(settings, ParserOptions)
        _refuse_options_of_edges(options)
        self.encoder = build_encoder(settings, ParserOptions, self.reads)
        dim = self.encoder.config.dim
        distance = options.max_distance if self.encoder.takes_edges else None
        self.input = TokenSequenceInput(len(tokens) + 1, dim, distance)
        self.parent = ParentHead(dim) if self.encoder.has_edge_states else AttentionParentHead(dim)
        self.labels = nn.ModuleList(NodeLabelHead(dim, len(labels)) for labels in self.columns.values())

    def forward(self, tokens: Tensor | Sequence[Tensor], node_mask: Tensor | None = None) -> Any:
        """`[batch, n]` token numbers -> logits: `[batch, n, n]` of the parents, `[batch, n, labels]` of each column.

        A list of groups of sentences, each of one length, gives two lists: the parent logits of each group, and the
        label logits of each column for the tokens of all groups, `[tokens, labels]`.
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
        """The parent logits of each group; with edge states, by one product for all groups."""
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
        if description.get("form") == EDGES:
            from .edge_model import EdgeParser  # late: it is made of this one

            return cast(Self, EdgeParser.from_description(description))
        columns = {name: Vocab(labels) for name, labels in description["columns"].items()}
        return cls(description["model"], Vocab(description["tokens"]), columns)

    def predict(self, inputs: Sequence[str | Sequence[str] | Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Parse sentences: texts, lists of tokens, or objects {"tokens": [...]}."""
        require_list(inputs, "sentence")
        sentences = [read_sentence(value, f"input {number}") for number, value in enumerate(inputs)]
        return [parse.to_json() for parse in with_fields(self._parse(sentences), map(other_fields, inputs))]

    def predict_lines(
        self, lines: Iterable[str], source: str, pausing: Callable[[], bool] = never
    ) -> Iterator[dict[str, Any]]:
        """Parse lines of JSON, as `predict` takes it, or plain sentences."""
        return (parse.to_json() for _, parse in self.parse_lines(map(unquoted, lines), source, pausing))

    def parse_lines(
        self, lines: Iterable[str], source: str, pausing: Callable[[], bool] = never
    ) -> Iterator[tuple[int, Parse]]:
        """Parse lines as they arrive; yields line numbers and parses."""

        def answers(waiting: list[SentenceLine]) -> Iterator[tuple[int, Parse]]:
            parsed = with_fields(self._parse([line.tokens for line in waiting]), (line.fields for line in waiting))
            yield from zip((line.number for line in waiting), parsed, strict=True)

        sentences = read_sentence_lines(lines, source)
        return answered(sentences, answers, lambda line: len(line.tokens) ** 2, STREAM_EDGES, pausing)

    @overload
    def parse(self, sentences: str) -> Parse: ...  # type: ignore[overload-overlap]
    @overload
    def parse(self, sentences: Sequence[str | Sequence[str]]) -> list[Parse]: ...
    def parse(self, sentences: str | Sequence[str | Sequence[str]]) -> Parse | list[Parse]:
        """Parse one sentence, a text, or several, texts or lists of tokens."""
        if isinstance(sentences, str):
            return self.parse([sentences])[0]
        return self._parse([read_sentence(value, f"sentence {n}") for n, value in enumerate(sentences, start=1)])

    def logical_form(self, graph: TokenGraph) -> str | None:
        """The logical form of a graph; None if it has none, or the labels are not those of COGS."""
        return logical_form(graph) if tuple(self.columns) == COLUMNS else None

    @torch.no_grad()
    def _parse(self, sentences: Sequence[tuple[str, ...]]) -> list[Parse]:
        if not sentences:
            return []
        table = SentenceTable(0)
        for tokens in sentences:
            table.add(word_numbers(self.tokens, tokens), [])
        with answering(self):
            found = predict_table(self, table, next(self.parameters()).device, 1 + len(self.columns))
        return [
            Parse(graph, self.logical_form(graph), self._unknown(graph.tokens))
            for graph in graphs_of(sentences, found, self.columns)
        ]

    def _unknown(self, tokens: Iterable[str]) -> tuple[str, ...]:
        """The unknown words among these, each once."""
        return tuple(dict.fromkeys(token for token in tokens if token not in self.tokens))


def _refuse_options_of_edges(options: ParserOptions) -> None:
    """Refuse settings that rows with one parent a token have no use for."""
    for each in dataclasses.fields(options):
        value = getattr(options, each.name)
        if each.name != "max_distance" and value != each.default:
            raise UserError(f'model.{each.name}: found {value!r}, and rows with "parents"; expected rows with "edges"')


def logical_form(graph: TokenGraph) -> str | None:
    """The logical form of a graph; None if it has none, as a predicted graph may not."""
    try:
        return form_of_graph(graph)
    except DataError:
        return None


def word_numbers(known: Vocab, words: Iterable[str]) -> list[int]:
    """The numbers of words; unknown words share one."""
    numbers = (known.number(word) for word in words)
    return [UNKNOWN if number is None else number + 1 for number in numbers]


def read_sentence(value: Any, source: str, line: int | None = None) -> tuple[str, ...]:
    """The tokens of a sentence; a text is split at spaces and before a final full stop."""
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
    """A line with a sentence."""

    number: int
    tokens: tuple[str, ...]
    fields: dict[str, Any]  # other fields of JSON input


def with_fields(parses: Iterable[Parse], fields: Iterable[Mapping[str, Any]]) -> list[Parse]:
    """Add the other fields of the input to its parses."""
    return [replace(parse, fields=came) for parse, came in zip(parses, fields, strict=True)]


def read_sentence_lines(lines: Iterable[str], source: str) -> Iterator[SentenceLine]:
    """Read lines of JSON or text; blank lines are skipped."""
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
    """Predict all tokens of a table, row by row: `[tokens, columns]`, the parent first."""
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
    """Turn predictions, `[tokens, 1 + columns]`, into graphs."""
    cells = found.tolist()
    labels_of = {name: list(labels) for name, labels in columns.items()}
    start = 0
    for tokens in sentences:
        parents, *numbers = zip(*cells[start : start + len(tokens)], strict=True)
        start += len(tokens)
        columns_of = zip(labels_of.items(), numbers, strict=True)
        labels = {name: tuple(known[number] for number in column) for (name, known), column in columns_of}
        yield TokenGraph(tokens, parents, labels)


def _best_alone(logits: Tensor) -> Tensor:
    return logits.argmax(-1)
