"""Rectified units."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf

from tf_wcd.units import half_line
from tf_wcd.units.base import Unit


@keras.saving.register_keras_serializable(package="tf_wcd")
class ReLU(Unit):
    """A unit that is 0 or more, with base energy ``x**2 / 2``: a normal distribution around the field, cut off at 0.

    Its mean is a smooth form of ``max(0, field)``. As visible units they take amounts: values of at least 0, divided by
    their standard deviation.

    Example:

    >>> [round(float(mean), 3) for mean in ReLU().mean(tf.constant([-10.0, 0.0, 10.0]))]
    [0.098, 0.798, 10.0]
    """

    name = "relu"

    @property
    def data_range(self) -> tuple[float, float]:
        return 0.0, np.inf

    @property
    def midpoint(self) -> float:
        return half_line.MIDPOINT

    def base_energy(self, states: tf.Tensor) -> tf.Tensor:
        return 0.5 * tf.square(states)

    def cumulant(self, field: tf.Tensor) -> tf.Tensor:
        return half_line.log_integral(field)

    def mean(self, field: tf.Tensor) -> tf.Tensor:
        return half_line.mean(field)

    def field_of(self, mean: tf.Tensor) -> tf.Tensor:
        return half_line.field_of(mean)

    def sample(self, field: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
        return half_line.sample(field, uniform)

    def entropy(self, field: tf.Tensor) -> tf.Tensor:
        # The mean of the square is 1 + field * mean.
        return tf.reduce_sum(self.cumulant(field) + 0.5 * (1.0 - field * self.mean(field)), axis=-1)

    def tails(self, columns: int) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros([columns]), np.ones([columns])

    def domain(self) -> str:
        return "finite and at least 0"

    def hint(self, low: float, high: float) -> str:
        return "; for values of either sign use visible_type='gaussian'" if low < 0 else ""
