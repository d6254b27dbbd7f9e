"""Runs on one small problem, those of one shape side by side, with the exact KL evaluated along the way."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import keras
import numpy as np

import tf_wcd
from tf_wcd import negative_phases
from tf_wcd.ensemble import RBMEnsemble
from tf_wcd.evaluation.exact import kl_from_log_prob, log_prob
from trainers.runs.progress import ProgressLine
from trainers.runs.resumable import Plan, Seen, train
from trainers.settings.runs import SmallRun, fingerprint

CURVE_POINTS = 50
# The states that are held out are the same for all runs of a problem and fraction.
SPLIT_SEED = 2026


class Task(NamedTuple):
    """States in the values of spin units, and their target probabilities; the first ``training`` are trained on."""

    spins: np.ndarray
    probabilities: np.ndarray
    order: np.ndarray
    training: int


class Result(NamedTuple):
    """What runs side by side gave.

    Attributes:
        records: one for each run.
        log_probabilities: those of all states at each run's lowest KL.
        ensemble: the models at the end.
        forget: removes the checkpoints: to be called when the records are kept.
    """

    records: list[dict[str, Any]]
    log_probabilities: np.ndarray
    ensemble: RBMEnsemble
    forget: Callable[[], None]


def load_task(problem: str, fraction: float = 1.0) -> Task:
    """A small problem with a part of its states to train on, the rest to test on.

    Args:
        problem: its name.
        fraction: part of the states that is trained on.

    Returns:
        The task; ``order`` has each row's number in `tf_wcd.datasets.load`. Probabilities are as there: those of the
        training part sum to one only if it is the whole.
    """
    states, probabilities = tf_wcd.datasets.load(problem)
    count = len(states)
    training = count if fraction == 1 else round(fraction * count)
    order = np.arange(count)
    if training < count:
        order = np.random.default_rng(SPLIT_SEED).permutation(count)
    return Task(2 * states[order] - 1, probabilities[order], order, training)


class KLAlongTraining(Seen):
    """Computes the exact KL of every member at the end of each epoch, and keeps the distribution at the lowest one."""

    def __init__(self, task: Task, members: int) -> None:
        super().__init__()
        self.task = task
        target = task.probabilities[: task.training]
        self.target = target / target.sum()
        self.curve: list[np.ndarray] = []
        self.best = np.full(members, np.inf)
        self.best_epoch = np.zeros(members, int)
        self.best_log_probabilities = np.zeros((members, len(task.spins)), "float32")

    def on_train_begin(self, logs: Any = None) -> None:
        if not self.curve:
            self._evaluate(-1)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._evaluate(epoch)
        if logs is not None:
            logs.update(kl=float(np.min(self.curve[-1])), median_kl=float(np.median(self.curve[-1])))

    def _evaluate(self, epoch: int) -> None:
        log_probabilities = log_prob(self.model, self.task.spins)
        trained_on = log_probabilities[:, : self.task.training]
        if self.task.training < len(self.task.spins):
            # What a part of the states can tell: their probabilities relative to each other.
            trained_on = trained_on - np.logaddexp.reduce(trained_on, axis=1, keepdims=True)
        kl = kl_from_log_prob(trained_on, self.target)
        kl = np.where(np.isfinite(kl), kl, np.inf)
        self.curve.append(kl)
        better = kl < self.best
        self.best[better] = kl[better]
        self.best_epoch[better] = epoch + 1
        self.best_log_probabilities[better] = log_probabilities[better]

    def state(self) -> dict[str, np.ndarray]:
        return {
            "curve": np.array(self.curve),
            "best": self.best,
            "best_epoch": self.best_epoch,
            "best_log_probabilities": self.best_log_probabilities,
        }

    def restore(self, state: dict[str, np.ndarray], model: Any) -> None:
        self.curve = list(state["curve"])
        self.best, self.best_epoch = state["best"], state["best_epoch"]
        self.best_log_probabilities = state["best_log_probabilities"]


@dataclasses.dataclass(frozen=True)
class Training:
    """How runs are trained, whatever their settings.

    Attributes:
        seed: of the ensemble.
        evaluations: how often the KL is computed, evenly along the run.
        checkpoints: folder for work in progress; the same runs go on from there after an interruption. ``None`` to keep
            none.
        title: what the progress line says.
        verbose: whether there is a progress line.
        plan: how the runs are kept and shared.
        callbacks: others.
    """

    seed: int
    evaluations: int
    checkpoints: Path | None = None
    title: str = ""
    verbose: bool = True
    plan: Plan = dataclasses.field(default_factory=Plan)
    callbacks: tuple[keras.callbacks.Callback, ...] = ()


def train_group(runs: Sequence[SmallRun], training: Training) -> Result:
    """Trains runs that share their shape as one ensemble.

    Args:
        runs: their settings, equal but for the learning rate and the variance (all may be equal: then they differ by
            their random numbers alone).
        training: how.

    Returns:
        One record for each run, in their order, and more.
    """
    first = runs[0]
    if any(run.shared != first.shared for run in runs):
        different = next(run for run in runs if run.shared != first.shared)
        raise ValueError(
            f"Runs side by side may differ in their learning rate and variance only. Received: {first} and {different}"
        )
    task = load_task(first.problem, first.fraction)
    # Never fewer updates than asked for, but possibly a few more.
    updates_per_epoch = -(-first.updates // training.evaluations)
    epochs = -(-first.updates // updates_per_epoch)
    kl = KLAlongTraining(task, len(runs))

    def fit(ensemble: RBMEnsemble, first_epoch: int, callbacks: list[keras.callbacks.Callback]) -> None:
        ensemble.fit(
            task.spins[: task.training],
            sample_weight=task.probabilities[: task.training],
            batch_size=first.batch_size or task.training,
            steps_per_epoch=updates_per_epoch,
            epochs=epochs,
            initial_epoch=first_epoch,
            callbacks=callbacks,
            verbose=0,
        )

    callbacks = list(training.callbacks)
    if training.verbose and training.plan.workers.chief:
        callbacks.append(ProgressLine(training.title, epochs, updates_per_epoch * len(runs), ("kl", "median_kl")))
    facts = {"runs": [run.as_dict() for run in runs], "seed": training.seed, "epochs": epochs}
    stem = training.checkpoints and training.checkpoints / fingerprint(**facts, updates=updates_per_epoch)
    trained = train(lambda: build(runs, training.seed), fit, stem, training.plan, kl, callbacks)
    records = _records(runs, training.seed, kl, updates_per_epoch, trained.seconds)
    return Result(records, kl.best_log_probabilities, trained.model, trained.forget)


def _records(
    runs: Sequence[SmallRun], seed: int, kl: KLAlongTraining, updates_per_epoch: int, seconds: float
) -> list[dict[str, Any]]:
    curve = np.array(kl.curve)
    points = np.unique(np.round(np.linspace(0, len(curve) - 1, CURVE_POINTS)).astype(int))
    return [
        {
            **run.as_dict(),
            "seed": seed,
            "member": i,
            "members": len(runs),
            "min_kl": _round(kl.best[i]),
            "min_at": int(kl.best_epoch[i]) * updates_per_epoch,
            "final_kl": _round(curve[-1, i]),
            "looks": len(curve) - 1,  # the name that evaluations have had in records from the beginning
            "curve": [[int(p) * updates_per_epoch, _round(curve[p, i])] for p in points],
            "seconds": round(seconds / len(runs), 2),
            "date": datetime.date.today().isoformat(),
        }
        for i, run in enumerate(runs)
    ]


def build(runs: Sequence[SmallRun], seed: int) -> RBMEnsemble:
    """The ensemble of these runs, compiled."""
    first = runs[0]
    ensemble = RBMEnsemble(
        first.hidden,
        learning_rates=[run.learning_rate for run in runs],
        initial_stddev=[float(np.sqrt(run.variance)) for run in runs],
        visible_type="spin",
        hidden_type="spin",
        negative_phase=_phase_of(first),
        seed=seed,
    )
    rate: Any = 1.0
    if first.schedule == "linear":
        rate = keras.optimizers.schedules.PolynomialDecay(1.0, first.updates, 0.0)
    # The members' own rates multiply their gradients; SGD's rate, and with it the decay, is that of the schedule.
    ensemble.compile(keras.optimizers.SGD(rate, momentum=first.momentum, weight_decay=first.weight_decay or None))
    return ensemble


def _phase_of(run: SmallRun) -> negative_phases.NegativePhase:
    if run.negative_phase == "exact":
        return negative_phases.get("exact")  # takes no Gibbs steps
    observers = 0 if run.negative_phase == "jpcd" else None  # nobody asks for a running log Z here
    return negative_phases.get(run.negative_phase, gibbs_steps=run.gibbs_steps, observers=observers)


def side_by_side(runs: Sequence[SmallRun], at_once: int = 30) -> list[list[SmallRun]]:
    """The runs in groups that can be trained side by side, of limited size, so that not much is lost with one."""
    shapes: dict[Any, list[SmallRun]] = {}
    for run in runs:
        shapes.setdefault(run.shared, []).append(run)
    return [group[i : i + at_once] for group in shapes.values() for i in range(0, len(group), at_once)]


Keep = Callable[[list[dict[str, Any]]], Any]
Known = Callable[[], Mapping[SmallRun, float | None]]


def train_and_keep(group: Sequence[SmallRun], keep: Keep, training: Training) -> list[dict[str, Any]]:
    """`train_group`, whose checkpoints go once its records have been handed over."""
    done = train_group(group, training)
    keep(done.records)
    done.forget()
    return done.records


class Trainer(Protocol):
    """What trains the runs of a selection: `train_all`, or `trainers.studies.search.train_with_tuner`."""

    def __call__(self, runs: Sequence[SmallRun], keep: Keep, training: Training, known: Known) -> None:
        """Trains those of the runs that are not known, and hands over their records as they come.

        Args:
            runs: all runs of a round.
            keep: takes the records of a group of runs.
            training: how.
            known: reads the KL of the runs that are done, by anybody.
        """


def train_all(runs: Sequence[SmallRun], keep: Keep, training: Training, known: Known = dict) -> None:
    """Trains all runs that are not known, those of one shape side by side; see `Trainer`."""
    have = known()
    for group in side_by_side([run for run in runs if run not in have]):
        train_and_keep(group, keep, training)


def _round(value: float) -> float | None:
    """Five significant digits; None for a run that has diverged, as JSON has no infinity."""
    return float(f"{value:.5g}") if np.isfinite(value) else None
