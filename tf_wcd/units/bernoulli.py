"""Units with states 0 and 1."""

import keras
import tensorflow as tf

from tf_wcd.units.base import Unit
from tf_wcd.units.sums import sum_log1p


@keras.saving.register_keras_serializable(package="tf_wcd")
class Bernoulli(Unit):
    """A unit that is 0 or 1, with ``P(1) = sigmoid(field)``.

    Example:

    >>> float(Bernoulli().mean(tf.constant(0.0)))
    0.5
    """

    name = "bernoulli"
    values = (0.0, 1.0)

    def cumulant(self, field: tf.Tensor) -> tf.Tensor:
        return tf.nn.softplus(field)

    def total_cumulant(self, field: tf.Tensor) -> tf.Tensor:
        # (f + |f|) / 2 is max(f, 0), with the derivative 1/2 at 0, as the mean is there.
        magnitude = tf.abs(field)
        return 0.5 * tf.reduce_sum(field + magnitude, axis=-1) + sum_log1p(tf.exp(-magnitude))

    def mean(self, field: tf.Tensor) -> tf.Tensor:
        return tf.sigmoid(field)

    def field_of(self, mean: tf.Tensor) -> tf.Tensor:
        return tf.math.log(mean) - tf.math.log1p(-mean)

    def sample(self, field: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
        return tf.cast(uniform < tf.sigmoid(field), field.dtype)

    def activation(self) -> tuple[str, float]:
        return "sigmoid", 1.0

    def hint(self, low: float, high: float) -> str:
        if low >= 0 and high <= 255:
            return "; divide grey levels by 255"
        if low >= -1 and high <= 1:
            return "; for states -1 and +1 use visible_type='spin'"
        return ""
