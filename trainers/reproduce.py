"""``wcd reproduce``: the paper's experiments, resumable, in as many processes as there are cores."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from trainers import paper

STAGES = ("table", "best", "generalisation", "large", "report")


def run_stage(
    stage: str, folder: Path, problems: Sequence[str], methods: Sequence[str], full: bool, deadline: float
) -> int:
    """Runs one stage in this process; returns how many pieces of work are left."""
    if stage == "table":
        from trainers.table import run_table

        return run_table(folder / "small", problems, methods, full, deadline=deadline)
    if stage == "best":
        from trainers.best import run_best

        return run_best(folder / "small", problems, deadline=deadline)
    if stage == "generalisation":
        from trainers.generalisation import run_generalisation

        return run_generalisation(folder / "small", problems, deadline=deadline)
    if stage == "large":
        from trainers.large_sets import run_large_sets

        return run_large_sets(folder / "large", deadline=deadline)
    from trainers.report import write_report

    print(f"Report: {write_report(folder)}")
    return 0


def check_names(what: str, names: Sequence[str], known: Sequence[str]) -> None:
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"`--{what}` must be among {', '.join(known)}. Received: {', '.join(unknown)}")


def run(
    stages: Sequence[str],
    folder: str | Path,
    problems: Sequence[str] = paper.PROBLEMS,
    methods: Sequence[str] = tuple(paper.METHODS),
    jobs: int = 1,
    minutes: float = 0.0,
    full: bool = False,
) -> int:
    """Runs stages one after the other, each in several processes.

    Args:
        stages: among `STAGES`.
        folder: where results go; finished runs there are not run again.
        problems: small problems to work on.
        methods: columns of the table to work on.
        jobs: processes side by side.
        minutes: begin no further piece of work after so long; 0 for no limit.
        full: the paper's whole grid instead of successive halving.

    Returns:
        The number of pieces of work left.
    """
    check_names("stage", stages, STAGES)
    check_names("problems", problems, paper.PROBLEMS)
    check_names("methods", methods, tuple(paper.METHODS))
    folder = Path(folder)
    deadline = time.time() + 60 * minutes if minutes else float("inf")
    left = 0
    for stage in stages:
        start = time.time()
        if jobs == 1 or stage in ("report", "large"):
            left_here = run_stage(stage, folder, problems, methods, full, deadline)
        else:
            left_here = _run_jobs(stage, folder, problems, methods, jobs, minutes, full)
        print(f"{stage}: {left_here} pieces of work left, {time.time() - start:.0f} s", flush=True)
        left += left_here
    return left


def _run_jobs(
    stage: str, folder: Path, problems: Sequence[str], methods: Sequence[str], jobs: int, minutes: float, full: bool
) -> int:
    command = [
        *(sys.executable, "-m", "trainers.cli", "reproduce", f"--stage={stage}", f"--out={folder}", "--jobs=1"),
        *(f"--problems={','.join(problems)}", f"--methods={','.join(methods)}", f"--minutes={minutes}"),
        f"--full_grid={str(full).lower()}",
    ]
    # Small models gain nothing from several threads: each process keeps to one.
    environment = {**os.environ, "TF_NUM_INTRAOP_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    workers = [subprocess.Popen(command, env=environment) for _ in range(jobs)]
    try:
        return max(worker.wait() for worker in workers)
    finally:
        for worker in workers:
            worker.terminate()
