"""Memory of the process: what it has, and how it returns to the system when large requests are answered."""

from __future__ import annotations

import contextlib
import ctypes
import os

# Names and numbers of the GNU C library's settings.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LARGE = 2**24  # bytes


def give_back_large_blocks() -> bool:
    """Tells the C library to allocate blocks of 16 MB and more by the system, and to keep little freed memory.

    By default it adapts to the first large block that is freed: from then on it keeps such blocks, in each of several
    heaps, and the server's memory grows in steps of up to 64 MB.

    Returns:
        Whether the C library has these settings. Other systems have others.
    """
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        return bool(mallopt(M_MMAP_THRESHOLD, LARGE)) and bool(mallopt(M_TRIM_THRESHOLD, 2 * LARGE))
    return False


def give_back_free_memory() -> None:
    """Tells the C library to return what it keeps of freed memory, if it is one that can."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def resident_bytes() -> int | None:
    """Memory that the process has; ``None`` where the system does not say."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None
