"""Points that the user gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_wcd import replicas
from tf_wcd.data_checks import check_visible
from tf_wcd.machine import Machine
from tf_wcd.negative_phases.base import Batch, Points, PointSource, State
from tf_wcd.shapes import static_shape


@keras.saving.register_keras_serializable(package="tf_wcd")
class GivenPoints(PointSource):
    """The same points at each update.

    Args:
        visible: ``[M, n_v]`` the points, in the states of the visible units.
    """

    def __init__(self, visible: Any) -> None:
        self.visible = np.array(visible, "float64")
        if self.visible.ndim != 2 or not len(self.visible):
            raise ValueError(
                "`visible` must have the shape [points, units] with at least one point. "
                f"Received: shape {self.visible.shape}"
            )

    def validate(self, machine: Machine) -> None:
        check_visible(self.visible, machine.visible, machine.num_visible, "visible")

    def points(self, machine: Machine, batch: Batch, state: State, key: tf.Tensor) -> tuple[Points, State]:
        return shared_points(machine, tf.cast(self.visible, machine.kernel.dtype)), state

    def num_points(self, machine: Machine, batch_size: int, shapes: Mapping[str, tuple[int, ...]]) -> int:
        return len(self.visible)

    def get_config(self) -> dict[str, Any]:
        return {"visible": self.visible.tolist()}


def shared_points(machine: Machine, visible: tf.Tensor) -> Points:
    """The same points for each of the machines along the leading axes; replicas divide them among themselves."""
    visible = replicas.own_part(visible)
    visible = tf.broadcast_to(visible, [*machine.members, *static_shape(visible)])
    return Points(visible, machine.hidden_field(visible))
