"""Real-valued units."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import keras
import tensorflow as tf

from tf_wcd.units.base import Unit


@keras.saving.register_keras_serializable(package="tf_wcd")
@dataclasses.dataclass(frozen=True)
class Gaussian(Unit):
    """A real unit with base energy ``x**2 / (2 * variance)``: mean ``variance * field``, and the given variance.

    With the default unit variance the visible units of an RBM have ``P(x | h) = Normal(b + W h, 1)``: standardise the
    data.

    Args:
        variance: variance of each unit given the other layer; where it is learned, its initial value.
        learn_variance: learn one variance for every unit, through its logarithm, so that it stays positive.

    Example:

    >>> float(Gaussian(variance=4.0).mean(tf.constant(0.5)))
    2.0
    """

    name = "gaussian"  # type: ignore[misc]

    variance: float = 1.0
    learn_variance: bool = False
    _log_variance: tf.Tensor | None = dataclasses.field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not (self.variance > 0 and math.isfinite(self.variance)):
            raise ValueError(f"`variance` must be a positive number. Received: variance={self.variance!r}")

    def _variance(self, like: tf.Tensor) -> tf.Tensor:
        if self._log_variance is None:
            return tf.constant(self.variance, like.dtype)
        return tf.exp(tf.cast(self._log_variance, like.dtype))[..., None, :]

    def base_energy(self, states: tf.Tensor) -> tf.Tensor:
        return 0.5 * tf.square(states) / self._variance(states)

    def cumulant(self, field: tf.Tensor) -> tf.Tensor:
        variance = self._variance(field)
        return 0.5 * (variance * tf.square(field) + tf.math.log(2.0 * math.pi * variance))

    def mean(self, field: tf.Tensor) -> tf.Tensor:
        return self._variance(field) * field

    def field_of(self, mean: tf.Tensor) -> tf.Tensor:
        return mean / self._variance(mean)

    def sample(self, field: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
        variance = self._variance(field)
        standard_normal = math.sqrt(2.0) * tf.math.erfinv(2.0 * uniform - 1.0)
        return variance * field + tf.sqrt(variance) * standard_normal

    def parameter_initial_values(self) -> dict[str, float]:
        return {"log_variance": math.log(self.variance)} if self.learn_variance else {}

    def bind(self, parameters: dict[str, tf.Tensor]) -> Gaussian:
        return dataclasses.replace(self, _log_variance=parameters.get("log_variance"))

    def parameter_gradients(self, states: tf.Tensor, weights: tf.Tensor) -> dict[str, tf.Tensor]:
        if self._log_variance is None:
            return {}
        return {"log_variance": -tf.reduce_sum(weights * self.base_energy(states), axis=-2)}

    def get_config(self) -> dict[str, Any]:
        return {"variance": self.variance, "learn_variance": self.learn_variance}
