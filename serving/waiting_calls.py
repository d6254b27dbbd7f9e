"""Calls that wait for their clients, who may never do what they are waited for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import grpc


class WaitingCalls:
    """Calls whose client has to send a message, or to read an answer.

    Args:
        most: when more wait, the one that has waited for longest is cancelled.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._ends: dict[grpc.ServicerContext, tuple[float, float]] = {}  # when it began and is to end; oldest first
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._ends)

    def add(self, call: grpc.ServicerContext, seconds: float) -> None:
        """A call begins to wait. It is cancelled if it still waits after so many seconds and `cancel_late` looks."""
        with self._lock:
            now = time.monotonic()
            self._ends[call] = now, now + seconds
            oldest = next(iter(self._ends)) if len(self._ends) > self._most else None
            if oldest is not None:
                del self._ends[oldest]
        if oldest is not None:
            oldest.cancel()

    def remove(self, call: grpc.ServicerContext) -> None:
        """The client has done what it was waited for, or has left."""
        with self._lock:
            self._ends.pop(call, None)

    def cancel_late(self) -> None:
        """Cancels the calls that have waited for too long."""
        now = time.monotonic()
        self._cancel(lambda began, end: end <= now)

    def slow(self, seconds: float) -> bool:
        """Whether a call has waited for so long."""
        with self._lock:
            oldest = next(iter(self._ends.values()), None)
        return oldest is not None and time.monotonic() - oldest[0] >= seconds

    def cancel_slow(self, seconds: float) -> None:
        """Cancels the calls that have waited for so long."""
        began_before = time.monotonic() - seconds
        self._cancel(lambda began, end: began <= began_before)

    def _cancel(self, which: Callable[[float, float], bool]) -> None:
        with self._lock:
            chosen = [call for call, times in self._ends.items() if which(*times)]
            for call in chosen:
                del self._ends[call]
        for call in chosen:
            call.cancel()
