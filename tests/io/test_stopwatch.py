"""How long a run has taken, by the clock and by its CPUs."""

from __future__ import annotations

import pytest

from edge_transformer.io import process as stopwatch
from edge_transformer.io.process import Stopwatch


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
    monkeypatch.setattr(stopwatch, "time", times)
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
