"""The Parzen-window likelihood of data under samples of the model."""

from __future__ import annotations

from typing import Any

from tf_wcd.callbacks.evaluation import EvaluationCallback
from tf_wcd.evaluation.parzen import parzen_log_likelihood


class Parzen(EvaluationCallback):
    """Puts the Parzen-window log-likelihood of examples into the logs, under ``parzen_log_likelihood``, in nats.

    At each evaluation new chains are run from random states, with the same random numbers, and their last states are
    the samples. Values can be compared only for the same sigma and number of samples.

    Args:
        x: states ``[n, visible units]``, for example validation data; without labels.
        sigma: standard deviation of the windows; see `tf_wcd.evaluation.parzen_bandwidth`.
        every: epochs between two evaluations.
        num_samples: number of samples of the model.
        gibbs_steps: Gibbs steps of each chain.
        seed: seed of the chains.
        **options: other arguments of `RBMLayer.sample`, such as ``initial``.

    Attributes:
        history: list of (epoch, value), one entry for each evaluation.

    Example:

    >>> states, _ = tf_wcd.datasets.load("BS09")
    >>> rbm = tf_wcd.RBMLayer(9, seed=0)
    >>> rbm.compile("sgd")
    >>> history = rbm.fit(states, epochs=2, callbacks=[Parzen(states, num_samples=100)], verbose=0)
    >>> len(history.history["parzen_log_likelihood"])
    2
    """

    names = ("parzen_log_likelihood",)
    of_data = True

    def __init__(
        self,
        x: Any,
        sigma: float = 0.2,
        every: int = 10,
        num_samples: int = 1000,
        gibbs_steps: int = 100,
        seed: int = 0,
        **options: Any,
    ) -> None:
        super().__init__(x, every, "x")
        if not sigma > 0:
            raise ValueError(f"`sigma` must be positive. Received: sigma={sigma!r}")
        self.sigma = sigma
        self.sampling = {"num_samples": num_samples, "gibbs_steps": gibbs_steps, "seed": seed, **options}

    def evaluate(self) -> tuple[float, ...]:
        samples = self.model.sample(**self.sampling).numpy()
        return (parzen_log_likelihood(samples, self.states, self.sigma),)
