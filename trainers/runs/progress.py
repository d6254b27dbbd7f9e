"""One line of progress for long work: what, how far, how fast, and the time left."""

from __future__ import annotations

import math
import sys
import time
from typing import Any, TextIO

import keras


def duration(seconds: float) -> str:
    """A duration for people.

    Example:

    >>> duration(75), duration(3 * 3600 + 120)
    ('1m15s', '3h02m')
    """
    seconds = int(seconds)
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60:02}s"
    return f"{seconds // 3600}h{seconds % 3600 // 60:02}m"


class ProgressLine(keras.callbacks.Callback):
    """Keeps one line up to date on a terminal; writes one at the beginning and every half minute elsewhere.

    Args:
        title: what is being trained.
        epochs: epochs in all, for the time left.
        updates_per_epoch: for the rate.
        monitor: names of values in the logs to show.
        stream: where to write.
    """

    def __init__(
        self,
        title: str,
        epochs: int,
        updates_per_epoch: int,
        monitor: tuple[str, ...] = ("kl",),
        stream: TextIO | None = None,
    ) -> None:
        super().__init__()
        self.title, self.epochs, self.updates_per_epoch, self.monitor = title, epochs, updates_per_epoch, monitor
        self.stream = stream or sys.stdout
        self._interval = 0.2 if self.stream.isatty() else 30.0
        self._start = time.monotonic()
        self._last = -math.inf  # the first epoch is always shown
        self._first_epoch: int | None = None

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if self._first_epoch is None:
            self._first_epoch, self._start = epoch, time.monotonic()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        now = time.monotonic()
        if now - self._last < self._interval and epoch + 1 < self.epochs:
            return
        self._last = now
        done = epoch + 1 - (self._first_epoch or 0)
        rate = done / max(now - self._start, 1e-9)
        left = duration((self.epochs - epoch - 1) / rate)
        values = " ".join(f"{name} {logs[name]:.4g}" for name in self.monitor if logs and name in logs)
        line = (
            f"{self.title}: {(epoch + 1) / self.epochs:4.0%}, {rate * self.updates_per_epoch:.0f} updates/s, "
            f"{left} left {values}"
        )
        if self.stream.isatty():
            self.stream.write(f"\r\x1b[K{line}" + ("\n" if epoch + 1 == self.epochs else ""))
        else:
            self.stream.write(line + "\n")
        self.stream.flush()
