"""The best likelihood of each set of images: long runs, each with an interval that can be defended."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras

import tf_wcd
from trainers.runs import deep_record_runs, record_runs
from trainers.runs.image_likelihood import likelihood
from trainers.runs.image_sets import Images
from trainers.runs.resumable import Trained
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


def deep_records(folder: Path) -> Records:
    """The records of Deep Belief Networks, on test images."""
    return Records(folder / "records" / "deep.jsonl")


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
    trained = record_runs.train(run, images.train, seed, _checkpoints(work), work.plan(), work.verbose)
    seen = record_runs.images_of_epoch(run, images.train, 0, seed)
    other = images.valid if trial else images.test
    record = {
        "settings": run.as_dict(),
        "seed": seed,
        "images": "validation" if trial else "test",
        **likelihood(trained.model, seen, other, annealing),
        **_circumstances(trained),
    }
    (trials if trial else records)(work.large).append(record)
    if not trial:
        trained.model.save(_model_path(run, work))
    trained.forget()
    return record


def run_deep(run: RecordRun, work: Work, load: Load = record_runs.load) -> dict[str, Any]:
    """Trains a second layer on the model of a record, which is trained again if its file is gone; keeps the record.

    Args:
        run: settings of the second layer.
        work: protocol, folder and the rest.
        load: reads the images.
    """
    protocol = work.protocol.records
    first = protocol.runs[run.data]
    keras.utils.clear_session(free_memory=True)
    images = load(run, 0)
    path = _model_path(first, work)
    if not path.exists():
        record_runs.train(first, images.train, protocol.seed, _checkpoints(work), work.plan(), work.verbose).model.save(
            path
        )
    below = keras.models.load_model(path)
    trained = deep_record_runs.train_top(
        run, below, images.train, protocol.seed, _checkpoints(work), work.plan(), work.verbose
    )
    dbn = tf_wcd.DBN([below, trained.model])
    dbn.build((None, below.num_visible))
    record = {
        "settings": run.as_dict(),
        "below": first.as_dict(),
        "seed": protocol.seed,
        "images": "test",
        **deep_record_runs.bound(dbn, images.test, protocol.annealing),
        **_circumstances(trained),
    }
    deep_records(work.large).append(record)
    dbn.save(path.with_stem(f"{path.stem}-dbn"))
    trained.forget()
    return record


def _circumstances(trained: Trained) -> dict[str, Any]:
    return {
        "training_seconds": round(trained.seconds),
        "cores": os.cpu_count(),
        "date": datetime.date.today().isoformat(),
    }


def _checkpoints(work: Work) -> Path:
    return work.large / "checkpoints"


def _model_path(run: RecordRun, work: Work) -> Path:
    path = _checkpoints(work) / f"record-{run.data}.keras"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def run(work: Work, deadline: float = float("inf"), load: Load = record_runs.load) -> int:
    """Runs all that is not done yet; returns how many pieces of work are left.

    Args:
        work: what to work on.
        deadline: time (as of `time.time`) after which nothing is begun.
        load: reads the images.
    """

    def piece(name: str, run: RecordRun, done: Records, make: Callable[..., Any]) -> Piece:
        return Piece(
            _checkpoints(work) / f"record-{name}.lock",
            lambda: any(RecordRun.from_record(record["settings"]) == run for record in done.read()),
            lambda: make(run, work, load=load),
        )

    protocol = work.protocol.records
    pieces = [piece(run.data, run, records(work.large), run_one) for run in protocol.runs.values()]
    pieces += [piece(f"{run.data}-dbn", run, deep_records(work.large), run_deep) for run in protocol.deep_runs.values()]
    return work_off(pieces, deadline)
