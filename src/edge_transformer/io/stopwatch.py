"""How long a run has taken, in all the processes that it went through."""

from __future__ import annotations

import time


class Stopwatch:
    """Minutes by the clock, and minutes that CPUs worked: on a busy machine the second tell what a run costs.

    CPU minutes are those of all threads of this process; None where an earlier part of the run did not count them.
    """

    def __init__(self) -> None:
        self.minutes = 0.0
        self.cpu_minutes: float | None = 0.0
        self.start()

    def start(self) -> None:
        """Time before this moment, and after the last `stop`, does not count."""
        self._clock, self._cpu = time.monotonic(), time.process_time()

    def stop(self) -> None:
        """Add the time since the last `start` or `stop`; time goes on."""
        clock, cpu = self._clock, self._cpu
        self.start()
        self.minutes += (self._clock - clock) / 60
        if self.cpu_minutes is not None:
            self.cpu_minutes += (self._cpu - cpu) / 60

    def set(self, minutes: float, cpu_minutes: float | None) -> None:
        """Go on from what an earlier process came to."""
        self.minutes, self.cpu_minutes = minutes, cpu_minutes
        self.start()
