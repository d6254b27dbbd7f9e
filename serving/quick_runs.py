"""Which runs end so soon by themselves that nobody needs to stop them."""

from __future__ import annotations

from collections.abc import Hashable

QUICK, SLOW = 0.025, 0.1  # seconds: a run that took no longer, and one that took so long that it is not quick any more


class QuickRuns:
    """Learns from the times of runs.

    A run is expected to be quick if one of the same kind was that had as many rows at least, and a similar number of
    steps, up to a factor of two.

    Example:

    >>> runs = QuickRuns()
    >>> runs.record("gibbs", rows=10, steps=100, seconds=0.003)
    >>> runs.expected("gibbs", rows=5, steps=100), runs.expected("gibbs", rows=5, steps=1000)
    (True, False)
    """

    def __init__(self) -> None:
        self._rows: dict[tuple[Hashable, int], int] = {}

    def expected(self, kind: Hashable, rows: int, steps: int) -> bool:
        """Whether a run will be quick."""
        return rows <= self._rows.get((kind, steps.bit_length()), -1)

    def record(self, kind: Hashable, rows: int, steps: int, seconds: float) -> None:
        """Learns from a run that has ended by itself."""
        key = kind, steps.bit_length()
        if seconds <= QUICK:
            self._rows[key] = max(rows, self._rows.get(key, 0))
        elif seconds > SLOW and rows <= self._rows.get(key, -1):
            self._rows[key] = rows - 1
