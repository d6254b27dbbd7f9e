"""Memory of large requests, which is returned to the system when they are answered."""

from __future__ import annotations

import contextlib
import ctypes

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
