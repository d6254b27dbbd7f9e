"""Keras callbacks that look at the model while it trains."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from tf_wcd.data_checks import check_visible
from tf_wcd.evaluation.exact import check_probabilities, kl_from_log_prob, log_prob


class ExactKL(keras.callbacks.Callback):
    """Puts the exact divergence from a target distribution into the logs, under ``kl``.

    Also ``mass``: the probability that the model gives to the listed states together. Put it before the callbacks that
    use these (`ModelCheckpoint(monitor="kl")`, `EarlyStopping(monitor="kl")`, `CSVLogger`, `TensorBoard`). At epochs in
    between the last value is repeated, so that the columns have no holes.

    Args:
        states: states of the target, ``[n, visible units]``, in the states of the model's visible units.
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

    def __init__(self, states: Any, probabilities: Any = None, every: int = 1) -> None:
        super().__init__()
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise ValueError(f"`every` must be an integer of at least 1. Received: every={every!r}")
        self.states = np.asarray(states)
        count = len(self.states)
        self.probabilities = check_probabilities(
            np.full(count, 1 / count) if probabilities is None else probabilities, count
        )
        self.every = every
        self.history: list[tuple[int, Any, Any]] = []

    def on_train_begin(self, logs: Any = None) -> None:
        if self.model.built:
            check_visible(self.states, self.model.visible_unit, self.model.num_visible, "states", strict=True)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if not self.history or (epoch + 1) % self.every == 0:
            log_probabilities = log_prob(self.model, self.states)
            kl = kl_from_log_prob(log_probabilities, self.probabilities)
            self.history.append((epoch, kl, np.exp(log_probabilities).sum(axis=-1)))
        if logs is not None:
            _, kl, mass = self.history[-1]
            best = np.argmin(kl)
            logs["kl"], logs["mass"] = float(np.ravel(kl)[best]), float(np.ravel(mass)[best])
