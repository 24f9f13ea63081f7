"""Timing in alternating rounds: compared actions run in turn in one process, under the same conditions."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

LEAST_ROUNDS, MOST_ROUNDS = 3, 500
_LONG = 4  # if a round takes more budgets than this, two rounds are enough


class Watch:
    """The clock of an action: it starts when the inputs are ready and marks what is done."""

    def __init__(self, device: str = "cpu") -> None:
        self._cuda = torch.device(device).type == "cuda"
        self.marks: dict[str, float] = {}
        self.start()

    def start(self) -> None:
        self._wait()
        self._started = time.perf_counter()

    def mark(self, what: str) -> None:
        """Note the time since the start."""
        self._wait()
        self.marks[what] = time.perf_counter() - self._started

    def _wait(self) -> None:
        if self._cuda:  # a GPU works asynchronously
            torch.cuda.synchronize()


Action = Callable[[Watch], None]


@dataclass(frozen=True)
class Timing:
    """Median and quartiles, in seconds, over some rounds."""

    median: float
    low: float
    high: float
    rounds: int

    @classmethod
    def of(cls, seconds: list[float]) -> Timing:
        if len(seconds) == 1:
            return cls(seconds[0], seconds[0], seconds[0], 1)
        low, median, high = statistics.quantiles(seconds, n=4, method="inclusive")
        return cls(median, low, high, len(seconds))


def time_rounds(
    actions: Mapping[str, Action],
    seconds: float,
    device: str = "cpu",
    note: Callable[[str], None] = lambda name: None,
) -> dict[str, dict[str, Timing]]:
    """Run actions in turn for about `seconds`, after a warm-up of each: name -> mark -> its time.

    Every second round runs in reverse, so that no action always follows the same one.
    """
    for name, action in actions.items():
        note(name)
        action(Watch(device))
    taken: dict[str, dict[str, list[float]]] = {name: {} for name in actions}
    order = list(actions)
    started = time.perf_counter()
    for rounds in range(1, MOST_ROUNDS + 1):
        for name in order:
            note(name)
            watch = Watch(device)
            actions[name](watch)
            for what, time_taken in watch.marks.items():
                taken[name].setdefault(what, []).append(time_taken)
        order.reverse()
        elapsed = time.perf_counter() - started
        least = 2 if elapsed > rounds * _LONG * seconds else LEAST_ROUNDS
        if rounds >= least and elapsed >= seconds:
            break
    return {name: {what: Timing.of(values) for what, values in marks.items()} for name, marks in taken.items()}


def time_once(action: Action, device: str = "cpu") -> float:
    """The seconds of one run up to its last mark, without a warm-up."""
    watch = Watch(device)
    action(watch)
    return max(watch.marks.values())
