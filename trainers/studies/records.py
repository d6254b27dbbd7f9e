"""The best likelihood of each set of images: long runs, each with an interval that can be defended."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras

from trainers.runs import record_runs
from trainers.runs.image_sets import Images
from trainers.settings.record_protocol import RecordRun
from trainers.store.records import Records
from trainers.store.sharing import Piece, work_off
from trainers.studies.work import Work

Load = Callable[[RecordRun, int], Images]


def records(folder: Path) -> Records:
    """The records, on test images."""
    return Records(folder / "records" / "runs.jsonl")


def trials(folder: Path) -> Records:
    """Trials that settings were chosen by, on validation images."""
    return Records(folder / "records" / "trials.jsonl")


def run_one(run: RecordRun, work: Work, trial: bool = False, load: Load = record_runs.load) -> dict[str, Any]:
    """Trains and evaluates one run; keeps and returns its record.

    Args:
        run: its settings.
        work: protocol, folder and the rest.
        trial: whether it is one to choose settings by: with another seed, and on validation images.
        load: reads the images.
    """
    protocol = work.protocol.records
    seed, annealing = protocol.seed, protocol.annealing
    if trial:
        seed, annealing = protocol.trials_seed, protocol.trials_annealing
    keras.utils.clear_session(free_memory=True)
    images = load(run, protocol.held_back if trial else 0)
    trained = record_runs.train(run, images.train, seed, work.large / "checkpoints", work.plan(), work.verbose)
    seen = record_runs.images_of_epoch(run, images.train, 0, seed)
    other = images.valid if trial else images.test
    record = {
        "settings": run.as_dict(),
        "seed": seed,
        "images": "validation" if trial else "test",
        **record_runs.likelihood(trained.model, seen, other, annealing),
        "training_seconds": round(trained.seconds),
        "cores": os.cpu_count(),
        "date": datetime.date.today().isoformat(),
    }
    (trials if trial else records)(work.large).append(record)
    if not trial:
        trained.model.save(_model_path(run, work))
    trained.forget()
    return record


def _model_path(run: RecordRun, work: Work) -> Path:
    path = work.large / "checkpoints" / f"record-{run.data}.keras"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def run(work: Work, deadline: float = float("inf"), load: Load = record_runs.load) -> int:
    """Runs all that is not done yet; returns how many pieces of work are left.

    Args:
        work: what to work on.
        deadline: time (as of `time.time`) after which nothing is begun.
        load: reads the images.
    """
    done = records(work.large)

    def piece(run: RecordRun) -> Piece:
        return Piece(
            work.large / "checkpoints" / f"record-{run.data}.lock",
            lambda: any(RecordRun.from_record(record["settings"]) == run for record in done.read()),
            lambda: run_one(run, work, load=load),
        )

    return work_off(map(piece, work.protocol.records.runs.values()), deadline)
