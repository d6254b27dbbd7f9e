"""Memory of messages that arrive, which nobody has counted yet.

gRPC keeps what has come of a message until all of it is there, and does not say how much that is. A client may send all
but the last byte of a hundred large messages. So the memory of the process is watched: where it grows while messages
are on their way for long, those end.
"""

from __future__ import annotations

import collections
import math
import time
from collections.abc import Callable, Sequence

from serving.memory import give_back_free_memory, resident_bytes
from serving.waiting_calls import WaitingCalls

SLOW_SECONDS = 0.25  # and some looks: after them a message counts as one that is on its way for long
LOOKS = 4  # in that time and a little more


class ArrivingMemory:
    """Ends slow messages where memory grows.

    Args:
        silent: the calls that wait for messages.
        counted: bytes of memory that is counted elsewhere.
        allowed: bytes by which memory may grow beside them.
        resident: bytes of memory that the process has; ``None`` if that is not known.
    """

    def __init__(
        self,
        silent: Sequence[WaitingCalls],
        counted: Callable[[], int],
        allowed: int,
        resident: Callable[[], int | None] = resident_bytes,
    ) -> None:
        self._silent, self._counted, self._allowed, self._resident = silent, counted, allowed, resident
        # Memory, and what was counted of it: at the last looks before any was slow.
        self._before: collections.deque[tuple[int, int]] = collections.deque(maxlen=LOOKS)
        self._looked: collections.deque[float] = collections.deque(maxlen=LOOKS - 1)  # when
        self._ended = False

    def look(self) -> None:
        """Called again and again, `LOOKS` times in somewhat more than `SLOW_SECONDS`."""
        memory = self._resident()
        if memory is None:
            return
        counted = self._counted()
        # Where the process itself has no time to look, those who send are not slow.
        now = time.monotonic()
        slow = max(SLOW_SECONDS, now - self._looked[0]) if len(self._looked) == LOOKS - 1 else math.inf
        self._looked.append(now)
        if not any(calls.slow(slow) for calls in self._silent):
            if self._ended:
                give_back_free_memory()
            self._before.append((memory, counted))
            self._ended = False
        elif self._before and self._growth(memory, counted) > self._allowed:
            for calls in self._silent:
                calls.cancel_slow(slow)
            self._ended = True

    def _growth(self, memory: int, counted: int) -> int:
        """Bytes of memory that are new, and that nobody else has counted since."""
        memory_before, counted_before = self._before[0]
        # Some count before they take memory, or never take all of it: what is not counted any more gives none back.
        return memory - memory_before - max(0, counted - counted_before)
