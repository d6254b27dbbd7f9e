"""How far the steps of negative phases are from the exact gradient, along a training."""

from __future__ import annotations

from typing import Any

from tf_wcd.callbacks.evaluation import EvaluationCallback
from tf_wcd.evaluation.step_errors import GradientErrors, gradient_error, named_phases

MEASURES = ("bias", "deviation", "cosine")


class GradientError(EvaluationCallback):
    """Puts the errors of negative phases' steps at the present parameters into the logs.

    They are ``cd_bias``, ``cd_deviation``, ``cd_cosine`` and so on, with the name of each phase. The phases need not be
    the one that the model is trained with. `tf_wcd.plots.gradient_errors` draws the history.

    Args:
        x: the training data ``[n, visible units]``.
        phases: negative phases, names or objects, or a mapping of names of your own to them.
        every: epochs between two evaluations.
        sample_weight: weight of each example, as for `fit`.
        batch_size: examples in the batch of a draw; all if not given.
        repetitions: number of draws.
        start: where persistent chains start at each draw; see `tf_wcd.evaluation.gradient_error`.
        seed: seed of the draws, the same at each evaluation.

    Attributes:
        history: list of (epoch, `tf_wcd.evaluation.GradientErrors`), one entry for each evaluation.

    Example:

    >>> states, _ = tf_wcd.datasets.load("BS09")
    >>> rbm = tf_wcd.RBMLayer(9, seed=0)
    >>> rbm.compile("sgd")
    >>> errors = GradientError(states, ["cd", "bcd"], repetitions=100)
    >>> history = rbm.fit(states, epochs=2, callbacks=[errors], verbose=0)
    >>> len(history.history["bcd_bias"])
    2
    """

    def __init__(
        self,
        x: Any,
        phases: Any = ("cd", "wcd", "bcd"),
        every: int = 1,
        sample_weight: Any = None,
        batch_size: int | None = None,
        repetitions: int = 200,
        start: str | int = "own",
        seed: int = 0,
    ) -> None:
        super().__init__(x, every, "x", strict=False)
        self.phases = named_phases(phases)
        self.names = tuple(f"{name}_{measure}" for name in self.phases for measure in MEASURES)
        self.drawing = {
            "sample_weight": sample_weight,
            "batch_size": batch_size,
            "repetitions": repetitions,
            "start": start,
            "seed": seed,
        }

    def evaluate(self) -> tuple[GradientErrors, ...]:
        return (gradient_error(self.model, self.states, self.phases, **self.drawing),)

    def summarise(self, values: tuple[GradientErrors, ...]) -> tuple[float, ...]:
        return tuple(getattr(values[0][name], measure) for name in self.phases for measure in MEASURES)
