"""States drawn uniformly."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from tf_wcd.arguments import check_positive
from tf_wcd.machine import Machine
from tf_wcd.negative_phases.base import Batch, Points, PointSource, State
from tf_wcd.negative_phases.points.nearby import require_finite
from tf_wcd.negative_phases.points.neighbours import part_of
from tf_wcd.random import uniform
from tf_wcd.shapes import static_shape


@dataclasses.dataclass(frozen=True)
class UniformPoints(Points):
    """Points of which every state is as likely as every other."""

    def log_density(self, machine: Machine, states: tf.Tensor) -> tf.Tensor:
        every = -math.log(2) * machine.visible.bits(machine.num_visible)
        return tf.fill(tf.shape(states)[:-1], tf.constant(every, states.dtype))


@keras.saving.register_keras_serializable(package="tf_wcd")
class RandomStates(PointSource):
    """Visible states drawn anew at each update, uniformly from all that there are.

    Args:
        per_example: how many for each example of the batch, above 0; 0.5 adds one to every two examples.
    """

    def __init__(self, per_example: float = 1.0) -> None:
        self.per_example = check_positive("per_example", per_example)

    def validate(self, machine: Machine) -> None:
        require_finite(machine.visible, "Random states")

    def points(self, machine: Machine, batch: Batch, state: State, key: tf.Tensor) -> tuple[Points, State]:
        unit, columns, dtype = machine.visible, machine.num_visible, batch.visible.dtype
        counts = unit.state_counts(columns)
        *members, rows, _ = static_shape(batch.visible)
        numbers = uniform(key, 0, [*members, part_of(self.per_example, rows), len(counts)], dtype)
        # Below 1 as they are, their product with a count may be rounded up to it.
        numbers = tf.minimum(tf.cast(numbers * counts.astype(dtype.as_numpy_dtype), tf.int32), counts - 1)
        visible = unit.numbered_states(numbers, columns, dtype)
        return UniformPoints(visible, machine.hidden_field(visible)), state

    def num_points(self, machine: Machine, batch_size: int, shapes: Mapping[str, tuple[int, ...]]) -> int:
        return part_of(self.per_example, batch_size)

    def alternatives(self) -> tuple[str, ...]:
        return "bcd", "pcd"

    def get_config(self) -> dict[str, Any]:
        return {"per_example": self.per_example}
