"""Selection with KerasTuner: what cannot be trained side by side becomes its trials.

Learning rates, variances and seeds are members of one ensemble. Numbers of hidden units, schedules and momenta change
its shape: each shape is a trial of a grid search, and a trial trains a whole ensemble.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from trainers.settings import Settings, fingerprint
from trainers.small_run import side_by_side, train_and_keep


def train_with_tuner(
    runs: Sequence[Settings],
    keep: Callable[[list[dict[str, Any]]], None],
    seed: int,
    looks: int,
    checkpoints: Path | None = None,
    title: str = "",
    verbose: bool = True,
) -> None:
    """As `trainers.small_run.train_all`, with KerasTuner in charge of the groups.

    The tuner's own state lies beside the checkpoints, so that an interrupted search goes on with the trials left.
    """
    try:
        import keras_tuner
    except ImportError as error:
        raise ValueError("KerasTuner is not installed: pip install 'tf-wcd[tune]'") from error

    groups = side_by_side(runs)
    if not groups:
        return

    class EnsembleTuner(keras_tuner.engine.base_tuner.BaseTuner):
        """Each trial trains one group; its objective is the lowest KL in it."""

        def run_trial(self, trial: Any, *arguments: Any, **options: Any) -> float:
            group = groups[trial.hyperparameters.get("group")]
            records = train_and_keep(group, keep, seed, looks, checkpoints, title, verbose)
            return min((r["min_kl"] for r in records if r["min_kl"] is not None), default=float("inf"))

    space = keras_tuner.HyperParameters()
    space.Choice("group", list(range(len(groups))))
    oracle = keras_tuner.oracles.GridSearchOracle(
        objective=keras_tuner.Objective("default_objective", "min"), max_trials=len(groups), hyperparameters=space
    )
    EnsembleTuner(
        oracle,
        directory=str((checkpoints or Path("checkpoints")) / "tuner"),
        project_name=fingerprint(runs=[run.as_dict() for run in runs], seed=seed, looks=looks),
    ).search(verbose=0)
