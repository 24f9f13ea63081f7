"""Encoders: the Edge Transformer, a stack of layers over the states of all pairs of nodes; what every encoder offers;
and the registry of encoders.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any, ClassVar, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..errors import UserError, suggestion
from .layer import (
    EdgeTransformerConfig,
    EdgeTransformerLayer,
    FeedForward,
    StackConfig,
    gather_edges,
    require_recomputing,
)
from .plain import may_be_skipped
from .trust import import_trusted, is_place

RECOMPUTE = ("nothing", "hidden", "layers")


class Encoded(NamedTuple):
    """What every encoder answers with, ours or a baseline, so that every head works with every encoder."""

    nodes: Tensor  # (B, n, dim)
    edges: Tensor  # (B, n, n, dim)


class Stack(nn.Module):
    """What everything that runs layers has: a depth that may be random in training, and a way to save memory.

    `recompute` has what the backward pass computes again instead of keeping it; the function of that name sets it.
    """

    def __init__(self, config: StackConfig) -> None:
        super().__init__()
        self.config, self.recompute = config, "nothing"

    def _depth(self) -> int:
        """How many layers to run: all of them, or in training a random number where the configuration says so."""
        if not self.training or self.config.min_layers is None:
            return self.config.layers
        return int(torch.randint(self.config.min_layers, self.config.layers + 1, ()))

    def _run_layer(self, layer: Callable[..., Any], *states: Any) -> Any:
        return _call(layer, *states, again=self.recompute == "layers")

    def _read_layer(self, layer: Callable[..., Any], *states: Any) -> Any:
        """Run a last layer that computes only what is read: little work, for many small copies of states."""
        return _call(layer, *states, again=self.recompute != "nothing")


def _call(layer: Callable[..., Any], *states: Any, again: bool) -> Any:
    if again and torch.is_grad_enabled():
        require_recomputing("layers")
        return checkpoint(layer, *states, use_reentrant=False)
    return layer(*states)


def recompute(model: nn.Module, what: str) -> None:
    """Say what the backward pass of a model computes again instead of keeping it: the same numbers in less memory.

    Args:
        model: any module with encoders or decoders of this library in it.
        what: "nothing", or one of these:

    "hidden"  the hidden layers of the feed-forward networks, and norms: about half of what training keeps, for the time
              of a product and two norms a layer
    "layers"  all but the states between layers, for the time of one more forward pass
    """
    if what not in RECOMPUTE:
        raise ValueError(f"what to recompute must be one of {', '.join(RECOMPUTE)}, not {what!r}")
    for module in model.modules():
        if isinstance(module, Stack):
            module.recompute = what
        elif isinstance(module, FeedForward):
            module.keep_hidden = what != "hidden"


class Encoder(Stack, ABC):
    """What every encoder of a graph offers, the Edge Transformer and the baselines.

    It starts from `edges`, the first state of all pairs, `[batch, n, n, dim]`. Two masks may come with them:
    `node_mask`, bool `[batch, n]`, True for a real node and False for padding; and `edge_mask`, bool `[batch, n, n]`,
    True for a pair that the graph has an edge for. Encoders to which all pairs are alike do not look at `edge_mask`.
    """

    read_dim: int  # how many numbers `read` gives for a pair; dim unless a baseline says otherwise
    takes_edges: ClassVar[bool] = True  # False: of the edges it is given, it looks at self-edges alone
    has_edge_states: ClassVar[bool] = True  # False: the edges it answers with are those it was given

    def __init__(self, config: StackConfig) -> None:
        super().__init__(config)
        self.read_dim = config.dim

    @abstractmethod
    def encode(self, edges: Tensor, node_mask: Tensor | None = None, edge_mask: Tensor | None = None) -> Encoded:
        """The final states of nodes and edges."""

    def encode_groups(self, groups: Sequence[Tensor]) -> list[Encoded]:
        """The final states of several groups of graphs, each `[batch, n, n, dim]` with a size of its own."""
        return [self.encode(edges) for edges in groups]

    @abstractmethod
    def read(
        self, edges: Tensor, pairs: Tensor, node_mask: Tensor | None = None, edge_mask: Tensor | None = None
    ) -> Tensor:
        """What a head gets to see of some pairs of nodes: `[batch, m, 2] -> [batch, m, read_dim]`."""

    def _check(self, edges: Tensor, pairs: Tensor | None = None) -> None:
        if edges.dim() != 4 or edges.shape[1] != edges.shape[2] or edges.shape[3] != self.config.dim:
            raise ValueError(
                f"edges must be [batch, n, n, dim={self.config.dim}], but their shape is {list(edges.shape)}"
            )
        if pairs is None:
            return
        if pairs.dim() != 3 or pairs.shape[0] != edges.shape[0] or pairs.shape[2] != 2:
            raise ValueError(f"pairs must be [batch={edges.shape[0]}, m, 2], but their shape is {list(pairs.shape)}")
        if torch.compiler.is_compiling():  # a trace knows no numbers: they are looked at when it runs
            torch._assert_async(((pairs >= 0) & (pairs < edges.shape[1])).all(), "pairs must name nodes of the graph")
            return
        while torch._C._functorch.is_functorch_wrapped_tensor(pairs):  # the pairs of all samples, under vmap
            pairs = torch._C._functorch.get_unwrapped(pairs)
        if pairs.numel() and not 0 <= int(pairs.min()) <= int(pairs.max()) < edges.shape[1]:
            raise ValueError(f"pairs must name nodes from 0 to {edges.shape[1] - 1}")


class TokenEncoder(Encoder):
    """An encoder that reads its tokens from the self-edges and looks at no other edges.

    A pair is read as the final states of its two nodes side by side. The edges it answers with are those it was given:
    it has no other states of pairs.
    """

    takes_edges: ClassVar[bool] = False
    has_edge_states: ClassVar[bool] = False

    def __init__(self, config: StackConfig) -> None:
        super().__init__(config)
        self.read_dim = 2 * config.dim

    @abstractmethod
    def encode_nodes(self, nodes: Tensor, node_mask: Tensor | None = None) -> Tensor:
        """The final states of tokens: `[batch, n, dim] -> [batch, n, dim]`."""

    def encode_tokens(self, nodes: Tensor, node_mask: Tensor | None = None) -> Encoded:
        """The same as `encode` for tokens without edges: those it answers with are zero, and take no memory."""
        batch, size, dim = nodes.shape
        return Encoded(self.encode_nodes(nodes, node_mask), nodes.new_zeros(()).expand(batch, size, size, dim))

    def encode(self, edges: Tensor, node_mask: Tensor | None = None, edge_mask: Tensor | None = None) -> Encoded:
        """The final states of the nodes, and the edges unchanged."""
        self._check(edges)
        return Encoded(self.encode_nodes(edges.diagonal(dim1=1, dim2=2).transpose(1, 2), node_mask), edges)

    def read(
        self, edges: Tensor, pairs: Tensor, node_mask: Tensor | None = None, edge_mask: Tensor | None = None
    ) -> Tensor:
        """The final states of the two nodes of each pair: `[batch, m, 2] -> [batch, m, 2 * dim]`."""
        self._check(edges, pairs)
        return gather_nodes(self.encode(edges, node_mask).nodes, pairs)


def gather_nodes(nodes: Tensor, pairs: Tensor) -> Tensor:
    """The states of the two nodes of each pair side by side: `[B, n, dim]`, `[B, m, 2] -> [B, m, 2 * dim]`."""
    row = torch.arange(nodes.shape[0], device=nodes.device)[:, None, None]
    return nodes[row, pairs].flatten(-2)


class EdgeTransformer(Encoder):
    """A tied (default) or untied stack of Edge Transformer layers: `[batch, n, n, dim] -> [batch, n, n, dim]`.

    >>> import torch
    >>> model = EdgeTransformer(EdgeTransformerConfig(dim=8, heads=2, layers=3))
    >>> model(torch.randn(1, 5, 5, 8)).shape
    torch.Size([1, 5, 5, 8])
    """

    config: EdgeTransformerConfig

    def __init__(self, config: EdgeTransformerConfig, engine: str = "auto") -> None:
        super().__init__(config)
        distinct = 1 if config.tied else config.layers
        self.layers = nn.ModuleList(EdgeTransformerLayer(config, engine) for _ in range(distinct))
        # A pre-norm stack never normalises its sum of updates, so that it needs one norm at the end.
        self.final_norm = nn.LayerNorm(config.dim) if config.norm == "pre" else nn.Identity()

    def layer(self, depth: int) -> EdgeTransformerLayer:
        """The layer that runs at this depth, counted from 0; tied ones are one and the same."""
        return cast(EdgeTransformerLayer, self.layers[depth % len(self.layers)])  # or a wrapper around one

    def forward(self, edges: Tensor, node_mask: Tensor | None = None, causal_from: int | None = None) -> Tensor:
        """The final state of every edge."""
        self._check(edges)
        return self.final_norm(self._run(edges, self._depth(), node_mask, causal_from))

    def read(
        self, edges: Tensor, pairs: Tensor, node_mask: Tensor | None = None, edge_mask: Tensor | None = None
    ) -> Tensor:
        """The final state of the edges in `pairs` alone, `[batch, m, 2] -> [batch, m, dim]`.

        The same numbers as those of `forward`, for less work: the last layer computes no other edges.
        """
        self._check(edges, pairs)
        if not may_be_skipped(self, EdgeTransformer):
            return gather_edges(self(edges, node_mask), pairs)
        depth = self._depth()
        edges = self._run(edges, depth - 1, node_mask)
        return self.final_norm(self._read_layer(self.layer(depth - 1).read, edges, pairs, node_mask))

    def encode(self, edges: Tensor, node_mask: Tensor | None = None, edge_mask: Tensor | None = None) -> Encoded:
        """The final states of nodes and edges; a node's state is that of its self-edge."""
        return _with_self_edges(self(edges, node_mask))

    def encode_groups(self, groups: Sequence[Tensor]) -> list[Encoded]:
        """The final states of several groups of graphs. Many small groups cost little more than one large one: all
        but the triangles is computed for all of them at once.
        """
        layers = all(may_be_skipped(layer, EdgeTransformerLayer) for layer in self.layers)
        if not groups or not layers or not may_be_skipped(self, EdgeTransformer):  # may care for the shape of a graph
            return super().encode_groups(groups)
        for edges in groups:
            self._check(edges)
        sizes = [(len(edges), edges.shape[1]) for edges in groups]
        states = torch.cat([edges.flatten(0, 2) for edges in groups])  # (edges of all groups, dim)
        for depth in range(self._depth()):
            states = self._run_layer(self.layer(depth), states, None, None, sizes)
        parts = self.final_norm(states).split([batch * n * n for batch, n in sizes])
        return [_with_self_edges(part.view_as(edges)) for part, edges in zip(parts, groups, strict=True)]

    def _run(
        self, edges: Tensor, layers: int, node_mask: Tensor | None = None, causal_from: int | None = None
    ) -> Tensor:
        for depth in range(layers):
            edges = self._run_layer(self.layer(depth), edges, node_mask, causal_from)
        return edges


def _with_self_edges(edges: Tensor) -> Encoded:
    return Encoded(nodes=edges.diagonal(dim1=1, dim2=2).transpose(1, 2), edges=edges)


# --- the registry -----------------------------------------------------------------------------------------------------

# What an encoder reads: labelled graphs; sequences of tokens, where it may be a `TokenEncoder`; or pairs of sequences,
# where it is a `generation.EncoderDecoder`, both sides in one model.
READS = ("graphs", "tokens", "pairs")


class Kind(NamedTuple):
    """A kind of encoder: its settings and its class, which is built from them."""

    config: type[Any]
    encoder: type[Any]


_KINDS: dict[str, dict[str, tuple[type | str, type | str]]] = {reads: {} for reads in READS}


def register_encoder(
    name: str, config: type | str, encoder: type | str, reads: str | Sequence[str] = ("graphs", "tokens")
) -> None:
    """Make an encoder known by a name, for some kinds of input, so that presets and models can name it.

    Args:
        name: what `model.kind` calls it.
        config: a frozen dataclass with at least what `layer.StackConfig` has.
        encoder: a class that is built from one. If it reads pairs, it also gets the numbers of source and of target
            tokens, the latter None where both are the same.
        reads: "graphs", "tokens" or "pairs", or several of them.

    `config` and `encoder` may be a text "module:class", which is imported when the encoder is first asked for. An
    encoder needs no other name than "package.module:Class" if it has a `Config`; `model.kind` takes that as well.
    """
    for each in (reads,) if isinstance(reads, str) else reads:
        if each not in READS:
            raise ValueError(f"reads={each!r} is not known; choose some of {list(READS)}")
        if _KINDS[each].setdefault(name, (config, encoder)) != (config, encoder):
            raise ValueError(f"there is an encoder {name!r} of {each} already; choose another name")


def find_encoder(name: Any, reads: str) -> Kind:
    """The encoder with this name, for this kind of input.

    A class "package.module:Class" is imported if it is trusted (see `trust`) and then known by that name.
    """
    known = _KINDS[reads]
    if is_place(name) and name not in known:
        if (same := _registered(name, reads)) is not None:
            return same
        if not any(name in kinds for kinds in _KINDS.values()):
            register_encoder(name, *_outside(name))
        if name not in known:
            takes = " and ".join(each for each in READS if name in _KINDS[each])
            raise UserError(f"model.kind: found {name!r}, which reads {takes}; expected an encoder of {reads}")
    if not isinstance(name, str) or name not in known:
        raise UserError(f"model.kind: found {name!r}; expected one of {', '.join(known)}{suggestion(name, known)}")
    config, encoder = map(_imported, known[name])
    return Kind(config, encoder)


def _registered(place: str, reads: str) -> Kind | None:
    """The encoder that is at this place, if it has been registered by another name."""
    for config, encoder in _KINDS[reads].values():
        if isinstance(encoder, type) and f"{encoder.__module__}:{encoder.__qualname__}" == place:
            return Kind(_imported(config), encoder)
    return None


def _outside(place: str) -> tuple[type, type, Sequence[str]]:
    """The settings and the class of an encoder outside of the library, and what it reads."""
    encoder = import_trusted(place, "model.kind")
    if not isinstance(encoder, type) or not issubclass(encoder, nn.Module):
        raise UserError(f"model.kind: found {place!r}, which is {encoder!r}; expected a subclass of Encoder")
    given = getattr(encoder, "reads", _BOTH)
    reads = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, list | tuple) else ()
    if not reads or not set(reads) <= set(READS):
        raise UserError(f"model.kind: found {place!r} with reads = {given!r}; expected some of {', '.join(READS)}")
    if "pairs" not in reads and not issubclass(encoder, Encoder):
        raise UserError(f"model.kind: found {place!r}, which is {encoder!r}; expected a subclass of Encoder")
    config: Any = getattr(encoder, "Config", None)
    has = {field.name for field in fields(config)} if isinstance(config, type) and is_dataclass(config) else set()
    if missing := [name for name in ("dim", "layers", "dropout", "min_layers") if name not in has]:
        found = f"a Config without {missing[0]}" if has else "no Config"
        needed = "a frozen dataclass with dim, layers, dropout and min_layers"
        raise UserError(f"model.kind: found {place!r} with {found}; expected {needed} as its class attribute Config")
    return config, encoder, reads


def encoder_names(reads: str) -> tuple[str, ...]:
    """The names of all encoders for this kind of input."""
    return tuple(_KINDS[reads])


def _imported(place: type | str) -> Any:
    if not isinstance(place, str):
        return place
    module, _, name = place.partition(":")
    return getattr(import_module(module, __package__), name)


# A Transformer reads a graph as a story; one with a single set of weights is a Universal Transformer.
_BOTH = ("graphs", "tokens")
_CONFIG, _AWARE, _SEQ2SEQ = ".baselines.config:", ".baselines.relation_aware:", ".baselines.seq2seq:"
for _name, _reads, _config, _encoder in (
    ("edge", _BOTH, ".layer:EdgeTransformerConfig", ".encoder:EdgeTransformer"),
    ("edge", "pairs", ".layer:EdgeTransformerConfig", ".decoder:EdgeSeq2Seq"),
    ("rat", _BOTH, f"{_CONFIG}RelationAwareConfig", f"{_AWARE}RelationAwareTransformer"),
    ("rrat", _BOTH, f"{_CONFIG}RelationAwareConfig", f"{_AWARE}RelationUpdatingTransformer"),
    ("gat", "graphs", f"{_CONFIG}GraphAttentionConfig", ".baselines.gat:GraphAttentionNetwork"),
    ("transformer", "graphs", f"{_CONFIG}StoryConfig", ".baselines.story:StoryTransformer"),
    ("universal", "graphs", f"{_CONFIG}UniversalStoryConfig", ".baselines.story:StoryTransformer"),
    ("transformer", "tokens", f"{_CONFIG}SequenceConfig", ".baselines.tokens:SequenceTransformer"),
    ("universal", "tokens", f"{_CONFIG}UniversalSequenceConfig", ".baselines.tokens:SequenceTransformer"),
    ("bilstm", "tokens", f"{_CONFIG}BiLSTMConfig", ".baselines.tokens:BiLSTM"),
    ("transformer", "pairs", f"{_SEQ2SEQ}Seq2SeqTransformerConfig", f"{_SEQ2SEQ}TransformerSeq2Seq"),
    ("universal", "pairs", f"{_SEQ2SEQ}UniversalSeq2SeqTransformerConfig", f"{_SEQ2SEQ}TransformerSeq2Seq"),
):
    register_encoder(_name, _config, _encoder, _reads)
