"""One Edge Transformer layer and its configuration: triangular attention, feed-forward network, norms, residuals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..io.settings import require_choice, require_fraction, require_positive
from ..ops.attention import (
    KEYS,
    VALUES,
    check_engine,
    grouped_triangular_attention,
    packed_triangular_attention,
    resolve_engine,
)
from ..ops.dropout import add_dropout
from ..ops.feed_forward import feed_forward
from ..ops.memory import Memory
from ..ops.precision import in_float32_where_faster
from .plain import is_plain, may_be_skipped, require_steps

NORMS = ("released", "paper", "pre")


class StackConfig(Protocol):
    """What the configuration of every encoder has: the shape of a stack of layers."""

    @property
    def dim(self) -> int: ...
    @property
    def layers(self) -> int: ...
    @property
    def dropout(self) -> float: ...
    @property
    def min_layers(self) -> int | None: ...


@dataclass(frozen=True)
class EdgeTransformerConfig:
    """The shape of an Edge Transformer encoder."""

    dim: int
    heads: int
    layers: int
    tied: bool = True  # one set of weights for all layers
    dropout: float = 0.0
    ff_factor: int = 4  # hidden units of the feed-forward network, in multiples of dim
    attention_bias: bool = True
    norm: str = "released"  # "released" | "paper" | "pre"
    key: str = "lj"  # "ij" is the attention ablation
    value: str = "product"  # "left" is the value ablation
    min_layers: int | None = None  # in training, each call runs a random number of layers, from this many to `layers`

    def __post_init__(self) -> None:
        require_positive(self, "ff_factor")
        require_stack(self)
        require_heads(self)
        require_choice(self, "norm", NORMS)
        require_choice(self, "key", KEYS)
        require_choice(self, "value", VALUES)


def require_stack(config: StackConfig) -> None:
    """Refuse a stack that cannot be built."""
    require_positive(config, "dim", "layers")
    if config.min_layers is not None and not 1 <= config.min_layers <= config.layers:
        raise ValueError(f"min_layers must lie between 1 and layers={config.layers}, but is {config.min_layers}")
    require_fraction(config, "dropout")


def require_heads(config: Any) -> None:
    """Refuse heads that the states cannot be cut into."""
    require_positive(config, "heads")
    if config.dim % config.heads:
        raise ValueError(f"dim={config.dim} is not divisible by heads={config.heads}")


# --- attention --------------------------------------------------------------------------------------------------------


class Triangles(NamedTuple):
    """The parts of all triangles (i, l, j) of m edges (i, j) of each graph, `[batch, m, n, heads, head_dim]`."""

    q: Tensor  # of edges (i, l)
    k: Tensor  # of edges (l, j), or of (i, j) for the attention ablation: [batch, m, 1, heads, head_dim]
    v1: Tensor  # of edges (i, l)
    v2: Tensor | None  # of edges (l, j)
    allowed: Tensor | None  # bool [batch, m, n]: which pivots l count


class TriangularAttention(nn.Module):
    """Multi-head triangular attention with its projections: `[batch, n, n, dim] -> [batch, n, n, dim]`.

    One matrix product gives q, k, v1 and v2 of all edges, the parts. A layer runs the steps, `project`, `attend` and
    `output`, and never `forward`, which is for use without a layer.
    """

    def __init__(self, config: EdgeTransformerConfig, engine: str = "auto") -> None:
        super().__init__()
        check_engine(engine)  # here, where the name is given, and not in the middle of a forward pass
        self.heads, self.key = config.heads, config.key
        self.dropout_p, self.engine = config.dropout, engine
        self.parts = 4 if config.value == "product" else 3  # the value ablation has no v2
        self.projections = nn.Linear(config.dim, self.parts * config.dim, bias=config.attention_bias)
        self.output = nn.Linear(config.dim, config.dim, bias=config.attention_bias)
        # Each part on its own: Xavier's bound depends on the fan-out, which is dim for each, not 4 * dim.
        for part in self.projections.weight.chunk(self.parts):
            nn.init.xavier_uniform_(part)
        nn.init.xavier_uniform_(self.output.weight)

    @in_float32_where_faster
    def forward(self, edges: Tensor, node_mask: Tensor | None = None, causal_from: int | None = None) -> Tensor:
        return self.output(self.attend(self.project(edges), node_mask=node_mask, causal_from=causal_from))

    def project(self, edges: Tensor, only: Sequence[int] | None = None) -> Tensor:
        """q, k, v1 and v2, or `only` some of them by number: `[..., dim] -> [..., parts, heads, head_dim]`."""
        if only is None:
            return self.projections(edges).unflatten(-1, (self.parts, self.heads, -1))
        if not is_plain(self.projections, nn.Linear):
            return _some_parts(self.project(edges), only)
        chosen = list(only)
        weight = self.projections.weight.unflatten(0, (self.parts, -1))[chosen].flatten(0, 1)
        bias = None if self.projections.bias is None else self.projections.bias.view(self.parts, -1)[chosen].flatten()
        return F.linear(edges, weight, bias).unflatten(-1, (len(chosen), self.heads, -1))

    def attend(
        self,
        parts: Tensor | Triangles,
        *,
        node_mask: Tensor | None = None,
        causal_from: int | None = None,
        sizes: Sequence[tuple[int, int]] | None = None,
        memory: Memory | None = None,
    ) -> Tensor:
        """The attention on parts, before the output projection: `[..., parts, heads, head_dim] -> [..., dim]`.

        Arguments as for `EdgeTransformerLayer.mix`.
        """
        dropout_p = self.dropout_p if self.training else 0.0
        if isinstance(parts, Triangles):
            mixed = mix_triangles(parts, dropout_p)
        elif memory is not None:
            mixed = memory.extend(parts, node_mask)
        else:
            choice: dict[str, Any] = {"key": self.key, "dropout_p": dropout_p, "engine": self.engine}
            if sizes is None:
                mixed = packed_triangular_attention(parts, node_mask=node_mask, causal_from=causal_from, **choice)
            else:
                mixed = grouped_triangular_attention(parts, sizes, **choice)
        return mixed.flatten(-2)

    def remember(self, parts: Tensor, capacity: int) -> Memory:
        """The memory of a decoder's layer, from the parts of its source nodes, with room for so many nodes."""
        return resolve_engine(self.engine, parts).memory(parts, self.key, capacity)


def mix_triangles(triangles: Triangles, dropout_p: float = 0.0) -> Tensor:
    """The plain equations for some edges: `[batch, m, heads, head_dim]`."""
    q, k, v1, v2, allowed = triangles
    scores = (q * k).sum(-1) * q.shape[-1] ** -0.5  # (B, m, n, h)
    if allowed is not None:
        scores = scores.masked_fill(~allowed[..., None], torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=2)
    if allowed is not None:
        weights = weights * allowed[..., None]
    weights = F.dropout(weights, dropout_p) if dropout_p else weights
    return (weights[..., None] * (v1 if v2 is None else v1 * v2)).sum(2)


def _some_parts(parts: Tensor, only: Sequence[int]) -> Tensor:
    return torch.stack([parts.select(-3, number) for number in only], dim=-3)


# --- feed-forward network and residuals -------------------------------------------------------------------------------


class FeedForward(nn.Module):
    """One hidden layer, with ReLU and dropout: `[..., dim] -> [..., dim]`.

    The hidden layer is most of what training keeps of it. Without `keep_hidden` the backward pass computes it again, if
    both products are plain ones: what another module does may not come out the same again.
    """

    def __init__(self, dim: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.dropout_p, self.keep_hidden = dropout, True
        self.fused = True  # False: both products are called, whatever they are
        self.hidden, self.output = nn.Linear(dim, hidden), nn.Linear(hidden, dim)
        for layer in (self.hidden, self.output):
            nn.init.xavier_uniform_(layer.weight)

    @in_float32_where_faster
    def forward(self, x: Tensor) -> Tensor:
        dropout_p = self.dropout_p if self.training else 0.0
        if self.is_plain():
            weights = (self.hidden.weight, self.hidden.bias, self.output.weight, self.output.bias)
            return feed_forward(x, *weights, dropout_p, self.keep_hidden)
        hidden = self.hidden(x).relu()  # not in its place, which is not ours
        return self.output(F.dropout(hidden, dropout_p) if dropout_p else hidden)

    def is_plain(self) -> bool:
        """Whether its two weights and biases say all that it computes."""
        products = (self.hidden, self.output)
        return self.fused and all(is_plain(product, nn.Linear) and product.bias is not None for product in products)


def add_update(residual: Tensor, update: Tensor, dropout_p: float, made_by: nn.Module | None = None) -> Tensor:
    """residual + dropout(update). The update is overwritten where nobody else can have it: where it was `made_by` a
    plain Linear or feed-forward network, and nothing is dropped.
    """
    if dropout_p:
        return add_dropout(residual, update, dropout_p)
    if residual.shape == update.shape and residual.dtype == update.dtype and _makes_new_tensors(made_by):
        return update.add_(residual)
    return residual + update


def _makes_new_tensors(module: nn.Module | None) -> bool:
    if isinstance(module, FeedForward):
        return may_be_skipped(module, FeedForward) and is_plain(module.output, nn.Linear)
    return module is not None and is_plain(module, nn.Linear)


def require_recomputing(what: str) -> None:
    """Refuse to compute things again where gradients are taken in a way that knows no such thing."""
    if torch.compiler.is_compiling():
        return
    if not torch._C._autograd._saved_tensors_hooks_is_enabled():  # type: ignore[attr-defined]
        raise ValueError(
            f"this model computes its {what} again in the backward pass, which torch.func.grad, vjp and jacrev cannot "
            'do: call recompute(model, "nothing") first'
        )


class _Rule(NamedTuple):
    compute: Callable[[], Tensor]
    shape: torch.Size


@contextmanager
def kept_as_rule(result: Tensor, compute: Callable[[], Tensor]) -> Iterator[None]:
    """In this block, operations that need `result` in their backward pass keep how to compute it, not its numbers.

    `compute` must give the same numbers again, from tensors that are kept anyway.
    """
    if not result.is_contiguous():
        raise ValueError("a result that is to be computed again must be contiguous")

    place, numbers = result.data_ptr(), result.numel()  # autograd keeps `pack`, which must not keep the result

    def pack(tensor: Tensor) -> Tensor | _Rule:
        same = tensor.data_ptr() == place and tensor.numel() == numbers > 0
        # A contiguous tensor in the place of another has its numbers in the same order, if in another shape.
        return _Rule(compute, tensor.shape) if same and tensor.is_contiguous() else tensor

    @torch.no_grad()
    def unpack(packed: Tensor | _Rule) -> Tensor:
        return packed.compute().view(packed.shape) if isinstance(packed, _Rule) else packed

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        yield


# --- the layer --------------------------------------------------------------------------------------------------------

Pick = Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]


class EdgeTransformerLayer(nn.Module):
    """Attention, then a feed-forward network, with the norms and residuals placed as `config.norm` says.

    "released"  x = LN(x); x = x + Att(x); x = LN(x); x = x + FFN(x): what the paper's results were computed with
    "paper"     FFN(LN(x + Att(LN(x)))), equation (3)
    "pre"       x = x + Att(LN(x)); x = x + FFN(LN(x)): the common pre-norm Transformer

    It has three steps, `project`, `mix` and `finish`. Encoder, decoder, cache and explanations run these and nothing
    else, so that a subclass with another step is another layer in all of them.
    """

    def __init__(self, config: EdgeTransformerConfig, engine: str = "auto") -> None:
        super().__init__()
        self.norm = config.norm
        self.attention = TriangularAttention(config, engine)
        self.feed_forward = FeedForward(config.dim, config.ff_factor * config.dim, config.dropout)
        self.attention_norm = nn.LayerNorm(config.dim)
        self.feed_forward_norm = nn.LayerNorm(config.dim)
        self.dropout_p = config.dropout

    def forward(
        self,
        edges: Tensor,
        node_mask: Tensor | None = None,
        causal_from: int | None = None,
        sizes: Sequence[tuple[int, int]] | None = None,
        memory: Memory | None = None,
    ) -> Tensor:
        """All three steps, on edges that lie in one of the ways that `mix` lists."""
        parts = list(self.project(edges))
        normed = parts.pop(0)
        # Taken out, and so not held here while `mix` computes the output: it is the largest tensor of the layer.
        update = self.mix(parts.pop(), node_mask=node_mask, causal_from=causal_from, sizes=sizes, memory=memory)
        return self.finish(edges, normed, update)

    @in_float32_where_faster
    def project(self, edges: Tensor) -> tuple[Tensor, Tensor]:
        """The norm, and q, k, v1 and v2 (the value ablation has no v2) from one product, of any set of edges:
        `[..., dim] -> [..., dim], [..., parts, heads, head_dim]`.
        """
        normed = self.attention_norm(edges)
        attention = self.attention
        again = type(attention) is TriangularAttention and is_plain(attention.projections, nn.Linear)
        with self._not_kept(normed, self.attention_norm, edges, again):
            return normed, attention.project(normed)

    @in_float32_where_faster
    def mix(
        self,
        parts: Tensor | Triangles,
        *,
        node_mask: Tensor | None = None,
        causal_from: int | None = None,
        sizes: Sequence[tuple[int, int]] | None = None,
        memory: Memory | None = None,
    ) -> Tensor:
        """The attention on parts, and the output projection. The parts, and the update that comes out, are those of

        whole graphs  `[batch, n, n, ...] -> [batch, n, n, dim]`, with `node_mask` and `causal_from`
        groups        `[edges, ...] -> [edges, dim]`; `sizes` has for each its number of graphs, and of their nodes
        a new node    `[2n - 1, batch, ...] -> [2n - 1, batch, dim]`; `memory` is of the nodes before it
        some edges    `Triangles` -> `[batch, m, dim]`
        """
        attention = self.attention
        require_steps(attention, TriangularAttention, "project, attend or output")
        mixed = attention.attend(parts, node_mask=node_mask, causal_from=causal_from, sizes=sizes, memory=memory)
        del parts
        return attention.output(mixed)

    @in_float32_where_faster
    def finish(self, edges: Tensor, normed: Tensor, update: Tensor) -> Tensor:
        """From the update to the end of the layer, for any set of edges, `[..., dim]` all of them: residuals, norm and
        feed-forward network. The update may be overwritten.
        """
        dropout_p = self.dropout_p if self.training else 0.0
        network = self.feed_forward
        edges = add_update(normed if self.norm == "released" else edges, update, dropout_p, self.attention.output)
        normed = self.feed_forward_norm(edges)
        again = isinstance(network, FeedForward) and network.is_plain()
        with self._not_kept(normed, self.feed_forward_norm, edges, again):
            update = network(normed)
        if self.norm == "paper":
            return F.dropout(update, dropout_p) if dropout_p else update
        return add_update(normed if self.norm == "released" else edges, update, dropout_p, network)

    def read(self, edges: Tensor, pairs: Tensor, node_mask: Tensor | None = None) -> Tensor:
        """What `forward` gives for the edges in `pairs` (`[batch, m, 2]`) alone: `[batch, m, dim]`."""
        batch, n, _, dim = edges.shape
        start, end = pairs.unbind(-1)  # (B, m)
        if not may_be_skipped(self, EdgeTransformerLayer):
            return gather_edges(self(edges, node_mask), pairs)
        graph = torch.arange(batch, device=edges.device)[:, None] * n * n
        pivot = torch.arange(n, device=edges.device)
        row = (graph + start * n)[..., None] + pivot  # (B, m, n): edges (i, l)
        column = (graph + end)[..., None] + pivot * n  # (B, m, n): edges (l, j)
        own = graph + start * n + end  # (B, m)
        places = torch.cat([row.flatten(), column.flatten(), own.flatten()])
        states = edges.reshape(batch * n * n, dim).index_select(0, places)
        allowed = None
        if node_mask is not None:
            real = node_mask.gather(1, start) & node_mask.gather(1, end)  # (B, m)
            allowed = real[..., None] & node_mask[:, None, :]

        def pick(states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            parts = states.split([row.numel(), column.numel(), own.numel()])
            rows, columns, edges = (
                part.view(*place.shape, *states.shape[1:])
                for part, place in zip(parts, (row, column, own), strict=True)
            )
            return rows, columns, edges

        return self.read_edges(states[row.numel() + column.numel() :].view(*own.shape, dim), states, pick, allowed)

    @in_float32_where_faster
    def read_edges(self, edges: Tensor, states: Tensor, pick: Pick, allowed: Tensor | None = None) -> Tensor:
        """What `forward` gives for m edges (i, j) of each graph, for a last layer of which no more is read.

        Args:
            edges: their states, `[batch, m, dim]`.
            states: those of all edges that their triangles have, `[..., dim]`.
            pick: takes, of anything that has the first dimensions of `states`, what belongs to the edges (i, l) and to
                the edges (l, j), `[batch, m, n, ...]` both, and to the edges (i, j) themselves, `[batch, m, ...]`.
            allowed: bool `[batch, m, n]`, which pivots l count.

        Returns:
            `[batch, m, dim]`.
        """
        attention = self.attention
        take: Callable[[Tensor, Sequence[int]], Tensor]
        steps = type(self).project, type(attention).project
        plain = steps == (EdgeTransformerLayer.project, TriangularAttention.project)
        plain = plain and "project" not in self.__dict__ and "project" not in attention.__dict__
        if plain and is_plain(attention.projections, nn.Linear):  # for those parts alone that are read
            rows, columns, own = pick(self.attention_norm(states))
            normed, take = own, attention.project
        else:
            normed, parts = self.project(states)
            rows, columns, own = pick(parts)
            normed, take = pick(normed)[2], _some_parts
        q, v1 = take(rows, (0, 2)).unbind(-3)  # (B, m, n, h, d)
        has_v2 = attention.parts == 4
        if attention.key == "ij":
            k, *v2 = take(own, (1,)), *(take(columns, (3,)).unbind(-3) if has_v2 else ())  # k: (B, m, 1, h, d)
        else:
            k, *v2 = take(columns, (1, 3) if has_v2 else (1,)).unbind(-3)
        return self.finish(edges, normed, self.mix(Triangles(q, k, v1, v2[0] if v2 else None, allowed)))

    def _not_kept(self, normed: Tensor, norm: nn.Module, edges: Tensor, plain: bool) -> AbstractContextManager[None]:
        """Where hidden layers are not kept for the backward pass, neither are the norms' results: if the norm is plain,
        and so is what takes its result.
        """
        if getattr(self.feed_forward, "keep_hidden", True) or not plain or not is_plain(norm, nn.LayerNorm):
            return nullcontext()
        require_recomputing("hidden layers")
        # A compiled program decides itself what it keeps; under vmap and jvp tensors have no place to know them by.
        if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
            return nullcontext()
        return kept_as_rule(normed, lambda: norm(edges))


def gather_edges(edges: Tensor, pairs: Tensor) -> Tensor:
    """The states of some edges: `[batch, n, n, dim]`, `[batch, m, 2] -> [batch, m, dim]`."""
    return edges[torch.arange(edges.shape[0], device=edges.device)[:, None], pairs[..., 0], pairs[..., 1]]
