"""How times are taken: all cases in turn, again and again, and medians compared within one run.

The machine is shared and its speed drifts; a ratio of medians of interleaved repetitions drifts far less.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

REPETITIONS = 7


def seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def interleaved(
    cases: Mapping[str, tuple[Callable[[], Any], float]], repetitions: int = REPETITIONS
) -> dict[str, float]:
    """Median time of one unit of each case.

    Args:
        cases: name, with the work to time and the number of units that it does.
        repetitions: how often each case is run, after one run to warm up.

    Returns:
        Seconds for one unit, by name.
    """
    for work, _ in cases.values():
        work()
    times: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(repetitions):
        for name, (work, units) in cases.items():
            gc.collect()
            times[name].append(seconds(work) / units)
    return {name: statistics.median(values) for name, values in times.items()}


def row(work: str, ours: float, other: str, theirs: float, target: float, at_most: bool = False) -> dict[str, Any]:
    """A line of the table: how many times faster than a peer (or, with ``at_most``, slower than a floor) we are.

    Args:
        work: what was done.
        ours: our seconds.
        other: name of the peer or the floor.
        theirs: its seconds.
        target: the ratio aimed at.
        at_most: the ratio is our time over the other's, and must not be larger than the target.
    """
    ratio = ours / theirs if at_most else theirs / ours
    return {
        "work": work,
        "ours_us": ours * 1e6,
        "other": other,
        "other_us": theirs * 1e6,
        "ratio": ratio,
        "target": f"{'<=' if at_most else '>='} {target:g}",
        "met": bool(ratio <= target if at_most else ratio >= target),
    }
