"""What an ONNX file computes for each kind of model: its inputs, outputs and what their numbers mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..data.tensors import MOST_LETTERS
from ..errors import UserError
from ..nn.cache import extend
from ..nn.decoder import EdgeSeq2Seq
from ..nn.encoder import EdgeTransformer
from ..nn.generation import check_source
from ..tasks.graphs.model import GraphParser
from ..tasks.relations.model import RelationModel
from ..tasks.seq2seq.model import Translator
from ..tasks.trees.model import TreeParser
from .engine import GrownMemory

Values = list[str | None]  # what the numbers of an input or output stand for; None for a number without a name


@dataclass(frozen=True)
class Port:
    """An input or output. Axes have the names of sizes that may differ from call to call, or fixed sizes."""

    axes: tuple[str | int, ...]
    values: Values | None = None
    about: str = ""


@dataclass(frozen=True)
class Program:
    """One ONNX file."""

    module: nn.Module
    inputs: Mapping[str, Port]
    outputs: Mapping[str, Port]
    example: Callable[[int, int], tuple[Tensor, ...]]  # inputs for so many graphs with so many nodes
    name: str = ""  # of one of several files of a model


def programs_of(model: nn.Module) -> list[Program]:
    """The programs of a model, in eval mode, in the order in which they are run."""
    for kind, make in _KINDS.items():
        if isinstance(model, kind):
            return make(model)
    known = ", ".join(kind.__name__ for kind in _KINDS)
    raise UserError(f"export: found a {type(model).__name__}; expected one of {known}")


# --- encoders and heads -----------------------------------------------------------------------------------------------

MASK = Port(("batch", "n"), about="True for a real node, False for padding")


def _encoder(model: EdgeTransformer) -> list[Program]:
    dim = model.config.dim
    edges = Port(("batch", "n", "n", dim), about="states of all pairs of nodes")

    def example(batch: int, n: int) -> tuple[Tensor, ...]:
        return torch.randn(batch, n, n, dim), torch.arange(n) < torch.randint(1, n + 1, (batch, 1))

    return [Program(model, {"edges": edges, "node_mask": MASK}, {"states": edges}, example)]


class _Calibrated(nn.Module):
    """Logits whose soft-max is the probabilities of `predict`."""

    def __init__(self, model: RelationModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, labels: Tensor, query: Tensor) -> Tensor:
        logits: Tensor = self.model(labels, query)
        return logits / self.model.temperature


def _relations(model: RelationModel) -> list[Program]:
    schema = model.schema
    if schema.kind != "one" or schema.labels != len(model.relations) or schema.node_features or schema.edge_features:
        found = (
            "of several labels or numbers as answers, labels or features of nodes, features of edges, or absent edges"
        )
        raise UserError(f"export: found a model {found}; expected one of labelled edges and one label as answer")
    relations: Values = [None, *model.relations]

    def example(batch: int, n: int) -> tuple[Tensor, ...]:
        return torch.randint(len(relations), (batch, n, n)), torch.randint(n, (batch, 2))

    inputs = {
        "labels": Port(("batch", "n", "n"), relations, "relation from node i to node j; 0 where there is none"),
        "query": Port(("batch", 2), about="the two nodes that are asked about"),
    }
    about = "their soft-max is the probabilities that predict gives"
    outputs = {"logits": Port(("batch", len(model.answers)), list(model.answers), about)}
    return [Program(_Calibrated(model), inputs, outputs, example)]


def _graphs(model: GraphParser) -> list[Program]:
    def example(batch: int, n: int) -> tuple[Tensor, ...]:
        return (torch.randint(len(model.tokens) + 1, (batch, n)),)

    about = "logits of each token's parent, which is the token itself where there is none"
    outputs = {"parents": Port(("batch", "n", "n"), about=about)}
    for name, labels in model.columns.items():
        outputs[f"labels.{name}"] = Port(("batch", "n", len(labels)), list(labels), "logits of each token's label")
    tokens = Port(("batch", "n"), [None, *model.tokens], "0 for an unknown token")
    return [Program(model, {"tokens": tokens}, outputs, example)]


class _Trees(nn.Module):
    """Every word for itself in place of the distinct words of a batch; scores of arcs in place of logits."""

    def __init__(self, parser: TreeParser) -> None:
        super().__init__()
        self.parser = parser

    def forward(self, words: Tensor, letters: Tensor) -> tuple[Tensor, Tensor]:
        places = torch.arange(words.numel(), device=words.device).view_as(words)
        return self.parser.best_arcs(self.parser(words.flatten(), letters.flatten(0, 1), places))


def _trees(model: TreeParser) -> list[Program]:
    lexicon = model.lexicon
    letters: Values = [None, None, "START", "END", *lexicon.letters]

    def example(batch: int, n: int) -> tuple[Tensor, ...]:
        spelt = torch.randint(1, len(letters), (batch, n, MOST_LETTERS))
        lengths = torch.randint(3, MOST_LETTERS, (batch, n, 1))
        return torch.randint(lexicon.word_numbers, (batch, n)), spelt * (torch.arange(MOST_LETTERS) < lengths)

    case = " in lower case" if lexicon.lower_case else ""
    inputs = {
        "words": Port(("batch", "n"), [None, *lexicon.words], f"numbers of words{case}; 0 for an unknown word"),
        "letters": Port(
            ("batch", "n", MOST_LETTERS),
            letters,
            "START, the letters, END, then 0; 1 for an unknown letter; of a longer word its ten first and last letters",
        ),
    }
    outputs = {
        "scores": Port(("batch", "n", "n + 1"), about="of head j of each word, counted from 1; 0 is the root"),
        "labels": Port(("batch", "n", "n + 1"), list(model.labels), "number of the best label of each arc"),
    }
    return [Program(_Trees(model), inputs, outputs, example)]


# --- encoder-decoders -------------------------------------------------------------------------------------------------


class _Start(nn.Module):
    """Read the sources, and give what is needed to go on and the logits of the first token."""

    def __init__(self, network: EdgeSeq2Seq) -> None:
        super().__init__()
        self.network = network

    def forward(self, source: Tensor, source_mask: Tensor) -> tuple[Tensor, ...]:
        network, decoder = self.network, self.network.decoder
        check_source(source, source_mask)
        edges = source_edges = network.encoder(network.source_input(source), source_mask)
        memories = []
        for depth in range(decoder.config.layers - 1):
            layer = decoder.layer(depth)
            normed, parts = layer.project(edges)
            memories.append(GrownMemory(parts, layer.attention.key))
            edges = layer.finish(edges, normed, layer.mix(parts, node_mask=source_mask))
        ends = network.decoder_input.first_ends(source_edges)
        beginning = network.decoder_input.beginning.expand(source.shape[0], -1)
        return _add_node(network, memories, beginning, source_mask, source.shape[1], ends)


class _Step(nn.Module):
    """Add a token to each sequence, and give the logits of the next one."""

    def __init__(self, network: EdgeSeq2Seq) -> None:
        super().__init__()
        self.network = network

    def forward(
        self, tokens: Tensor, sources: Tensor, node_mask: Tensor, cache: Tensor, ends: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        memories = [GrownMemory(parts, self.network.decoder.config.key) for parts in cache.unbind()]
        return _add_node(self.network, memories, self.network.embed(tokens), node_mask, sources, ends)


def _add_node(
    network: EdgeSeq2Seq,
    memories: Sequence[GrownMemory],
    embedded: Tensor,
    node_mask: Tensor,
    sources: Any,
    ends: Tensor | None,
) -> tuple[Tensor, ...]:
    """The logits of the next token, and the mask, cache and ends with the new node."""
    decoder = network.decoder
    mask = torch.cat([node_mask, torch.ones_like(node_mask[:, :1])], dim=1)
    new, ends = network.decoder_input.new_edges(mask.shape[1], sources, embedded, ends)
    layers = list(map(decoder.layer, range(decoder.config.layers)))
    logits = network.output(decoder.final_norm(extend(layers, memories, new, mask)))
    cache = torch.stack([memory.parts for memory in memories])
    return (logits, mask, cache) if ends is None else (logits, mask, cache, ends)


def _seq2seq(
    network: EdgeSeq2Seq, source: Values | None = None, target: Values | None = None, source_end: bool = False
) -> list[Program]:
    config = network.decoder.config
    if config.layers < 2:
        raise UserError("export: found a decoder of 1 layer; expected 2 or more: it remembers nothing")
    parts = 4 if config.value == "product" else 3
    shape = (config.layers - 1, "batch", "n", "n", parts, config.heads, config.dim // config.heads)
    state = {"node_mask": MASK, "cache": Port(shape, about="q, k, v1 and v2 of all edges of each layer but the last")}
    if network.decoder_input.target_ends is not None:
        state["ends"] = Port(("n", "batch", 2 * config.dim), about="what each node adds to edges of its own")
    start = _Start(network)

    def first(batch: int, n: int) -> tuple[Tensor, ...]:
        tokens = torch.randint(network.source_input.tokens.num_embeddings, (batch, n))
        return tokens, torch.arange(n) < torch.randint(1, n + 1, (batch, 1))

    @torch.no_grad()
    def next_(batch: int, n: int) -> tuple[Tensor, ...]:
        """After the beginning: n nodes, of which n - 1 are those of the source."""
        _, *state = start(*first(batch, max(1, n - 1)))
        tokens = torch.randint(network.output.out_features, (batch,))
        return tokens, torch.tensor(max(1, n - 1)), *state

    logits = {"logits": Port(("batch", network.output.out_features), target, "of the next token")}
    grown = {
        f"next_{name}": Port(
            tuple("n + 1" if axis == "n" else axis for axis in port.axes), about=f"{name} of the next step"
        )
        for name, port in state.items()
    }
    sources = {
        "source": Port(("batch", "n"), source, "tokens of the source" + ", and END after them" * source_end),
        "source_mask": Port(("batch", "n"), about="True for a real token, False for padding"),
    }
    steps = {
        "tokens": Port(("batch",), target, "the last token of each sequence"),
        "sources": Port((), about="how many of the nodes are those of the source: its length, padding included"),
        **state,
    }
    return [
        Program(start, sources, {**logits, **grown}, first, "start"),
        Program(_Step(network), steps, {**logits, **grown}, next_, "step"),
    ]


def _translator(model: Translator) -> list[Program]:
    if not isinstance(model.network, EdgeSeq2Seq):
        raise UserError(f"export: found a {type(model.network).__name__}; expected an Edge Transformer")
    source: Values = ["END", None, *model.source]
    return _seq2seq(model.network, source, ["END", None, *model.target], model.source_end)


_KINDS: dict[type[nn.Module], Callable[[Any], list[Program]]] = {
    RelationModel: _relations,
    GraphParser: _graphs,
    TreeParser: _trees,
    Translator: _translator,
    EdgeSeq2Seq: _seq2seq,
    EdgeTransformer: _encoder,
}
