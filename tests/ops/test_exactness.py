"""How exact the engines are in float32, at every size: no less than half as exact as the plain equations in float32.

Errors are those against the plain equations in float64. They are compared by their root mean square over enough graphs:
the largest error is a matter of luck, and is several times that of the plain equations where the mean error is smaller.
"""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attention_cases import (
    ALL_CASES,
    LAYOUTS,
    NAMES,
    VECTOR_CODES,
    Case,
    Parts,
    every_case,
    exact_outcome,
    outcome,
    random_parts,
    upstream,
    usable_vector_codes,
    vector_code,
    worst,
)
from edge_transformer.ops.attention import KEYS, VALUES
from edge_transformer.ops.blocked import BLOCKED
from edge_transformer.ops.einsum import EINSUM
from edge_transformer.ops.engine import Options
from edge_transformer.ops.native import NATIVE

EPSILON = torch.finfo(torch.float32).eps
# Every n up to 70, every head_dim up to 97. The largest n have small ones: the equations need n^3 * head_dim numbers.
SIZES = [(n, 1 + 37 * n % 97) for n in range(1, 41)]
_OTHERS = sorted(set(range(1, 98)) - {head_dim for _, head_dim in SIZES})
SIZES += [*zip(range(70, 40, -1), _OTHERS[:30], strict=True), *zip(range(2, 29), _OTHERS[30:], strict=True)]
SAME_NUMBERS = [None, *(name for name in LAYOUTS if not name.startswith("one "))]  # layouts


def mean(tensor: Tensor) -> float:
    """The root of the mean square."""
    return tensor.double().square().mean().sqrt().item()


def graphs(n: int, head_dim: int) -> int:
    """How many graphs give enough numbers for a mean error, and not too many for the equations."""
    return min(500, math.ceil(400_000 / (n**3 * head_dim)))


def strided(parts: Parts, first: int) -> Parts:
    """The same numbers, or their transpose, in four of the layouts."""

    def laid_out(place: int, part: Tensor) -> Tensor:
        name = SAME_NUMBERS[(first + place) % len(SAME_NUMBERS)]
        return part.detach() if name is None else LAYOUTS[name](part.detach())

    q, k, v1, v2 = (None if part is None else laid_out(place, part) for place, part in enumerate(parts))
    assert q is not None
    assert k is not None
    assert v1 is not None
    return q, k, v1, v2


def results(parts: Parts, options: Options, dtype: torch.dtype) -> dict[str, list[Tensor]]:
    """Output and gradients of the engines that should be exact, the native one with every vector code."""
    found = {"blocked": outcome(BLOCKED.attend, parts, options, dtype=dtype)}
    for code in usable_vector_codes():
        with vector_code(code):
            found[f"native, {VECTOR_CODES[code]}"] = outcome(NATIVE.attend, parts, options, dtype=dtype)
    return found


def sizes(parts: Parts, exact: list[Tensor]) -> list[float]:
    """The size of the numbers whose rounding shows in the output and in each gradient."""
    q, k = parts[:2]
    # The gradients of q and k are made of differences of such products. With few pivots the differences are small, and
    # with a single one they are zero.
    products = 2 * mean((upstream(exact[0]) * exact[0]).sum(-1)) * q.shape[-1] ** -0.5
    return [mean(exact[0]), products * mean(k), products * mean(q), *map(mean, exact[3:])]


def assert_exact(parts: Parts, options: Options) -> None:
    """At most twice the error of the plain equations in float32, or the least there is; in float64, only rounding."""
    exact = exact_outcome(parts, options)
    plain = outcome(EINSUM.attend, parts, options, dtype=torch.float32)
    least = [EPSILON * size for size in sizes(parts, exact)]
    limits = [max(2 * mean(one - right), error) for one, right, error in zip(plain, exact, least, strict=True)]
    for engine, found in results(parts, options, dtype=torch.float32).items():
        assert all(one.dtype == torch.float32 for one in found)
        for name, one, right, limit in zip(NAMES[: len(exact)], found, exact, limits, strict=True):
            assert mean(one - right) <= limit, f"{engine}: {name}"
    for engine, found in results(parts, options, dtype=torch.float64).items():
        for name, one, right in zip(NAMES[: len(exact)], found, exact, strict=True):
            assert worst(one, right) <= 1e-12 * max(1.0, right.abs().max().item()), f"{engine}: {name} in float64"


def test_every_n_and_every_head_dim_has_its_turn() -> None:
    assert {n for n, _ in SIZES} == set(range(1, 71))
    assert {head_dim for _, head_dim in SIZES} == set(range(1, 98))


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_every_size(size: tuple[int, int]) -> None:
    n, head_dim = size
    place = SIZES.index(size)
    case, batch = ALL_CASES[7 * place % len(ALL_CASES)], graphs(n, head_dim)
    parts = random_parts(batch, n, 1, head_dim, value=case.value, dtype=torch.float32)
    assert_exact(strided(parts, place), case.options(batch, n, seed=place))


@every_case
@pytest.mark.parametrize("size", [(2, 65), (7, 16), (17, 33), (40, 70)], ids=str)  # the last in several tiles
def test_every_option(size: tuple[int, int], case: Case) -> None:
    batch = graphs(*size)
    parts = random_parts(batch, size[0], 2, size[1], value=case.value, dtype=torch.float32)
    assert_exact(parts, case.options(batch, size[0]))


@pytest.mark.parametrize("case", [Case(value="left"), Case(True, True, "ij", "left")], ids=str)
def test_the_largest_size(case: Case) -> None:
    parts = random_parts(1, 70, 1, 97, value="left", dtype=torch.float32)  # the equations have no n^3 * 97 numbers here
    assert_exact(parts, case.options(1, 70))


@settings(max_examples=30, deadline=None, derandomize=True)
@given(data=st.data())
def test_any_sizes_and_options(data: st.DataObject) -> None:
    n, head_dim, heads = (data.draw(st.integers(1, most)) for most in (24, 97, 3))
    batch = graphs(n, head_dim)
    parts = random_parts(batch, n, heads, head_dim, value=data.draw(st.sampled_from(VALUES)), dtype=torch.float32)
    real = data.draw(st.none() | st.floats(0.0, 1.0))
    generator = torch.Generator().manual_seed(n)
    node_mask = None if real is None else torch.rand(batch, n, generator=generator) < real
    causal_from, key = data.draw(st.none() | st.integers(0, n)), data.draw(st.sampled_from(KEYS))
    layout = data.draw(st.integers(0, len(SAME_NUMBERS) - 1))
    assert_exact(strided(parts, layout), Options(node_mask, causal_from, key))


@pytest.mark.parametrize("factor", [4.0, 20.0])
@pytest.mark.parametrize("case", [Case(), Case(masked=True, key="ij"), Case(causal=True)], ids=str)
@pytest.mark.parametrize("size", [(5, 77), (12, 60), (33, 9)], ids=str)
def test_large_scores(size: tuple[int, int], case: Case, factor: float) -> None:
    batch = graphs(*size)
    q, k, v1, v2 = random_parts(batch, size[0], 1, size[1], dtype=torch.float32)
    assert_exact((factor * q, factor * k, v1, v2), case.options(batch, size[0]))
