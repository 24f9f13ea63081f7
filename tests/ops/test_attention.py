"""`triangular_attention`: which engine runs, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import edge_transformer as et
from attention_cases import needs_kernels
from edge_transformer.ops import native
from edge_transformer.ops.attention import (
    grouped_triangular_attention,
    packed_triangular_attention,
    resolve_engine,
    triangular_attention,
)

SHAPE = (2, 4, 4, 2, 3)


def zeros(*shape: int, **options: Any) -> Tensor:
    return torch.zeros(shape or SHAPE, **options)


def test_it_is_a_public_name() -> None:
    assert et.triangular_attention is triangular_attention


# --- engines ----------------------------------------------------------------------------------------------------------


@needs_kernels
def test_the_kernel_runs_where_it_can() -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        assert resolve_engine("auto", torch.zeros(1, dtype=dtype)).name == "native"
    assert resolve_engine("einsum", torch.zeros(1)).name == "einsum"


def test_elsewhere_plain_pytorch_runs() -> None:
    assert resolve_engine("auto", torch.zeros(1, device="meta")).name == "blocked"


@pytest.mark.parametrize("engine", ["auto", "einsum", "blocked"])
def test_half_precision_works(engine: str) -> None:
    parts = torch.randn(4, 1, 6, 6, 2, 8).bfloat16()
    out = triangular_attention(*parts, engine=engine)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.double(), triangular_attention(*parts.double()), rtol=0.05, atol=0.05)


@needs_kernels
def test_the_kernel_refuses_what_it_cannot_compute() -> None:
    part = zeros(device="meta")
    message = 'engine="native" cannot be used: it computes .*float32, float64 on the CPU, not torch.float32 on meta'
    with pytest.raises(ValueError, match=message):
        triangular_attention(part, part, part, part, engine="native")


def test_without_the_compiled_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_LOADED", "no compiled kernels: told so")
    parts = torch.randn(4, *SHAPE)
    assert resolve_engine("auto", parts).name == "blocked"
    assert torch.equal(triangular_attention(*parts), triangular_attention(*parts, engine="blocked"))
    with pytest.raises(ValueError, match='engine="native" cannot be used: no compiled kernels: told so'):
        triangular_attention(*parts, engine="native")


# --- what is refused --------------------------------------------------------------------------------------------------

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"key": "jl"}, r"key='jl' is not known; choose one of \['lj', 'ij'\]"),
    ({"value": "right"}, r"value='right' is not known; choose one of \['product', 'left'\]"),
    ({"v2": None}, 'value="product" needs v2; it may be None only with value="left"'),
    ({"q": zeros(4, 4, 2, 3)}, r"q must be \[batch, n, n, heads, head_dim\], but its shape is \[4, 4, 2, 3\]"),
    ({"q": zeros(2, 4, 5, 2, 3)}, r"q must be \[batch, n, n, heads, head_dim\], but its shape is \[2, 4, 5, 2, 3\]"),
    ({"q": zeros(2, 0, 0, 2, 3)}, r"n, heads and head_dim must be at least 1, but the shape of q is \[2, 0, 0, 2, 3\]"),
    ({"q": zeros(2, 4, 4, 0, 3)}, r"at least 1, but the shape of q is \[2, 4, 4, 0, 3\]"),
    ({"q": zeros(2, 4, 4, 2, 0)}, r"at least 1, but the shape of q is \[2, 4, 4, 2, 0\]"),
    ({"k": zeros(2, 4, 4, 1, 3)}, r"k must have the shape of q, \[2, 4, 4, 2, 3\], but has \[2, 4, 4, 1, 3\]"),
    ({"v1": zeros(1, 4, 4, 2, 3)}, r"v1 must have the shape of q, \[2, 4, 4, 2, 3\], but has \[1, 4, 4, 2, 3\]"),
    ({"v2": zeros(2, 4, 4, 2, 4)}, r"v2 must have the shape of q, \[2, 4, 4, 2, 3\], but has \[2, 4, 4, 2, 4\]"),
    ({"k": zeros().double()}, "k is torch.float64 on cpu, but q is torch.float32 on cpu; they must agree"),
    ({"v2": zeros(device="meta")}, "v2 is torch.float32 on meta, but q is torch.float32 on cpu; they must agree"),
    (
        {name: zeros(dtype=torch.int64) for name in ("q", "k", "v1", "v2")},
        "q, k, v1 and v2 must be floating point, but are torch.int64",
    ),
    ({"node_mask": torch.ones(2, 4)}, r"node_mask must be bool \[batch, n\] = \[2, 4\], but is torch.float32 \[2, 4\]"),
    (
        {"node_mask": torch.ones(4, dtype=torch.bool)},
        r"node_mask must be bool \[batch, n\] = \[2, 4\], but is torch.bool \[4\]",
    ),
    ({"node_mask": torch.ones(2, 4, dtype=torch.bool, device="meta")}, "node_mask is on meta, but q is on cpu"),
    ({"causal_from": -1}, "causal_from must lie between 0 and n=4, but is -1"),
    ({"causal_from": 5}, "causal_from must lie between 0 and n=4, but is 5"),
    ({"dropout_p": -0.1}, "dropout_p must be at least 0 and below 1, but is -0.1"),
    ({"dropout_p": 1.0}, "dropout_p must be at least 0 and below 1, but is 1.0"),
    ({"dropout_p": float("nan")}, "dropout_p must be at least 0 and below 1, but is nan"),
    ({"engine": "fast"}, r"engine='fast' is not known; choose one of \['auto', 'einsum', .*'triton'\]"),
]


@pytest.mark.parametrize(("changed", "message"), REFUSED, ids=[message[:40] for _, message in REFUSED])
def test_what_cannot_be_computed_is_refused(changed: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {name: zeros() for name in ("q", "k", "v1", "v2")}
    triangular_attention(**arguments)
    with pytest.raises(ValueError, match=message):
        triangular_attention(**arguments | changed)


@pytest.mark.parametrize("shape", [(1, 3, 3, 2, 2, 5), (1, 3, 3, 5, 2, 5), (3, 3, 4, 2, 5)])
def test_packed_parts_of_the_wrong_number_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"parts must be \[batch, n, n, 3 or 4, heads, head_dim\]"):
        packed_triangular_attention(torch.zeros(shape))


def test_packed_parts_are_checked_like_separate_ones() -> None:
    parts = torch.zeros(1, 3, 3, 4, 2, 5)
    with pytest.raises(ValueError, match="causal_from must lie between 0 and n=3, but is 4"):
        packed_triangular_attention(parts, causal_from=4)
    with pytest.raises(ValueError, match="engine='fast' is not known"):
        packed_triangular_attention(parts, engine="fast")


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        ((9, 4, 2), {}, r"parts must be \[edges=9, 3 or 4, heads, head_dim\], but their shape is \[9, 4, 2\]"),
        ((9, 2, 2, 5), {}, r"parts must be .* \[9, 2, 2, 5\]"),
        ((8, 4, 2, 5), {}, r"parts must be .* \[8, 4, 2, 5\]"),
        ((9, 4, 2, 5), {"key": "jl"}, "key='jl' is not known"),
        ((9, 4, 2, 5), {"dropout_p": 1.0}, "dropout_p must be at least 0 and below 1, but is 1.0"),
        ((9, 4, 2, 5), {"engine": "fast"}, "engine='fast' is not known"),
    ],
)
def test_groups_that_cannot_be_computed_are_refused(
    shape: tuple[int, ...], options: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        grouped_triangular_attention(torch.zeros(shape), [(1, 3)], **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"must be floating point, but are torch\.int64"):
        grouped_triangular_attention(torch.zeros(9, 4, 2, 5, dtype=torch.int64), [(1, 3)])
