"""What torch.func and forward-mode differentiation make of the operators: what they make of the plain equations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, linearize, vmap
from torch.nn import functional as F

from attention_cases import Case, needs_kernels, random_mask
from edge_transformer.nn.layer import FeedForward
from edge_transformer.ops import feed_forward as feed_forward_module
from edge_transformer.ops.attention import (
    ENGINES,
    grouped_triangular_attention,
    packed_triangular_attention,
    triangular_attention,
)
from edge_transformer.ops.dropout import add_dropout
from edge_transformer.ops.native import packed_forward

pytestmark = pytest.mark.filterwarnings("error:There is a performance drop", "ignore:`torch.jit.script")

N, HEADS, DIM = 3, 2, 2
SIZES = [(2, 2), (1, 3)]
BOTH = [pytest.param("native", marks=needs_kernels), "blocked"]
every_engine = pytest.mark.parametrize("engine", BOTH)
CASES = [
    Case(),
    Case(masked=True, key="ij"),
    Case(causal=True, value="left"),
    Case(masked=True, causal=True),
]
some_cases = pytest.mark.parametrize("case", CASES, ids=str)
Function = Callable[..., Tensor]
feed_forward: Function = feed_forward_module.feed_forward


@pytest.fixture(autouse=True)
def same_numbers_every_time() -> None:
    torch.manual_seed(0)


# These answer with as many results as they are asked for, which type checkers cannot know.
jvp: Any = torch.func.jvp
vjp: Any = torch.func.vjp


def numbers(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64)


def separate(engine: str, case: Case = CASES[0], dropout_p: float = 0.0, batch: int = 2) -> Function:
    """Triangular attention of the four parts that lie first in one tensor, `[4, batch, n, n, heads, dim]`."""
    mask = random_mask(batch, N) if case.masked else None
    options: dict[str, Any] = {"node_mask": mask, "key": case.key, "causal_from": 1 if case.causal else None}
    return lambda parts: triangular_attention(
        *parts.unbind(0), **options, value=case.value, dropout_p=dropout_p, engine=engine
    )


def packed(engine: str, dropout_p: float = 0.0) -> Function:
    """The same for parts that lie where a layer's projection has them."""
    return lambda parts: packed_triangular_attention(parts.movedim(0, 3), dropout_p=dropout_p, engine=engine)


def grouped(engine: str, dropout_p: float = 0.0) -> Function:
    """The same for graphs of two sizes."""

    def attend(parts: Tensor) -> Tensor:
        edges = parts.flatten(1, 3)[:, : sum(batch * n * n for batch, n in SIZES)].transpose(0, 1)
        return grouped_triangular_attention(edges, SIZES, dropout_p=dropout_p, engine=engine)

    return attend


FORMS: dict[str, Callable[..., Function]] = {"separate": separate, "packed": packed, "grouped": grouped}
every_form = pytest.mark.parametrize("form", FORMS)


def draw(*vmapped: int, batch: int = 2) -> Tensor:
    return numbers(*vmapped, 4, batch, N, N, HEADS, DIM)


def loss(function: Function) -> Function:
    return lambda parts: function(parts).square().sum()


def seeded(function: Function) -> Function:
    """The same numbers are dropped at every call."""

    def run(*given: Tensor) -> Tensor:
        torch.manual_seed(5)
        return function(*given)

    return run


def same(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


# --- forward-mode differentiation -------------------------------------------------------------------------------------


@every_engine
@some_cases
def test_forward_mode_of_every_case(engine: str, case: Case) -> None:
    x, tangent = draw(), draw()
    found = jvp(separate(engine, case), (x,), (tangent,))
    same(found, jvp(separate("einsum", case), (x,), (tangent,)))
    with forward_ad.dual_level():
        dual = separate(engine, case)(forward_ad.make_dual(x.requires_grad_(), tangent))
        same(forward_ad.unpack_dual(dual).tangent, found[1])
    (gradient,) = torch.autograd.grad(dual.square().sum(), x)  # both at once
    same(gradient, grad(loss(separate("einsum", case)))(x.detach()))


@every_engine
@every_form
@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node")
def test_forward_mode_of_every_form(engine: str, form: str) -> None:
    function, exact = FORMS[form](engine), FORMS[form]("einsum")
    x, tangent = draw(), draw()
    same(jvp(function, (x,), (tangent,)), jvp(exact, (x,), (tangent,)))
    same(jacfwd(function)(x), jacfwd(exact)(x))
    if form == "packed":
        same(linearize(function, x)[1](tangent), jvp(exact, (x,), (tangent,))[1])


def check_dropout(function: Function, x: Tensor) -> None:
    """Forward and backward derivatives, of the first and the second order, are those of one and the same function."""
    function = seeded(function)
    tangent, other = torch.randn_like(x), torch.randn_like(x)
    out, forwards = jvp(function, (x,), (tangent,))
    same(out, function(x))  # the same numbers are dropped as without forward mode
    assert (forwards != 0).any()
    _, pull = vjp(function, x)
    upstream = torch.randn_like(out)
    same((pull(upstream)[0] * tangent).sum(), (upstream * forwards).sum())
    gradient = grad(lambda x: function(x).pow(3).sum())
    second, through = jvp(gradient, (x,), (tangent,))
    same(second, gradient(x))
    same((through * other).sum(), (vjp(gradient, x)[1](other)[0] * tangent).sum())
    step = 1e-6
    by_differences = (gradient(x + step * tangent) - gradient(x - step * tangent)) / (2 * step)
    torch.testing.assert_close(through, by_differences, rtol=1e-4, atol=1e-6)


@every_engine
@every_form
def test_forward_mode_with_dropout(engine: str, form: str) -> None:
    check_dropout(FORMS[form](engine, dropout_p=0.4), draw())


@every_engine
@some_cases
def test_forward_mode_with_dropout_of_every_case(engine: str, case: Case) -> None:
    check_dropout(separate(engine, case, dropout_p=0.4), draw())


@needs_kernels
def test_an_operator_called_directly() -> None:
    parts, tangent = draw().movedim(0, 3), draw().movedim(0, 3)
    with forward_ad.dual_level():
        dual = packed_forward(forward_ad.make_dual(parts, tangent), None, None, None, -1, False, 0.0, None)
        found = forward_ad.unpack_dual(dual[0]).tangent
    same(found, jvp(lambda parts: packed_triangular_attention(parts, engine="einsum"), (parts,), (tangent,))[1])


@every_engine
def test_edge_masks_and_biases(engine: str) -> None:
    mask = torch.rand(1, N, N) < 0.8
    q, k, v1, v2 = draw(batch=1)
    left, right = numbers(2, 1, HEADS, N, N)

    def attend(engine: str, *tensors: Tensor) -> Tensor:
        q, left, right = tensors
        return triangular_attention(q, k, v1, v2, edge_mask=mask, bias=(left, right), engine=engine).pow(3).sum()

    given, places = (q, left, right), (0, 1, 2)
    for transform in (jacfwd, jacrev, hessian, lambda function, places: jacrev(jacrev(function, places), places)):
        found, expected = (
            transform(lambda *tensors, engine=each: attend(engine, *tensors), places)(*given)
            for each in (engine, "einsum")
        )
        same(found, expected)
    several = tuple(torch.stack([one, -one]) for one in given)
    found, expected = (
        vmap(grad(lambda *tensors, engine=each: attend(engine, *tensors), places))(*several)
        for each in (engine, "einsum")
    )
    same(found, expected)


@every_engine
def test_a_cache_has_no_derivatives(engine: str) -> None:
    parts = draw(batch=1).movedim(0, 3)
    memory = ENGINES[engine].memory(parts, "lj", 5)
    new = numbers(2 * N + 1, 1, 4, HEADS, DIM)
    with forward_ad.dual_level(), pytest.raises(RuntimeError, match=r"forward|derivatives"):
        memory.extend(forward_ad.make_dual(new, new), None)


@every_engine
def test_no_tensor_of_all_triangles(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain code takes a few rows at a time as well."""
    monkeypatch.setattr("edge_transformer.ops.plain._NUMBERS_AT_ONCE", 1)
    x, tangent = draw(), draw()
    same(jvp(separate(engine), (x,), (tangent,)), jvp(separate("einsum"), (x,), (tangent,)))


# --- backwards, and twice -----------------------------------------------------------------------------------------


@every_engine
@every_form
def test_backward_transforms(engine: str, form: str) -> None:
    function, exact = FORMS[form](engine), FORMS[form]("einsum")
    x = draw()
    same(grad(loss(function))(x), grad(loss(exact))(x))
    same(jacrev(function)(x), jacrev(exact)(x))


@every_engine
@some_cases
def test_second_derivatives(engine: str, case: Case) -> None:
    function, exact = loss(separate(engine, case, batch=1)), loss(separate("einsum", case, batch=1))
    x = draw(batch=1)
    expected = hessian(exact)(x)
    same(hessian(function)(x), expected)
    same(jacrev(jacrev(function))(x), expected)


@every_engine
@every_form
def test_gradients_of_gradients(engine: str, form: str) -> None:
    thirds, x = [], draw().requires_grad_()
    for function in (FORMS[form](engine), FORMS[form]("einsum")):
        (first,) = torch.autograd.grad(loss(function)(x), x, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), x, create_graph=True)
        (third,) = torch.autograd.grad(second.sin().sum(), x)
        thirds.append((first, second, third))
    torch.testing.assert_close(*thirds, rtol=1e-7, atol=1e-7)


@every_engine
@pytest.mark.parametrize("dropout_p", [0.0, 0.4])
def test_second_derivatives_by_finite_differences(engine: str, dropout_p: float) -> None:
    x = draw(batch=1).requires_grad_()
    assert torch.autograd.gradgradcheck(seeded(separate(engine, dropout_p=dropout_p, batch=1)), x, fast_mode=True)


# --- vmap -------------------------------------------------------------------------------------------------------------


def one_by_one(function: Function, xs: Tensor) -> Tensor:
    return torch.stack([function(x) for x in xs])


@every_engine
@every_form
def test_vmap(engine: str, form: str) -> None:
    function, exact = FORMS[form](engine), FORMS[form]("einsum")
    x = draw(3)
    same(vmap(function)(x), one_by_one(exact, x))
    same(vmap(function, in_dims=4, out_dims=1)(x.movedim(0, 4)), one_by_one(exact, x).movedim(0, 1))
    same(vmap(grad(loss(function)))(x), one_by_one(grad(loss(exact)), x))
    same(grad(lambda x: vmap(function)(x).square().sum())(x), one_by_one(grad(loss(exact)), x))
    twice = draw(2, 3)
    same(vmap(vmap(function), 1, 1)(twice), torch.stack([one_by_one(exact, each) for each in twice]))
    tangent = torch.randn_like(x)
    found = vmap(lambda x, t: jvp(function, (x,), (t,))[1])(x, tangent)
    same(found, torch.stack([jvp(exact, (one,), (t,))[1] for one, t in zip(x, tangent, strict=True)]))


@every_engine
def test_vmap_over_some_of_the_tensors(engine: str) -> None:
    mask = torch.rand(3, 2, N) < 0.7
    for mapped in ((0, None, None, None), (None, 1, None, 0), (None, None, None, None)):
        dims = (*mapped, 0)
        parts = [numbers(2, N, N, HEADS, DIM) if dim is None else numbers(3, 2, N, N, HEADS, DIM) for dim in mapped]
        given = [part if dim is None else part.movedim(0, dim) for part, dim in zip(parts, mapped, strict=True)]

        def attend(engine: str, *tensors: Tensor) -> Tensor:
            return triangular_attention(*tensors[:4], node_mask=tensors[4], engine=engine)

        found = vmap(lambda *tensors: attend(engine, *tensors), in_dims=dims)(*given, mask)
        same(found, vmap(lambda *tensors: attend("einsum", *tensors), in_dims=dims)(*given, mask))


@every_engine
@every_form
def test_vmap_with_dropout(engine: str, form: str) -> None:
    function = FORMS[form](engine, dropout_p=0.5)
    x = draw().expand(3, -1, -1, -1, -1, -1, -1)
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(function)(x)
    alike = vmap(function, randomness="same")(x)
    same(alike[1:], alike[:-1])
    unlike = vmap(function, randomness="different")(x)
    assert all((one != other).any() for one, other in zip(unlike[1:], unlike[:-1], strict=True))
    for randomness in ("same", "different"):
        check_dropout(vmap(function, randomness=randomness), draw(2))


# --- feed-forward network and dropout ---------------------------------------------------------------------------------


def network_inputs() -> tuple[Tensor, ...]:
    return numbers(2, 3, 4), numbers(5, 4), numbers(5), numbers(4, 5), numbers(4)


def plain_network(x: Tensor, weight1: Tensor, bias1: Tensor, weight2: Tensor, bias2: Tensor) -> Tensor:
    return F.linear(F.linear(x, weight1, bias1).relu(), weight2, bias2)


@pytest.mark.parametrize("keep_hidden", [True, pytest.param(False, marks=needs_kernels)])
def test_feed_forward(keep_hidden: bool) -> None:
    def run(*given: Tensor) -> Tensor:
        return feed_forward(*given, keep_hidden=keep_hidden)

    given, tangents, places = network_inputs(), network_inputs(), tuple(range(5))
    same(jvp(run, given, tangents), jvp(plain_network, given, tangents))
    same(jacrev(run, places)(*given), jacrev(plain_network, places)(*given))
    for transform in (hessian, lambda function, places: jacrev(jacrev(function, places), places)):
        found, expected = (
            transform(lambda *given, network=network: network(*given).pow(3).sum(), places)(*given)
            for network in (run, plain_network)
        )
        same(found, expected)


@pytest.mark.parametrize("dims", [(0, None, None, None, None), (0, 0, 0, 0, 0), (None, 0, None, 0, None)], ids=str)
def test_vmap_of_feed_forward(dims: tuple[int | None, ...]) -> None:
    given = [
        one if dim is None else torch.stack([one, -one, 2 * one])
        for one, dim in zip(network_inputs(), dims, strict=True)
    ]
    same(vmap(feed_forward, dims)(*given), vmap(plain_network, dims)(*given))
    found, expected = (
        vmap(grad(lambda *given, network=network: network(*given).square().sum(), tuple(range(5))), dims)(*given)
        for network in (feed_forward, plain_network)
    )
    same(found, expected)


def fused_dropout() -> Iterator[Any]:
    _, *weights = network_inputs()
    residual = numbers(2, 3, 4)
    yield pytest.param(lambda x: feed_forward(x, *weights, p=0.5), id="feed-forward")
    yield pytest.param(lambda x: feed_forward(x, *weights, p=0.5, keep_hidden=False), id="hidden layer not kept")
    yield pytest.param(lambda x: add_dropout(residual * x, x, 0.5), id="sum")


@needs_kernels
@pytest.mark.parametrize("function", list(fused_dropout()))
def test_fused_dropout(function: Function) -> None:
    check_dropout(function, numbers(2, 3, 4))
    x = numbers(2, 3, 4).expand(3, -1, -1, -1)
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(function)(x)
    alike, unlike = (vmap(function, randomness=randomness)(x) for randomness in ("same", "different"))
    same(alike[1:], alike[:-1])
    assert (unlike[1:] != unlike[:-1]).any()
    for randomness in ("same", "different"):
        check_dropout(vmap(function, randomness=randomness), numbers(3, 2, 3, 4))


def test_single_numbers_and_vectors() -> None:
    assert add_dropout(torch.tensor(1.0), torch.tensor(1.0), 0.5).item() in (1.0, 3.0)
    x, *weights = network_inputs()
    same(vmap(lambda x: feed_forward(x, *weights))(x[0]), plain_network(x[0], *weights))
    assert vmap(lambda x: add_dropout(x, x, 0.5), randomness="different")(x[0, 0]).shape == (4,)


@needs_kernels
def test_per_sample_gradients_of_weights_with_dropout() -> None:
    net = FeedForward(4, 5, 0.5).double()
    weights = {name: weight.detach() for name, weight in net.named_parameters()}

    def total(weights: dict[str, Tensor], x: Tensor) -> Tensor:
        return functional_call(net, weights, x[None]).square().sum()

    x = numbers(6, 4)
    found = vmap(grad(total), in_dims=(None, 0), randomness="same")
    torch.manual_seed(5)
    made = found(weights, x)
    for at in range(6):
        torch.manual_seed(5)
        same({name: each[at] for name, each in made.items()}, grad(total)(weights, x[at]))


@needs_kernels
@pytest.mark.parametrize("keep_hidden", [True, False])
def test_samples_that_drop_differently_keep_what_they_dropped(keep_hidden: bool) -> None:
    x, weight, *rest = network_inputs()
    step = 1e-6 * torch.randn_like(weight)

    def total(x: Tensor, weight: Tensor) -> Tensor:
        return feed_forward(x, weight, *rest, p=0.5, keep_hidden=keep_hidden).square().sum()

    def each(function: Function, weight: Tensor) -> Tensor:
        torch.manual_seed(5)
        return vmap(function, in_dims=(0, None), randomness="different")(x, weight)

    found = (each(grad(total, 1), weight) * step).sum((1, 2))
    expected = (each(total, weight + step) - each(total, weight - step)) / 2
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-9)


@every_engine
@every_form
def test_vmap_over_no_samples(engine: str, form: str) -> None:
    assert vmap(FORMS[form](engine))(draw(2)[:0]).shape == vmap(FORMS[form](engine))(draw(2))[:0].shape
    x, *weights = network_inputs()
    assert vmap(lambda x: feed_forward(x, *weights))(x[:0]).shape == (0, 3, 4)


def test_a_network_that_ends_with_another_width() -> None:
    x, weight1, bias1, _, _ = network_inputs()
    given = x, weight1, bias1, numbers(3, 5), numbers(3)
    same(feed_forward(*given), plain_network(*given))
    places = tuple(range(5))
    same(jacrev(feed_forward, places)(*given), jacrev(plain_network, places)(*given))


# --- traced -----------------------------------------------------------------------------------------------------------


@every_engine
def test_under_torch_compile(engine: str) -> None:
    x, tangent = draw(), draw()

    def run(x: Tensor, tangent: Tensor) -> Any:
        function = separate(engine)
        return jvp(function, (x,), (tangent,)), grad(loss(function))(x), vmap(function)(torch.stack([x, tangent]))

    compiled = torch.compile(run, backend="aot_eager", fullgraph=True)
    same(compiled(x, tangent), run(x, tangent))
