"""A changed module counts wherever layers run: whole graphs, last layers, groups, decoder, cache. Adapters, hooks,
parametrisations, pruning, quantisation, subclasses.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.nn.modules import module as global_hooks
from torch.nn.utils import parametrizations, parametrize, prune

from edge_transformer.explain.trace import run, trace
from edge_transformer.nn.decoder import EdgeSeq2Seq
from edge_transformer.nn.encoder import RECOMPUTE, EdgeTransformer, recompute
from edge_transformer.nn.layer import EdgeTransformerConfig, EdgeTransformerLayer, FeedForward, TriangularAttention
from edge_transformer.ops.attention import packed_triangular_attention
from seq2seq_cases import SOURCE_TOKENS, TARGET_TOKENS, decode, draw_vectors, mask_of, random_pair

# --- changes ----------------------------------------------------------------------------------------------------------


class Adapter(nn.Module):
    """A product of low rank beside a module that is there already."""

    def __init__(self, base: nn.Module, inputs: int, outputs: int) -> None:
        super().__init__()
        self.base, self.down, self.up = base, nn.Linear(inputs, 2, bias=False), nn.Linear(2, outputs, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + self.up(self.down(x))


class Tanh(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return weight.tanh()


class OtherLinear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).tanh()


class OtherNorm(nn.LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).tanh()


class Halved(Tensor):
    """A weight with a product of its own, as those of weight-only quantisation are."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not nn.functional.linear:
            return super().__torch_function__(func, types, args, kwargs)
        x, weight, bias = args
        return nn.functional.linear(x, weight.as_subclass(Tensor) / 2, bias)


def widths(old: nn.Module) -> tuple[int, int]:
    if isinstance(old, nn.Linear):
        return old.in_features, old.out_features
    assert isinstance(old, nn.LayerNorm)
    return old.normalized_shape[0], old.normalized_shape[0]


def adapter(old: nn.Module) -> nn.Module:
    return Adapter(old, *widths(old)).double()


def subclass(old: nn.Module) -> nn.Module:
    new = (OtherLinear(*widths(old)) if isinstance(old, nn.Linear) else OtherNorm(widths(old)[0])).double()
    new.load_state_dict(old.state_dict(), strict=False)
    return new


def forward_hook(old: nn.Module) -> nn.Module:
    old.register_forward_hook(lambda module, given, out: out.tanh())
    return old


def pre_hook(old: nn.Module) -> nn.Module:
    old.register_forward_pre_hook(lambda module, given: (given[0].sin(),))
    return old


def another_forward(old: nn.Module) -> nn.Module:
    before = old.forward
    old.forward = lambda x: before(x).tanh()
    return old


def parametrised(old: nn.Module) -> nn.Module:
    parametrize.register_parametrization(old, "weight", Tanh())
    return old


def weight_norm(old: nn.Module) -> nn.Module:
    new = parametrizations.weight_norm(old)
    with torch.no_grad():
        new.parametrizations.weight.original0.mul_(2)
    return new


def spectral_norm(old: nn.Module) -> nn.Module:
    return parametrizations.spectral_norm(old).eval()


def pruned(old: nn.Module) -> nn.Module:
    prune.l1_unstructured(old, "weight", amount=0.5)
    return old


def tensor_subclass(old: nn.Module) -> nn.Module:
    assert isinstance(old, nn.Linear)
    halved = old.weight.detach().as_subclass(Halved)
    del old.weight
    old.register_parameter("weight", nn.Parameter(halved, requires_grad=False))
    return old


LINEARS = ("attention.projections", "attention.output", "feed_forward.hidden", "feed_forward.output")
EVERY = (adapter, subclass, forward_hook, pre_hook, another_forward)
OF_WEIGHTS = (parametrised, weight_norm, spectral_norm, pruned, tensor_subclass)
Change = Callable[[nn.Module], nn.Module]
CASES = [(place, change) for place in (*LINEARS, "attention_norm", "feed_forward_norm") for change in EVERY]
CASES += [(place, change) for place in LINEARS for change in OF_WEIGHTS]
cases = pytest.mark.parametrize(
    ("place", "change"), CASES, ids=[f"{place}-{change.__name__}" for place, change in CASES]
)


def change_all(stack: EdgeTransformer, place: str, change: Change) -> None:
    for layer in stack.layers:
        layer.set_submodule(place, change(layer.get_submodule(place)))


# --- what must come out -----------------------------------------------------------------------------------------------


def by_the_equations(
    model: EdgeTransformer, edges: Tensor, node_mask: Tensor | None = None, causal_from: int | None = None
) -> Tensor:
    """A forward pass that calls every Linear and every norm, with the plain equations between them."""
    for depth in range(model.config.layers):
        layer, config = model.layer(depth), model.config
        normed = layer.attention_norm(edges)
        parts = layer.attention.projections(normed).unflatten(-1, (layer.attention.parts, config.heads, -1))
        how: dict[str, Any] = {"node_mask": node_mask, "causal_from": causal_from, "key": config.key}
        mixed = packed_triangular_attention(parts, engine="einsum", **how)
        edges = (normed if config.norm == "released" else edges) + layer.attention.output(mixed.flatten(-2))
        normed = layer.feed_forward_norm(edges)
        update = layer.feed_forward.output(layer.feed_forward.hidden(normed).relu())
        edges = update if config.norm == "paper" else (normed if config.norm == "released" else edges) + update
    return model.final_norm(edges)


PAIRS = torch.tensor([[[0, 3], [2, 2], [1, 0]], [[2, 1], [2, 1], [0, 0]]])
MASK = torch.tensor([[True] * 4, [True, True, True, False]])


def make_encoder(**options: Any) -> EdgeTransformer:
    options = {"dim": 8, "heads": 2, "layers": 2, **options}
    model = EdgeTransformer(EdgeTransformerConfig(**options)).double().eval()
    draw_vectors(model)
    return model


def make_seq2seq(**options: Any) -> EdgeSeq2Seq:
    config = EdgeTransformerConfig(**{"dim": 8, "heads": 2, "layers": 3, **options})
    model = EdgeSeq2Seq(config, SOURCE_TOKENS, TARGET_TOKENS).double().eval()
    draw_vectors(model)
    return model


def random_edges(batch: int = 2, n: int = 4) -> Tensor:
    return torch.randn(batch, n, n, 8, dtype=torch.float64)


def check_encoder(model: EdgeTransformer, edges: Tensor, expected: Callable[..., Tensor] = by_the_equations) -> None:
    """Whole graphs, last layers and groups are as they should be."""
    for mask in (None, MASK):
        whole = expected(model, edges, mask)
        torch.testing.assert_close(model(edges, mask), whole)
        read = whole[torch.arange(2)[:, None], PAIRS[..., 0], PAIRS[..., 1]]
        torch.testing.assert_close(model.read(edges, PAIRS, mask), read)
    groups = [edges[:1, :3, :3], edges]
    for found, group in zip(model.encode_groups(groups), groups, strict=True):
        torch.testing.assert_close(found.edges, expected(model, group))


def check_decoder(model: EdgeSeq2Seq, expected: Callable[..., Tensor] = by_the_equations) -> None:
    """The last layer of the decoder, and its cache, are as they should be."""
    edges = random_edges(2, 7)
    whole = expected(model.decoder, edges, causal_from=3).diagonal(dim1=1, dim2=2).transpose(1, 2)
    torch.testing.assert_close(model.decoder.read_targets(edges, 3), whole[:, 3:])
    source, target, mask = *random_pair(2, 4, 5), mask_of(4, 2)
    torch.testing.assert_close(decode(model, model.start(source, mask), target), model(source, target, mask))


@pytest.fixture(autouse=True)
def same_numbers_every_time() -> None:
    torch.manual_seed(0)


@cases
def test_a_changed_module_in_the_encoder(place: str, change: Change) -> None:
    model, edges = make_encoder(tied=False, norm="pre" if "norm" in place else "released"), random_edges()
    before = model(edges)
    change_all(model, place, change)
    assert not torch.allclose(model(edges), before)
    check_encoder(model, edges)
    if change is not tensor_subclass:
        torch.testing.assert_close(model.final_norm(run(model, edges)), model(edges))


@cases
def test_a_changed_module_in_the_decoder_and_its_cache(place: str, change: Change) -> None:
    model = make_seq2seq(key="ij" if "norm" in place else "lj")
    change_all(model.decoder, place, change)
    check_decoder(model)


@pytest.mark.parametrize("again", RECOMPUTE)
@pytest.mark.parametrize(("place", "change"), [case for case in CASES if case[1] in (adapter, pre_hook, weight_norm)])
def test_gradients(place: str, change: Change, again: str) -> None:
    model, edges = make_encoder().train(), random_edges()
    change_all(model, place, change)
    recompute(model, again)
    weights = list(model.parameters())
    found = torch.autograd.grad(model(edges).sin().sum() + model.read(edges, PAIRS).sin().sum(), weights)
    whole = by_the_equations(model, edges)
    read = whole[torch.arange(2)[:, None], PAIRS[..., 0], PAIRS[..., 1]]
    torch.testing.assert_close(found, torch.autograd.grad(whole.sin().sum() + read.sin().sum(), weights))


def test_a_product_without_a_bias() -> None:
    model, edges = make_encoder(), random_edges()
    change_all(model, "feed_forward.hidden", lambda old: nn.Linear(8, 20, bias=False).double())
    change_all(model, "feed_forward.output", lambda old: nn.Linear(20, 8).double())
    check_encoder(model, edges)


def test_a_feed_forward_network_of_another_kind() -> None:
    model, edges = make_encoder(), random_edges()
    model.layers[0].feed_forward = nn.Sequential(nn.Linear(8, 5), nn.Tanh(), nn.Linear(5, 8)).double()
    recompute(model, "hidden")
    whole = model(edges)
    assert whole.requires_grad
    read = whole[torch.arange(2)[:, None], PAIRS[..., 0], PAIRS[..., 1]]
    torch.testing.assert_close(model.read(edges, PAIRS), read)


def test_dynamic_quantisation() -> None:
    model, edges = make_encoder(dim=16, layers=1).float(), torch.randn(2, 4, 4, 16)
    plain = model(edges)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantised = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
    whole = quantised(edges)
    assert not torch.equal(whole, plain)
    torch.testing.assert_close(whole, plain, rtol=0, atol=0.2)
    # The scale of a quantised product depends on all rows of a call, so that the numbers are near, not equal.
    read = whole[torch.arange(2)[:, None], PAIRS[..., 0], PAIRS[..., 1]]
    torch.testing.assert_close(quantised.read(edges, PAIRS), read, rtol=0, atol=0.2)
    torch.testing.assert_close(quantised.encode_groups([edges])[0].edges, whole)


# --- hooks that look on -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [*LINEARS, "attention_norm", "feed_forward_norm", "feed_forward"])
@pytest.mark.parametrize("norm", ["released", "pre"])
def test_a_probe_sees_what_the_module_gave_and_changes_nothing(place: str, norm: str) -> None:
    model, edges = make_encoder(norm=norm, layers=1), random_edges()
    plain, seen = model(edges), []
    model.layers[0].get_submodule(place).register_forward_hook(
        lambda module, given, out: seen.append((out, out.clone()))
    )
    torch.testing.assert_close(model(edges), plain)
    assert len(seen) == 1
    assert torch.equal(*seen[0])  # nothing was written over it later


@pytest.mark.parametrize("place", LINEARS)
def test_a_backward_hook(place: str) -> None:
    model, edges, seen = make_encoder(layers=1), random_edges(), []

    def hook(module: nn.Module, given: Any, back: Any) -> None:
        seen.append(back[0].shape[-1])

    product = model.layers[0].get_submodule(place)
    product.register_full_backward_hook(hook)
    model(edges).sin().sum().backward()
    assert seen == [product.out_features]


@contextmanager
def on_all_modules(register: Callable[..., Any], hook: Callable[..., Any]) -> Iterator[None]:
    handle = register(hook)
    try:
        yield
    finally:
        handle.remove()


def test_hooks_on_all_modules() -> None:
    model, seq2seq, edges = make_encoder(), make_seq2seq(), random_edges()
    plain = model(edges)

    def hook(module: nn.Module, given: Any, out: Any) -> Any:
        return out.tanh() if isinstance(module, nn.Linear) else None

    with on_all_modules(global_hooks.register_module_forward_hook, hook):
        assert not torch.allclose(model(edges), plain)
        check_encoder(model, edges)
        check_decoder(seq2seq)
    torch.testing.assert_close(model(edges), plain)


# --- hooks on layers and stacks, and wrappers around them -------------------------------------------------------------


def hooked_layer(layer: nn.Module) -> nn.Module:
    layer.register_forward_hook(lambda module, given, out: out.tanh())
    return layer


class OtherForward(EdgeTransformerLayer):
    def forward(self, *given: Any, **how: Any) -> Tensor:
        return super().forward(*given, **how).tanh()


def other_forward(layer: nn.Module) -> nn.Module:
    new = OtherForward(make_encoder().config).double()
    new.load_state_dict(layer.state_dict())
    return new


def tanh_after_each_layer(
    model: EdgeTransformer, edges: Tensor, node_mask: Tensor | None = None, causal_from: int | None = None
) -> Tensor:
    single = make_encoder(layers=1)
    for depth in range(model.config.layers):
        single.layers[0].load_state_dict(model.layer(depth).state_dict())
        edges = by_the_equations(single, edges, node_mask, causal_from).tanh()
    return edges


@pytest.mark.parametrize("change", [hooked_layer, other_forward])
def test_a_changed_layer(change: Change) -> None:
    model, seq2seq = make_encoder(), make_seq2seq()
    for stack in (model, seq2seq.decoder):
        stack.layers[0] = change(stack.layers[0])
    check_encoder(model, random_edges(), tanh_after_each_layer)
    check_decoder(seq2seq, tanh_after_each_layer)


def test_a_wrapped_layer() -> None:
    model, seq2seq = make_encoder(tied=False), make_seq2seq()
    for stack in (model, seq2seq.decoder):
        stack.layers[0] = checkpoint_wrapper(stack.layers[0])
    check_encoder(model, random_edges())
    check_decoder(seq2seq)


def test_a_hook_on_the_stack() -> None:
    model, seq2seq = make_encoder(), make_seq2seq()

    def expected(stack: EdgeTransformer, *given: Any, **how: Any) -> Tensor:
        return by_the_equations(stack, *given, **how).tanh()

    model.register_forward_hook(lambda module, given, out: out.tanh())
    check_encoder(model, random_edges(), expected)
    decoder = seq2seq.decoder
    decoder.register_forward_hook(lambda module, given, out: out.tanh())
    edges = random_edges(2, 7)
    whole = expected(decoder, edges, causal_from=3).diagonal(dim1=1, dim2=2).transpose(1, 2)
    torch.testing.assert_close(decoder.read_targets(edges, 3), whole[:, 3:])
    with pytest.raises(ValueError, match=r"EdgeDecoder has a hook, which is never run .*Change its layers instead"):
        seq2seq.start(torch.zeros(1, 3, dtype=torch.long))


# --- what a layer never calls -----------------------------------------------------------------------------------------


class ForwardAlone(TriangularAttention):
    def forward(self, *given: Any, **how: Any) -> Tensor:
        return super().forward(*given, **how).tanh()


def attention_with_forward(old: nn.Module) -> nn.Module:
    return ForwardAlone(make_encoder().config).double()


def hooked_attention(old: nn.Module) -> nn.Module:
    old.register_forward_pre_hook(lambda module, given: None)
    return old


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (attention_with_forward, "ForwardAlone has a forward of its own"),
        (another_forward, "TriangularAttention has a forward of its own"),
        (hooked_attention, "TriangularAttention has a hook"),
    ],
)
def test_what_a_layer_would_pass_by_is_refused(change: Change, found: str) -> None:
    model, seq2seq, edges = make_encoder(), make_seq2seq(), random_edges()
    change_all(model, "attention", change)
    change_all(seq2seq.decoder, "attention", change)
    source, target = random_pair(2, 4, 5)
    ways: list[Callable[[], Any]] = [
        lambda: model(edges),
        lambda: model.read(edges, PAIRS),
        lambda: model.encode_groups([edges]),
        lambda: seq2seq(source, target),
        lambda: decode(seq2seq, seq2seq.start(source), target),
        lambda: trace(model, edges),
    ]
    for way in ways:
        with pytest.raises(ValueError, match=f"{found}, which is never run here.*Change project"):
            way()


class OtherAttend(TriangularAttention):
    def attend(self, *given: Any, **how: Any) -> Tensor:
        return super().attend(*given, **how).tanh()


class OtherParts(TriangularAttention):
    def project(self, edges: Tensor, only: Any = None) -> Tensor:
        return super().project(edges, only).tanh()


@pytest.mark.parametrize("kind", [OtherAttend, OtherParts])
def test_another_step_of_the_attention(kind: type[TriangularAttention]) -> None:
    def change(old: nn.Module) -> nn.Module:
        new = kind(make_encoder().config).double()
        new.load_state_dict(old.state_dict())
        return new

    model, seq2seq, edges = make_encoder(), make_seq2seq(), random_edges()
    before = model(edges)
    change_all(model, "attention", change)
    change_all(seq2seq.decoder, "attention", change)
    assert not torch.allclose(model(edges), before)
    check_encoder(model, edges, EdgeTransformer.__call__)
    check_decoder(seq2seq, EdgeTransformer.__call__)
    if kind is OtherAttend:
        with pytest.raises(ValueError, match="mixes triangles in a way of its own, which cannot be explained"):
            trace(model, edges)


def test_the_strength_of_a_triangle_goes_through_the_output_that_is_there() -> None:
    model, same, edges = make_encoder(), make_encoder(), random_edges()
    same.load_state_dict(model.state_dict())
    changed = Adapter(model.layer(0).attention.output, 8, 8).double()
    model.layer(0).attention.set_submodule("output", changed)
    with torch.no_grad():
        same.layer(0).attention.output.weight += changed.up.weight @ changed.down.weight
    torch.testing.assert_close(trace(model, edges).strengths, trace(same, edges).strengths)


# --- compilers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [adapter, parametrised, forward_hook])
def test_compiled_and_exported(change: Change) -> None:
    model, edges = make_encoder(layers=1), random_edges()
    change_all(model, "feed_forward.hidden", change)
    change_all(model, "attention.projections", change)
    expected = by_the_equations(model, edges)
    torch.testing.assert_close(torch.compile(model, backend="aot_eager", fullgraph=True)(edges), expected)
    if change is not forward_hook:  # which an exported program does not have
        torch.testing.assert_close(torch.export.export(model, (edges,)).module()(edges), expected)


def test_plain_modules_take_the_fast_path() -> None:
    network = FeedForward(4, 8, 0.0)
    assert network.is_plain()
    forward_hook(network.output)
    assert not network.is_plain()
