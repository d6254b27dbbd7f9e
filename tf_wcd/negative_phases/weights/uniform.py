"""Equal weights."""

from __future__ import annotations

import keras
import tensorflow as tf

from tf_wcd.machine import Machine
from tf_wcd.negative_phases.base import Batch, Points, State, Weights
from tf_wcd.negative_phases.weights.log_weights import uniform_log_weights


@keras.saving.register_keras_serializable(package="tf_wcd")
class UniformWeights(Weights):
    """All points have the same weight."""

    members_apart = True

    def log_weights(self, machine: Machine, batch: Batch, points: Points, state: State) -> tuple[tf.Tensor, State]:
        return uniform_log_weights(points.visible), state
