"""Timed actions: the attention alone, a training step of a stack, its floor, and a baseline's attention."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from ..nn.encoder import EdgeTransformer
from ..nn.layer import EdgeTransformerConfig
from ..ops.attention import ENGINES, triangular_attention
from .sizes import Configuration, Size
from .timing import Action, Watch

FORWARD, BOTH, STEP = "forward", "forward+backward", "training step"
FLOYDNET = "floydnet"
INSTALL_FLOYDNET = "not installed; pip install floydnet==1.1.0, or this package with its extra [bench]"


def attention_action(size: Size, engine: str, device: str = "cpu") -> Action:
    """`triangular_attention`, forward and backward to all four inputs."""
    shape = (size.batch, size.n, size.n, size.heads, size.head_dim)
    inputs, gradient = _random_inputs(4, shape, device)
    return partial(_both_ways, partial(triangular_attention, *inputs, engine=engine), inputs, gradient)


def floydnet_action(size: Size) -> Action:
    """FloydNet's pivotal attention: the scores and values of a triangle are sums of two terms, not products.

    Its inputs are contiguous, in its own order of dimensions.
    """
    from floydnet import pivotal_attention

    shape = (size.batch, size.heads, size.n, size.n, size.head_dim)
    inputs, gradient = _random_inputs(5, shape, "cpu")
    return partial(_both_ways, partial(pivotal_attention, *inputs), inputs, gradient)


def floydnet_missing() -> str | None:
    """How to install FloydNet, if it is missing."""
    return None if importlib.util.find_spec("floydnet") else INSTALL_FLOYDNET


def step_action(configuration: Configuration, dropout: float, device: str = "cpu") -> Action:
    """Forward and backward of a stack, from a dense gradient of its output to those of weights and input."""
    size = configuration.size
    config = EdgeTransformerConfig(
        dim=size.dim,
        heads=size.heads,
        layers=configuration.layers,
        dropout=dropout,
        attention_bias=configuration.attention_bias,
    )
    torch.manual_seed(1)
    model = EdgeTransformer(config).to(device).train()
    (edges,), gradient = _random_inputs(1, (size.batch, size.n, size.n, size.dim), device)

    def action(watch: Watch) -> None:
        model.zero_grad()
        edges.grad = None
        watch.start()
        model(edges).backward(gradient)
        watch.mark(STEP)

    return action


class Floor:
    """The matrix products of a training step and nothing else: a lower bound for every implementation.

    A layer has four weights: q, k, v1 and v2 in one, the attention's output, and two of the feed-forward network. Each
    needs one product forward and two backward, for its input and for itself. Outputs are allocated beforehand.
    """

    def __init__(
        self,
        configuration: Configuration,
        device: str = "cpu",
        rows: int | None = None,
        products: Sequence[tuple[int, int]] = ((1, 4), (1, 1), (1, 4), (4, 1)),
    ) -> None:
        """`rows` is the number of edges by default; `products` are widths before and after, in multiples of `dim`."""
        rows, dim = rows or configuration.size.edges, configuration.size.dim
        self.layers = configuration.layers
        random = torch.Generator().manual_seed(1)

        def make(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=random).to(device)

        self.weights = [make(out * dim, into * dim) for into, out in products]
        self.weight_gradients = [torch.empty_like(weight) for weight in self.weights]
        widths = sorted({width for weight in self.weights for width in weight.shape})
        self.states = {width: make(rows, width) for width in widths}  # inputs and gradients, read only
        self.results = {width: torch.empty_like(states) for width, states in self.states.items()}

    def products(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """The products of one layer, forward then backward: two factors and the output tensor."""
        for weight in self.weights:
            out, into = weight.shape
            yield self.states[into], weight.t(), self.results[out]
        for weight, gradient in zip(reversed(self.weights), reversed(self.weight_gradients), strict=True):
            out, into = weight.shape
            yield self.states[out], weight, self.results[into]
            yield self.states[out].t(), self.states[into], gradient

    def __call__(self, watch: Watch) -> None:
        products = list(self.products())
        watch.start()
        for _ in range(self.layers):
            for left, right, result in products:
                torch.mm(left, right, out=result)
        watch.mark(STEP)


def with_threads(threads: int, action: Action) -> Action:
    """The action with this number of threads."""

    def run(watch: Watch) -> None:
        torch.set_num_threads(threads)
        action(watch)

    return run


def two_at_once(first: Action, second: Action) -> Action:
    """Run two actions at once, each with one thread, and mark half of the time that both take.

    They share no work and never wait for each other: the most that two threads of this machine can gain.
    """

    def run(watch: Watch) -> None:
        watches = Watch(), Watch()
        runs = [
            threading.Thread(target=with_threads(1, action), args=(own,))
            for action, own in zip((first, second), watches, strict=True)
        ]
        for thread in runs:
            thread.start()
        for thread in runs:
            thread.join()
        for what in watches[0].marks:
            watch.marks[what] = max(own.marks[what] for own in watches) / 2

    return run


def expected_bytes(name: str, size: Size, layers: int = 0) -> int:
    """An upper estimate of the memory of forward and backward, to skip what may not fit."""
    states = 4 * size.edges * size.dim  # one float32 vector for every edge
    if name in ENGINES and ENGINES[name].cubic_memory:  # values of all triangles, their gradient, copies of both
        return 7 * size.n * states // 2 * max(1, layers)
    if name == FLOYDNET:
        return 6 * 4 * size.triangles * size.heads + 12 * states  # weights and their copies
    return (16 + 20 * layers) * states


def _random_inputs(count: int, shape: Sequence[int], device: str) -> tuple[list[Tensor], Tensor]:
    """Inputs that require gradients, and a gradient of the output."""
    random = torch.Generator().manual_seed(1)
    inputs = [torch.randn(*shape, generator=random).to(device).requires_grad_() for _ in range(count)]
    return inputs, torch.randn(*shape, generator=random).to(device)


def _both_ways(run: partial[Tensor], inputs: list[Tensor], gradient: Tensor, watch: Watch) -> None:
    for tensor in inputs:
        tensor.grad = None
    watch.start()
    out = run()
    watch.mark(FORWARD)
    out.backward(gradient)
    watch.mark(BOTH)
