"""How this process uses the machine: its threads, the memory that it has freed, its time, and signals to it."""

from __future__ import annotations

import ctypes
import mmap
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -2, -3, -4  # the names of malloc.h, without their M_
_LARGEST_INT = 2**31 - 1
_ROOM = 1 << 30  # bytes of addresses that are asked for in huge pages; only what is used becomes memory


def prepare_process(threads: int | None = None) -> None:
    """Get ready to train or to answer with so many threads of PyTorch, or as many as it likes."""
    import torch  # takes seconds

    if threads:
        torch.set_num_threads(threads)
    keep_freed_memory()


def keep_freed_memory() -> bool:
    """Have the C library keep what is freed for the next tensor, instead of giving it back to the system.

    A large block that glibc has given back comes from the system again as pages that it must find and clear one by one,
    for every tensor of every step. A process that does the same step again and again, in training or for one batch of
    questions after the other, had better keep them. Says whether the C library can be told so; elsewhere nothing
    changes.
    """
    try:
        libc = ctypes.CDLL(None)
        mallopt = libc.mallopt
    except (OSError, TypeError, AttributeError):  # no glibc: macOS, Windows, musl
        return False
    kept = mallopt(_TRIM_THRESHOLD, _LARGEST_INT) and mallopt(_TOP_PAD, 1 << 26)
    # Older versions do not take such a threshold, but any takes "no block of its own for anything".
    if not (kept and (mallopt(_MMAP_THRESHOLD, _LARGEST_INT) or mallopt(_MMAP_MAX, 0))):
        return False
    if hasattr(mmap, "MADV_HUGEPAGE"):
        _prefer_huge_pages(libc, mmap.MADV_HUGEPAGE)
    return True


def _prefer_huge_pages(libc: ctypes.CDLL, advice: int) -> None:
    """Make room on the heap that is to be of pages of 2 MB, of which fewer must be looked up than of those of 4 KB.

    The room is freed at once, and what is freed stays with the process: it is where the next tensors will be.
    """
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.restype, libc.free.argtypes = None, [ctypes.c_void_p]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    room = libc.malloc(_ROOM)
    if room is None:  # more than this process may have
        return
    first_page = -(-room // mmap.PAGESIZE) * mmap.PAGESIZE
    libc.madvise(first_page, _ROOM - mmap.PAGESIZE, advice)  # refused where there are none, which changes nothing
    libc.free(room)


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


@contextmanager
def collected_signals(which: Iterable[signal.Signals], once: bool = False) -> Iterator[list[int]]:
    """Collect signals for the time of a block, instead of dying anywhere in it; with `once`, a second one has its usual
    effect.
    """
    received: list[int] = []
    previous: dict[signal.Signals, Any] = {}

    def remember(number: int, frame: Any) -> None:
        received.append(number)
        if once:
            restore()

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)

    for number in which:
        if signal.getsignal(number) == signal.SIG_IGN:  # as nohup has set it
            continue
        try:
            previous[number] = signal.signal(number, remember)
        except ValueError:  # only the main thread may; elsewhere there is nothing to catch
            break
    try:
        yield received
    finally:
        restore()
