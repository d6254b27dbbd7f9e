"""Whether the model's chains mix, while it trains."""

from __future__ import annotations

from typing import Any

from tf_wcd.callbacks.evaluation import EvaluationCallback
from tf_wcd.evaluation.equilibrium import mixing


class Mixing(EvaluationCallback):
    """Puts into the logs whether chains of Gibbs sampling mix: `tf_wcd.evaluation.mixing`.

    Under ``r_hat``, ``autocorrelation_time`` (in Gibbs steps), ``effective_samples`` and ``mixed`` (1 or 0). When a
    model stops mixing, persistent chains lag behind it, and its samples say little about it.

    Args:
        x: states ``[n, visible units]`` for chains to start from besides random ones; training data, say.
        every: epochs between two evaluations.
        gibbs_steps: length of the chains.
        chains: number of chains from each start.
        seed: seed of the chains, the same at each evaluation.

    Attributes:
        history: list of (epoch, r_hat, autocorrelation_time, effective_samples, mixed), one entry for each evaluation.
        last: the `tf_wcd.evaluation.Mixing` of the last evaluation.

    Example:

    >>> states, _ = tf_wcd.datasets.load("BS09")
    >>> rbm = tf_wcd.RBMLayer(9, seed=0)
    >>> rbm.compile("sgd")
    >>> callback = Mixing(states, gibbs_steps=100)
    >>> history = rbm.fit(states, epochs=2, callbacks=[callback], verbose=0)
    >>> history.history["mixed"]
    [1.0, 1.0]
    """

    names = ("r_hat", "autocorrelation_time", "effective_samples", "mixed")

    def __init__(
        self, x: Any = None, every: int = 10, gibbs_steps: int = 1000, chains: int = 50, seed: int = 0
    ) -> None:
        super().__init__(x, every, "x")
        self.gibbs_steps, self.chains, self.seed = gibbs_steps, chains, seed
        self.last: Any = None

    def evaluate(self) -> tuple[float, ...]:
        self.last = mixing(self.model, self.states, gibbs_steps=self.gibbs_steps, chains=self.chains, seed=self.seed)
        return self.last.r_hat, self.last.autocorrelation_time, self.last.effective_samples, float(self.last.mixed)
