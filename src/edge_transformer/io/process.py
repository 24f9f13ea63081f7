"""Threads, freed memory, time and signals of this process."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import UserError

DEVICES = ("auto", "cpu", "cuda", "mps")
MAX_THREADS = 1024  # far more end in a crash of the threads' library
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -2, -3, -4  # the names of malloc.h without M_
_LARGEST_INT = 2**31 - 1
_ROOM = 1 << 30  # bytes of address space to put in huge pages; only what is used becomes memory


def prepare_process(threads: int | None = None) -> None:
    """Set PyTorch's number of threads, where given, and keep freed memory."""
    import torch  # takes seconds

    if threads:
        torch.set_num_threads(threads)
    keep_freed_memory()


def require_device(name: str, known: tuple[str, ...] = DEVICES) -> None:
    """Refuse a device that is not known, or that this machine has not."""
    import torch  # takes seconds

    lacking = {"cuda": not torch.cuda.is_available(), "mps": not torch.backends.mps.is_available()}
    here = [device for device in known if not lacking.get(device)]
    if name not in known:
        raise UserError(f"--device {name}: unknown; known are {', '.join(known)}; here are {', '.join(here)}")
    if name not in here:
        raise UserError(f"--device {name}: PyTorch finds no such device; here are {', '.join(here)}")


def keep_freed_memory() -> bool:
    """Make glibc keep freed memory for the next tensor; return False where the C library has no such option.

    By default glibc returns large blocks, and the system must find and clear their pages again at every step.
    """
    try:
        libc = ctypes.CDLL(None)
        mallopt = libc.mallopt
    except (OSError, TypeError, AttributeError):  # no glibc: macOS, Windows, musl
        return False
    kept = mallopt(_TRIM_THRESHOLD, _LARGEST_INT) and mallopt(_TOP_PAD, 1 << 26)
    # Older versions refuse such a threshold, but all of them can turn off mmap.
    if not (kept and (mallopt(_MMAP_THRESHOLD, _LARGEST_INT) or mallopt(_MMAP_MAX, 0))):
        return False
    if hasattr(mmap, "MADV_HUGEPAGE"):
        _prefer_huge_pages(libc, mmap.MADV_HUGEPAGE)
    return True


def _prefer_huge_pages(libc: ctypes.CDLL, advice: int) -> None:
    """Reserve heap memory in pages of 2 MB instead of 4 KB, which need fewer lookups.

    The memory is freed at once but stays with the process: the next tensors go there.
    """
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.restype, libc.free.argtypes = None, [ctypes.c_void_p]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    room = libc.malloc(_ROOM)
    if room is None:  # over this process's limit
        return
    first_page = -(-room // mmap.PAGESIZE) * mmap.PAGESIZE
    libc.madvise(first_page, _ROOM - mmap.PAGESIZE, advice)  # has no effect where there are none
    libc.free(room)


class Stopwatch:
    """Wall-clock minutes and CPU minutes of all threads, which tell what a run costs on a busy machine.

    CPU minutes are None where an earlier part of the run did not count them.
    """

    def __init__(self) -> None:
        self.minutes = 0.0
        self.cpu_minutes: float | None = 0.0
        self.start()

    def start(self) -> None:
        """Count from now; the time since the last `stop` does not count."""
        self._clock, self._cpu = time.monotonic(), time.process_time()

    def stop(self) -> None:
        """Add the time since the last `start` or `stop`, and keep counting."""
        clock, cpu = self._clock, self._cpu
        self.start()
        self.minutes += (self._clock - clock) / 60
        if self.cpu_minutes is not None:
            self.cpu_minutes += (self._cpu - cpu) / 60

    def set(self, minutes: float, cpu_minutes: float | None) -> None:
        """Continue from the totals of an earlier process."""
        self.minutes, self.cpu_minutes = minutes, cpu_minutes
        self.start()


@contextmanager
def collected_signals(which: Iterable[signal.Signals], once: bool = False) -> Iterator[list[int]]:
    """Collect signals during a block instead of dying; with `once`, a second signal has its usual effect."""
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
        except ValueError:  # only the main thread can catch signals
            break
    try:
        yield received
    finally:
        restore()


def free_memory() -> int | None:
    """The bytes of memory that this process may still take; None where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            values = dict(line.split(":", 1) for line in lines)
        return 1024 * int(values["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")  # macOS: all there is
    except (ValueError, OSError, AttributeError):
        return None
