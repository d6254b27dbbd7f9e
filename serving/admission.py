"""How much is taken on at once. What is beyond is refused at once, so that what was accepted is answered in time."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import grpc

from serving.errors import ServingError, deadline_exceeded


class Admission:
    """A number of places to run, and a number of places to wait.

    Args:
        running: computations at once; each uses all cores by itself.
        waiting: requests that may wait for one.
    """

    def __init__(self, running: int, waiting: int) -> None:
        self._places = threading.Semaphore(running)
        self._limit = running + waiting
        self._inside = 0
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def place(self, deadline: float | None) -> Iterator[None]:
        """Waits for a place to run.

        Raises:
            ServingError: RESOURCE_EXHAUSTED if too many wait already, DEADLINE_EXCEEDED if the deadline comes first.
        """
        with self._lock:
            if self._inside >= self._limit:
                raise ServingError(
                    grpc.StatusCode.RESOURCE_EXHAUSTED, f"The server has {self._limit} requests at hand already"
                )
            self._inside += 1
        try:
            timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not self._places.acquire(timeout=timeout):
                raise deadline_exceeded()
            try:
                yield
            finally:
                self._places.release()
        finally:
            with self._lock:
                self._inside -= 1
