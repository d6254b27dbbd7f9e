"""The log-likelihood by the running log Z of the training."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tf_wcd.callbacks.evaluation import EvaluationCallback
from tf_wcd.evaluation.online import online_log_partition

ROWS = 10_000  # examples whose free energies are computed at a time


class OnlineLikelihood(EvaluationCallback):
    """Puts the mean log-likelihood of validation data into the logs, under ``val_log_likelihood``, in nats.

    Also ``val_log_likelihood_error``, the standard error of log Z, which is common to all examples. log Z comes from
    the observers of ``negative_phase="jpcd"``, so that an evaluation costs the free energies of the examples and no
    more. It is too low on average, and the log-likelihood too *high*, the more so the larger the error. Early stopping
    needs to know that more is better: ``EarlyStopping("val_log_likelihood", mode="max")``.

    Args:
        x_valid: states ``[n, visible units]``.
        every: epochs between two evaluations.

    Attributes:
        history: list of (epoch, log-likelihood, error), one entry for each evaluation. For an ensemble these are arrays
            with one value for each member, and the logs have those of the best member.

    Example:

    >>> states, _ = tf_wcd.datasets.load("BS09")
    >>> rbm = tf_wcd.RBMLayer(9, negative_phase="jpcd", seed=0)
    >>> rbm.compile("sgd")
    >>> history = rbm.fit(states, epochs=2, callbacks=[OnlineLikelihood(states)], verbose=0)
    >>> len(history.history["val_log_likelihood"])
    2
    """

    names = ("val_log_likelihood", "val_log_likelihood_error")

    def __init__(self, x_valid: Any, every: int = 1) -> None:
        super().__init__(x_valid, every, "x_valid")

    def on_train_begin(self, logs: Any = None) -> None:
        super().on_train_begin(logs)
        online_log_partition(self.model)  # a model without observers is refused before the first update

    def evaluate(self) -> tuple[Any, ...]:
        known = online_log_partition(self.model)
        x = self.states
        parts = [self.model.free_energy(x[i : i + ROWS]) for i in range(0, len(x), ROWS)]
        energies = tf.concat(parts, axis=-1).numpy()
        return -energies.mean(axis=-1, dtype="float64") - known.estimate, known.standard_error

    def summarise(self, values: tuple[Any, ...]) -> tuple[float, ...]:
        """The values; for an ensemble, those of its best member, as some members may have diverged."""
        best = np.argmax(np.nan_to_num(values[0], nan=-np.inf))
        return tuple(float(np.ravel(value)[best]) for value in values)
