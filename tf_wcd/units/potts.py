"""Categorical units: groups of columns, exactly one of which is 1."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_wcd.arguments import check_integer
from tf_wcd.units.base import Unit

SMALLEST_MEAN = 1e-6  # the field of a state that never occurs is large and negative, but not infinite
TOLERANCE = 1e-3  # of the sum of a group's expectations


@keras.saving.register_keras_serializable(package="tf_wcd")
class Potts(Unit):
    """A unit with several states, in one-hot coding: state i has the probability ``softmax(field)_i``.

    Args:
        states: number of states, each of which takes a column; at least 2.

    Example:

    >>> Potts(2).mean(tf.zeros([1, 6])).numpy().tolist()  # three units
    [[0.5, 0.5, 0.5, 0.5, 0.5, 0.5]]
    """

    name = "potts"

    def __init__(self, states: int) -> None:
        self.columns = check_integer("states", states, least=2)

    @property
    def states(self) -> np.ndarray:
        return np.eye(self.columns)

    def _groups(self, values: tf.Tensor) -> tf.Tensor:
        """``[..., units, states]``."""
        units = values.shape[-1] // self.columns
        return tf.reshape(values, tf.concat([tf.shape(values)[:-1], [units, self.columns]], axis=0))

    def cumulant(self, field: tf.Tensor) -> tf.Tensor:
        return tf.reduce_logsumexp(self._groups(field), axis=-1)

    def mean(self, field: tf.Tensor) -> tf.Tensor:
        return tf.reshape(tf.nn.softmax(self._groups(field)), tf.shape(field))

    def field_of(self, mean: tf.Tensor) -> tf.Tensor:
        return tf.math.log(tf.maximum(mean, SMALLEST_MEAN))

    def sample(self, field: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
        # The largest of the fields with Gumbel noise added is that of state i with the probability softmax(field)_i.
        noisy = field - tf.math.log(-tf.math.log(uniform))
        drawn = tf.one_hot(tf.argmax(self._groups(noisy), axis=-1), self.columns, dtype=field.dtype)
        return tf.reshape(drawn, tf.shape(field))

    def accepts(self, x: tf.Tensor) -> tf.Tensor:
        groups = self._groups(x)
        whole = tf.abs(tf.reduce_sum(groups, axis=-1, keepdims=True) - 1.0) <= TOLERANCE
        return tf.reshape((groups >= 0.0) & (groups <= 1.0) & whole, tf.shape(x))

    def domain(self) -> str:
        return f"in [0, 1] with the sum 1 in each group of {self.columns} columns"

    def state_domain(self) -> str:
        return f"one 1 in each group of {self.columns} columns and 0 elsewhere"

    def get_config(self) -> dict[str, Any]:
        return {"states": self.columns}
