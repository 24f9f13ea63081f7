"""The model of sentence graphs: sentences in, any number of labelled edges between their tokens out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self, cast

import torch
from torch import Tensor, nn

from ...data.graphs.corpora import TEXTS, text_of, tokens_for
from ...data.graphs.edges import SentenceGraph
from ...data.tensors import UNKNOWN, Lexicon, Vocab, WordTypes
from ...errors import UserError
from ...nn.encoder import TokenEncoder
from ...nn.inputs import WordInput
from ..base import Progress, TaskModel, answering, build_encoder, model_options
from .decode import Constraints, constrained, constrained_own, label_groups, label_scores
from .edge_heads import GraphHeads, LabelForm, Logits
from .edge_table import EdgeTable, GraphVocabs
from .model import EDGES, PREDICT_EDGES, GraphParser, Parse, ParserOptions


class EdgeParser(GraphParser):
    """Sentences in; edges, labels of tokens and labels of the sentence out."""

    def __init__(self, settings: Mapping[str, Any], lexicon: Lexicon, vocabs: GraphVocabs, text: str = "") -> None:
        """`settings` say whether a pair has several labels; `text` is the field with what graphs are rebuilt to."""
        TaskModel.__init__(self)  # of the parser of parents, only what is around its network
        self.settings, self.lexicon, self.vocabs, self.text = dict(settings), lexicon, vocabs, text
        self.columns, self.tokens = vocabs.columns, lexicon.words
        self.options = options = model_options(settings, ParserOptions)
        self.form = LabelForm(options.edges == "several", options.factored)
        self.encoder = build_encoder(settings, ParserOptions, self.reads)
        dim = self.encoder.config.dim
        self.words = WordInput(
            lexicon.word_numbers,
            lexicon.letter_numbers,
            dim,
            characters=options.characters,
            max_distance=options.max_distance if self.encoder.takes_edges else None,
            ends=options.ends and self.encoder.takes_edges,
            dropout=options.input_dropout,
            word_dim=options.word_dim,
            root=False,
        )
        dims = options.arc_dim, options.label_dim
        dropout = self.encoder.config.dropout
        self.heads = GraphHeads(dim, vocabs, self.form, self.encoder.has_edge_states, dims, dropout, options.pool)
        self.constraints = self._constraints()

    def _constraints(self) -> Constraints:
        options, root = self.options, None
        if options.root:
            root = self.vocabs.own.number(options.root)
            if root is None:
                known = ", ".join(self.vocabs.own) or "none"
                raise UserError(f"model.root: found {options.root!r}; expected one of the labels of tokens: {known}")
        groups = (label_groups(options.at_most_one, labels) for labels in (self.vocabs.edges, self.vocabs.own))
        return Constraints(options.constraint, root, *groups)

    @property
    def tree(self) -> bool:
        """Whether predicted graphs are forests."""
        return self.constraints.heads == "forest"

    @tree.setter
    def tree(self, forest: bool) -> None:
        self.constraints = replace(self.constraints, heads="forest" if forest else self.options.constraint)

    def forward(self, words: Tensor, letters: Tensor, groups: Sequence[Tensor]) -> Logits:  # type: ignore[override]
        """The logits of groups of sentences.

        words `[types]` and letters `[types, most]` are the distinct words; each group, `[batch, n]`, says which stands
        where.
        """
        if isinstance(self.encoder, TokenEncoder):
            tokens = self.words.of_token_groups(words, letters, groups)
            return cast(Logits, self.heads([self.encoder.encode_tokens(each) for each in tokens]))
        return cast(Logits, self.heads(self.encoder.encode_groups(self.words.forward_groups(words, letters, groups))))

    def description(self) -> dict[str, Any]:
        vocabs = self.vocabs
        return {
            "form": EDGES,
            "model": self.settings,
            "lexicon": self.lexicon.to_json(),
            "edges": list(vocabs.edges),
            "own": list(vocabs.own),
            "columns": {name: list(labels) for name, labels in vocabs.columns.items()},
            "sentence": {name: list(labels) for name, labels in vocabs.sentence.items()},
            "text": self.text,
        }

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Self:
        columns, sentence = (
            {name: Vocab(labels) for name, labels in description[each].items()} for each in ("columns", "sentence")
        )
        text = str(description["text"])
        if text and text not in TEXTS:
            raise UserError(f"text: found {text!r}; expected one of {', '.join(TEXTS) or 'none'}")
        vocabs = GraphVocabs(Vocab(description["edges"]), Vocab(description["own"]), columns, sentence)
        return cls(description["model"], Lexicon.from_json(description["lexicon"]), vocabs, text)

    def text_of(self, graph: SentenceGraph) -> str | None:
        """What is rebuilt from a graph; None if it has no text."""
        return text_of(self.text, graph) if self.text else None

    @torch.no_grad()
    def _parse(self, sentences: Sequence[tuple[str, ...]]) -> list[Parse]:
        if not sentences:
            return []
        sentences = [tokens_for(self.text, words) for words in sentences]
        types = WordTypes(self.lexicon)
        names = dict.fromkeys(self.vocabs.sentence, "")
        graphs = [SentenceGraph(tokens, (), dict.fromkeys(self.columns, tokens), names) for tokens in sentences]
        table = EdgeTable(graphs, types, self.vocabs)
        with answering(self):
            found = predict_graphs(self, self, types, table, next(self.parameters()).device)
        return [
            Parse(graph, self.text_of(graph), self._unknown(graph.tokens), text_field=self.text)
            for graph in graphs_of(found, sentences, self.vocabs)
        ]

    def _unknown(self, tokens: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(token for token in tokens if self.lexicon.word(token) == UNKNOWN))


class Found(NamedTuple):
    """The predictions of a table, in the order of its rows."""

    edges: Tensor  # (edges, 4): row, head, dependent, label
    own: Tensor  # (labels of tokens, 3): row, token, label
    columns: Tensor  # (tokens, columns)
    sentence: Tensor  # (rows, labels of the sentence)


def predict_graphs(
    parser: EdgeParser,
    model: nn.Module,
    types: WordTypes,
    table: EdgeTable,
    device: torch.device,
    progress: Progress | None = None,
) -> Found:
    """Predict all rows of a table. `model` may wrap the parser."""
    form, threshold, constraints = parser.form, parser.options.threshold, parser.constraints
    edges, own = [torch.zeros(0, 4, dtype=torch.long)], [torch.zeros(0, 3, dtype=torch.long)]
    columns = torch.zeros(len(table.tokens), len(parser.vocabs.columns), dtype=torch.long)
    sentence = torch.zeros(len(table), len(parser.vocabs.sentence), dtype=torch.long)
    for groups in table.groups(None, PREDICT_EDGES):
        chosen, places = torch.cat([tokens.flatten() for tokens in groups.tokens]).unique(return_inverse=True)
        sizes = [tokens.shape for tokens in groups.tokens]
        parts = places.split([size.numel() for size in sizes])
        tokens = [part.view(size).to(device) for part, size in zip(parts, sizes, strict=True)]
        logits: Logits = model(types.words[chosen].to(device), types.letters[chosen].to(device), tokens)
        pairs = logits.pairs.split([batch * n * n for batch, n in sizes])
        of_tokens = logits.own.split([batch * n for batch, n in sizes])
        for (batch, n), rows, of_pairs, of_own in zip(sizes, groups.rows, pairs, of_tokens, strict=True):
            scores = label_scores(of_pairs.view(batch, n, n, -1), form, threshold)
            at, *rest = (constrained(scores, constraints) > 0).nonzero().cpu().unbind(1)
            edges.append(torch.stack([rows[at], *rest], 1))
            scores = label_scores(of_own.view(batch, n, -1), parser.heads.own_form, threshold)
            at, *rest = (constrained_own(scores, constraints, form.several) > 0).nonzero().cpu().unbind(1)
            own.append(torch.stack([rows[at], *rest], 1))
        everywhere, rows = torch.cat([each.flatten() for each in groups.places]), torch.cat(groups.rows)
        for number, of_column in enumerate(logits.columns):
            columns[everywhere, number] = of_column.argmax(-1).cpu()
        for number, of_sentence in enumerate(logits.sentence):
            sentence[rows, number] = of_sentence.argmax(-1).cpu()
        if progress:
            progress(len(rows))
    return Found(_by_row(edges), _by_row(own), columns, sentence)


def _by_row(parts: Sequence[Tensor]) -> Tensor:
    found = torch.cat(list(parts))
    return found[found[:, 0].argsort(stable=True)]


def graphs_of(found: Found, sentences: Sequence[tuple[str, ...]], vocabs: GraphVocabs) -> Iterator[SentenceGraph]:
    """Turn predictions into graphs."""
    names, own_names = list(vocabs.edges), list(vocabs.own)
    edges: list[list[tuple[int, int, str]]] = [[] for _ in sentences]
    for row, head, dependent, label in found.edges.tolist():
        edges[row].append((head, dependent, names[label]))
    for row, token, label in found.own.tolist():
        edges[row].append((token, token, own_names[label]))
    columns = [(name, list(labels)) for name, labels in vocabs.columns.items()]
    of_sentence = [(name, list(labels)) for name, labels in vocabs.sentence.items()]
    cells, start = found.columns.tolist(), 0
    for tokens, own, numbers in zip(sentences, edges, found.sentence.tolist(), strict=True):
        of_tokens = cells[start : start + len(tokens)]
        start += len(tokens)
        labels = {name: tuple(known[cell[place]] for cell in of_tokens) for place, (name, known) in enumerate(columns)}
        named = {name: known[number] for (name, known), number in zip(of_sentence, numbers, strict=True)}
        yield SentenceGraph(tokens, tuple(own), labels, named)
