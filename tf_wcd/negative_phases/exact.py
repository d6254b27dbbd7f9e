"""Points that do not depend on chance: the whole space, or any set that the user gives."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_wcd import replicas
from tf_wcd.data_checks import check_visible
from tf_wcd.enumeration import all_states
from tf_wcd.machine import Machine, static_shape
from tf_wcd.negative_phases.base import Batch, NegativePhase, Points, State

MAX_VISIBLE = 20


def shared_points(machine: Machine, visible: tf.Tensor) -> Points:
    """The same points for each of the machines along the leading axes; replicas divide them among themselves."""
    visible = replicas.own_part(visible)
    visible = tf.broadcast_to(visible, [*machine.kernel.shape[:-2], *static_shape(visible)])
    return Points(visible, machine.hidden_field(visible))


@keras.saving.register_keras_serializable(package="tf_wcd")
class Exact(NegativePhase):
    """The exact gradient of the log-likelihood: the points are all visible states, their weights P itself."""

    name = "exact"

    def validate(self, machine: Machine) -> None:
        if machine.visible.values is None:
            raise ValueError(
                "The exact negative phase enumerates the visible states, so they must be binary. "
                f"Received: visible_type={machine.visible.name!r}. Use 'cd', 'pcd' or their weighted forms."
            )
        if machine.num_visible > MAX_VISIBLE:
            raise ValueError(
                f"The exact negative phase enumerates all visible states, of at most {MAX_VISIBLE} units. "
                f"Received: {machine.num_visible} visible units. Use 'cd', 'pcd' or their weighted forms."
            )

    def points(self, machine: Machine, batch: Batch, state: State, key: tf.Tensor) -> tuple[Points, State]:
        space = all_states(machine.visible, machine.num_visible, machine.kernel.dtype)
        return shared_points(machine, space), state


@keras.saving.register_keras_serializable(package="tf_wcd")
class FixedPoints(NegativePhase):
    """A weighted negative phase over points that you give.

    Args:
        visible: ``[M, n_v]`` the points, in the states of the visible units.

    Example:

    >>> import tf_wcd
    >>> phase = tf_wcd.negative_phases.FixedPoints([[0, 1], [1, 0]])
    >>> rbm = tf_wcd.RBMLayer(3, negative_phase=phase)
    """

    def __init__(self, visible: Any) -> None:
        self.visible = np.array(visible, "float32")
        if self.visible.ndim != 2 or not len(self.visible):
            raise ValueError(
                "`visible` must have the shape [points, units] with at least one point. "
                f"Received: shape {self.visible.shape}"
            )

    def validate(self, machine: Machine) -> None:
        check_visible(self.visible, machine.visible, machine.num_visible, "visible")

    def points(self, machine: Machine, batch: Batch, state: State, key: tf.Tensor) -> tuple[Points, State]:
        visible = tf.cast(self.visible, machine.kernel.dtype)
        return shared_points(machine, visible), state

    def get_config(self) -> dict[str, Any]:
        return {"visible": self.visible.tolist()}
