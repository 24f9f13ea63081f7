"""What edges can be given besides their vectors: masks and biases, with every engine; and weights, where they are."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from attention_cases import (
    ALL_CASES,
    EVERY_ENGINE,
    LAYOUTS,
    Case,
    check_operator,
    device_of,
    every_case,
    needs_kernels,
    present,
    random_parts,
    upstream,
    usable_vector_codes,
    vector_code,
    worst,
)
from edge_transformer.ops.attention import ENGINES, packed_triangular_attention, resolve_engine, triangular_attention
from edge_transformer.ops.blocked import blocked_backward, blocked_forward
from edge_transformer.ops.einsum import EINSUM
from edge_transformer.ops.engine import Engine, Options
from edge_transformer.ops.native import packed_backward, packed_forward, separate_backward, separate_forward

every_engine = pytest.mark.parametrize("engine", EVERY_ENGINE)
# An edge mask, a left bias, a right bias: at least one of them.
GIVEN: list[Any] = [choice for choice in product((False, True), repeat=3) if any(choice)]


def random_edges(batch: int, n: int, heads: int, given: tuple[bool, bool, bool]) -> dict[str, Any]:
    """A mask and biases, for all heads or for each, in float64 and with -inf here and there."""
    generator = torch.Generator().manual_seed(7 * n + heads)
    mask = torch.rand(batch, n, n, generator=generator) < 0.6
    left = torch.randn(batch, heads, n, n, generator=generator, dtype=torch.float64)
    left[torch.rand(left.shape, generator=generator) < 0.2] = -torch.inf
    right = torch.randn(1, heads, n, n, generator=generator, dtype=torch.float64)
    has_mask, has_left, has_right = given
    return {"edge_mask": mask if has_mask else None, "bias": (left if has_left else None, right if has_right else None)}


def found_with(
    engine: str, parts: Any, edges: dict[str, Any], dtype: torch.dtype = torch.float64, **options: Any
) -> list[Tensor]:
    """Output, and gradients of the parts and of the biases."""
    device = device_of(ENGINES[engine])
    leaves: list[Any] = [None if one is None else one.detach().to(device, dtype).requires_grad_() for one in parts]
    pair: Any = tuple(None if one is None else one.detach().to(device, dtype).requires_grad_() for one in edges["bias"])
    moved: dict[str, Any] = {name: one.to(device) if isinstance(one, Tensor) else one for name, one in options.items()}
    mask = None if edges["edge_mask"] is None else edges["edge_mask"].to(device)
    value = "left" if parts[3] is None else "product"
    out = triangular_attention(*leaves, **moved, value=value, edge_mask=mask, bias=pair, engine=engine)
    made = torch.autograd.grad(out, [*present(leaves), *present(pair)], upstream(out).to(device, dtype))
    return [out.detach().cpu(), *(one.cpu() for one in made)]


def assert_right(found: list[Tensor], exact: list[Tensor], tolerance: float) -> None:
    for place, (one, right) in enumerate(zip(found, exact, strict=True)):
        assert right.isfinite().all()
        assert worst(one, right) <= tolerance * max(1.0, right.abs().max().item()), place


# --- the mathematics --------------------------------------------------------------------------------------------------


@every_case
def test_the_equations_edge_by_edge(case: Case) -> None:
    n, heads = 3, 2
    q, k, v1, v2 = random_parts(2, n, heads, 4, value=case.value)
    options, edges = case.options(2, n), random_edges(2, n, heads, (True, True, True))
    left, right = edges["bias"]
    out = EINSUM.attend(q, k, v1, v2, Options(options.node_mask, options.causal_from, case.key, 0.0, **edges))
    for b, h, i, j in product(range(2), range(heads), range(n), range(n)):
        scores, values = [], []
        for pivot in range(n):
            nodes = (i, pivot, j)
            there = edges["edge_mask"][b, i, pivot] and edges["edge_mask"][b, pivot, j]
            real = options.node_mask is None or all(options.node_mask[b, node] for node in nodes)
            future = options.causal_from is not None and pivot >= options.causal_from and pivot > max(i, j)
            if not there or not real or future or left[b, h, i, pivot] == -torch.inf:
                continue
            key = k[b, pivot, j, h] if case.key == "lj" else k[b, i, j, h]
            scores.append(q[b, i, pivot, h] @ key / 2 + left[b, h, i, pivot] + right[0, h, pivot, j])
            values.append(v1[b, i, pivot, h] * (1 if v2 is None else v2[b, pivot, j, h]))
        expected = torch.zeros(4, dtype=torch.float64)
        if scores:
            expected = (torch.stack(scores).softmax(0)[:, None] * torch.stack(values)).sum(0)
        assert worst(out[b, i, j, h], expected) < 1e-12


@every_engine
@every_case
def test_output_and_gradients_are_those_of_the_equations(engine: str, case: Case) -> None:
    place = ALL_CASES.index(case)
    for offset, (n, head_dim) in enumerate([(1, 1), (2, 3), (5, 3), (6, 8), (9, 2)]):
        parts, given = random_parts(2, n, 2, head_dim, value=case.value), GIVEN[(place + offset) % len(GIVEN)]
        options = case.options(2, n, seed=place)
        choice: Any = {"node_mask": options.node_mask, "causal_from": options.causal_from, "key": case.key}
        edges = random_edges(2, n, 2, given)
        exact = found_with("einsum", parts, edges, **choice)
        assert_right(found_with(engine, parts, edges, **choice), exact, 1e-12)
        single = found_with(engine, parts, edges, torch.float32, **choice)
        assert all(one.dtype == torch.float32 for one in single)
        assert_right(single, exact, 2e-5 * n)


@needs_kernels
@pytest.mark.parametrize("given", GIVEN, ids=str)
def test_every_vector_code_also_in_several_tiles(given: tuple[bool, bool, bool]) -> None:
    case = ALL_CASES[5 * GIVEN.index(given) % len(ALL_CASES)]
    for n, head_dim in [(17, 5), (37, 90)]:
        parts, options = random_parts(1, n, 1, head_dim, value=case.value), case.options(1, n)
        choice: Any = {"node_mask": options.node_mask, "causal_from": options.causal_from, "key": case.key}
        edges = random_edges(1, n, 1, given)
        exact = found_with("einsum", parts, edges, **choice)
        for code in usable_vector_codes():
            with vector_code(code):
                assert_right(found_with("native", parts, edges, **choice), exact, 1e-11)


@every_engine
@pytest.mark.parametrize("key", ["lj", "ij"])
def test_gradients_with_dropout_by_finite_differences(engine: str, key: str) -> None:
    device = device_of(ENGINES[engine])
    parts = [part.detach().to(device) for part in present(random_parts(1, 3, 2, 2))]
    edges = random_edges(1, 3, 2, (True, True, True))
    mask, (left, right) = edges["edge_mask"].to(device), (one.to(device) for one in edges["bias"])
    excluded = left == -torch.inf  # no finite difference there
    leaf = left.masked_fill(excluded, 0.0).requires_grad_()

    def attend(left: Tensor, right: Tensor, q: Tensor) -> Tensor:
        torch.manual_seed(3)  # the same weights are dropped every time
        bias = (left.masked_fill(excluded, -torch.inf), right)
        named: dict[str, Any] = {"edge_mask": mask, "bias": bias, "key": key, "dropout_p": 0.3, "engine": engine}
        return triangular_attention(q, *parts[1:], **named)

    assert torch.autograd.gradcheck(attend, (leaf, right.requires_grad_(), parts[0].requires_grad_()), fast_mode=True)


# --- what it means ----------------------------------------------------------------------------------------------------


@every_engine
def test_an_edge_that_is_not_there_changes_nothing_but_is_still_computed(engine: str) -> None:
    device = device_of(ENGINES[engine])
    parts = torch.randn(4, 1, 5, 5, 2, 3, device=device)
    mask = torch.ones(1, 5, 5, dtype=torch.bool, device=device)
    mask[0, 1, 3] = False
    out = triangular_attention(*parts, edge_mask=mask, engine=engine)
    changed = parts.clone()
    changed[:, 0, 1, 3] = torch.randn(4, 2, 3, device=device)
    assert torch.equal(triangular_attention(*changed, edge_mask=mask, engine=engine), out)
    assert (out[0, 1, 3] != 0).all()
    assert not torch.equal(triangular_attention(*parts, engine=engine), out)


@every_engine
def test_a_mask_is_a_bias_of_minus_infinity_in_both_places(engine: str) -> None:
    device = device_of(ENGINES[engine])
    parts, mask = torch.randn(4, 2, 4, 4, 2, 3, device=device), torch.rand(2, 4, 4, device=device) < 0.6
    bias = torch.zeros(2, 1, 4, 4, device=device).masked_fill(~mask[:, None], -torch.inf)
    expected = triangular_attention(*parts, edge_mask=mask, engine=engine)
    assert torch.equal(triangular_attention(*parts, bias=bias, engine=engine), expected)
    assert torch.equal(triangular_attention(*parts, bias=(bias, bias), engine=engine), expected)


@every_engine
@pytest.mark.parametrize("key", ["lj", "ij"])
def test_without_any_pivot_output_is_zero_and_gradients_are_finite(engine: str, key: str) -> None:
    parts, nothing = random_parts(1, 4, 2, 3), torch.zeros(1, 4, 4, dtype=torch.bool)
    bias = torch.randn(1, 2, 4, 4, dtype=torch.float64)
    found = found_with(engine, parts, {"edge_mask": nothing, "bias": (bias, bias)}, key=key, causal_from=2)
    assert all((one == 0).all() for one in found)


@every_engine
def test_the_lowest_number_as_a_bias_is_not_an_exclusion(engine: str) -> None:
    values = torch.ones(1, 3, 3, 1, 2)
    lowest = torch.full((1, 1, 3, 3), torch.finfo(torch.float32).min)
    mask = torch.tensor([[True, True, False]])
    out = triangular_attention(*[values] * 4, node_mask=mask, bias=(lowest, None), engine=engine)
    torch.testing.assert_close(out[:, :2, :2], values[:, :2, :2])  # the weights of real pivots sum to 1
    assert not out[:, 2].any()


@every_engine
@every_case
def test_packed_parts_give_the_same(engine: str, case: Case) -> None:
    device = device_of(ENGINES[engine])
    separate = [part.detach().float().to(device) for part in present(random_parts(2, 4, 2, 3, value=case.value))]
    edges = random_edges(2, 4, 2, GIVEN[ALL_CASES.index(case) % len(GIVEN)])
    named: dict[str, Any] = {
        "edge_mask": None if edges["edge_mask"] is None else edges["edge_mask"].to(device),
        "bias": tuple(None if one is None else one.to(device) for one in edges["bias"]),
        "key": case.key,
        "engine": engine,
    }
    q, k, v1, *v2 = separate
    expected = triangular_attention(q, k, v1, v2[0] if v2 else None, value=case.value, **named)
    assert torch.equal(packed_triangular_attention(torch.stack(separate, 3), **named), expected)


@needs_kernels
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_a_bias_is_not_rounded_to_16_bits(dtype: torch.dtype) -> None:
    parts = random_parts(1, 6, 2, 8, dtype=dtype)
    bias = torch.randn(1, 2, 6, 6, requires_grad=True)
    q, k, v1, v2 = (part.double() for part in parts)
    exact = EINSUM.attend(q, k, v1, v2, Options(bias=bias.double()))
    for engine in ("native", "blocked"):
        out = triangular_attention(*parts, bias=bias, engine=engine)
        assert out.dtype == dtype
        assert worst(out, exact) <= torch.finfo(dtype).eps * exact.abs().max().item()
        (gradient,) = torch.autograd.grad(out.sum(), bias)
        assert gradient.dtype == torch.float32


# --- weights ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["einsum", "blocked"])
@every_case
def test_weights(engine: str, case: Case) -> None:
    q, k, v1, v2 = random_parts(2, 4, 2, 3, value=case.value)
    options, edges = case.options(2, 4), random_edges(2, 4, 2, (True, True, False))
    choice: dict[str, Any] = {"node_mask": options.node_mask, "causal_from": options.causal_from, "key": case.key}
    given = {**choice, **edges, "value": case.value, "engine": engine}
    out, weights = triangular_attention(q, k, v1, v2, **given, need_weights=True)
    assert weights.shape == (2, 2, 4, 4, 4)
    values = v1[:, :, :, None] * (1 if v2 is None else v2[:, None])
    assert worst(torch.einsum("bhilj,biljhd->bijhd", weights, values.expand(2, 4, 4, 4, 2, 3)), out) < 1e-12
    sums = weights.sum(3)
    assert ((sums - 1).abs() < 1e-12).logical_or(sums == 0).all()
    torch.manual_seed(0)
    _, with_dropout = triangular_attention(q, k, v1, v2, **given, dropout_p=0.5, need_weights=True)
    assert torch.equal(with_dropout, weights)
    exact = EINSUM.weights(q, k, Options(options.node_mask, options.causal_from, case.key, 0.0, **edges))
    upstream = torch.randn_like(weights)
    found, right = (torch.autograd.grad(one, (q, k), upstream, retain_graph=True) for one in (weights, exact))
    assert all(worst(one, other) < 1e-12 for one, other in zip(found, right, strict=True))


def test_auto_takes_an_engine_that_has_weights() -> None:
    parts = torch.randn(4, 1, 4, 4, 2, 3)
    assert resolve_engine("auto", parts, need_weights=True).name == "blocked"
    out, weights = triangular_attention(*parts, need_weights=True)
    assert torch.equal(out, triangular_attention(*parts, engine="blocked"))
    assert weights.dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(triangular_attention(*parts, need_weights=True)[1], weights)


@needs_kernels
def test_engines_without_weights_say_so() -> None:
    parts = torch.randn(4, 1, 4, 4, 2, 3)
    with pytest.raises(
        ValueError, match=r'engine="native" cannot be used: it has no need_weights; .*: einsum, blocked'
    ):
        triangular_attention(*parts, engine="native", need_weights=True)
    with pytest.raises(NotImplementedError, match="the engine native gives no weights"):
        ENGINES["native"].weights(parts[0], parts[1], Options())


# --- what is refused --------------------------------------------------------------------------------------------------


class OldEngine(Engine):
    """One that knows nothing of masks and biases of edges."""

    name = "old"

    def attend(self, q: Tensor, k: Tensor, v1: Tensor, v2: Tensor | None, options: Options) -> Tensor:
        return EINSUM.attend(q, k, v1, v2, Options(key=options.key))


def test_an_engine_that_does_not_know_them_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENGINES, "old", OldEngine())
    parts, mask = torch.randn(4, 1, 3, 3, 1, 2), torch.ones(1, 3, 3, dtype=torch.bool)
    triangular_attention(*parts, engine="old")
    for name, tensor in {"edge_mask": mask, "bias": torch.zeros(1, 1, 3, 3)}.items():
        given: Any = {name: tensor}
        with pytest.raises(ValueError, match=f'engine="old" cannot be used: it has no {name}; engines that do: einsum'):
            triangular_attention(*parts, engine="old", **given)
        assert resolve_engine("auto", parts, Options(**given)).name != "old"


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"edge_mask": torch.ones(2, 4, 4)}, r"edge_mask must be bool \[batch, n, n\] = \[2, 4, 4\], but is torch.float32"),
    ({"edge_mask": torch.ones(4, 4, dtype=torch.bool)}, r"\[2, 4, 4\], but is torch.bool \[4, 4\]"),
    ({"edge_mask": torch.ones(2, 4, 4, dtype=torch.bool, device="meta")}, "edge_mask is on meta, but q is on cpu"),
    (
        {"bias": torch.zeros(2, 4, 4)},
        r"bias must be floating point \[batch, heads, n, n\] = \[2, 2, 4, 4\].*\[2, 4, 4\]",
    ),
    ({"bias": torch.zeros(2, 3, 4, 4)}, r"bias must be .* but is torch.float32 \[2, 3, 4, 4\]"),
    ({"bias": torch.zeros(2, 2, 4, 1)}, r"bias must be .* but is torch.float32 \[2, 2, 4, 1\]"),
    ({"bias": (None, torch.zeros(2, 2, 4, 4, dtype=torch.int64))}, r"bias must be .* but is torch.int64"),
    ({"bias": (torch.zeros(2, 2, 4, 4, device="meta"), None)}, "bias is on meta, but q is on cpu"),
    ({"bias": (torch.zeros(2, 2, 4, 4),)}, r"bias must be a tensor or a pair \(left, right\) of tensors"),
    ({"bias": 1.0}, r"bias must be a tensor or a pair \(left, right\) of tensors"),
]


@pytest.mark.parametrize(("changed", "message"), REFUSED, ids=[message[:40] for _, message in REFUSED])
def test_what_cannot_be_computed_is_refused(changed: dict[str, Any], message: str) -> None:
    parts = torch.zeros(4, 2, 4, 4, 2, 3)
    with pytest.raises(ValueError, match=message):
        triangular_attention(*parts, **changed)
    with pytest.raises(ValueError, match=message):
        packed_triangular_attention(parts.movedim(0, 3), **changed)


# --- as operators of PyTorch ------------------------------------------------------------------------------------------


@needs_kernels
@pytest.mark.parametrize("value", ["product", "left"])
def test_operators(value: str) -> None:
    parts = [None if part is None else part.detach().float() for part in random_parts(2, 3, 2, 4, value=value)]
    edges = random_edges(2, 3, 2, (False, True, value == "product"))["bias"]
    left, right = (None if one is None else one.float().expand(2, 2, 3, 3) for one in edges)
    packed = torch.stack(present(parts), 3)
    choice, dout = (None, 1, value == "left", 0.3, torch.tensor([5])), torch.randn(2, 3, 3, 2, 4)

    def leaf(tensor: Tensor | None) -> Tensor | None:
        return None if tensor is None else tensor.clone().requires_grad_()

    wanted = [leaf(one) for one in (*parts, left, right)]
    check_operator(separate_forward, *wanted, *choice)
    check_operator(blocked_forward, *wanted, *choice)
    check_operator(packed_forward, leaf(packed), leaf(left), leaf(right), *choice)
    kept = separate_forward(*parts, left, right, *choice)
    check_operator(separate_backward, dout, *parts, left, right, *kept, *choice)
    check_operator(packed_backward, dout, packed, left, right, *kept, *choice)
    check_operator(blocked_backward, dout, *parts, left, right, *choice)


class Attention(torch.nn.Module):
    """Attention with all options, and a bias that is trained."""

    def __init__(self, engine: str, need_weights: bool = False) -> None:
        super().__init__()
        self.engine, self.need_weights = engine, need_weights
        self.left = torch.nn.Parameter(torch.randn(1, 2, 4, 4))

    def forward(self, q: Tensor, k: Tensor, v1: Tensor, v2: Tensor, mask: Tensor) -> Tensor:
        given: dict[str, Any] = {"edge_mask": mask, "bias": (self.left, None), "engine": self.engine}
        if self.need_weights:
            out, weights = triangular_attention(q, k, v1, v2, **given, need_weights=True)
            return out.sum(-1) + weights.mean((1, 3))[..., None]
        return triangular_attention(q, k, v1, v2, **given, dropout_p=0.3).square()


@pytest.mark.parametrize("need_weights", [False, True], ids=["", "weights"])
@every_engine
def test_compiled_exported_and_checkpointed(engine: str, need_weights: bool) -> None:
    if need_weights and not ENGINES[engine].gives_weights:
        pytest.skip(f"the engine {engine} has no weights")
    device = device_of(ENGINES[engine])
    model = Attention(engine, need_weights).to(device)
    given = (*torch.randn(4, 2, 4, 4, 2, 3, device=device), torch.rand(2, 4, 4, device=device) < 0.7)

    def run(function: Any) -> tuple[Tensor, Tensor]:
        torch.manual_seed(7)
        out = function(*given)
        return out, torch.autograd.grad(out.sum(), model.left)[0]

    expected = run(model)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    for found in (run(compiled), run(lambda *given: checkpoint(model, *given, use_reentrant=False))):
        assert all(worst(one, right) < 1e-6 for one, right in zip(found, expected, strict=True))
    torch.manual_seed(7)
    assert worst(torch.export.export(model, given).module()(*given), expected[0]) < 1e-6


@every_engine
@pytest.mark.parametrize("layout", ["transposed", "heads first", "every other node", "one head for all"])
def test_layouts_of_biases(engine: str, layout: str) -> None:
    device = device_of(ENGINES[engine])
    parts = [part.detach().to(device) for part in present(random_parts(2, 4, 2, 3))]
    plain = torch.randn(2, 4, 4, 2, 1, device=device, dtype=torch.float64)
    bias = LAYOUTS[layout](plain)[..., 0].permute(0, 3, 1, 2)
    found = triangular_attention(*parts, bias=bias, engine=engine)
    assert worst(found, triangular_attention(*parts, bias=bias.contiguous(), engine="einsum")) < 1e-12
