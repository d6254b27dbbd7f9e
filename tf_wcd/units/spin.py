"""Units with states -1 and +1."""

import keras
import numpy as np
import tensorflow as tf

from tf_wcd.units.base import Unit
from tf_wcd.units.sums import sum_log1p


@keras.saving.register_keras_serializable(package="tf_wcd")
class Spin(Unit):
    """A unit that is -1 or +1, with ``P(+1) = sigmoid(2 * field)``.

    Example:

    >>> float(Spin().mean(tf.constant(0.0)))
    0.0
    """

    name = "spin"
    values = (-1.0, 1.0)

    def cumulant(self, field: tf.Tensor) -> tf.Tensor:
        # log(2 cosh f), written so that it neither overflows nor cancels.
        magnitude = tf.abs(field)
        return magnitude + tf.nn.softplus(-2.0 * magnitude)

    def total_cumulant(self, field: tf.Tensor) -> tf.Tensor:
        magnitude = tf.abs(field)
        return tf.reduce_sum(magnitude, axis=-1) + sum_log1p(tf.exp(-2.0 * magnitude))

    def mean(self, field: tf.Tensor) -> tf.Tensor:
        return tf.tanh(field)

    def field_of(self, mean: tf.Tensor) -> tf.Tensor:
        return tf.atanh(mean)

    def sample(self, field: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
        # 2 u - 1 < tanh(f) has probability (1 + tanh f) / 2 = sigmoid(2 f), and shares tanh with `mean`.
        one = tf.ones([], field.dtype)
        return tf.where(2.0 * uniform - 1.0 < tf.tanh(field), one, -one)

    def activation(self) -> tuple[str, float]:
        return "tanh", 1.0

    def doubt(self, x: np.ndarray) -> str:
        # 0 is in range, as a mean.
        if x.min() == 0 and np.isin(x, (0, 1)).all():
            return (
                f"All values of `x` are 0 or 1, and {self.name!r} visible units are -1 or +1: did you mean 2 * x - 1?"
            )
        return ""
