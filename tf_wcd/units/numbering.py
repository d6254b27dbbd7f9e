"""States by their numbers: what puts one unit into another state, or draws states uniformly, is written on these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf


class NumberedStates:
    """A part of `Unit`: a layer's state as one integer for each unit, its place in `Unit.states`."""

    if TYPE_CHECKING:
        columns: int

        def _finite_states(self) -> np.ndarray: ...

    def state_counts(self, columns: int) -> np.ndarray:
        """Number of states of each unit of a layer of so many columns, int32 ``[units]``."""
        return np.full([columns // self.columns], len(self._finite_states()), "int32")

    def state_numbers(self, x: tf.Tensor) -> tf.Tensor:
        """The number of each unit's state, int32 ``[..., units]``; of expectations, that of the nearest state.

        Args:
            x: ``[..., columns]``.
        """
        states = tf.constant(self._finite_states(), x.dtype)
        # All units as the rows of one matrix: with more axes, one of them of length 1, TensorFlow 2.21 writes products
        # beyond their memory (oneDNN, on processors with AVX-512).
        units = tf.reshape(x, [-1, self.columns])
        # |x - s|^2 without |x|^2, which is the same for all states s.
        closeness = tf.matmul(units, states, transpose_b=True) - 0.5 * tf.reduce_sum(tf.square(states), axis=-1)
        numbers = tf.argmax(closeness, axis=-1, output_type=tf.int32)
        return tf.reshape(numbers, tf.concat([tf.shape(x)[:-1], [x.shape[-1] // self.columns]], axis=0))

    def numbered_states(self, numbers: tf.Tensor, columns: int, dtype: Any = "float32") -> tf.Tensor:
        """The states of a layer whose units have the given numbers: the inverse of `state_numbers`.

        Args:
            numbers: integers ``[..., units]``.
            columns: columns of the layer.
            dtype: type of the result.

        Returns:
            ``[..., columns]``.
        """
        states = tf.gather(tf.constant(self._finite_states(), dtype), numbers)
        return tf.reshape(states, tf.concat([tf.shape(numbers)[:-1], [columns]], axis=0))
