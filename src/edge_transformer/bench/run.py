"""Measure cases one by one, and skip what would take too much time or memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

from ..io.process import keep_freed_memory
from .cases import PATIENCE, PEAK, Case
from .machine import describe
from .memory import NOT_TOLD, measure_alone
from .results import Bench, Measurement
from .timing import time_once, time_rounds

_PROBED_FROM = 100  # nodes; smaller graphs need no probe
KEEPING_MEMORY = ("layers", "seq2seq", "decode", "token")  # parts that keep freed memory, as all commands do
_SMALLER = 4  # a probe has this many times fewer nodes

Progress = Callable[[int, str], None]  # cases done, and what runs now


@dataclass(frozen=True)
class Settings:
    """How to measure."""

    seconds: float = 5.0  # for the rounds of one case
    limit: float = 20.0  # seconds that a single run may take
    budget: int = 0  # bytes that a single run may take; 0 for half of the free memory
    threads: int = 1
    device: str = "cpu"
    keep_memory: bool = False  # keep freed memory in all parts, not only in KEEPING_MEMORY


def measure(
    cases: Sequence[Case], settings: Settings, command: str = "", progress: Progress = lambda done, note: None
) -> Bench:
    """Measure all cases."""
    settings = settings if settings.budget else replace(settings, budget=free_memory() // 2)
    before = torch.get_num_threads()
    measurements: list[Measurement] = []
    try:
        for case in sorted(cases, key=lambda case: case.part in KEEPING_MEMORY):
            if settings.keep_memory or case.part in KEEPING_MEMORY:
                keep_freed_memory()  # from here on
            torch.set_num_threads(settings.threads)  # a case may have changed it
            measurements += _measure_case(case, settings, partial(_note, progress, case))
            progress(1, "")
        torch.set_num_threads(settings.threads)
        machine = describe().to_dict()
    finally:
        torch.set_num_threads(before)
    return Bench(command, machine, dataclasses.asdict(settings), tuple(measurements))


def free_memory() -> int:
    """Available memory in bytes; 8 GB if the system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        lines = []
    found = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    return found[0] if found else 8 * 10**9


def _measure_case(case: Case, settings: Settings, note: Callable[[str], None]) -> list[Measurement]:
    skipped: dict[str, str] = {}
    for name in case.names:
        note(name)
        reason = case.missing.get(name) or _too_much(case, name, settings)
        if reason:
            skipped[name] = reason
    measured = list((_memory if PEAK in case.what else _times)(case, skipped, settings, note))
    references = {found.what: found.value for found in measured if found.name == case.reference}
    return [_with_ratio(found, case.reference, references.get(found.what)) for found in measured]


def _note(progress: Progress, case: Case, name: str) -> None:
    progress(0, f"{case.part}: {case.name}, {name}")


def _too_much(case: Case, name: str, settings: Settings) -> str | None:
    """Why to skip an action, if at all; the time of a large graph is predicted from a smaller one."""
    needed = case.expected_bytes(name)
    if needed > settings.budget:
        return f"needs {needed / 1e9:.0f} GB"
    if case.size.n < _PROBED_FROM:
        return None
    small = replace(case.size, batch=1, n=case.size.n // _SMALLER)
    action = case.build(small, name)
    time_once(action, settings.device)  # a warm-up
    seconds = time_once(action, settings.device) * case.size.triangles / small.triangles
    return f"takes {seconds:.0f} s" if seconds > settings.limit * PATIENCE.get(case.part, 1) else None


def _times(
    case: Case, skipped: dict[str, str], settings: Settings, note: Callable[[str], None]
) -> Iterator[Measurement]:
    actions = {name: case.build(case.size, name) for name in case.names if name not in skipped}
    timings = time_rounds(actions, settings.seconds, settings.device, note) if actions else {}
    for what in case.what:
        for name in case.names:
            found = Measurement(case.part, case.name, case.size, what, name, aim=case.aims.get(name))
            if name in skipped:
                yield replace(found, skipped=skipped[name])
            else:
                timing = timings[name][what]
                yield replace(found, value=timing.median, low=timing.low, high=timing.high, rounds=timing.rounds)


def _memory(
    case: Case, skipped: dict[str, str], settings: Settings, note: Callable[[str], None]
) -> Iterator[Measurement]:
    for name in case.names:
        found = Measurement(case.part, case.name, case.size, case.what[0], name, unit="bytes", aim=case.aims.get(name))
        if name in skipped:
            yield replace(found, skipped=skipped[name])
            continue
        note(name)
        peak = measure_alone(name, case.size, settings.threads, settings.device, case.layers)
        if isinstance(peak, int):
            yield replace(found, value=float(peak), rounds=1)
        else:
            yield replace(found, skipped=peak or NOT_TOLD)


def _with_ratio(found: Measurement, reference: str | None, value: float | None) -> Measurement:
    if found.value is None or not value:
        return found
    return replace(found, reference=reference, ratio=found.value / value)
