"""States that differ from an example in one unit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_wcd.arguments import check_positive
from tf_wcd.machine import Machine
from tf_wcd.negative_phases.base import Batch, Points, PointSource, State
from tf_wcd.negative_phases.points.nearby import Nearby, num_neighbours, require_finite
from tf_wcd.random import uniform
from tf_wcd.shapes import static_shape


@keras.saving.register_keras_serializable(package="tf_wcd")
class Neighbours(PointSource):
    """Neighbours of the batch: its examples with one unit in another state.

    An example has one neighbour for each unit of two values, and ``states - 1`` for each categorical unit. Examples
    that are expectations are taken at the nearest state.

    A share of them is drawn anew at each update: one of each of as many equal stretches of the list of all, so that the
    examples have equally many, and all their units are as likely to change.

    Args:
        share: the share of all neighbours to take, above 0; 1 for all of them.
    """

    def __init__(self, share: float = 1.0) -> None:
        self.share = check_positive("share", share)
        if share > 1:
            raise ValueError(f"`share` must be at most 1, all neighbours. Received: share={share!r}")

    def validate(self, machine: Machine) -> None:
        require_finite(machine.visible, "Neighbours")

    def points(self, machine: Machine, batch: Batch, state: State, key: tf.Tensor) -> tuple[Points, State]:
        unit, columns = machine.visible, machine.num_visible
        counts = unit.state_counts(columns)
        *members, rows, _ = static_shape(batch.visible)
        units, steps = changes_of(counts)
        index = self._chosen(rows, len(units), members, key)
        example, change = index // len(units), index % len(units)
        numbers = tf.gather(unit.state_numbers(batch.visible), example, axis=-2, batch_dims=len(members))
        moved = tf.one_hot(tf.gather(units, change), len(counts), dtype=tf.int32)
        numbers = (numbers + moved * tf.gather(steps, change)[..., None]) % counts
        visible = unit.numbered_states(numbers, columns, batch.visible.dtype)
        points = Nearby(visible, machine.hidden_field(visible), examples=batch.visible, distance=1)
        return points, state

    def _chosen(self, rows: Any, neighbours: int, members: list[Any], key: tf.Tensor) -> tf.Tensor:
        """Numbers of pairs of an example and a neighbour, int32 ``[..., M]``."""
        pairs = rows * neighbours
        if self.share == 1:
            return tf.broadcast_to(tf.range(pairs), [*members, pairs])
        count = part_of(self.share, pairs)
        places = tf.range(count, dtype=tf.float64) + uniform(key, 0, [*members, count], tf.float64)
        index = tf.cast(places * (tf.cast(pairs, tf.float64) / tf.cast(count, tf.float64)), tf.int32)
        return tf.minimum(index, pairs - 1)

    def num_points(self, machine: Machine, batch_size: int, shapes: Mapping[str, tuple[int, ...]]) -> int:
        return part_of(self.share, batch_size * num_neighbours(machine.visible.state_counts(machine.num_visible)))

    def alternatives(self) -> tuple[str, ...]:
        return "bcd", "pcd"

    def get_config(self) -> dict[str, Any]:
        return {"share": self.share}


def changes_of(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What leads from a state to each of its neighbours: the unit, and by how much its number grows, modulo its count.

    Example:

    >>> [values.tolist() for values in changes_of(np.array([2, 3]))]
    [[0, 1, 1], [1, 1, 2]]
    """
    units = np.repeat(np.arange(len(counts)), counts - 1)
    steps = np.concatenate([np.arange(1, count) for count in counts])
    return units.astype("int32"), steps.astype("int32")


def part_of(share: float, whole: Any) -> Any:
    """So much of an integer or of a scalar tensor, rounded, and at least 1."""
    if isinstance(whole, int):
        return max(1, round(share * whole))
    return tf.maximum(1, tf.cast(tf.round(share * tf.cast(whole, tf.float64)), tf.int32))
