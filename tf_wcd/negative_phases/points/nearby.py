"""Points at a distance of none or one unit from the examples, and their density."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import tensorflow as tf

from tf_wcd import replicas
from tf_wcd.machine import Machine
from tf_wcd.negative_phases.base import Points
from tf_wcd.shapes import static_shape
from tf_wcd.units import Unit


@dataclasses.dataclass(frozen=True)
class Nearby(Points):
    """Points spread evenly over all states that differ from an example in ``distance`` units.

    Attributes:
        examples: ``[..., B, n_v]`` the examples of this replica.
        distance: 0 for the examples themselves, 1 for their neighbours.
    """

    examples: tf.Tensor | None = None
    distance: int = 0

    def log_density(self, machine: Machine, states: tf.Tensor) -> tf.Tensor:
        unit, columns = machine.visible, machine.num_visible
        require_finite(unit, "The density of examples and their neighbours")
        counts = unit.state_counts(columns)
        examples = replicas.gather(indicators(unit, self.examples), axis=-2)
        distances = len(counts) - tf.matmul(indicators(unit, states), examples, transpose_b=True)
        near = tf.cast(tf.abs(distances - self.distance) < 0.5, states.dtype)
        options = 1 if self.distance == 0 else num_neighbours(counts)
        return tf.math.log(tf.linalg.matvec(near, self._shares(states.dtype))) - math.log(options)

    def _shares(self, dtype: tf.DType) -> tf.Tensor:
        """Each example's share of the points, of all replicas, ``[B of all replicas]``."""
        points, rows = (static_shape(value)[-2] for value in (self.visible, self.examples))
        points = tf.cast(points, dtype)
        return replicas.gather(tf.fill([rows], points / tf.cast(rows, dtype)) / replicas.total(points))


def indicators(unit: Unit, x: tf.Tensor) -> tf.Tensor:
    """One column for each state of each unit, 1 where the unit is in it: their products count the units that agree.

    Args:
        unit: a type of units of finitely many states.
        x: ``[..., columns]``.

    Returns:
        ``[..., states of all units]``.
    """
    counts = unit.state_counts(x.shape[-1])
    units = np.repeat(np.arange(len(counts)), counts)
    numbers = np.concatenate([np.arange(count) for count in counts])
    return tf.cast(tf.gather(unit.state_numbers(x), units, axis=-1) == numbers, x.dtype)


def num_neighbours(counts: np.ndarray) -> int:
    """How many states differ from a given one in one unit, for units with so many states each."""
    return int(np.sum(counts - 1))


def require_finite(unit: Unit, what: str) -> None:
    """Raises ValueError for units that have not finitely many states."""
    if not unit.finite:
        raise ValueError(
            f"{what} need units of finitely many states. Received: visible_type={unit.name!r}. "
            "Use reconstructions or persistent chains."
        )
