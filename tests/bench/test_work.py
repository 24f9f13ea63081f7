"""What the benchmark times: it does what it says, and the floor has the products of a step, no more and no fewer."""

from __future__ import annotations

from functools import partial
from threading import Barrier
from typing import Any

import pytest
import torch
from torch import nn

from edge_transformer.bench import work
from edge_transformer.bench.sizes import CLUTRR_TEST, CLUTRR_TRAIN, PAPER, Configuration, Size
from edge_transformer.bench.timing import Watch
from edge_transformer.bench.work import (
    BOTH,
    FLOYDNET,
    FORWARD,
    STEP,
    Floor,
    attention_action,
    expected_bytes,
    floydnet_action,
    floydnet_missing,
    step_action,
    two_at_once,
    with_threads,
)
from edge_transformer.errors import UserError
from edge_transformer.ops.attention import ENGINES, resolve_engine
from products import Products

TINY = Size(2, 3, 8, 2)


def marks(action: Any) -> dict[str, float]:
    watch = Watch()
    action(watch)
    return watch.marks


def test_the_floor_has_the_products_of_a_plain_network() -> None:
    configuration = Configuration("x", TINY, layers=3)
    rows, dim = TINY.edges, TINY.dim
    with Products() as floor:
        assert list(marks(Floor(configuration))) == [STEP]

    layer = [nn.Linear(dim, 4 * dim), nn.Linear(dim, dim), nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)]
    with Products() as plain:
        x = torch.randn(rows, dim, requires_grad=True)
        for _ in range(3):
            projections = layer[0](x)
            x = layer[1](projections[:, :dim]) + projections.sum()
            x = layer[3](layer[2](x))
        x.sum().backward()
    assert floor.counts == plain.counts
    work_of_floor = sum(a * b * c * count for (a, b, c), count in floor.counts.items())
    assert work_of_floor == 3 * 3 * 13 * rows * dim**2


def test_the_floor_writes_only_into_memory_set_aside() -> None:
    floor = Floor(Configuration("x", TINY))
    places = {tensor.data_ptr() for tensor in (*floor.results.values(), *floor.weight_gradients)}
    products = list(floor.products())
    assert len(products) == 12
    for left, right, result in products:
        assert result.data_ptr() in places
        assert left.data_ptr() not in places
        assert right.data_ptr() not in places
        assert (left.shape[0], right.shape[1]) == result.shape


@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "triton"])
def test_attention_is_timed_forward_and_backward(engine: str) -> None:
    try:
        resolve_engine(engine, torch.empty(0))
    except ValueError as error:
        pytest.skip(str(error))
    found = marks(attention_action(TINY, engine))
    assert list(found) == [FORWARD, BOTH]
    assert 0 < found[FORWARD] < found[BOTH]


def test_attention_gives_gradients_of_all_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[torch.Tensor] = []
    real = work.triangular_attention

    def spy(*inputs: torch.Tensor, engine: str) -> torch.Tensor:
        seen[:] = inputs
        return real(*inputs, engine=engine)

    monkeypatch.setattr(work, "triangular_attention", spy)
    marks(attention_action(TINY, "einsum"))
    assert [tuple(tensor.shape) for tensor in seen] == [(2, 3, 3, 2, 4)] * 4
    assert all(tensor.grad is not None and tensor.grad.abs().sum() > 0 for tensor in seen)


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_a_step_trains_the_configuration(dropout: float, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    real = work.EdgeTransformer

    def make(config: Any) -> Any:
        made.append(real(config))
        return made[-1]

    monkeypatch.setattr(work, "EdgeTransformer", make)
    action = step_action(Configuration("x", TINY, layers=2, attention_bias=False), dropout)
    assert list(marks(action)) == [STEP]
    (model,) = made
    assert model.training
    config = model.config
    assert (config.dim, config.heads, config.layers, config.dropout) == (8, 2, 2, dropout)
    assert not config.attention_bias
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.skipif(floydnet_missing() is not None, reason=floydnet_missing() or "")
def test_the_baseline_is_timed_forward_and_backward() -> None:
    assert list(marks(floydnet_action(TINY))) == [FORWARD, BOTH]


def test_threads_of_an_action() -> None:
    before = torch.get_num_threads()
    seen: list[int] = []
    with_threads(2, lambda watch: seen.append(torch.get_num_threads()))(Watch())
    torch.set_num_threads(before)
    assert seen == [2]


def test_two_at_once_run_side_by_side_and_count_for_one() -> None:
    meet, threads = Barrier(2, timeout=20), []

    def action(seconds: float, watch: Watch) -> None:
        meet.wait()  # passes only if the other runs too
        threads.append(torch.get_num_threads())
        watch.marks[STEP] = seconds

    watch = Watch()
    two_at_once(partial(action, 1.0), partial(action, 3.0))(watch)
    assert watch.marks == {STEP: 1.5}
    assert threads == [1, 1]


def test_expected_bytes_grow_as_the_memory_does() -> None:
    small, large = Size(1, 64, 64, 4), Size(1, 128, 64, 4)
    assert expected_bytes("einsum", large) == 8 * expected_bytes("einsum", small)
    assert expected_bytes("native", large) == 4 * expected_bytes("native", small)
    assert expected_bytes(FLOYDNET, large) > 4 * expected_bytes(FLOYDNET, small)
    assert expected_bytes("step", large, layers=4) > expected_bytes("native", large)


def test_sizes_of_the_paper() -> None:
    assert [str(each.size) for each in PAPER] == [
        "400,5,200,4",
        "100,11,200,4",
        "100,10,64,4",
        "38,13,360,4",
        "8,60,256,8",
    ]
    assert [each.layers for each in PAPER] == [8, 8, 3, 7, 6]
    assert [each.dropout for each in PAPER] == [0.2, 0.2, 0.1, 0.1, 0.1]
    assert [each for each in PAPER if not each.attention_bias] == [CLUTRR_TRAIN, CLUTRR_TEST]


def test_a_size_from_text() -> None:
    assert Size.parse("4,30,128,8") == Size(4, 30, 128, 8)
    assert str(Size.parse(" 4, 30,128,8")) == "4,30,128,8"
    assert (TINY.edges, TINY.triangles, TINY.head_dim) == (18, 54, 4)


@pytest.mark.parametrize("text", ["", "4,30,128", "4,30,128,8,1", "4,x,128,8", "0,30,128,8", "4,-3,128,8", "4,,128,8"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(UserError, match=r"expected four numbers B,n,d,h such as 4,30,128,8"):
        Size.parse(text)


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(UserError, match="d=10 is not divisible by h=4"):
        Size.parse("1,2,10,4")
