"""How times are taken: all cases in turn, again and again, and medians compared within one run.

The machine is shared and its speed drifts; a ratio of medians of interleaved repetitions drifts far less.
"""

from __future__ import annotations

import gc
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

REPETITIONS = 7
# Worker threads of BLAS and of torch spin for a while after their last work, and would take a core from the next case.
PAUSE = 0.3
Name = TypeVar("Name")


def seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def interleaved(
    cases: Mapping[Name, tuple[Callable[[], Any], float]], repetitions: int = REPETITIONS
) -> dict[Name, float]:
    """Median time of one unit of each case.

    Args:
        cases: name, with the work to time and the number of units that it does.
        repetitions: how often each case is run, after one run to warm up.

    Returns:
        Seconds for one unit, by name.
    """
    for work, _ in cases.values():
        work()
    times: dict[Name, list[float]] = {name: [] for name in cases}
    for _ in range(repetitions):
        for name, (work, units) in cases.items():
            gc.collect()
            time.sleep(PAUSE)
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


def part_row(work: str, ours: float, other: str, theirs: float) -> dict[str, Any]:
    """A line of the table that explains another one: our time over that of a part of the work; nothing is aimed at."""
    return {**row(work, ours, other, theirs, 1.0, at_most=True), "target": "", "met": None}


def limit_row(work: str, value: float, limit: float, what: str) -> dict[str, Any]:
    """A line of the table for a figure of our own that must not be larger than a limit."""
    return {"work": work, "other": what, "ratio": value, "target": f"<= {limit:g}", "met": bool(value <= limit)}


def peak_gigabytes(setup: str, work: str) -> float:
    """Largest resident memory of a process of its own that runs a piece of Python, and then another."""
    # The kernel's mark for this process alone, not that of the parent it was forked from.
    read = "print(next(int(l.split()[1]) for l in open('/proc/self/status') if l.startswith('VmHWM')))"
    result = subprocess.run(
        [sys.executable, "-c", f"{setup}\n{work}\n{read}"], capture_output=True, text=True, check=True
    )
    return int(result.stdout.split()[-1]) / 2**20
