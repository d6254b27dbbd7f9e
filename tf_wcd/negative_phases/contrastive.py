"""CD_k and WCD_k: points are the Gibbs reconstructions of the batch."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tf_wcd.arguments import check_integer
from tf_wcd.gibbs import gibbs_from_visible
from tf_wcd.machine import Machine
from tf_wcd.negative_phases.base import Batch, Points, State, Tempered


@keras.saving.register_keras_serializable(package="tf_wcd")
class WCD(Tempered):
    """Weighted Contrastive Divergence: k-step reconstructions, each with the model's probability within the batch.

    Args:
        gibbs_steps: k, at least 1.
        minimum_ess: see `tf_wcd.weights.tempered_log_weights`; 0 for the plain weights.
    """

    name = "wcd"

    def __init__(self, gibbs_steps: int = 1, minimum_ess: float = 0.0) -> None:
        super().__init__(minimum_ess)
        self.gibbs_steps = check_integer("gibbs_steps", gibbs_steps)

    def points(self, machine: Machine, batch: Batch, state: State, key: tf.Tensor) -> tuple[Points, State]:
        chain = gibbs_from_visible(machine, batch.hidden_field, self.gibbs_steps, key)
        return Points(chain.visible, chain.hidden_field), state

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "gibbs_steps": self.gibbs_steps}


@keras.saving.register_keras_serializable(package="tf_wcd")
class CD(WCD):
    """Contrastive Divergence: k-step reconstructions, each with the weight of the example that it started from.

    Args:
        gibbs_steps: k, at least 1.
    """

    name = "cd"

    def __init__(self, gibbs_steps: int = 1) -> None:
        super().__init__(gibbs_steps)

    def log_weights(self, machine: Machine, batch: Batch, points: Points) -> tf.Tensor:
        return batch.log_weights

    def get_config(self) -> dict[str, Any]:
        return {"gibbs_steps": self.gibbs_steps}
