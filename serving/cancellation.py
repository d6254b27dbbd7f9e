"""Whether an answer is still wanted."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

import grpc

from serving.errors import ServingError


class Cancellation:
    """Tells whoever works for a client that the client has gone.

    Example:

    >>> cancellation = Cancellation()
    >>> with cancellation.calling(lambda: print("stop")):
    ...     cancellation.cancel()
    stop
    >>> cancellation.cancelled
    True
    """

    def __init__(self) -> None:
        self.cancelled = False
        self._lock = threading.Lock()
        self._callbacks: dict[object, Callable[[], None]] = {}

    def cancel(self) -> None:
        """The answer is no longer wanted. May be called by any thread, and several times."""
        with self._lock:
            self.cancelled = True
            callbacks, self._callbacks = list(self._callbacks.values()), {}
        for callback in callbacks:
            callback()

    @contextlib.contextmanager
    def calling(self, callback: Callable[[], None]) -> Iterator[None]:
        """Calls a function, which must be quick, if the answer is cancelled before the block ends."""
        key = object()
        with self._lock:
            late = self.cancelled
            if not late:
                self._callbacks[key] = callback
        if late:
            callback()
        try:
            yield
        finally:
            with self._lock:
                self._callbacks.pop(key, None)

    def check(self) -> None:
        """Raises CANCELLED if the answer is no longer wanted."""
        if self.cancelled:
            raise cancelled()


def cancelled() -> ServingError:
    return ServingError(grpc.StatusCode.CANCELLED, "The request was cancelled")
