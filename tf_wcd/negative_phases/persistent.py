"""PCD_k and WPCD_k: points are chains that live through the whole training."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tf_wcd.arguments import check_integer
from tf_wcd.gibbs import gibbs_from_hidden, random_visible
from tf_wcd.machine import Machine
from tf_wcd.negative_phases.base import Batch, Points, State, Tempered, uniform_log_weights


@keras.saving.register_keras_serializable(package="tf_wcd")
class WPCD(Tempered):
    """Weighted Persistent Contrastive Divergence: persistent chains, each with the model's probability among them.

    A chain keeps its hidden state as well. An update then needs two matrix products for its first Gibbs step, x | h and
    the field of h | x, instead of three.

    Args:
        gibbs_steps: steps that the chains advance at each update, at least 1.
        chains: number of chains; ``None`` for as many as there are examples in the first batch.
        minimum_ess: see `tf_wcd.weights.tempered_log_weights`; 0 for the plain weights. With many units the plain
            weights collapse onto one or two chains.
    """

    name = "wpcd"

    def __init__(self, gibbs_steps: int = 1, chains: int | None = None, minimum_ess: float = 0.0) -> None:
        super().__init__(minimum_ess)
        self.gibbs_steps = check_integer("gibbs_steps", gibbs_steps)
        self.chains = None if chains is None else check_integer("chains", chains)

    def initial_state(self, machine: Machine, batch_size: int, key: tf.Tensor) -> State:
        return start_chains(machine, random_visible(machine, self.chains or batch_size, key, draw=0), key)

    def points(self, machine: Machine, batch: Batch, state: State, key: tf.Tensor) -> tuple[Points, State]:
        visible = gibbs_from_hidden(machine, state["hidden"], self.gibbs_steps, key).visible
        # Nothing here waits for the data: their fields and the points' come out of one product.
        data_field, field = machine.hidden_fields(batch.visible, visible)
        hidden = machine.sample_hidden(field, key, draw=0)
        return Points(visible, field, data_field), {"visible": visible, "hidden": hidden}

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "gibbs_steps": self.gibbs_steps, "chains": self.chains}


@keras.saving.register_keras_serializable(package="tf_wcd")
class PCD(WPCD):
    """Persistent Contrastive Divergence: persistent chains of equal weight.

    Args:
        gibbs_steps: steps that the chains advance at each update, at least 1.
        chains: number of chains; ``None`` for as many as there are examples in the first batch.
    """

    name = "pcd"

    def __init__(self, gibbs_steps: int = 1, chains: int | None = None) -> None:
        super().__init__(gibbs_steps, chains)

    def log_weights(self, machine: Machine, batch: Batch, points: Points) -> tf.Tensor:
        return uniform_log_weights(points)

    def get_config(self) -> dict[str, Any]:
        return {"gibbs_steps": self.gibbs_steps, "chains": self.chains}


def start_chains(machine: Machine, visible: tf.Tensor, key: tf.Tensor) -> State:
    """Chains at the given visible states, with hidden units drawn from them."""
    return {"visible": visible, "hidden": machine.sample_hidden(machine.hidden_field(visible), key, draw=1)}
