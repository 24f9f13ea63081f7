"""Peak memory: what is allocated is seen, also after it is freed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from edge_transformer.bench import memory
from edge_transformer.bench.memory import extra_peak, measure_alone
from edge_transformer.bench.sizes import Size

MB = 10**6
needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="there is no /proc")


MEASURE = """
import torch
from edge_transformer.bench.memory import extra_peak

def allocate(megabytes):
    for _ in range(2):  # the second takes the place of the first: it is the peak that counts, not the sum
        torch.ones(megabytes * 10**6 // 4)

allocate(1)
print(*(extra_peak(lambda: allocate(count)) for count in (0, 50, 200, 50)))
"""


@needs_proc
def test_a_known_allocation_is_seen() -> None:
    # In a process of its own: here another test may have had freed memory kept.
    done = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True)
    nothing, *rest = map(int, done.stdout.split())
    assert nothing < 10 * MB
    for found, expected in zip(rest, (50, 200, 50), strict=True):
        assert 0.9 * expected * MB < found < 1.2 * expected * MB + 10 * MB


def test_without_proc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(memory, "_STATUS", tmp_path / "none" / "status")
    monkeypatch.setattr(memory, "_CLEAR", tmp_path / "none" / "clear_refs")
    ran = []
    assert extra_peak(lambda: ran.append(1)) is None
    assert ran == [1]


@needs_proc
def test_a_case_alone() -> None:
    size = Size(1, 50, 64, 4)
    found = measure_alone("einsum", size, 1, "cpu")
    values = 4 * size.triangles * size.dim
    assert isinstance(found, int)
    assert 2 * values < found < 5 * values


def test_what_a_failed_case_says() -> None:
    found = measure_alone("unheard", Size(1, 3, 4, 2), 1, "cpu")
    assert isinstance(found, str)
    assert "engine='unheard' is not known" in found
