"""The exact divergence from a known target."""

from __future__ import annotations

from typing import Any

import numpy as np

from tf_wcd.callbacks.evaluation import EvaluationCallback
from tf_wcd.evaluation.exact import check_probabilities, kl_from_log_prob, log_prob


class ExactKL(EvaluationCallback):
    """Puts the exact divergence from a target distribution into the logs, under ``kl``.

    Also ``mass``: the probability that the model gives to the listed states together. Put it before the callbacks that
    use these (`ModelCheckpoint(monitor="kl")`, `EarlyStopping(monitor="kl")`, `CSVLogger`, `TensorBoard`). At epochs in
    between the last value is repeated, so that no values are missing.

    Args:
        states: states of the target, ``[n, visible units]``, in the values of the model's visible units.
        probabilities: their probabilities, ``[n]``; equal if not given.
        every: epochs between two evaluations.

    Attributes:
        history: list of (epoch, kl, mass), one entry for each evaluation. For an ensemble these are arrays with one
            value for each member, and the logs have those of the best member.

    Example:

    >>> states, probabilities = tf_wcd.datasets.load("BS09")
    >>> rbm = tf_wcd.RBMLayer(9, seed=0)
    >>> rbm.compile("sgd")
    >>> kl = ExactKL(states, probabilities, every=2)
    >>> history = rbm.fit(states, epochs=4, callbacks=[kl], verbose=0)
    >>> [epoch for epoch, _, _ in kl.history]
    [0, 1, 3]
    """

    names = ("kl", "mass")

    def __init__(self, states: Any, probabilities: Any = None, every: int = 1) -> None:
        super().__init__(states, every, "states")
        count = len(self.states)
        self.probabilities = check_probabilities(
            np.ones(count) / max(count, 1) if probabilities is None else probabilities, count
        )

    def evaluate(self) -> tuple[Any, ...]:
        log_probabilities = log_prob(self.model, self.states)
        mass = np.exp(log_probabilities).sum(axis=-1)
        return kl_from_log_prob(log_probabilities, self.probabilities), mass if mass.shape else float(mass)

    def summarise(self, values: tuple[Any, ...]) -> tuple[float, ...]:
        """The values; for an ensemble, those of its best member, as some members may have diverged."""
        best = np.argmin(np.nan_to_num(values[0], nan=np.inf))
        return tuple(float(np.ravel(value)[best]) for value in values)
