"""`triangular_attention`: what holds with every engine, which engine runs, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import edge_transformer as et
from attention_cases import (
    ALL_OPTIONS,
    EVERY_ENGINE,
    Options,
    exact_outcome,
    needs_kernels,
    outcome,
    present,
    random_parts,
    worst,
)
from edge_transformer.ops import kernels as native
from edge_transformer.ops.attention import packed_triangular_attention, resolve_engine, triangular_attention

SHAPE = (2, 4, 4, 2, 3)
every_engine = pytest.mark.parametrize("engine", EVERY_ENGINE)


@pytest.fixture(autouse=True)
def same_numbers_every_time() -> None:
    torch.manual_seed(0)


def zeros(*shape: int, **options: Any) -> Tensor:
    return torch.zeros(shape or SHAPE, **options)


def attention_weights(n: int, batch: int = 1, heads: int = 1, **options: Any) -> Tensor:
    """The weights `[batch, i, l, j, head]` of equal scores: the value of pivot l is the unit vector l."""
    q = zeros(batch, n, n, heads, n)
    v1 = torch.eye(n)[None, None, :, None, :].expand(q.shape)
    return triangular_attention(q, q, v1, None, value="left", **options).permute(0, 1, 4, 2, 3)


# --- the mathematics --------------------------------------------------------------------------------------------------


def test_it_is_a_public_name() -> None:
    assert et.triangular_attention is triangular_attention


@every_engine
@pytest.mark.parametrize("options", ALL_OPTIONS, ids=str)
def test_engines_agree_on_output_and_gradients(engine: str, options: Options) -> None:
    parts = random_parts(3, 5, 2, 3, value=options.value)
    arguments = options.arguments(3, 5)
    expected = exact_outcome(parts, *arguments)

    def attend(*given: Any) -> Tensor:
        q, k, v1, v2, node_mask, causal_from, key, dropout_p = given
        choice = {"node_mask": node_mask, "causal_from": causal_from, "key": key, "dropout_p": dropout_p}
        return triangular_attention(q, k, v1, v2, **choice, value=options.value, engine=engine)

    for found, exact in zip(outcome(attend, parts, *arguments, dtype=torch.float64), expected, strict=True):
        assert worst(found, exact) < 1e-12


@every_engine
@pytest.mark.parametrize("options", ALL_OPTIONS, ids=str)
@pytest.mark.parametrize("dropout_p", [0.0, 0.4])
def test_gradients_by_finite_differences(engine: str, options: Options, dropout_p: float) -> None:
    parts = random_parts(2, 3, 1, 2, value=options.value)
    node_mask, causal_from, key = options.arguments(2, 3)
    choice: dict[str, Any] = {"node_mask": node_mask, "causal_from": causal_from, "key": key, "engine": engine}

    def attend(q: Tensor, k: Tensor, v1: Tensor, v2: Tensor | None = None) -> Tensor:
        torch.manual_seed(3)  # the same weights are dropped every time
        return triangular_attention(q, k, v1, v2, **choice, value=options.value, dropout_p=dropout_p)

    assert torch.autograd.gradcheck(attend, present(parts))


@every_engine
def test_one_node_passes_its_value_through(engine: str) -> None:
    q, k, v1, v2 = (torch.randn(1, 1, 1, 2, 3) for _ in range(4))
    torch.testing.assert_close(triangular_attention(q, k, v1, v2, engine=engine), v1 * v2)


@every_engine
def test_equal_scores_give_the_mean_over_pivots(engine: str) -> None:
    v1, v2 = torch.randn(2, *SHAPE)
    out = triangular_attention(zeros(), zeros(), v1, v2, engine=engine)
    for i in range(4):
        for j in range(4):
            mean = sum(v1[:, i, pivot] * v2[:, pivot, j] for pivot in range(4)) / 4
            torch.testing.assert_close(out[:, i, j], mean)


@every_engine
def test_a_large_score_takes_one_pivot(engine: str) -> None:
    q, k, v1, v2 = torch.randn(4, 1, 3, 3, 1, 2)
    q[:, :, 2], k[:, 2], k[:, :2] = 100.0, 100.0, -100.0
    out = triangular_attention(q, k, v1, v2, engine=engine)
    torch.testing.assert_close(out, v1[:, :, 2:].expand(out.shape) * v2[:, 2:].expand(out.shape))


@every_engine
def test_scores_are_scaled_by_the_size_of_a_head(engine: str) -> None:
    q, v1 = zeros(1, 2, 2, 1, 16), zeros(1, 2, 2, 1, 16)
    q[:, :, 1], v1[:, :, 1] = 1.0, 1.0  # scores 0 and 16 / sqrt(16), values 0 and 1
    out = triangular_attention(q, torch.ones_like(q), v1, None, value="left", engine=engine)
    torch.testing.assert_close(out, torch.tensor(4.0).sigmoid().expand(out.shape))


@every_engine
def test_value_left_ignores_v2(engine: str) -> None:
    q, k, v1, v2 = torch.randn(4, *SHAPE)
    without = triangular_attention(q, k, v1, None, value="left", engine=engine)
    assert torch.equal(triangular_attention(q, k, v1, v2, value="left", engine=engine), without)
    assert not torch.allclose(triangular_attention(q, k, v1, v2, engine=engine), without)


# --- masks ------------------------------------------------------------------------------------------------------------


@every_engine
@pytest.mark.parametrize("key", ["lj", "ij"])
def test_padding_gets_zeros_and_changes_nothing(engine: str, key: str) -> None:
    real = torch.tensor([0, 2, 3])
    mask = torch.zeros(1, 5, dtype=torch.bool)
    mask[:, real] = True
    parts = torch.randn(4, 1, 5, 5, 2, 3, requires_grad=True)
    out = triangular_attention(*parts, node_mask=mask, key=key, engine=engine)
    small = parts.detach()[:, :, real][:, :, :, real]
    expected = triangular_attention(*small, key=key, engine=engine)
    torch.testing.assert_close(out[:, real][:, :, real], expected)
    padding = ~(mask[:, :, None] & mask[:, None, :])
    assert (out[padding] == 0).all()
    (gradient,) = torch.autograd.grad(out.square().sum(), parts)
    assert (gradient[:, padding] == 0).all()
    assert (gradient[:, ~padding] != 0).any(-1).all()


@every_engine
@pytest.mark.parametrize("options", [option for option in ALL_OPTIONS if option.masked], ids=str)
def test_without_any_pivot_output_is_zero_and_gradients_are_finite(engine: str, options: Options) -> None:
    parts = random_parts(2, 4, 2, 3, value=options.value)
    choice: dict[str, Any] = {"key": options.key, "value": options.value, "causal_from": 2 if options.causal else None}
    mask = torch.zeros(2, 4, dtype=torch.bool)
    out = triangular_attention(*parts, node_mask=mask, engine=engine, **choice)
    assert (out == 0).all()
    assert all((gradient == 0).all() for gradient in torch.autograd.grad(out.sum(), present(parts)))


@every_engine
@pytest.mark.parametrize("key", ["lj", "ij"])
def test_edges_of_a_decoder_never_see_later_nodes(engine: str, key: str) -> None:
    sources = 2
    parts = torch.randn(4, 1, 6, 6, 2, 3)
    out = triangular_attention(*parts, causal_from=sources, key=key, engine=engine)
    for nodes in range(sources, 7):
        before = triangular_attention(*parts[:, :, :nodes, :nodes], causal_from=sources, key=key, engine=engine)
        torch.testing.assert_close(out[:, :nodes, :nodes], before)
    free = triangular_attention(*parts, key=key, engine=engine)
    assert not torch.allclose(out[:, :sources, :sources], free[:, :sources, :sources])


@every_engine
def test_causal_from_the_number_of_nodes_restricts_nothing(engine: str) -> None:
    parts = torch.randn(4, *SHAPE)
    free = triangular_attention(*parts, engine=engine)
    torch.testing.assert_close(triangular_attention(*parts, causal_from=4, engine=engine), free)


@every_engine
def test_not_a_number_is_not_hidden(engine: str) -> None:
    for broken in range(4):
        parts = torch.randn(4, 1, 3, 3, 1, 2)
        parts[broken, 0, 1, 2] = torch.nan
        assert triangular_attention(*parts, engine=engine).isnan().any()


@every_engine
def test_no_graphs_at_all(engine: str) -> None:
    parts = torch.randn(4, 0, 3, 3, 2, 5, requires_grad=True)
    out = triangular_attention(*parts, node_mask=torch.ones(0, 3, dtype=torch.bool), engine=engine)
    assert out.shape == (0, 3, 3, 2, 5)
    assert torch.autograd.grad(out.sum(), parts)[0].shape == parts.shape


# --- dropout ----------------------------------------------------------------------------------------------------------


@every_engine
def test_dropout_of_zero_draws_nothing(engine: str) -> None:
    parts = torch.randn(4, *SHAPE)
    state = torch.get_rng_state()
    plain = triangular_attention(*parts, engine=engine)
    assert torch.equal(triangular_attention(*parts, dropout_p=0.0, engine=engine), plain)
    assert torch.equal(torch.get_rng_state(), state)


@every_engine
def test_dropout_follows_the_seed(engine: str) -> None:
    parts = torch.randn(4, *SHAPE)
    torch.manual_seed(5)
    first, second = (triangular_attention(*parts, dropout_p=0.4, engine=engine) for _ in range(2))
    torch.manual_seed(5)
    assert torch.equal(triangular_attention(*parts, dropout_p=0.4, engine=engine), first)
    assert not torch.allclose(first, second)


@every_engine
@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropped_weights_are_zero_and_kept_ones_scaled(engine: str, p: float) -> None:
    n = 12
    weights = attention_weights(n, batch=3, heads=3, dropout_p=p, engine=engine)
    kept = weights != 0
    torch.testing.assert_close(weights[kept], torch.full_like(weights[kept], 1 / n / (1 - p)))
    deviation = (p * (1 - p) / kept.numel()) ** 0.5
    assert abs(kept.float().mean().item() - (1 - p)) < 5 * deviation


@every_engine
def test_the_mean_over_dropouts_is_the_output_without(engine: str) -> None:
    parts = torch.randn(4, 1, 3, 3, 1, 2)
    copies = parts.expand(4, 20_000, 3, 3, 1, 2)
    out = triangular_attention(*copies, dropout_p=0.3, engine=engine)
    exact = triangular_attention(*parts, engine=engine)
    deviation = out.std(0) / out.shape[0] ** 0.5
    assert ((out.mean(0) - exact[0]).abs() < 5 * deviation).all()


@every_engine
def test_dropout_leaves_padding_at_zero(engine: str) -> None:
    mask = torch.tensor([[True, False, True]])
    weights = attention_weights(3, dropout_p=0.5, node_mask=mask, engine=engine)
    assert (weights[:, 1] == 0).all()
    assert (weights[:, :, 1] == 0).all()
    assert (weights[:, :, :, 1] == 0).all()


# --- packed parts -----------------------------------------------------------------------------------------------------


@every_engine
@pytest.mark.parametrize("options", ALL_OPTIONS, ids=str)
def test_packed_parts_give_the_same(engine: str, options: Options) -> None:
    separate = random_parts(2, 4, 2, 3, value=options.value, dtype=torch.float32)
    packed = torch.stack([part.detach() for part in present(separate)], dim=3).requires_grad_()
    node_mask, causal_from, key = options.arguments(2, 4)
    choice: dict[str, Any] = {"node_mask": node_mask, "causal_from": causal_from, "key": key, "engine": engine}
    choice["dropout_p"] = 0.25

    torch.manual_seed(3)
    from_packed = packed_triangular_attention(packed, **choice)
    torch.manual_seed(3)
    from_separate = triangular_attention(*separate, value=options.value, **choice)
    assert torch.equal(from_packed, from_separate)

    (found,) = torch.autograd.grad(from_packed.square().sum(), packed)
    expected = torch.autograd.grad(from_separate.square().sum(), present(separate))
    torch.testing.assert_close(found, torch.stack(expected, dim=3))


@every_engine
@pytest.mark.parametrize("shape", [(1, 3, 3, 2, 2, 5), (1, 3, 3, 5, 2, 5), (3, 3, 4, 2, 5)])
def test_packed_parts_of_the_wrong_number_are_refused(engine: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"parts must be \[batch, n, n, 3 or 4, heads, head_dim\]"):
        packed_triangular_attention(torch.zeros(shape), engine=engine)


def test_packed_parts_are_checked_like_separate_ones() -> None:
    parts = torch.zeros(1, 3, 3, 4, 2, 5)
    with pytest.raises(ValueError, match="causal_from must lie between 0 and n=3, but is 4"):
        packed_triangular_attention(parts, causal_from=4)
    with pytest.raises(ValueError, match="engine='fast' is not known"):
        packed_triangular_attention(parts, engine="fast")


# --- engines ----------------------------------------------------------------------------------------------------------


@needs_kernels
def test_the_kernel_runs_where_it_can() -> None:
    assert resolve_engine("auto", torch.zeros(1)) == "native"
    assert resolve_engine("auto", torch.zeros(1, dtype=torch.float64)) == "native"
    assert resolve_engine("einsum", torch.zeros(1)) == "einsum"


@pytest.mark.parametrize("like", [torch.zeros(1, dtype=torch.bfloat16), torch.zeros(1, device="meta")], ids=str)
def test_elsewhere_plain_pytorch_runs(like: Tensor) -> None:
    assert resolve_engine("auto", like) == "blocked"


@pytest.mark.parametrize("engine", ["auto", "einsum", "blocked"])
def test_half_precision_works(engine: str) -> None:
    parts = torch.randn(4, 1, 6, 6, 2, 8).bfloat16()
    out = triangular_attention(*parts, engine=engine)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.double(), triangular_attention(*parts.double()), rtol=0.05, atol=0.05)


@needs_kernels
def test_the_kernel_refuses_what_it_cannot_compute() -> None:
    half = zeros(dtype=torch.bfloat16)
    message = 'engine="native" cannot be used: it computes float32 and float64 on the CPU, not torch.bfloat16 on cpu'
    with pytest.raises(ValueError, match=message):
        triangular_attention(half, half, half, half, engine="native")


def test_without_the_compiled_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_LOADED", "no compiled kernels: told so")
    parts = torch.randn(4, *SHAPE)
    assert resolve_engine("auto", parts) == "blocked"
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
