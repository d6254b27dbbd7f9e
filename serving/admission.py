"""Limits on the requests that run and wait.

Requests beyond the limits are refused immediately, so that accepted ones are answered in time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Iterator

from serving.errors import deadline_exceeded, exhausted


@dataclasses.dataclass(frozen=True)
class Limits:
    """What one request, and all requests together, may ask for.

    Attributes:
        max_row_steps: rows times Gibbs steps of one request.
        max_bytes_in_flight: bytes of all requests at hand, of their tensors and of their answers.
    """

    max_row_steps: int = 10_000_000
    max_bytes_in_flight: int = 2**30


class ByteBudget:
    """A limit on the bytes that the requests at hand take together.

    Args:
        limit: bytes.

    Example:

    >>> budget = ByteBudget(100)
    >>> with budget.hold(60):
    ...     budget.held
    60
    """

    def __init__(self, limit: int) -> None:
        self.limit, self.held = limit, 0
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def hold(self, size: int) -> Iterator[None]:
        """Counts so many bytes for as long as the block lasts.

        Raises:
            ServingError: RESOURCE_EXHAUSTED if there is no room for them now.
        """
        with self._lock:
            if self.held + size > self.limit:
                raise exhausted(
                    f"The requests at hand take {self.held} bytes, and {size} more would be over the limit of "
                    f"{self.limit}"
                )
            self.held += size
        try:
            yield
        finally:
            with self._lock:
                self.held -= size


class Admission:
    """A limit on the requests that run at the same time, and on those that wait for their turn.

    Args:
        running: computations at the same time; each of them uses all cores.
        waiting: requests that may wait.
    """

    def __init__(self, running: int, waiting: int) -> None:
        self._slots = threading.Semaphore(running)
        self._limit = running + waiting
        self._inside = 0
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def slot(self, deadline: float | None) -> Iterator[None]:
        """Waits until the request may run.

        Raises:
            ServingError: RESOURCE_EXHAUSTED if too many requests wait already, DEADLINE_EXCEEDED if the deadline passes
                before.
        """
        with self._lock:
            if self._inside >= self._limit:
                raise exhausted(f"The server has {self._limit} requests at hand already")
            self._inside += 1
        try:
            timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not self._slots.acquire(timeout=timeout):
                raise deadline_exceeded()
            try:
                yield
            finally:
                self._slots.release()
        finally:
            with self._lock:
                self._inside -= 1
