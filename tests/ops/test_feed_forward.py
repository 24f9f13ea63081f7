"""The feed-forward network in parts: the same as the plain equations, whatever the parts."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from attention_cases import check_operator, needs_kernels
from edge_transformer.nn.layer import FeedForward
from edge_transformer.ops import feed_forward, native
from edge_transformer.ops.dropout import DROPOUT_BLOCK, relu_dropout_

SEED = torch.tensor([20211228])


@pytest.fixture(autouse=True)
def same_numbers_every_time() -> None:
    torch.manual_seed(0)


@pytest.fixture(params=[pytest.param("parts", marks=needs_kernels), "PyTorch"])
def code(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every test that asks for it runs in parts and without the compiled kernel."""
    if request.param == "PyTorch":
        monkeypatch.setattr(native, "_LOADED", "no compiled kernels: told so")
    return request.param


def network(dim: int = 8, hidden: int = 32, p: float = 0.0, dtype: torch.dtype = torch.float64) -> FeedForward:
    made = FeedForward(dim, hidden, p).to(dtype)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.5)  # biases too
    return made


def plain(net: FeedForward, x: Tensor, factors: Tensor | float = 1.0) -> Tensor:
    hidden = (x @ net.hidden.weight.T + net.hidden.bias).clamp(min=0) * factors
    return hidden @ net.output.weight.T + net.output.bias


def factors_of(seed: Tensor, p: float, *shape: int) -> Tensor:
    """What dropout multiplies each number of a hidden layer with."""
    ones = torch.ones(shape, dtype=torch.float64)
    relu_dropout_(ones, p, int(seed))
    return ones


def assert_same(net: FeedForward, x: Tensor, found: Tensor, expected: Tensor, upstream: Tensor | None = None) -> None:
    torch.testing.assert_close(found, expected)
    upstream = torch.randn_like(found) if upstream is None else upstream
    tensors = [x, *net.parameters()]
    torch.testing.assert_close(*(torch.autograd.grad(out, tensors, upstream) for out in (found, expected)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("shape", [(5,), (1,), (0,), (2, 3, 3), (1, 1, 1, 4)], ids=str)
def test_plain_equations(code: str, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    net = network(dtype=dtype)
    x = torch.randn(*shape, 8, dtype=dtype, requires_grad=True)
    assert_same(net, x, net(x), plain(net, x))


@needs_kernels
@pytest.mark.parametrize("p", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("hidden", [32, 24, 1, 4096])
@pytest.mark.parametrize("parts", [1, 2, 3, 2.5])
def test_parts_change_nothing(monkeypatch: pytest.MonkeyPatch, p: float, hidden: int, parts: float) -> None:
    monkeypatch.setattr(feed_forward, "_HIDDEN_NUMBERS", 1)  # the smallest parts there are
    part = feed_forward._rows_of_a_part(hidden)
    assert part * hidden % DROPOUT_BLOCK == 0
    net, rows = network(hidden=hidden, p=p), round(part * parts)
    x = torch.randn(rows, 8, dtype=torch.float64, requires_grad=True)
    monkeypatch.setattr(feed_forward, "draw_seed", lambda p: SEED if p else None)
    for net.keep_hidden in (True, False):
        assert_same(net, x, net(x), plain(net, x, factors_of(SEED, p, rows, hidden) if p else 1.0))


@pytest.mark.parametrize("p", [0.0, 0.4])
def test_a_hidden_layer_computed_again(code: str, p: float) -> None:
    net, x = network(p=p), torch.randn(20, 8, dtype=torch.float64, requires_grad=True)
    found, sizes = [], []

    def keep(tensor: Tensor) -> Tensor:
        sizes.append(tensor.numel())
        return tensor

    for net.keep_hidden in (True, False):
        sizes.clear()
        torch.manual_seed(1)
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            out = net(x)
        assert (max(sizes, default=0) >= 20 * 32) is net.keep_hidden
        found.append((out, *torch.autograd.grad(out.sin().sum(), [x, *net.parameters()])))
    assert all(torch.equal(*pair) for pair in zip(*found, strict=True))


@needs_kernels
def test_parts_of_the_usual_size() -> None:
    net = network(dim=4, hidden=64, dtype=torch.float32)
    rows = 2 * feed_forward._rows_of_a_part(64) + 5
    assert rows * 64 > 1 << 20
    x = torch.randn(rows, 4, requires_grad=True)
    with torch.no_grad():
        torch.testing.assert_close(net(x), plain(net, x), rtol=1e-5, atol=1e-5)
    found, expected = (
        torch.autograd.grad(out.square().mean(), [x, *net.parameters()]) for out in (net(x), plain(net, x))
    )
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


LAYOUTS = {
    "transposed": lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
    "every other": lambda x: x.repeat_interleave(2, -1)[..., ::2],
    "one row for all": lambda x: x[:1].expand(x.shape),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(code: str, layout: str) -> None:
    net = network()
    x = torch.randn(6, 5, 8, dtype=torch.float64, requires_grad=True)
    given = LAYOUTS[layout](x)
    assert_same(net, x, net(given), plain(net, given))
    upstream = LAYOUTS[layout](torch.randn(6, 5, 8, dtype=torch.float64))
    assert_same(net, x, net(x), plain(net, x), upstream)


@needs_kernels
def test_gradients_by_finite_differences() -> None:
    net = network(dim=3, hidden=5)
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    weights = (net.hidden.weight, net.hidden.bias, net.output.weight, net.output.bias)

    def run(*tensors: Tensor) -> Tensor:
        return feed_forward._feed_forward(*tensors, 0.4, SEED, True)[0]

    assert torch.autograd.gradcheck(run, (x, *weights))


@pytest.mark.parametrize("p", [0.01, 0.2, 0.5])
def test_how_many_are_dropped_in_training_alone(code: str, p: float) -> None:
    net = FeedForward(1, 500, p)
    for parameter, value in zip(net.parameters(), (0.0, 1.0, 1.0, 0.0), strict=True):
        torch.nn.init.constant_(parameter, value)  # every hidden number is 1, and the output is their sum
    x = torch.zeros(300, 1)
    kept = net(x).detach().double() * (1 - p)
    deviation = (p * (1 - p) / 150_000) ** 0.5
    assert abs(kept.sum().item() / 150_000 - (1 - p)) < 5 * deviation
    assert not torch.equal(net(x), net(x))
    net.eval()
    state = torch.get_rng_state()
    assert (net(x) == 500).all()
    assert torch.equal(torch.get_rng_state(), state)


@needs_kernels
def test_only_training_keeps_the_hidden_layer() -> None:
    net = network(p=0.5)
    weights = (net.hidden.weight, net.hidden.bias, net.output.weight, net.output.bias)
    x = torch.randn(3, 8, dtype=torch.float64)
    kept = [feed_forward._feed_forward(x, *weights, 0.5, SEED, keep) for keep in (True, False)]
    assert torch.equal(kept[0][0], kept[1][0])
    assert [tuple(hidden.shape) for _, hidden in kept] == [(3, 32), (0, 32)]
    asked: list[bool] = []
    original = feed_forward._feed_forward

    def watched(*arguments: object) -> tuple[Tensor, Tensor]:
        asked.append(bool(arguments[-1]))
        return original(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feed_forward, "_feed_forward", watched)
        net(x)
        with torch.no_grad():
            net(x)
        net.requires_grad_(False)(x)
        net(x.requires_grad_())
    assert asked == [True, False, False, True]


def test_mixed_precision(code: str) -> None:
    net, x = network(dtype=torch.float32), torch.randn(6, 8)
    with torch.autocast("cpu", torch.bfloat16):
        found = net(x)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), plain(net, x), rtol=0.05, atol=0.1)
    half = net.to(torch.bfloat16)
    assert half(x.bfloat16()).dtype == torch.bfloat16


def test_threads_change_no_random_number(code: str) -> None:
    net = network(dim=2, hidden=64, p=0.3, dtype=torch.float32)
    x, before = torch.randn(30_000, 2), torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            torch.manual_seed(1)
            results.append(net(x).detach())
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(*results)


def test_gradient_checkpointing(code: str) -> None:
    net, x = network(p=0.4), torch.randn(20, 8, dtype=torch.float64, requires_grad=True)
    torch.manual_seed(7)
    expected = net(x)
    torch.manual_seed(7)
    found = checkpoint(net, x, use_reentrant=False)
    assert torch.equal(found, expected)
    assert torch.equal(*(torch.autograd.grad(out.sum(), x)[0] for out in (found, expected)))


@needs_kernels
def test_operators() -> None:
    net, x = network(dim=3, hidden=5), torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    weights = (net.hidden.weight, net.hidden.bias, net.output.weight, net.output.bias)
    for operator, arguments in (
        (feed_forward._feed_forward, (x, *weights, 0.3, SEED, True)),
        (feed_forward._feed_forward, (x, *weights, 0.0, None, True)),
        (feed_forward._feed_forward, (x, *weights, 0.3, SEED, False)),
        (feed_forward._feed_forward, (x.detach(), *(each.detach() for each in weights), 0.3, SEED, False)),
        (
            feed_forward._feed_forward_backward,
            (x.detach(), x.detach(), *(each.detach() for each in weights[:3]), torch.rand(4, 5).double(), 0.3, SEED),
        ),
    ):
        check_operator(operator, *arguments)


@needs_kernels
def test_it_is_used_where_it_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(F, "dropout", lambda *arguments: pytest.fail("PyTorch's dropout was called"))
    net = network(p=0.3)
    assert net(torch.ones(3, 8, dtype=torch.float64)).shape == (3, 8)
