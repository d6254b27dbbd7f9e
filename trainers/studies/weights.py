"""Weights that are right, on the small problems: P / q of reconstructions, and P of the examples themselves.

One recipe for all problems; the paper's best figures are what it is compared with.
"""

from __future__ import annotations

from pathlib import Path

import tf_wcd
from trainers.runs.small_problems import Training, train_and_keep
from trainers.settings.weights_protocol import Recipe
from trainers.store.records import Records
from trainers.store.sharing import Piece, work_off
from trainers.studies.work import Work


def records_of(recipe: Recipe, folder: Path) -> Records:
    """The records of a recipe's runs."""
    return Records(folder / "weights" / f"{recipe.problem}-{recipe.method}.jsonl")


def run(work: Work, deadline: float = float("inf")) -> int:
    """Trains all recipes that no other process is at; returns how many are left.

    Args:
        work: what to work on.
        deadline: time (as of `time.time`) after which none is begun.
    """
    protocol = work.protocol.weights

    def piece(recipe: Recipe) -> Piece:
        records = records_of(recipe, work.small)

        def train() -> None:
            training = Training(
                protocol.seed,
                protocol.evaluations,
                work.small / "checkpoints",
                f"{recipe.problem} {recipe.method}, {protocol.seeds} seeds",
                work.verbose,
                work.plan(),
            )
            visible = tf_wcd.datasets.load(recipe.problem)[0].shape[1]
            runs = [recipe.run(visible)] * protocol.seeds
            train_and_keep(runs, lambda done: records.append(*done), training)

        lock = work.small / "checkpoints" / f"{recipe.problem}-{recipe.method}-weights.lock"
        return Piece(lock, lambda: len(records.read()) >= protocol.seeds, train)

    return work_off((piece(recipe) for recipe in protocol.recipes if recipe.problem in work.problems), deadline)
