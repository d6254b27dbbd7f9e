"""Limits on the requests that run and wait.

Requests beyond the limits are refused immediately, so that accepted ones are answered in time.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import grpc

from serving.errors import ServingError, deadline_exceeded


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
                raise ServingError(
                    grpc.StatusCode.RESOURCE_EXHAUSTED, f"The server has {self._limit} requests at hand already"
                )
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
