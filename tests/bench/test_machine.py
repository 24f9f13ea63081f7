"""What `edge-transformer info` knows about the machine."""

from __future__ import annotations

import dataclasses
import json
import platform
import warnings

import pytest
import torch

from attention_cases import needs_kernels
from edge_transformer.bench.machine import describe, usable_cores
from edge_transformer.ops import native, triton
from edge_transformer.ops.attention import ENGINES, resolve_engine


def test_versions_and_cores() -> None:
    machine = describe()
    assert machine.python == platform.python_version()
    assert machine.torch == torch.__version__
    assert machine.package != "unknown"
    assert machine.processor
    assert machine.cores == usable_cores() >= 1
    assert machine.threads == torch.get_num_threads()
    assert len(machine.gpus) == torch.cuda.device_count()


def test_every_engine_is_named_with_what_it_is_or_what_is_missing() -> None:
    engines = describe().engines
    assert list(engines) == list(ENGINES)
    assert engines["einsum"].available
    assert engines["blocked"].available
    assert all(engines[name].available == (engine.unavailable() is None) for name, engine in ENGINES.items())
    assert all(engine.note for engine in engines.values())


@needs_kernels
def test_the_vector_code_of_the_kernels() -> None:
    assert native.vector_code() in describe().engines["native"].note


def test_without_the_compiled_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_LOADED", "no compiled kernels: told so")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the note says it, so the hint must not
        machine = describe()
    assert machine.engines["native"] == dataclasses.replace(
        machine.engines["native"], available=False, note="no compiled kernels: told so"
    )
    assert machine.auto["CPU float32"] == "blocked"


def test_without_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton, "_MISSING", "Triton is not installed; told so")
    engine = describe().engines["triton"]
    assert (engine.available, engine.note) == (False, "Triton is not installed; told so")


def test_what_auto_takes() -> None:
    auto = describe().auto
    assert auto["CPU float32"] == resolve_engine("auto", torch.empty(0)).name
    assert auto["CPU bfloat16"] == resolve_engine("auto", torch.empty(0, dtype=torch.bfloat16)).name
    assert (auto["CUDA float32"] is None) == (not torch.cuda.is_available())


def test_it_is_plain_json() -> None:
    machine = describe()
    assert json.loads(json.dumps(machine.to_dict()))["engines"]["einsum"]["available"] is True
