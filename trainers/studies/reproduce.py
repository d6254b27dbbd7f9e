"""The paper's experiments stage by stage, resumable, in as many processes as there are cores.

It needs no TensorFlow: the studies are imported when they run.
"""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

from trainers.settings import paper
from trainers.settings.columns import COLUMNS
from trainers.settings.protocol import PROTOCOLS
from trainers.studies.work import Work

# Exit code of a process that has left some of its work to others or for later.
WORK_LEFT = 3


class Stage(NamedTuple):
    """A stage of the work.

    Attributes:
        module: has the function ``run(work, deadline)``, which returns how many pieces of work are left.
        text: what it does, and how long that takes.
        side_by_side: whether several processes share it; the others use all cores in one.
    """

    module: str
    text: str
    side_by_side: bool = False


STAGES: Mapping[str, Stage] = MappingProxyType(
    {
        "table": Stage(
            "trainers.studies.table",
            "selection and 3 to 10 seeds of 6 methods on 9 problems (about 8 hours on 2 cores)",
            side_by_side=True,
        ),
        "best": Stage("trainers.studies.best", "the lowest KL with any method (20 minutes)", side_by_side=True),
        "generalisation": Stage(
            "trainers.studies.generalisation", "training on a part of the states (30 minutes)", side_by_side=True
        ),
        "large": Stage(
            "trainers.studies.images",
            "weighted and plain persistent chains on four image sets, as the paper runs them (about 14 core-hours)",
            side_by_side=True,
        ),
        "weights": Stage(
            "trainers.studies.weights",
            "balanced weights and k = 0 on the small problems, 5 seeds each (25 minutes)",
            side_by_side=True,
        ),
        "equal_time": Stage(
            "trainers.studies.equal_time",
            "CD, WCD, BCD, PCD, WPCD and JPCD on OCR letters, each for the same time (about 40 minutes)",
        ),
        "records": Stage(
            "trainers.studies.records", "the best likelihood of each image set, with its interval (hours)"
        ),
        "gradients": Stage(
            "trainers.studies.gradients",
            "each method's steps against the exact gradient, along its training (10 minutes)",
            side_by_side=True,
        ),
        "report": Stage("trainers.report.write", "REPORT.md and its figures (2 minutes)"),
    }
)


def run_stage(name: str, work: Work, count_only: bool = False) -> int:
    """Runs one stage in this process, or only counts what is to do; returns how many pieces of work are left."""
    deadline = time.time() + 60 * work.minutes if work.minutes else float("inf")
    study = importlib.import_module(STAGES[name].module)
    return study.run(work, 0.0 if count_only else deadline)


def check_names(what: str, names: Sequence[str], known: Sequence[str]) -> None:
    """Raises ValueError if some of the names are not known."""
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"`--{what}` must be among {', '.join(known)}. Received: {', '.join(unknown)}")


class Job(Protocol):
    """A process of `run`, as `subprocess.Popen` has it."""

    def wait(self) -> int: ...

    def send_signal(self, number: int, /) -> None: ...

    def terminate(self) -> None: ...


def start_job(command: Sequence[str]) -> Job:
    """Starts a process that works on one stage."""
    # Small models gain nothing from several threads: each process keeps to one.
    environment = {**os.environ, "TF_NUM_INTRAOP_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    # In a new session: Ctrl-C reaches this process alone, which tells each job once.
    return subprocess.Popen(command, env=environment, start_new_session=True)


def run(stages: Sequence[str], work: Work, jobs: int = 1, start: Callable[[Sequence[str]], Job] = start_job) -> int:
    """Runs stages one after the other, each in several processes.

    Args:
        stages: names out of `STAGES`.
        work: what to work on.
        jobs: processes side by side.
        start: starts a process.

    Returns:
        The number of pieces of work left.
    """
    check_names("stage", stages, tuple(STAGES))
    check_names("problems", work.problems, paper.PROBLEMS)
    check_names("methods", work.methods, tuple(COLUMNS))
    if work.searcher.shared:
        if tuple(stages) != ("table",) or not work.tuner or work.minutes:
            raise ValueError(
                "A shared search (KERASTUNER_TUNER_ID is set) takes --stage=table with --tuner, and no --minutes. "
                f"Received: --stage={','.join(stages)} --tuner={work.tuner} --minutes={work.minutes:g}"
            )
        jobs = 1
    from trainers.runs.progress import duration

    left = 0
    for name in stages:
        begun = time.time()
        several = jobs > 1 and STAGES[name].side_by_side
        left_here = _run_jobs(name, work, jobs, start) if several else run_stage(name, work)
        print(f"{name}: {left_here} pieces of work left, {duration(time.time() - begun)}", flush=True)
        left += left_here
    return left


def _command(stage: str, work: Work) -> list[str]:
    if PROTOCOLS.get(work.protocol.name) != work.protocol:
        raise ValueError(f"Several jobs take a protocol by its name: {', '.join(PROTOCOLS)}. Received: another one")
    values = {
        "stage": stage,
        "out": work.folder,
        "jobs": 1,
        "problems": ",".join(work.problems),
        "methods": ",".join(work.methods),
        "protocol": work.protocol.name,
        "full_grid": str(work.full).lower(),
        "tuner": str(work.tuner).lower(),
        "minutes": work.minutes,
        "checkpoint_epochs": work.checkpoint_epochs,
    }
    return [sys.executable, "-m", "trainers.cli", "reproduce", *(f"--{name}={value}" for name, value in values.items())]


def _run_jobs(stage: str, work: Work, count: int, start: Callable[[Sequence[str]], Job]) -> int:
    jobs = [start(_command(stage, work)) for _ in range(count)]
    try:
        codes = [job.wait() for job in jobs]
    except KeyboardInterrupt:
        for job in jobs:
            job.send_signal(signal.SIGINT)
        for job in jobs:
            job.wait()  # until it has saved its work
        raise
    finally:
        for job in jobs:
            job.terminate()
    failed = [code for code in codes if code not in (0, WORK_LEFT)]
    if failed:
        raise RuntimeError(f"{len(failed)} of {count} processes failed, see above. Exit codes: {failed}")
    return run_stage(stage, work, count_only=True) if any(codes) else 0
