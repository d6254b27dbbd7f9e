"""``wcd reproduce``: the paper's experiments, resumable, in as many processes as there are cores."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from trainers import paper
from trainers.progress import duration
from trainers.team import in_a_team

# Exit code of a process that has left some of its work to others or for later.
WORK_LEFT = 3
STAGES = ("table", "best", "generalisation", "large", "report")


class Work(NamedTuple):
    """What to work on.

    Attributes:
        folder: where results go; finished runs there are not run again.
        problems: small problems.
        methods: columns of the table.
        full: the paper's whole grid instead of successive halving.
        tuner: let KerasTuner run the selection.
        minutes: begin no further piece of work after so long; 0 for no limit.
    """

    folder: Path
    problems: Sequence[str] = paper.PROBLEMS
    methods: Sequence[str] = tuple(paper.METHODS)
    full: bool = False
    tuner: bool = False
    minutes: float = 0.0


def run_stage(stage: str, work: Work, look_only: bool = False) -> int:
    """Runs one stage in this process, or only looks at it; returns how many pieces of work are left."""
    deadline = time.time() + 60 * work.minutes if work.minutes else float("inf")
    if look_only:
        deadline = 0.0
    if stage == "table":
        from trainers.small_run import train_all
        from trainers.table import run_table
        from trainers.tuning import train_with_tuner

        train = train_with_tuner if work.tuner else train_all
        return run_table(work.folder / "small", work.problems, work.methods, work.full, deadline=deadline, train=train)
    if stage == "best":
        from trainers.best import run_best

        return run_best(work.folder / "small", work.problems, deadline=deadline)
    if stage == "generalisation":
        from trainers.generalisation import run_generalisation

        return run_generalisation(work.folder / "small", work.problems, deadline=deadline)
    if stage == "large":
        from trainers.large_sets import run_large_sets, run_variants

        folder = work.folder / "large"
        return run_large_sets(folder, deadline=deadline) + run_variants(folder, deadline)
    from trainers.report import write_report

    print(f"Report: {write_report(work.folder)}")
    return 0


def check_names(what: str, names: Sequence[str], known: Sequence[str]) -> None:
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"`--{what}` must be among {', '.join(known)}. Received: {', '.join(unknown)}")


def run(stages: Sequence[str], work: Work, jobs: int = 1) -> int:
    """Runs stages one after the other, each in several processes.

    Args:
        stages: among `STAGES`.
        work: what to work on.
        jobs: processes side by side.

    Returns:
        The number of pieces of work left.
    """
    check_names("stage", stages, STAGES)
    check_names("problems", work.problems, paper.PROBLEMS)
    check_names("methods", work.methods, tuple(paper.METHODS))
    if in_a_team():
        if tuple(stages) != ("table",) or not work.tuner or work.minutes:
            raise ValueError(
                "A team (KERASTUNER_TUNER_ID is set) works on --stage=table with --tuner, and without --minutes. "
                f"Received: --stage={','.join(stages)} --tuner={work.tuner} --minutes={work.minutes:g}"
            )
        jobs = 1
    left = 0
    for stage in stages:
        start = time.time()
        # The image sets use all cores in one process.
        side_by_side = jobs > 1 and stage not in ("report", "large")
        left_here = _run_jobs(stage, work, jobs) if side_by_side else run_stage(stage, work)
        print(f"{stage}: {left_here} pieces of work left, {duration(time.time() - start)}", flush=True)
        left += left_here
    return left


def _run_jobs(stage: str, work: Work, jobs: int) -> int:
    command = [
        *(sys.executable, "-m", "trainers.cli", "reproduce", f"--stage={stage}", f"--out={work.folder}", "--jobs=1"),
        *(f"--problems={','.join(work.problems)}", f"--methods={','.join(work.methods)}"),
        *(f"--minutes={work.minutes}", f"--full_grid={str(work.full).lower()}", f"--tuner={str(work.tuner).lower()}"),
    ]
    # Small models gain nothing from several threads: each process keeps to one.
    environment = {**os.environ, "TF_NUM_INTRAOP_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    # In sessions of their own: Ctrl-C reaches this process alone, which tells each of them once.
    workers = [subprocess.Popen(command, env=environment, start_new_session=True) for _ in range(jobs)]
    try:
        codes = [worker.wait() for worker in workers]
    except KeyboardInterrupt:
        for worker in workers:
            worker.send_signal(signal.SIGINT)
        for worker in workers:
            worker.wait()  # until it has saved its work
        raise
    finally:
        for worker in workers:
            worker.terminate()
    failed = [code for code in codes if code not in (0, WORK_LEFT)]
    if failed:
        raise RuntimeError(f"{len(failed)} of {jobs} processes failed, see above. Exit codes: {failed}")
    return run_stage(stage, work, look_only=True) if any(codes) else 0
