"""Rounds that alternate, their number, and the median."""

from __future__ import annotations

import pytest

from edge_transformer.bench import timing
from edge_transformer.bench.timing import LEAST_ROUNDS, MOST_ROUNDS, Action, Timing, Watch, time_once, time_rounds


class Clock:
    """Time that passes only when an action says so: a busy machine cannot change what is counted."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def action(self, seconds: float) -> Action:
        def action(watch: Watch) -> None:
            self.now += seconds
            watch.mark("done")

        return action


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(timing, "time", clock)
    return clock


def recorder(calls: list[str], name: str) -> Action:
    def action(watch: Watch) -> None:
        calls.append(name)
        watch.mark("done")

    return action


def test_actions_alternate_and_every_second_round_goes_backwards() -> None:
    calls: list[str] = []
    noted: list[str] = []
    found = time_rounds({name: recorder(calls, name) for name in "abc"}, 0.0, note=noted.append)
    assert "".join(calls[:9]) == "abcabccba"  # the warm-up first
    assert noted == calls
    assert found["a"]["done"].rounds == len(calls) // 3 - 1


def test_rounds_go_on_for_the_time_given(clock: Clock) -> None:
    found = time_rounds({"a": clock.action(0.01)}, 0.205)["a"]["done"]
    assert (found.median, found.rounds) == (pytest.approx(0.01), 21)
    assert time_rounds({"a": clock.action(0.01)}, 0.001)["a"]["done"].rounds == 2, "a round is many budgets"
    assert time_rounds({"a": clock.action(0.01)}, 0.008)["a"]["done"].rounds == LEAST_ROUNDS


def test_rounds_end_where_actions_take_no_time() -> None:
    assert time_rounds({"a": lambda watch: watch.mark("done")}, 60.0)["a"]["done"].rounds == MOST_ROUNDS


def test_the_clock_starts_when_it_is_told_to(clock: Clock) -> None:
    def action(watch: Watch) -> None:
        clock.now += 0.1
        watch.start()
        watch.mark("early")
        clock.now += 0.02
        watch.mark("late")

    found = time_rounds({"a": action}, 0.0)["a"]
    assert found["early"].median == 0.0
    assert found["late"].median == pytest.approx(0.02)
    assert time_once(action) == pytest.approx(0.02)


def test_median_and_quartiles() -> None:
    assert Timing.of([5.0, 1.0, 2.0, 4.0, 3.0]) == Timing(3.0, 2.0, 4.0, 5)
    assert Timing.of([1.0, 2.0]).median == pytest.approx(1.5)
    assert Timing.of([7.0]) == Timing(7.0, 7.0, 7.0, 1)
