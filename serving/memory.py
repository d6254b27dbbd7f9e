"""Memory of large requests, which goes back to the system when they are answered."""

from __future__ import annotations

import contextlib
import ctypes

# Names and numbers of the GNU C library's settings.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LARGE = 2**24


def give_back_large_blocks() -> bool:
    """Tells the C library to get blocks of 16 MB and more straight from the system, and to keep little for later.

    Left alone it learns from the first large block that was freed, keeps such blocks itself from then on, in each of
    several heaps, and the server's memory grows by steps of up to 64 MB.

    Returns:
        Whether the C library knows these settings: other systems have other ones.
    """
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        return bool(mallopt(M_MMAP_THRESHOLD, LARGE)) and bool(mallopt(M_TRIM_THRESHOLD, 2 * LARGE))
    return False
