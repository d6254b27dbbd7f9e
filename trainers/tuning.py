"""Selection with KerasTuner: what cannot be trained side by side becomes its trials.

Learning rates, variances and seeds are members of one ensemble. Numbers of hidden units, schedules and momenta change
its shape: each shape is a trial of a grid search, and a trial trains a whole ensemble. With KerasTuner's environment
variables (`trainers.team`) many machines share the trials.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainers.settings import Settings, fingerprint
from trainers.small_run import side_by_side, train_and_keep
from trainers.team import in_a_team, is_chief, wait_until

# A server of KerasTuner needs a moment to go away; the next one is at the same address.
SECONDS_BETWEEN_SEARCHES = 3.0


def train_with_tuner(
    runs: Sequence[Settings],
    keep: Callable[[list[dict[str, Any]]], None],
    seed: int,
    looks: int,
    checkpoints: Path | None = None,
    title: str = "",
    verbose: bool = True,
    everything: Sequence[Settings] = (),
    known: Callable[[], Mapping[Settings, Any]] | None = None,
) -> None:
    """As `trainers.small_run.train_all`, with KerasTuner in charge of the groups.

    The tuner's own state lies beside the checkpoints, so that an interrupted search goes on with the trials left.

    Args:
        runs: settings that are not done yet.
        keep: takes the records of a group of runs.
        seed: as for `trainers.small_run.train_group`.
        looks: as for `trainers.small_run.train_group`.
        checkpoints: as for `trainers.small_run.train_group`.
        title: as for `trainers.small_run.train_group`.
        verbose: as for `trainers.small_run.train_group`.
        everything: in a team, all settings of the search: those that look at different times find different ones done,
            but must have the same trials.
        known: in a team, reads what is done, by anybody.
    """
    try:
        import keras_tuner
    except ImportError as error:
        raise ValueError("KerasTuner is not installed: pip install 'tf-wcd[tune]'") from error

    team = in_a_team()
    if not runs:
        return
    groups = side_by_side(everything if team else runs)

    def done() -> Mapping[Settings, Any]:
        return known() if team and known else {}

    class EnsembleTuner(keras_tuner.engine.base_tuner.BaseTuner):
        """Each trial trains one group; its objective is the lowest KL in it."""

        def run_trial(self, trial: Any, *arguments: Any, **options: Any) -> float:
            group = groups[trial.hyperparameters.get("group")]
            values = done()
            if not all(run in values for run in group):
                try:
                    records = train_and_keep(group, keep, seed, looks, checkpoints, title, verbose)
                except Exception as error:  # or KerasTuner would note the trial as invalid, and go on
                    raise keras_tuner.errors.FatalRuntimeError(f"{title}: {error}") from error
                values = dict(zip(group, (record["min_kl"] for record in records), strict=True))
            return min((values[run] for run in group if values[run] is not None), default=float("inf"))

    space = keras_tuner.HyperParameters()
    space.Choice("group", list(range(len(groups))))
    oracle = keras_tuner.oracles.GridSearchOracle(
        objective=keras_tuner.Objective("default_objective", "min"), max_trials=len(groups), hyperparameters=space
    )
    folder = (checkpoints or Path("checkpoints")) / "tuner"
    name = fingerprint(runs=[run.as_dict() for group in groups for run in group], seed=seed, looks=looks)
    served = folder / name / "chief_is_there"
    if is_chief():
        time.sleep(SECONDS_BETWEEN_SEARCHES)
        served.parent.mkdir(parents=True, exist_ok=True)
        served.touch()
    elif team:
        # Not before: the server of the search before would say that there is nothing left to do.
        wait_until(served.exists, "the chief")
    EnsembleTuner(oracle, directory=str(folder), project_name=name).search(verbose=0)
    if team:
        wait_until(lambda: set(everything) <= set(done()), "the trials of others", lambda: len(done()))
