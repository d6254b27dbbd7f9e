"""The pseudo-likelihood, for models of any size."""

from __future__ import annotations

from typing import Any

from tf_wcd.callbacks.evaluation import EvaluationCallback
from tf_wcd.evaluation.pseudo import pseudo_log_likelihood


class PseudoLikelihood(EvaluationCallback):
    """Puts the mean pseudo-log-likelihood of examples into the logs, under ``pseudo_log_likelihood``, in nats.

    By default it is estimated from one unit of each example, which costs less than one update of the same batch. The
    same units are drawn at each evaluation, so that a change of the value is a change of the model.

    Args:
        x: states ``[n, visible units]``, for example validation data.
        every: epochs between two evaluations.
        bits: units drawn at random for each example; ``None`` for the exact sum over all of them.
        seed: seed of the draws.

    Attributes:
        history: list of (epoch, value), one entry for each evaluation.

    Example:

    >>> states, _ = tf_wcd.datasets.load("BS09")
    >>> rbm = tf_wcd.RBMLayer(9, seed=0)
    >>> rbm.compile("sgd")
    >>> history = rbm.fit(states, epochs=2, callbacks=[PseudoLikelihood(states)], verbose=0)
    >>> len(history.history["pseudo_log_likelihood"])
    2
    """

    names = ("pseudo_log_likelihood",)

    def __init__(self, x: Any, every: int = 1, bits: int | None = 1, seed: int = 0) -> None:
        super().__init__(x, every, "x")
        self.bits = bits
        self.seed = seed

    def evaluate(self) -> tuple[float, ...]:
        return (float(pseudo_log_likelihood(self.model, self.states, bits=self.bits, seed=self.seed).mean()),)
