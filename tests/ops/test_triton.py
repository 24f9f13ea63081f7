"""The Triton engine. Its kernels run on the GPU, or in Triton's interpreter where there is none.

The interpreter must be chosen before Triton is first imported, and it changes Triton's modules: so a process of its own
runs `TestKernels`, with TRITON_INTERPRET=1. It needs about 10 ms for each step of a kernel, so graphs are small here.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from attention_cases import (
    ALL_CASES,
    NAMES,
    NO_OFFSETS,
    Case,
    Parts,
    check_operator,
    every_case,
    exact_outcome,
    needs_kernels,
    outcome,
    present,
    random_mask,
    random_parts,
    upstream,
    worst,
)
from edge_transformer.ops import triton as engine
from edge_transformer.ops.attention import triangular_attention
from edge_transformer.ops.einsum import EINSUM
from edge_transformer.ops.engine import Engine, Options
from edge_transformer.ops.native import separate_forward
from edge_transformer.ops.triton import TRITON, triton_backward, triton_forward

ON_GPU = torch.cuda.is_available()
INSTALLED = engine._MISSING is None
DEVICE = "cuda" if ON_GPU else "cpu"
SEED = torch.tensor([20211228], device=DEVICE)
needs_triton = pytest.mark.skipif(not INSTALLED, reason=str(engine._MISSING))
without_gpu = pytest.mark.skipif(ON_GPU, reason="the kernels run on the GPU of this machine")


def attend(q: Tensor, k: Tensor, v1: Tensor, v2: Tensor | None, options: Options) -> Tensor:
    """The engine where its kernels run, for tensors that are on the CPU."""
    mask = None if options.node_mask is None else options.node_mask.to(DEVICE)
    last = None if v2 is None else v2.to(DEVICE)
    return TRITON.attend(q.to(DEVICE), k.to(DEVICE), v1.to(DEVICE), last, replace(options, node_mask=mask)).cpu()


def assert_close(found: list[Tensor], exact: list[Tensor], tolerance: float) -> None:
    """The numbers are right but for rounding, which is relative to the largest number of a tensor."""
    for name, one, right in zip(NAMES[: len(exact)], found, exact, strict=True):
        assert worst(one, right) <= tolerance * max(1.0, right.abs().max().item()), name


# --- in every process -------------------------------------------------------------------------------------------------


def test_importing_the_package_does_not_import_triton() -> None:
    code = "import sys, edge_transformer.ops.triton; sys.exit('triton' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_a_missing_triton_is_no_error_until_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    reason = engine._find()
    assert reason is not None
    assert "pip install" in reason
    monkeypatch.setattr(engine, "_MISSING", reason)
    assert TRITON.unavailable() == reason
    part = torch.zeros(1, 2, 2, 1, 3)
    assert not TRITON.usable_for(part)
    with pytest.raises(ValueError, match=r'engine="triton" cannot be used: Triton is not installed'):
        triangular_attention(part, part, part, part, engine="triton")


def test_an_old_triton_counts_as_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: importlib.machinery.ModuleSpec(name, None, origin="x")
    )
    for version, reason in {"3.2.0": "Triton 3.2.0 is too old: 3.3 or newer is needed", "3.10.1": None}.items():
        monkeypatch.setattr(engine.metadata, "version", lambda name, version=version: version)
        assert engine._find() == reason


@needs_triton
@without_gpu
@pytest.mark.skipif(engine._INTERPRETED, reason="the interpreter needs no GPU")
def test_without_a_gpu_it_says_so() -> None:
    part = torch.zeros(1, 2, 2, 1, 3)
    assert not TRITON.usable_for(part)
    with pytest.raises(ValueError, match="there is no CUDA device"):
        triangular_attention(part, part, part, part, engine="triton")


@needs_triton
@without_gpu
@pytest.mark.skipif(engine._INTERPRETED, reason="this is the process of the interpreter")
def test_kernels_in_the_interpreter() -> None:
    """Runs the tests below in a process of their own."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"{__file__}::TestKernels"]
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER"):
        environment.pop(name, None)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


def test_there_is_always_a_tile_to_try() -> None:
    configs = [
        SimpleNamespace(kwargs={"ROWS": rows, "COLUMNS": columns}, num_warps=warps, num_stages=stages)
        for (rows, columns), warps, stages in product(engine._TILES, (1, 2, 4, 8), (1, 3))
    ]
    for features, size, blocks in product((1, 8, 32, 64, 256, 2048), (1, 2, 8, 16, 256), (2, 3, 4)):
        arguments = {"FEATURES": features, "size": size, "lse": torch.zeros(1)}
        chosen = engine._worth_trying(configs, arguments, blocks=blocks)
        assert 1 <= len(chosen) <= 8
        assert all(config.kwargs["COLUMNS"] <= max(4, size) for config in chosen)


COMPILE = """
import sys, torch, triton
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction
from edge_transformer.ops import triton as engine

class NoGPU:  # as much of a driver as the compiler asks for
    def get_current_target(self): return GPUTarget("cuda", 80, 32)
    def get_current_device(self): return 0
    def get_current_stream(self, device): return 0
    def get_benchmarker(self): return None

triton.runtime.driver.set_active(NoGPU())
run, compiled = JITFunction.run, []
def compile_only(self, *arguments, grid, warmup, **named):
    kernel = run(self, *arguments, grid=grid, warmup=True, **named)
    compiled.append((self.__name__, "cubin" in kernel.asm))
    return kernel
JITFunction.run = compile_only
for kernel in engine._kernels().values():
    kernel.configs = kernel.configs[:1]  # one needs no tuning
mask, seed = torch.ones(2, 5, dtype=torch.bool), torch.ones(1, dtype=torch.int64)
for key_is_ij, dtype in ((False, torch.bfloat16), (True, torch.float64)):
    part, options = torch.zeros(2, 5, 5, 2, 3, dtype=dtype), (mask, 2, key_is_ij, 0.9, seed)
    offset = torch.zeros(2, 2, 5, 5, dtype=torch.float64 if key_is_ij else torch.float32)
    for offsets in ((None, None), (offset, offset)):
        out, lse = engine.triton_forward(part, part, part, part, *offsets, *options)
        engine.triton_backward(part, part, part, part, part, *offsets, out, lse, *options)
print(*(name for name, complete in compiled if complete))
"""


@needs_triton
@without_gpu
@pytest.mark.skipif(engine._INTERPRETED, reason="the interpreter compiles nothing")
def test_kernels_compile_for_a_gpu_that_is_not_there(tmp_path: Path) -> None:
    """What only the compiler checks, such as the types of numbers in loops."""
    environment = os.environ | {"TRITON_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", COMPILE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    paper, ablation = "forward backward_il backward_lj", "forward backward_il backward_ij backward_lj"
    expected = " ".join([paper, paper, ablation, ablation])  # without and with offsets
    assert done.stdout.split() == [f"_{name}" for name in expected.split()]


# --- where kernels run --------------------------------------------------------------------------------------------


def dropout_factors(batch: int, n: int, heads: int, p: float, seed: Tensor) -> Tensor:
    """What each attention weight is multiplied with, `[batch, i, l, j, head]`.

    With equal scores every weight is 1/n, and with the unit vector l as value of pivot l the output shows each of them.
    """
    q = torch.zeros(batch, n, n, heads, n, dtype=torch.float64, device=DEVICE)
    v1 = torch.eye(n, dtype=torch.float64, device=DEVICE)[None, None, :, None, :].expand(q.shape)
    out, _ = triton_forward(q, q, v1, None, *NO_OFFSETS, None, -1, False, p, seed)
    return out.permute(0, 1, 4, 2, 3).cpu() * n


def attend_with_factors(parts: Parts, options: Options, batch: int, n: int, factors: Tensor) -> Tensor:
    """The equations with given dropout, independent of any engine."""
    q, k, v1, v2 = parts
    node_mask, causal_from, key = options.node_mask, options.causal_from, options.key
    i, pivot, j = (torch.arange(n).view(shape) for shape in ((-1, 1, 1), (1, -1, 1), (1, 1, -1)))
    allowed = torch.ones(batch, n, n, n, dtype=torch.bool)
    if node_mask is not None:
        allowed = node_mask[:, :, None, None] & node_mask[:, None, :, None] & node_mask[:, None, None, :]
    if causal_from is not None:
        allowed = allowed & ~((pivot >= causal_from) & (i < pivot) & (j < pivot))
    scores = torch.einsum("bilhd,bljhd->biljh" if key == "lj" else "bilhd,bijhd->biljh", q, k) * q.shape[-1] ** -0.5
    exponentials = scores.exp() * allowed[..., None]
    weights = exponentials / exponentials.sum(2, keepdim=True).clamp(min=1e-300) * factors
    values = v1[:, :, :, None] * (1 if v2 is None else v2[:, None])
    return (weights[..., None] * values).sum(2)


LAYOUTS: list[Callable[[Tensor], Tensor]] = [
    lambda part: torch.stack([part] * 3, dim=3)[:, :, :, 1],  # as one of several in a tensor
    lambda part: part.transpose(1, 2).contiguous().transpose(1, 2),
    lambda part: part[:, :1].expand(part.shape),
    lambda part: part.permute(4, 3, 0, 1, 2).contiguous().permute(2, 3, 4, 1, 0),  # features first
    lambda part: part.repeat_interleave(2, dim=-1)[..., ::2],
]


@pytest.fixture
def tile(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Sets the tile of the interpreter, for one test only."""

    def choose(rows: int, columns: int) -> None:
        monkeypatch.setattr(engine, "_INTERPRETED_TILE", {"ROWS": rows, "COLUMNS": columns, "STAGES": 1})

    return choose


class TestKernels:
    __test__ = TRITON.unavailable() is None

    def test_it_is_usable(self) -> None:
        for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
            assert TRITON.usable_for(torch.zeros(1, dtype=dtype, device=DEVICE))
        reason = str(TRITON.why_not(torch.zeros(1, dtype=torch.complex64, device=DEVICE)))
        assert reason.startswith("it computes float16, bfloat16, float32, float64 on a GPU, not torch.complex64 on ")

    # --- the right numbers --------------------------------------------------------------------------------------------

    @every_case
    def test_every_option(self, tile: Callable[[int, int], None], case: Case) -> None:
        n, head_dim = ((5, 3), (2, 8), (3, 1), (4, 2), (3, 17))[ALL_CASES.index(case) % 5]
        tile(4, 8)
        parts = random_parts(2, n, 1, head_dim, value=case.value)
        options = case.options(2, n)
        assert_close(outcome(attend, parts, options), exact_outcome(parts, options), 1e-13)

    @pytest.mark.parametrize("n", range(1, 11))
    def test_every_size(self, tile: Callable[[int, int], None], n: int) -> None:
        tile(16, 8)
        case, head_dim = ALL_CASES[5 * n % 16], (17, 3, 8, 1)[n % 4]
        parts = random_parts(1, n, 1, head_dim, value=case.value, dtype=torch.float32)
        options = case.options(1, n)
        exact = exact_outcome(parts, options)
        plain = outcome(EINSUM.attend, parts, options, dtype=torch.float32)
        found = outcome(attend, parts, options, dtype=torch.float32)
        for name, one, other, right in zip(NAMES[: len(exact)], found, plain, exact, strict=True):
            assert one.dtype == torch.float32
            assert worst(one, right) <= 3 * worst(other, right) + 1e-6 * max(1.0, right.abs().max().item()), name

    @pytest.mark.parametrize("case", ALL_CASES[::3], ids=str)
    def test_masks_and_biases_of_edges(self, case: Case) -> None:
        n, options = 3 + ALL_CASES.index(case) % 3, case.options(2, 5)
        parts = random_parts(2, n, 2, 3, value=case.value)
        pair = [torch.randn(2, heads, n, n, dtype=torch.float64) for heads in (1, 2)]
        pair[1][torch.rand(pair[1].shape) < 0.2] = -torch.inf
        mask = None if options.node_mask is None else options.node_mask[:, :n]
        edge_mask = (torch.rand(2, n, n) < 0.6) if case.causal else None  # some edges are left without any pivot
        found = []
        engines: list[tuple[str, Engine]] = [(DEVICE, TRITON), ("cpu", EINSUM)]
        for device, run in engines:
            given: Any = (*parts, *pair)
            leaves: list[Any] = [None if one is None else one.detach().to(device).requires_grad_() for one in given]
            q, k, v1, v2, left, right = leaves
            bias = (left, None if case.masked and not case.causal else right)
            node_mask, edges = (None if one is None else one.to(device) for one in (mask, edge_mask))
            out = run.attend(q, k, v1, v2, Options(node_mask, 1 if case.causal else None, case.key, 0.0, edges, bias))
            wanted = [one for one in (*leaves[:5], bias[1]) if one is not None]
            made = torch.autograd.grad(out, wanted, upstream(out).to(device))
            found.append([out.detach().cpu(), *(one.cpu() for one in made)])
        assert all(worst(one, right) < 1e-12 for one, right in zip(*found, strict=True))

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    def test_16_bits_are_computed_in_32(self, dtype: torch.dtype) -> None:
        rounded = random_parts(2, 4, 1, 8, dtype=dtype)
        parts = rounded[0].double(), rounded[1].double(), rounded[2].double(), rounded[3].double()
        options = Options(random_mask(2, 4), 2)
        exact, found = exact_outcome(parts, options), outcome(attend, rounded, options, dtype=dtype)
        assert all(one.dtype == dtype for one in found)
        # The output is rounded once; its gradient and the output are rounded before the backward pass.
        torch.testing.assert_close(found[0].double(), exact[0], rtol=torch.finfo(dtype).eps, atol=1e-6)
        assert_close(found, exact, 3 * torch.finfo(dtype).eps)

    def test_several_graphs_and_heads(self) -> None:
        parts = random_parts(3, 3, 3, 2)
        options = Options(random_mask(3, 3))
        assert_close(outcome(attend, parts, options), exact_outcome(parts, options), 1e-13)

    def test_large_scores(self) -> None:
        q, k, v1, v2 = random_parts(1, 4, 1, 4)
        parts = (q.detach() * 100, k.detach() * 100, v1, v2)
        assert_close(outcome(attend, parts, Options()), exact_outcome(parts, Options()), 1e-11)

    @pytest.mark.parametrize("key", ["lj", "ij"])
    def test_padding_may_hold_anything(self, key: str) -> None:
        mask = torch.tensor([[True, False, True, True]])
        padding = ~(mask[:, :, None] & mask[:, None, :])
        clean = random_parts(1, 4, 1, 3)
        dirty = [part.detach().masked_fill(padding[..., None, None], torch.nan).requires_grad_() for part in clean]
        q, k, v1, v2 = dirty
        out, exact = attend(q, k, v1, v2, Options(mask, key=key)), EINSUM.attend(*clean, Options(mask, key=key))
        assert worst(out, exact) < 1e-13
        dout = upstream(out)
        found = torch.autograd.grad(out, dirty, dout.masked_fill(padding[..., None, None], torch.nan))
        assert_close(list(found), list(torch.autograd.grad(exact, clean, dout)), 1e-13)

    def test_an_empty_batch(self) -> None:
        part = torch.zeros(0, 3, 3, 2, 4, device=DEVICE, requires_grad=True)
        out = TRITON.attend(part, part, part, part, Options())
        assert out.shape == part.shape
        (gradient,) = torch.autograd.grad(out.sum(), part)
        assert gradient.shape == part.shape

    # --- layouts ------------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("first", range(len(LAYOUTS)))
    def test_any_strides(self, first: int) -> None:
        n, heads, head_dim, key = 3, 2, 3, ("lj", "ij")[first % 2]
        layouts = [LAYOUTS[(first + part) % len(LAYOUTS)] for part in range(4)]
        parts = [part.detach()[:1] for part in present(random_parts(2, n, heads, head_dim))]
        dout = upstream(parts[0].transpose(3, 4)).transpose(3, 4)
        strided = [layout(part.to(DEVICE)).requires_grad_() for layout, part in zip(layouts, parts, strict=True)]
        assert len({part.stride() for part in strided}) == 4
        q, k, v1, v2 = strided
        out = TRITON.attend(q, k, v1, v2, Options(key=key))
        found = torch.autograd.grad(out, strided, dout.to(DEVICE))
        q, k, v1, v2 = plain = [part.detach().cpu().contiguous().requires_grad_() for part in strided]
        exact = EINSUM.attend(q, k, v1, v2, Options(key=key))
        right = torch.autograd.grad(exact, plain, dout)
        assert_close([out.cpu(), *(one.cpu() for one in found)], [exact, *right], 1e-13)

    # --- dropout ------------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("case", ALL_CASES[::3], ids=str)
    def test_the_backward_pass_drops_the_same_weights(self, case: Case) -> None:
        parts = random_parts(2, 3, 1, 2, value=case.value)
        options = case.options(2, 3)
        factors = dropout_factors(2, 3, 1, 0.4, SEED)
        assert 0 < (factors == 0).double().mean() < 1

        def attend_with_seed(*arguments: Any) -> Tensor:
            *parts, options = arguments
            tensors = [None if one is None else one.to(DEVICE) for one in (*parts, *NO_OFFSETS, options.node_mask)]
            return triton_forward(*tensors, *options.arguments()[1:3], 0.4, SEED)[0].cpu()

        exact = attend_with_factors(parts, options, 2, 3, factors)
        right = torch.autograd.grad(exact, present(parts), upstream(exact))
        found = outcome(attend_with_seed, parts, options)
        assert_close(found, [exact, *right], 1e-13)

    @pytest.mark.parametrize("case", ALL_CASES[::3], ids=str)
    def test_gradients_with_dropout_by_finite_differences(self, case: Case) -> None:
        separate = present(random_parts(1, 3, 1, 2, value=case.value))
        parts = [part.detach().to(DEVICE).requires_grad_() for part in separate]
        mask, first, key_is_ij, _, _ = case.options(1, 3).arguments()
        mask = None if mask is None else mask.to(DEVICE)

        def attend_with_seed(q: Tensor, k: Tensor, v1: Tensor, v2: Tensor | None = None) -> Tensor:
            return triton_forward(q, k, v1, v2, *NO_OFFSETS, mask, first, key_is_ij, 0.4, SEED)[0]

        assert torch.autograd.gradcheck(attend_with_seed, parts, fast_mode=True)

    @pytest.mark.parametrize("p", [0.1, 0.9])
    def test_dropped_and_kept_weights(self, tile: Callable[[int, int], None], p: float) -> None:
        tile(16, 16)
        factors = dropout_factors(2, 16, 1, p, SEED)
        kept = factors != 0
        torch.testing.assert_close(factors[kept], torch.full_like(factors[kept], 1 / (1 - p)))
        assert abs(kept.double().mean().item() - (1 - p)) < 5 * (p * (1 - p) / kept.numel()) ** 0.5
        other = dropout_factors(2, 16, 1, p, SEED + 1) != 0
        together = (kept & other).double().mean().item()
        assert abs(together - (1 - p) ** 2) < 5 * kept.numel() ** -0.5

    @needs_kernels
    def test_the_native_engine_drops_the_same_weights(self, tile: Callable[[int, int], None]) -> None:
        tile(8, 4)
        batch, n, heads = 2, 5, 2
        q = torch.zeros(batch, n, n, heads, n)
        v1 = torch.eye(n)[None, None, :, None, :].expand(q.shape)
        for p, seed in ((0.3, SEED), (0.7, SEED + 2**40)):
            out, _ = separate_forward(q, q, v1, None, *NO_OFFSETS, None, -1, False, p, seed.cpu())
            native = out.permute(0, 1, 4, 2, 3) != 0
            assert torch.equal(dropout_factors(batch, n, heads, p, seed) != 0, native)

    def test_the_seed_of_pytorch_decides(self) -> None:
        q, k, v1, v2 = (part.detach().to(DEVICE) for part in random_parts(1, 4, 1, 2))
        results = []
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            results.append(TRITON.attend(q, k, v1, v2, Options(dropout_p=0.5)))
        assert torch.equal(results[0], results[1])
        assert not torch.equal(results[0], results[2])

    # --- as operators of PyTorch --------------------------------------------------------------------------------------

    @pytest.mark.parametrize("value", ["product", "left"])
    def test_operators(self, value: str) -> None:
        parts = [
            None if part is None else part.detach().to(DEVICE)
            for part in random_parts(1, 1, 1, 2, value=value, dtype=torch.float32)
        ]
        options = (torch.ones(1, 1, dtype=torch.bool, device=DEVICE), 1, value == "left", 0.3, SEED)
        leaves = [None if part is None else part.clone().requires_grad_() for part in parts]
        out, lse = triton_forward(*parts, *NO_OFFSETS, *options)
        for operator, arguments in (
            (triton_forward, (*leaves, *NO_OFFSETS, *options)),
            (triton_backward, (torch.randn_like(out), *parts, *NO_OFFSETS, out, lse, *options)),
        ):
            check_operator(operator, *arguments)

    def test_under_torch_compile(self) -> None:
        parts = [part.detach().to(DEVICE).requires_grad_() for part in present(random_parts(1, 2, 1, 2))]

        def attend_twice(q: Tensor, k: Tensor, v1: Tensor, v2: Tensor) -> Tensor:
            inner = TRITON.attend(q, k, v1, v2, Options())
            return TRITON.attend(inner, k, inner, v2, Options(None, 1, "ij")).square()

        compiled = torch.compile(attend_twice, backend="aot_eager", fullgraph=True)
        found, expected = compiled(*parts), attend_twice(*parts)
        assert worst(found, expected) < 1e-13
        again = torch.autograd.grad(found.sum(), parts)
        assert_close(list(again), list(torch.autograd.grad(expected.sum(), parts)), 1e-13)
