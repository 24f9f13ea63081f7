"""The compiled kernels: how they are found, what is said where there are none, and their random numbers."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from attention_cases import needs_kernels
from edge_transformer import triangular_attention
from edge_transformer.ops import native
from edge_transformer.ops.engine import draw_seed, drop_below
from edge_transformer.ops.native import NATIVE


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package as if it were installed there."""
    folder = tmp_path / "lib" / "edge_transformer" / "ops"
    folder.mkdir(parents=True)
    monkeypatch.setattr(native, "__file__", str(folder / "native.py"))
    return folder


@pytest.mark.parametrize("compiler", ["gcc", "clang", "clang-14", "clang-16", "clang-19"])
def test_other_compilers_take_the_sources(compiler: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler} here")
    sources = sorted(Path(native.__file__).parent.glob("csrc/*.c"))
    assert len(sources) == 4
    for source in sources:
        command = [compiler, "-fsyntax-only", "-O3", "-std=gnu11", "-Wall", "-Wno-psabi", str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_without_a_compiler_at_installation(empty_folder: Path) -> None:
    expected = "no compiled kernels: there was no working C compiler when the package was installed"
    assert native._load() == expected


def test_a_source_tree_without_kernels_says_how_to_build_them(empty_folder: Path) -> None:
    tree = empty_folder.parents[2]
    (tree / "setup.py").touch()
    assert native._load() == f"no compiled kernels: build them with a C compiler and pip install -e {tree}"


def test_a_broken_library(empty_folder: Path) -> None:
    (empty_folder / "_kernels.so").write_bytes(b"not a library")
    found = native._load()
    assert isinstance(found, str)
    assert found.startswith("the compiled kernels cannot be loaded: ")


@needs_kernels
def test_a_library_of_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "VERSION", native.VERSION + 1)
    found = native._load()
    assert isinstance(found, str)
    assert found.endswith(f"is of version {native.VERSION - 1}, not {native.VERSION}: install the package again")


@needs_kernels
def test_the_library_loads() -> None:
    assert isinstance(native._load(), ctypes.CDLL)
    assert native.library().edge_transformer_version() == native.VERSION
    assert native.vector_code() in ("portable", "AVX2", "AVX-512")


@needs_kernels
@pytest.mark.skipif(native._torch_threads() is None, reason="PyTorch has no GNU OpenMP here")
def test_work_runs_on_the_threads_of_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread comes and goes: those that PyTorch has are enough, and without them the answer is the same."""
    parts = [torch.randn(4, 9, 9, 2, 3) for _ in range(4)]
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    monkeypatch.setattr(native, "SMALLEST_SHARE", 1)
    use_pool = native.library().edge_transformer_use_pool
    calls: list[int] = []
    signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
    real = signature(native._torch_threads().value)  # type: ignore[union-attr, arg-type]

    def counting(work: int, data: int, threads: int, flags: int) -> None:
        calls.append(threads)
        real(work, data, threads, flags)

    called = signature(counting)  # kept as long as it may be called
    try:
        use_pool(called)
        pooled = triangular_attention(*parts, engine="native")
        use_pool(None)
        threaded = triangular_attention(*parts, engine="native")
    finally:
        use_pool(native._torch_threads())
        torch.set_num_threads(before)
    assert calls == [2]
    assert torch.equal(pooled, threaded)


def test_where_there_is_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_LOADED", "no compiled kernels: told so")
    assert NATIVE.unavailable() == "no compiled kernels: told so"
    assert not NATIVE.usable_for(torch.zeros(1))
    with pytest.raises(RuntimeError, match="no compiled kernels: told so"):
        native.library()


@needs_kernels
def test_what_the_kernels_compute() -> None:
    assert NATIVE.unavailable() is None
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        assert NATIVE.usable_for(torch.zeros(1, dtype=dtype))
        assert native.has_kernels_for(torch.zeros(1, dtype=dtype)) == (dtype in (torch.float32, torch.float64))
    assert not NATIVE.usable_for(torch.zeros(1, dtype=torch.int64))
    assert not NATIVE.usable_for(torch.zeros(1, device="meta"))


def test_seeds_come_from_the_generator_of_pytorch() -> None:
    torch.manual_seed(1)
    seeds = [draw_seed(0.1) for _ in range(100)]
    torch.manual_seed(1)
    again = [draw_seed(0.1) for _ in range(100)]
    values = [int(seed) for seed in seeds if seed is not None]
    assert values == [int(seed) for seed in again if seed is not None]
    assert len(set(values)) == 100
    assert all(0 <= value < 2**62 for value in values)
    assert max(values) > 2**61  # not only small ones


def test_no_seed_without_dropout() -> None:
    state = torch.get_rng_state()
    assert draw_seed(0.0) is None
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("p", "limit"), [(0.0, 0), (0.25, 2**30), (0.5, 2**31), (1 - 2**-32, 2**32 - 1), (1 - 2**-40, 2**32 - 1)]
)
def test_the_limit_below_which_a_number_is_dropped(p: float, limit: int) -> None:
    assert drop_below(p) == limit
