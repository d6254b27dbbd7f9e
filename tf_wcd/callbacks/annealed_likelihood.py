"""The log-likelihood, exact or by annealed importance sampling."""

from __future__ import annotations

from typing import Any

from tf_wcd.callbacks.evaluation import EvaluationCallback
from tf_wcd.evaluation.likelihood import log_likelihood


class AnnealedLikelihood(EvaluationCallback):
    """Puts the mean log-likelihood of examples into the logs, under ``log_likelihood``, in nats.

    Also ``log_partition`` and ``log_partition_error``. They are exact, with error 0, if one side of the model can be
    enumerated quickly. Otherwise they are estimated by annealed importance sampling, by default forward only and with
    few temperatures: that shows whether a model learns, but tends to overestimate its likelihood. For results to
    publish use `tf_wcd.evaluation.log_likelihood` after training, with both directions.

    Args:
        x: states ``[n, visible units]``, for example validation data.
        every: epochs between two evaluations.
        data: training data, whose means define the base model; ``x`` if not given.
        chains: number of annealed chains.
        temperatures: number of temperatures, or the inverse temperatures from 0 to 1.
        max_units: largest number of units that is enumerated.
        seed: seed of the chains, the same at each evaluation.
        **annealing: other arguments of `tf_wcd.evaluation.annealed_log_partition`.

    Attributes:
        history: list of (epoch, log_likelihood, log_partition, log_partition_error), one entry for each evaluation.

    Example:

    >>> states, _ = tf_wcd.datasets.load("BS09")
    >>> rbm = tf_wcd.RBMLayer(9, seed=0)
    >>> rbm.compile("sgd")
    >>> history = rbm.fit(states, epochs=2, callbacks=[AnnealedLikelihood(states)], verbose=0)
    >>> history.history["log_partition_error"]
    [0.0, 0.0]
    """

    names = ("log_likelihood", "log_partition", "log_partition_error")

    def __init__(
        self,
        x: Any,
        every: int = 10,
        data: Any = None,
        chains: int = 50,
        temperatures: Any = 200,
        max_units: int = 12,
        seed: int = 0,
        **annealing: Any,
    ) -> None:
        super().__init__(x, every, "x")
        self.max_units = max_units
        self.annealing = {
            "data": self.states if data is None else data,
            "chains": chains,
            "temperatures": temperatures,
            "seed": seed,
            "reverse": False,
            **annealing,
        }

    def evaluate(self) -> tuple[float, ...]:
        result = log_likelihood(self.model, self.states, max_units=self.max_units, **self.annealing)
        return result.mean, result.log_partition, result.standard_error
