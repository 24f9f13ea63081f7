"""Counters and histograms, in the text format that Prometheus reads."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator

Labels = tuple[str, ...]  # values, in the order of the names
SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Counter:
    """A number by labels that only grows."""

    kind = "counter"

    def __init__(self, name: str, about: str, labels: tuple[str, ...] = ()) -> None:
        self.name, self.about, self.labels = name, about, labels
        self.values: dict[Labels, float] = {}
        self._lock = threading.Lock()  # worker threads count too

    def add(self, *labels: str, by: float = 1) -> None:
        with self._lock:
            self.values[labels] = self.values.get(labels, 0) + by

    def lines(self) -> Iterator[str]:
        with self._lock:
            values = sorted(self.values.items())
        for labels, value in values:
            yield f"{self.name}{_shown(self.labels, labels)} {value:g}"


class Gauge:
    """A number that is asked for when it is read."""

    kind = "gauge"

    def __init__(self, name: str, about: str, labels: tuple[str, ...], read: Callable[[], dict[Labels, float]]) -> None:
        self.name, self.about, self.labels, self._read = name, about, labels, read

    def lines(self) -> Iterator[str]:
        for labels, value in sorted(self._read().items()):
            yield f"{self.name}{_shown(self.labels, labels)} {value:g}"


class Histogram:
    """How often values up to each bound came, by labels."""

    kind = "histogram"

    def __init__(self, name: str, about: str, labels: tuple[str, ...], bounds: tuple[float, ...]) -> None:
        self.name, self.about, self.labels, self.bounds = name, about, labels, bounds
        self.values: dict[Labels, list[float]] = {}  # counts of each bucket, then of the rest, then the sum
        self._lock = threading.Lock()

    def add(self, value: float, *labels: str) -> None:
        with self._lock:
            found = self.values.setdefault(labels, [0.0] * (len(self.bounds) + 2))
            found[bisect_left(self.bounds, value)] += 1
            found[-1] += value

    def lines(self) -> Iterator[str]:
        with self._lock:
            values = sorted((labels, [*found]) for labels, found in self.values.items())
        for labels, (*counts, total) in values:
            below = 0.0
            for bound, count in zip((*self.bounds, "+Inf"), counts, strict=True):
                below += count
                yield f"{self.name}_bucket{_shown((*self.labels, 'le'), (*labels, f'{bound}'))} {below:g}"
            yield f"{self.name}_sum{_shown(self.labels, labels)} {total:.6f}"
            yield f"{self.name}_count{_shown(self.labels, labels)} {below:g}"


class Metrics:
    """All that a server counts."""

    def __init__(self) -> None:
        self.requests = Counter(
            "edge_transformer_requests_total",
            "Requests by model, operation and status",
            ("model", "operation", "status"),
        )
        self.seconds = Histogram(
            "edge_transformer_request_seconds", "Time to the whole answer", ("model", "operation"), SECONDS
        )
        self.batches = Histogram("edge_transformer_batch_items", "Questions answered together", ("model",), SIZES)
        self.computing = Histogram("edge_transformer_batch_seconds", "Time to compute a batch", ("model",), SECONDS)
        self.errors = Counter(
            "edge_transformer_item_errors_total", "Questions that got an error of their own", ("model", "kind")
        )
        self.dropped = Counter(
            "edge_transformer_dropped_items_total", "Questions whose client hung up, or whose time was over", ("model",)
        )
        self._gauges: list[Gauge] = []

    def gauge(self, name: str, about: str, labels: tuple[str, ...], read: Callable[[], dict[Labels, float]]) -> None:
        """Add a number that is asked for when the metrics are read."""
        self._gauges.append(Gauge(name, about, labels, read))

    def text(self) -> str:
        """Everything in Prometheus' text format, version 0.0.4."""
        every: list[Counter | Gauge | Histogram] = [
            *(self.requests, self.seconds, self.batches, self.computing, self.errors, self.dropped),
            *self._gauges,
        ]
        lines: list[str] = []
        for each in every:
            lines += [f"# HELP {each.name} {each.about}", f"# TYPE {each.name} {each.kind}", *each.lines()]
        return "\n".join(lines) + "\n"


def _shown(names: Labels, values: Labels) -> str:
    if not names:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True)) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
