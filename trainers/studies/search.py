"""Selection with KerasTuner: what cannot be trained side by side becomes its trials.

Learning rates, variances and seeds are members of one ensemble. Numbers of hidden units, schedules and momenta change
its shape: each shape is a trial of a grid search, and a trial trains a whole ensemble. With KerasTuner's environment
variables (`trainers.store.sharing`) many machines share the trials.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainers.runs.small_problems import Keep, Known, Training, side_by_side, train_and_keep
from trainers.settings.runs import SmallRun, fingerprint
from trainers.store.sharing import Searcher, wait_until

# A server of KerasTuner needs a moment to go away; the next one is at the same address.
SECONDS_BETWEEN_SEARCHES = 3.0


def train_with_tuner(
    runs: Sequence[SmallRun], keep: Keep, training: Training, known: Known = dict, searcher: Searcher | None = None
) -> None:
    """As `trainers.runs.small_problems.train_all`, with KerasTuner in charge of the groups.

    The tuner's state lies beside the checkpoints, so that an interrupted search goes on with the trials left.

    Args:
        runs: all runs of a round. Searchers that come at different times find different ones done, but must have the
            same trials.
        keep: takes the records of a group of runs.
        training: how.
        known: reads the KL of the runs that are done, by anybody.
        searcher: this process in a search that several share.
    """
    try:
        import keras_tuner
    except ImportError as error:
        raise ValueError("KerasTuner is not installed: pip install 'tf-wcd[tune]'") from error

    searcher = searcher or Searcher()
    have = known()
    if all(run in have for run in runs):
        return
    groups = side_by_side(runs if searcher.shared else [run for run in runs if run not in have])

    class EnsembleTuner(keras_tuner.engine.base_tuner.BaseTuner):
        """Each trial trains one group; its objective is the lowest KL in it."""

        def run_trial(self, trial: Any, *arguments: Any, **options: Any) -> float:
            group = groups[trial.hyperparameters.get("group")]
            values = dict(known())
            if not all(run in values for run in group):
                try:
                    records = train_and_keep(group, keep, training)
                except Exception as error:  # or KerasTuner would note the trial as invalid, and go on
                    raise keras_tuner.errors.FatalRuntimeError(f"{training.title}: {error}") from error
                values = dict(zip(group, (record["min_kl"] for record in records), strict=True))
            return min((kl for kl in map(values.get, group) if kl is not None), default=float("inf"))

    space = keras_tuner.HyperParameters()
    space.Choice("group", list(range(len(groups))))
    oracle = keras_tuner.oracles.GridSearchOracle(
        objective=keras_tuner.Objective("default_objective", "min"), max_trials=len(groups), hyperparameters=space
    )
    folder = (training.checkpoints or Path("checkpoints")) / "tuner"
    facts = [run.as_dict() for group in groups for run in group]
    name = fingerprint(runs=facts, seed=training.seed, evaluations=training.evaluations)
    served = folder / name / "chief_is_there"
    if searcher.chief:
        time.sleep(SECONDS_BETWEEN_SEARCHES)
        served.parent.mkdir(parents=True, exist_ok=True)
        served.touch()
    elif searcher.shared:
        # Not before: the server of the search before would say that there is nothing left to do.
        wait_until(served.exists, "the chief")
    EnsembleTuner(oracle, directory=str(folder), project_name=name).search(verbose=0)
    if searcher.shared:
        wait_until(lambda: set(runs) <= set(known()), "the trials of others", lambda: len(known()))
