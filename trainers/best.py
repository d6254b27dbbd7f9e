"""The lowest KL with any method: the exact gradient, which enumerates the whole space at each update."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import tf_wcd
from trainers import paper
from trainers.records import Piece, Records, work_off
from trainers.settings import Settings
from trainers.small_run import train_and_keep

# Updates: an update enumerates all visible states, so the larger spaces get fewer.
UPDATES = {8: 20_000, 9: 20_000, 10: 20_000, 11: 20_000, 12: 10_000, 15: 3_000, 16: 2_000}
LEARNING_RATES = (0.3, 0.1, 0.03)
VARIANCES = (1.0, 0.1)
BEST_SEED = 300
LOOKS = 100


def runs_of(problem: str) -> list[Settings]:
    """The settings that are tried on a problem."""
    visible = tf_wcd.datasets.load(problem)[0].shape[1]
    return [
        Settings(problem, "exact", 1, 5 * visible, rate, variance, "linear", paper.MOMENTUM, UPDATES[visible])
        for rate, variance in itertools.product(LEARNING_RATES, VARIANCES)
    ]


def run_best(
    folder: Path, problems: Sequence[str] = paper.PROBLEMS, verbose: bool = True, deadline: float = float("inf")
) -> int:
    """Runs all problems that no other process is at; returns how many are left."""

    def piece(problem: str) -> Piece:
        records = Records(folder / "best" / f"{problem}.jsonl")
        return Piece(
            folder / "checkpoints" / f"{problem}-best.lock",
            lambda: bool(records.read()),
            lambda: train_and_keep(
                runs_of(problem),
                lambda done: records.append(*done),
                *(BEST_SEED, LOOKS, folder / "checkpoints", f"{problem}, exact gradient", verbose),
            ),
        )

    return work_off(map(piece, problems), deadline)
