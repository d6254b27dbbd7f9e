"""The weights of the examples that the points started from."""

from __future__ import annotations

import keras
import tensorflow as tf

from tf_wcd.machine import Machine
from tf_wcd.negative_phases.base import Batch, Points, State, Weights


@keras.saving.register_keras_serializable(package="tf_wcd")
class DataWeights(Weights):
    """Each point has the weight of its example: for points that are reconstructions of the batch, in its order."""

    row_by_row = members_apart = True

    def log_weights(self, machine: Machine, batch: Batch, points: Points, state: State) -> tuple[tf.Tensor, State]:
        if not points.visible.shape[-2:-1].is_compatible_with(batch.visible.shape[-2:-1]):
            raise ValueError(
                "The weights of the data are for reconstructions of the batch, one for each example: weight other "
                "points by the model (`ModelWeights`) or equally (`UniformWeights`). "
                f"Received: {points.visible.shape[-2]} points and {batch.visible.shape[-2]} examples"
            )
        return batch.log_weights, state
