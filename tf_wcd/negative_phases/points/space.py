"""All visible states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from tf_wcd.arguments import check_integer
from tf_wcd.enumeration import MAX_LISTED_UNITS, all_states
from tf_wcd.machine import Machine
from tf_wcd.negative_phases.base import Batch, Points, PointSource, State
from tf_wcd.negative_phases.points.fixed import shared_points
from tf_wcd.shapes import static_shape


@keras.saving.register_keras_serializable(package="tf_wcd")
class WholeSpace(PointSource):
    """Every visible state once; where the rows of a batch have models of their own, once for each row.

    Args:
        max_units: log2 of the largest number of states: the largest number of binary units.
    """

    answers_each_row = True

    def __init__(self, max_units: int = MAX_LISTED_UNITS) -> None:
        self.max_units = check_integer("max_units", max_units)

    def validate(self, machine: Machine) -> None:
        if not machine.visible.finite:
            raise ValueError(
                "The exact negative phase enumerates the visible states, so there must be finitely many. "
                f"Received: visible_type={machine.visible.name!r}. Use 'cd', 'pcd' or their weighted forms."
            )
        if machine.visible.bits(machine.num_visible) > self.max_units:
            raise ValueError(
                f"The exact negative phase enumerates all visible states, at most 2^{self.max_units}. "
                f"Received: {machine.num_visible} visible units. Use 'cd', 'pcd' or their weighted forms, or raise "
                "`max_units`."
            )

    def points(self, machine: Machine, batch: Batch, state: State, key: tf.Tensor) -> tuple[Points, State]:
        space = all_states(machine.visible, machine.num_visible, machine.kernel.dtype)
        if machine.visible.rows_differ or machine.hidden.rows_differ:
            return _of_each_row(machine, batch, space), state
        return shared_points(machine, space), state

    def num_points(self, machine: Machine, batch_size: int, shapes: Mapping[str, tuple[int, ...]]) -> int:
        return machine.visible.num_states(machine.num_visible)

    def get_config(self) -> dict[str, Any]:
        return {} if self.max_units == MAX_LISTED_UNITS else {"max_units": self.max_units}


def _of_each_row(machine: Machine, batch: Batch, space: tf.Tensor) -> Points:
    """Each state once for each row, with the weight of the row times the state's probability in its model."""
    rows = static_shape(batch.visible)[-2]
    visible, field = (tf.repeat(values, rows, axis=0) for values in (space, machine.hidden_field(space)))
    log_prob = tf.reshape(-machine.free_energy(visible, field), [-1, rows])
    log_weights = batch.log_weights + tf.nn.log_softmax(log_prob, axis=0)
    return Points(visible, field, tf.reshape(log_weights, [-1]))
