"""The lowest KL with any method: the exact gradient, which enumerates the whole space at each update."""

from __future__ import annotations

import itertools
from pathlib import Path

import tf_wcd
from trainers.runs.small_problems import Training, train_and_keep
from trainers.settings import paper
from trainers.settings.protocol import BestProtocol
from trainers.settings.runs import SmallRun
from trainers.store.records import Records
from trainers.store.sharing import Piece, work_off
from trainers.studies.work import Work


def runs_of(problem: str, protocol: BestProtocol) -> list[SmallRun]:
    """The settings that are tried on a problem."""
    visible = tf_wcd.datasets.load(problem)[0].shape[1]
    return [
        SmallRun(problem, "exact", 1, 5 * visible, rate, variance, "linear", paper.MOMENTUM, protocol.updates[visible])
        for rate, variance in itertools.product(protocol.learning_rates, protocol.variances)
    ]


def records_of(problem: str, folder: Path) -> Records:
    """The records of a problem's runs."""
    return Records(folder / "best" / f"{problem}.jsonl")


def run(work: Work, deadline: float = float("inf")) -> int:
    """Runs all problems that no other process is at; returns how many are left."""
    protocol = work.protocol.best

    def piece(problem: str) -> Piece:
        records = records_of(problem, work.small)

        def train() -> None:
            training = Training(
                protocol.seed,
                protocol.evaluations,
                work.small / "checkpoints",
                f"{problem}, exact gradient",
                work.verbose,
                work.plan(),
            )
            train_and_keep(runs_of(problem, protocol), lambda done: records.append(*done), training)

        return Piece(work.small / "checkpoints" / f"{problem}-best.lock", lambda: bool(records.read()), train)

    return work_off(map(piece, work.problems), deadline)
