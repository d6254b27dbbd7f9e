"""The model's probability within the set of points."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tf_wcd.machine import Machine
from tf_wcd.negative_phases.base import Batch, Points, PointSource, State, Weights
from tf_wcd.negative_phases.weights.log_weights import (
    check_minimum_ess,
    model_log_weights,
    remedies,
    tempered_log_weights,
)


@keras.saving.register_keras_serializable(package="tf_wcd")
class ModelWeights(Weights):
    """softmax(-F), tempered where it would collapse onto a few points.

    Args:
        minimum_ess: the effective sample size to keep, as a fraction of the number of points; 0 for the plain weights.
    """

    members_apart = True

    def __init__(self, minimum_ess: float = 0.0) -> None:
        self.minimum_ess = check_minimum_ess(minimum_ess)

    def log_weights(self, machine: Machine, batch: Batch, points: Points, state: State) -> tuple[tf.Tensor, State]:
        log_weights = model_log_weights(machine, points.visible, points.hidden_field)
        return tempered_log_weights(log_weights, self.minimum_ess) if self.minimum_ess else log_weights, state

    def remedies(self, source: PointSource) -> tuple[str, ...]:
        return remedies(source.alternatives(), self.minimum_ess)

    def get_config(self) -> dict[str, Any]:
        return {"minimum_ess": self.minimum_ess}
