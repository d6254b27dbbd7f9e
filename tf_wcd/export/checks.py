"""Checks of a request's inputs inside the graph, since TF-Serving checks no shapes.

A failed check is INVALID_ARGUMENT for a client, with a message that says what was received.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tf_wcd.export.layout import Layout


class InputChecks:
    """Checks of the inputs of one model.

    Args:
        side: layout of the data's units.
        width: columns of the data.
        max_steps: the most steps that a request may ask for.
        max_rows: the most rows in a batch.
        classes: number of labels.
    """

    def __init__(self, side: Layout, width: int, max_steps: int, max_rows: int, classes: int = 0) -> None:
        self._classes = classes
        self._side, self._width, self._max_steps, self._max_rows = side, width, max_steps, max_rows
        self._unit = side.compact_unit.without_labels()

    def chain(self, visible: tf.Tensor, seed: tf.Tensor, steps: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Inputs of `gibbs`."""
        visible = self.visible(visible)
        rows = tf.shape(visible)[0]
        seed, steps = self.vector("seed", seed, rows), self.vector("steps", steps, rows)
        in_range = tf.reduce_all((steps >= 0) & (steps <= self._max_steps))
        message = f"steps must be from 0 to {self._max_steps}, the limit set when the model was exported"
        return visible, seed, checked(steps, in_range, message, tf.reduce_min(steps), tf.reduce_max(steps))

    def conditional(self, label: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Inputs of `conditional`."""
        label = self.vector("label", label)
        seed = self.vector("seed", seed, tf.size(label), "label")
        in_range = tf.reduce_all((label >= 0) & (label < self._classes))
        message = f"label must be from 0 to {self._classes - 1}"
        return checked(label, in_range, message, tf.reduce_min(label), tf.reduce_max(label)), seed

    def mask(self, mask: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        """The mask of held units."""
        mask = self.matrix("mask", mask, rows)
        mask = checked(mask, tf.reduce_all((mask == 0) | (mask == 1)), "mask must be 0 or 1: 1 where a unit is held")
        first = self._unit.describe_columns(self._width).first
        if (first == np.arange(self._width)).all():
            return mask
        together = tf.reduce_all(mask == tf.gather(mask, first, axis=1))
        return checked(mask, together, "mask must be the same in all columns of a unit that takes several")

    def visible(self, visible: tf.Tensor) -> tf.Tensor:
        """Visible states, or expectations of them."""
        visible = self.matrix("visible", visible)
        message = f"visible must be {self._side.domain()}, without NaN"
        return checked(visible, self._side.accepts(visible), message)

    def visible_states(self, visible: tf.Tensor) -> tf.Tensor:
        """Visible states and nothing in between them."""
        visible = self.visible(visible)
        message = f"visible must hold states of the units, {self._unit.state_domain()}"
        return checked(visible, tf.reduce_all(self._unit.are_states(visible)), message)

    def vector(
        self, name: str, values: tf.Tensor, rows: tf.Tensor | None = None, rows_of: str = "visible"
    ) -> tf.Tensor:
        """A vector with one entry for each row, as many as another input has."""
        shape = tf.shape(values)
        values = checked(values, tf.size(shape) == 1, f"{name} must have the shape [rows]", shape)
        values = tf.reshape(values, [-1])
        if rows is None:
            return self._bounded(values, tf.size(values))
        message = f"{name} must have one entry for each row of {rows_of}"
        return checked(values, tf.size(values) == rows, message, tf.size(values), rows)

    def matrix(self, name: str, values: tf.Tensor, rows: tf.Tensor | None = None) -> tf.Tensor:
        """A matrix with one column for each column of the data."""
        shape = tf.shape(values)
        # Sums, so that the condition itself can be computed whatever the shape is.
        good = (tf.size(shape) == 2) & (tf.reduce_sum(shape[1:2]) == self._width)
        values = checked(values, good, f"{name} must have the shape [rows, {self._width}]", shape)
        values = tf.reshape(values, [-1, self._width])
        if rows is None:
            return self._bounded(values, tf.shape(values)[0])
        message = f"{name} must have as many rows as visible"
        return checked(values, tf.shape(values)[0] == rows, message, tf.shape(values)[0], rows)

    def _bounded(self, values: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        message = f"a batch may have at most {self._max_rows} rows, the limit set when the model was exported"
        return checked(values, rows <= self._max_rows, message, rows)


def checked(values: tf.Tensor, condition: tf.Tensor, message: str, *received: tf.Tensor) -> tf.Tensor:
    """The values, after a check that fails with the message."""
    details = [". Received: ", *received] if received else ["."]
    with tf.control_dependencies([tf.debugging.Assert(condition, [message, *details], summarize=8)]):
        return tf.identity(values)
