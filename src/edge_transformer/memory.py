"""How the process keeps its memory."""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -2, -3, -4  # the names of malloc.h, without their M_
_LARGEST_INT = 2**31 - 1


def keep_freed_memory() -> bool:
    """Have the C library keep what is freed for the next tensor, instead of giving it back to the system.

    A large block that glibc has given back comes from the system again as pages that it must find and clear one by one,
    for every tensor of every step. A training process does the same step again and again: it had better keep them. Says
    whether the C library can be told so; elsewhere nothing changes.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):  # no glibc: macOS, Windows, musl
        return False
    kept = mallopt(_TRIM_THRESHOLD, _LARGEST_INT) and mallopt(_TOP_PAD, 1 << 26)
    # Older versions do not take such a threshold, but any takes "no block of its own for anything".
    return bool(kept and (mallopt(_MMAP_THRESHOLD, _LARGEST_INT) or mallopt(_MMAP_MAX, 0)))
