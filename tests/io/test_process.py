"""What is freed stays with the process, it has as many threads as it is given, and it knows how long it has taken."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from edge_transformer.io import process
from edge_transformer.io.process import Stopwatch

COUNT_FAULTS = """
import resource
import torch
# As in training: the heap of a process that has just begun has no room for small things.
import edge_transformer.training.trainer
from edge_transformer.io.process import keep_freed_memory

torch.set_num_threads(1)
told = {keep} and keep_freed_memory()
for _ in range(5):
    torch.zeros(50_000_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    torch.zeros(50_000_000)  # 200 MB: 50,000 pages
print(told, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(keep: bool) -> tuple[bool, int]:
    done = subprocess.run(
        [sys.executable, "-c", COUNT_FAULTS.format(keep=keep)], capture_output=True, text=True, check=True
    )
    told, count = done.stdout.split()
    return told == "True", int(count)


def test_freed_memory_is_used_again() -> None:
    pytest.importorskip("resource", reason="the system does not count page faults")
    told, kept = faults(keep=True)
    if not told:
        pytest.skip("the C library is not glibc")
    _, plain = faults(keep=False)
    # Small things may move into what was freed, so that one more block is asked for, but not one for every tensor.
    # Huge pages may make the latter number small, but not that small.
    assert 2 * kept < plain > 100


@pytest.mark.parametrize(("asked", "given"), [(1, 1), (3, 3), (None, 2)])
def test_threads_and_memory_are_prepared(asked: int | None, given: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[bool] = []
    monkeypatch.setattr(process, "keep_freed_memory", lambda: calls.append(True))
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        process.prepare_process(asked)
        assert torch.get_num_threads() == given
    finally:
        torch.set_num_threads(before)
    assert calls == [True]


# --- time, by the clock and by the CPUs -------------------------------------------------------------------------------


class Times:
    """The two clocks of the system, set by hand; in seconds."""

    def __init__(self) -> None:
        self.clock = self.cpu = 1000.0

    def monotonic(self) -> float:
        return self.clock

    def process_time(self) -> float:
        return self.cpu

    def work(self, seconds: float, cpu: float) -> None:
        self.clock += seconds
        self.cpu += cpu


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> Times:
    times = Times()
    monkeypatch.setattr(process, "time", times)
    return times


def test_time_is_counted_from_stop_to_stop(times: Times) -> None:
    watch = Stopwatch()
    times.work(600, 600)
    watch.start()
    times.work(120, 60)
    watch.stop()
    times.work(60, 120)
    watch.stop()
    assert (watch.minutes, watch.cpu_minutes) == (3.0, 3.0)


def test_going_on_after_another_process(times: Times) -> None:
    watch = Stopwatch()
    times.work(60, 60)
    watch.set(10.0, 4.0)
    times.work(120, 60)
    watch.stop()
    assert (watch.minutes, watch.cpu_minutes) == (12.0, 5.0)
    watch.set(10.0, None)  # a checkpoint without them
    times.work(60, 60)
    watch.stop()
    assert (watch.minutes, watch.cpu_minutes) == (11.0, None)
