"""What holds with every engine: the equations, masks, dropout, and the same numbers however tensors are given.

The engines are those of `ENGINES` that this machine can run: a new one is tested by being in that list.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from attention_cases import (
    ALL_CASES,
    EVERY_ENGINE,
    NAMES,
    Case,
    device_of,
    every_case,
    exact_outcome,
    outcome,
    present,
    random_parts,
    worst,
)
from edge_transformer.ops.attention import (
    ENGINES,
    grouped_triangular_attention,
    packed_triangular_attention,
    triangular_attention,
)
from edge_transformer.ops.einsum import EINSUM
from edge_transformer.ops.engine import Options

SHAPE = (2, 4, 4, 2, 3)
every_engine = pytest.mark.parametrize("engine", EVERY_ENGINE)


@pytest.fixture(autouse=True)
def same_numbers_every_time() -> None:
    torch.manual_seed(0)


def run(function: Callable[..., Tensor], engine: str, *given: Any, **options: Any) -> Tensor:
    """A function on the device that the engine computes on, for tensors that are on the CPU."""
    device = device_of(ENGINES[engine])

    def moved(value: Any) -> Any:
        return value.to(device) if isinstance(value, Tensor) else value

    named = {name: moved(value) for name, value in options.items()}
    return function(*map(moved, given), **named, engine=engine).cpu()


attend = partial(run, triangular_attention)
attend_packed = partial(run, packed_triangular_attention)
attend_groups = partial(run, grouped_triangular_attention)


def attention_weights(engine: str, n: int, batch: int = 1, heads: int = 1, **options: Any) -> Tensor:
    """The weights `[batch, i, l, j, head]` of equal scores: the value of pivot l is the unit vector l."""
    q = torch.zeros(batch, n, n, heads, n)
    v1 = torch.eye(n)[None, None, :, None, :].expand(q.shape)
    return attend(engine, q, q, v1, None, value="left", **options).permute(0, 1, 4, 2, 3)


# --- the mathematics --------------------------------------------------------------------------------------------------


@every_engine
@every_case
@pytest.mark.parametrize("size", [(1, 1), (2, 3), (3, 8), (5, 3), (6, 5), (9, 2)], ids=str)
def test_output_and_gradients_are_those_of_the_equations(engine: str, case: Case, size: tuple[int, int]) -> None:
    parts, options = random_parts(3, size[0], 2, size[1], value=case.value), case.options(3, size[0])

    def attend_with(*arguments: Any) -> Tensor:
        *parts, options = arguments
        return attend(engine, *parts, **vars(options), value=case.value)

    found = outcome(attend_with, parts, options)
    for name, one, exact in zip(NAMES[: len(found)], found, exact_outcome(parts, options), strict=True):
        assert worst(one, exact) < 1e-12, name


@every_engine
@every_case
def test_gradients_with_dropout_by_finite_differences(engine: str, case: Case) -> None:
    parts = random_parts(2, 3, 1, 2, value=case.value)
    options = vars(case.options(2, 3, dropout_p=0.4))

    def attend_again(q: Tensor, k: Tensor, v1: Tensor, v2: Tensor | None = None) -> Tensor:
        torch.manual_seed(3)  # the same weights are dropped every time
        return attend(engine, q, k, v1, v2, **options, value=case.value)

    assert torch.autograd.gradcheck(attend_again, present(parts))


@every_engine
def test_one_node_passes_its_value_through(engine: str) -> None:
    q, k, v1, v2 = (torch.randn(1, 1, 1, 2, 3) for _ in range(4))
    torch.testing.assert_close(attend(engine, q, k, v1, v2), v1 * v2)


@every_engine
def test_equal_scores_give_the_mean_over_pivots(engine: str) -> None:
    v1, v2 = torch.randn(2, *SHAPE)
    out = attend(engine, torch.zeros(SHAPE), torch.zeros(SHAPE), v1, v2)
    for i in range(4):
        for j in range(4):
            mean = sum(v1[:, i, pivot] * v2[:, pivot, j] for pivot in range(4)) / 4
            torch.testing.assert_close(out[:, i, j], mean)


@every_engine
def test_a_large_score_takes_one_pivot(engine: str) -> None:
    q, k, v1, v2 = torch.randn(4, 1, 3, 3, 1, 2)
    q[:, :, 2], k[:, 2], k[:, :2] = 100.0, 100.0, -100.0
    out = attend(engine, q, k, v1, v2)
    torch.testing.assert_close(out, v1[:, :, 2:].expand(out.shape) * v2[:, 2:].expand(out.shape))


@every_engine
def test_scores_are_scaled_by_the_size_of_a_head(engine: str) -> None:
    q, v1 = torch.zeros(1, 2, 2, 1, 16), torch.zeros(1, 2, 2, 1, 16)
    q[:, :, 1], v1[:, :, 1] = 1.0, 1.0  # scores 0 and 16 / sqrt(16), values 0 and 1
    out = attend(engine, q, torch.ones_like(q), v1, None, value="left")
    torch.testing.assert_close(out, torch.tensor(4.0).sigmoid().expand(out.shape))


@every_engine
def test_value_left_ignores_v2(engine: str) -> None:
    q, k, v1, v2 = torch.randn(4, *SHAPE)
    without = attend(engine, q, k, v1, None, value="left")
    assert torch.equal(attend(engine, q, k, v1, v2, value="left"), without)
    assert not torch.allclose(attend(engine, q, k, v1, v2), without)


# --- masks ------------------------------------------------------------------------------------------------------------


@every_engine
@pytest.mark.parametrize("key", ["lj", "ij"])
def test_padding_gets_zeros_and_changes_nothing(engine: str, key: str) -> None:
    real = torch.tensor([0, 2, 3])
    mask = torch.zeros(1, 5, dtype=torch.bool)
    mask[:, real] = True
    parts = torch.randn(4, 1, 5, 5, 2, 3, requires_grad=True)
    out = attend(engine, *parts, node_mask=mask, key=key)
    small = parts.detach()[:, :, real][:, :, :, real]
    expected = attend(engine, *small, key=key)
    torch.testing.assert_close(out[:, real][:, :, real], expected)
    padding = ~(mask[:, :, None] & mask[:, None, :])
    assert (out[padding] == 0).all()
    (gradient,) = torch.autograd.grad(out.square().sum(), parts)
    assert (gradient[:, padding] == 0).all()
    assert (gradient[:, ~padding] != 0).any(-1).all()


@every_engine
@pytest.mark.parametrize("case", [case for case in ALL_CASES if case.masked], ids=str)
def test_without_any_pivot_output_is_zero_and_gradients_are_finite(engine: str, case: Case) -> None:
    parts = random_parts(2, 4, 2, 3, value=case.value)
    choice: dict[str, Any] = {"key": case.key, "value": case.value, "causal_from": 2 if case.causal else None}
    mask = torch.zeros(2, 4, dtype=torch.bool)
    out = attend(engine, *parts, node_mask=mask, **choice)
    assert (out == 0).all()
    assert all((gradient == 0).all() for gradient in torch.autograd.grad(out.sum(), present(parts)))


@every_engine
@pytest.mark.parametrize("key", ["lj", "ij"])
def test_edges_of_a_decoder_never_see_later_nodes(engine: str, key: str) -> None:
    sources = 2
    parts = torch.randn(4, 1, 6, 6, 2, 3)
    out = attend(engine, *parts, causal_from=sources, key=key)
    for nodes in range(sources, 7):
        before = attend(engine, *parts[:, :, :nodes, :nodes], causal_from=sources, key=key)
        torch.testing.assert_close(out[:, :nodes, :nodes], before)
    free = attend(engine, *parts, key=key)
    assert not torch.allclose(out[:, :sources, :sources], free[:, :sources, :sources])


@every_engine
def test_causal_from_the_number_of_nodes_restricts_nothing(engine: str) -> None:
    parts = torch.randn(4, *SHAPE)
    free = attend(engine, *parts)
    torch.testing.assert_close(attend(engine, *parts, causal_from=4), free)


@every_engine
def test_not_a_number_is_not_hidden(engine: str) -> None:
    for broken in range(4):
        parts = torch.randn(4, 1, 3, 3, 1, 2)
        parts[broken, 0, 1, 2] = torch.nan
        assert attend(engine, *parts).isnan().any()


@every_engine
def test_no_graphs_at_all(engine: str) -> None:
    parts = torch.randn(4, 0, 3, 3, 2, 5, requires_grad=True)
    out = attend(engine, *parts, node_mask=torch.ones(0, 3, dtype=torch.bool))
    assert out.shape == (0, 3, 3, 2, 5)
    assert torch.autograd.grad(out.sum(), parts)[0].shape == parts.shape


# --- dropout ----------------------------------------------------------------------------------------------------------


@every_engine
def test_dropout_of_zero_draws_nothing(engine: str) -> None:
    parts = torch.randn(4, *SHAPE)
    state = torch.get_rng_state()
    plain = attend(engine, *parts)
    assert torch.equal(attend(engine, *parts, dropout_p=0.0), plain)
    assert torch.equal(torch.get_rng_state(), state)


@every_engine
def test_dropout_follows_the_seed(engine: str) -> None:
    parts = torch.randn(4, *SHAPE)
    torch.manual_seed(5)
    first, second = (attend(engine, *parts, dropout_p=0.4) for _ in range(2))
    torch.manual_seed(5)
    assert torch.equal(attend(engine, *parts, dropout_p=0.4), first)
    assert not torch.allclose(first, second)


@every_engine
@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropped_weights_are_zero_and_kept_ones_scaled(engine: str, p: float) -> None:
    n = 12
    weights = attention_weights(engine, n, batch=3, heads=3, dropout_p=p)
    kept = weights != 0
    torch.testing.assert_close(weights[kept], torch.full_like(weights[kept], 1 / n / (1 - p)))
    deviation = (p * (1 - p) / kept.numel()) ** 0.5
    assert abs(kept.float().mean().item() - (1 - p)) < 5 * deviation


@every_engine
def test_the_mean_over_dropouts_is_the_output_without(engine: str) -> None:
    parts = torch.randn(4, 1, 3, 3, 1, 2)
    copies = parts.expand(4, 20_000, 3, 3, 1, 2)
    out = attend(engine, *copies, dropout_p=0.3)
    exact = attend(engine, *parts)
    deviation = out.std(0) / out.shape[0] ** 0.5
    assert ((out.mean(0) - exact[0]).abs() < 5 * deviation).all()


@every_engine
def test_dropout_leaves_padding_at_zero(engine: str) -> None:
    mask = torch.tensor([[True, False, True]])
    weights = attention_weights(engine, 3, dropout_p=0.5, node_mask=mask)
    assert (weights[:, 1] == 0).all()
    assert (weights[:, :, 1] == 0).all()
    assert (weights[:, :, :, 1] == 0).all()


# --- other ways to give it its tensors --------------------------------------------------------------------------------


@every_engine
@every_case
def test_packed_parts_give_the_same(engine: str, case: Case) -> None:
    separate = random_parts(2, 4, 2, 3, value=case.value, dtype=torch.float32)
    packed = torch.stack([part.detach() for part in present(separate)], dim=3).requires_grad_()
    options = vars(case.options(2, 4, dropout_p=0.25))
    torch.manual_seed(3)
    from_packed = attend_packed(engine, packed, **options)
    torch.manual_seed(3)
    from_separate = attend(engine, *separate, value=case.value, **options)
    assert torch.equal(from_packed, from_separate)
    (found,) = torch.autograd.grad(from_packed.square().sum(), packed)
    expected = torch.autograd.grad(from_separate.square().sum(), present(separate))
    torch.testing.assert_close(found, torch.stack(expected, dim=3))


@every_engine
@pytest.mark.parametrize("sizes", [[(1, 1)], [(3, 4)], [(2, 5), (1, 1), (3, 2), (2, 5)], [(1, 13), (0, 3), (7, 3)]])
@pytest.mark.parametrize("parts", [3, 4])
@pytest.mark.parametrize("key", ["lj", "ij"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_groups_give_what_each_size_gives_alone(
    engine: str, sizes: list[tuple[int, int]], parts: int, key: str, dtype: torch.dtype
) -> None:
    """To the bit."""
    counts = [batch * n * n for batch, n in sizes]
    values, weights = torch.randn(sum(counts), parts, 2, 5, dtype=dtype), torch.randn(sum(counts), 2, 5, dtype=dtype)

    def one_by_one(engine: str, tensor: Tensor) -> Tensor:
        groups = zip(tensor.split(counts), sizes, strict=True)
        mixed = [attend_packed(engine, part.unflatten(0, (batch, n, n)), key=key) for part, (batch, n) in groups]
        return torch.cat([part.flatten(0, 2) for part in mixed])

    found = []
    for run in (lambda tensor: attend_groups(engine, tensor, sizes, key=key), partial(one_by_one, engine)):
        tensor = values.clone().requires_grad_()
        out = run(tensor)
        found.append((out.detach(), *torch.autograd.grad((out * weights).sum(), tensor)))
    for together, alone in zip(*found, strict=True):
        assert torch.equal(together, alone)
    torch.testing.assert_close(found[0][0].double(), one_by_one("einsum", values.double()), atol=1e-5, rtol=1e-5)


@every_engine
@pytest.mark.parametrize("key", ["lj", "ij"])
@pytest.mark.parametrize("parts", [3, 4])
@pytest.mark.parametrize("masked", [False, True])
def test_memory_gives_a_new_node_what_the_whole_graph_gives_it(engine: str, key: str, parts: int, masked: bool) -> None:
    """Also where rows of the batch change places and the room grows in between."""
    sources, nodes, device = 3, 9, device_of(ENGINES[engine])
    whole = torch.randn(2, nodes, nodes, parts, 2, 5, dtype=torch.float64)
    mask = torch.ones(2, nodes, dtype=torch.bool)
    mask[1, 1:sources] = not masked
    memory = ENGINES[engine].memory(whole[:, :sources, :sources].to(device), key, sources + 2)
    for last in range(sources, nodes):
        n = last + 1
        if n == sources + 3:
            memory.grow(nodes, last)
            memory.reorder(torch.tensor([1, 0], device=device), last)
            whole, mask = whole.flip(0), mask.flip(0)
        new = torch.cat([whole[:, :last, last], whole[:, last, :n]], 1).transpose(0, 1)  # (2n - 1, B, parts, h, d)
        found = memory.extend(new.to(device), mask[:, :n].to(device) if masked else None).cpu().transpose(0, 1)
        out = EINSUM.attend_packed(whole[:, :n, :n], Options(mask[:, :n], sources, key))
        expected = torch.cat([out[:, :last, last], out[:, last, :n]], 1)
        real = torch.cat([mask[:, :last], mask[:, :n]], 1)  # the memory leaves out pivots alone that are padding
        assert worst(found[real], expected[real]) < 1e-12
