"""How far the steps of each method are from the exact gradient, along its own training on small problems."""

from __future__ import annotations

import datetime
import itertools
import time
from pathlib import Path
from typing import Any

from tf_wcd import evaluation
from tf_wcd.evaluation.exact import kl_divergence
from trainers.runs.small_problems import build, load_task
from trainers.settings.columns import COLUMNS
from trainers.settings.runs import SmallRun
from trainers.store.records import Records
from trainers.store.sharing import Piece, work_off
from trainers.studies.table import Cell
from trainers.studies.work import Work


def records_of(problem: str, method: str, folder: Path) -> Records:
    """The record of a method on a problem: one line, with a list of moments."""
    return Records(folder / "gradients" / f"{problem}-{method}.jsonl")


def settings_of(problem: str, method: str, folder: Path) -> SmallRun | None:
    """Those of the cell of the table; None if it has not been run."""
    return Cell(problem, COLUMNS[method], "paper").settings_used(folder)


def run_one(run: SmallRun, method: str, work: Work) -> dict[str, Any]:
    """Trains one model, and draws steps of its own negative phase at moments of the training."""
    protocol = work.protocol.gradients
    task, begun = load_task(run.problem), time.monotonic()
    ensemble = build([run], protocol.seed)
    moments, done = [], 0
    for updates in protocol.updates(run.updates):
        if updates > done:
            ensemble.fit(
                task.spins,
                sample_weight=task.probabilities,
                batch_size=run.batch_size or len(task.spins),
                steps_per_epoch=updates - done,
                verbose=0,
            )
            done = updates
        rbm = ensemble.member(0)
        error = evaluation.gradient_error(
            rbm,
            task.spins,
            {method: rbm.negative_phase},
            sample_weight=task.probabilities,
            batch_size=run.batch_size or None,
            repetitions=protocol.repetitions,
            seed=protocol.seed,
        )[method]
        kl = kl_divergence(rbm, task.spins, task.probabilities)
        measures = {"kl": kl, "bias": error.bias, "bias_error": error.bias_error, "deviation": error.deviation,
                    "cosine": error.cosine}  # fmt: skip
        moments.append({"updates": updates, **{name: float(f"{value:.4g}") for name, value in measures.items()}})
    return {
        **run.as_dict(),
        "method": method,
        "seed": protocol.seed,
        "moments": moments,
        "seconds": round(time.monotonic() - begun, 1),
        "date": datetime.date.today().isoformat(),
    }


def run(work: Work, deadline: float = float("inf")) -> int:
    """Runs all that no other process is at and whose cell of the table is there; returns how many are left."""
    protocol = work.protocol.gradients

    def piece(problem: str, method: str) -> Piece:
        records, settings = records_of(problem, method, work.small), settings_of(problem, method, work.small)

        def train() -> None:
            if settings is None:
                raise ValueError(
                    f"Run the cell of the table first: `wcd reproduce --stage=table --problems={problem} "
                    f"--methods={method}`. Received: no record of it"
                )
            if work.verbose:
                print(f"{problem} {method}: steps against the exact gradient", flush=True)
            records.append(run_one(settings, method, work))

        lock = work.small / "checkpoints" / f"{problem}-{method}-gradients.lock"
        return Piece(lock, lambda: bool(records.read()), train)

    pairs = itertools.product(protocol.problems, protocol.methods)
    wanted = [(p, m) for p, m in pairs if p in work.problems and m in work.methods]
    return work_off(itertools.starmap(piece, wanted), deadline)
