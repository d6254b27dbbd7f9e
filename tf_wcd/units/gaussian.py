"""Real-valued units."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_wcd.units.base import Unit

FAR = 10.0  # times the unit's standard deviation: data beyond have not been standardised
ROWS_LOOKED_AT = 10_000


@keras.saving.register_keras_serializable(package="tf_wcd")
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

    name = "gaussian"

    def __init__(self, variance: float = 1.0, learn_variance: bool = False) -> None:
        if not (variance > 0 and math.isfinite(variance)):
            raise ValueError(f"`variance` must be a positive number. Received: variance={variance!r}")
        self.variance, self.learn_variance = variance, learn_variance

    def _variance(self, like: tf.Tensor) -> tf.Tensor:
        if "log_variance" not in self.parameters:
            return tf.constant(self.variance, like.dtype)
        return tf.exp(tf.cast(self.parameters["log_variance"], like.dtype))[..., None, :]

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

    def entropy(self, field: tf.Tensor) -> tf.Tensor:
        each = 0.5 * tf.math.log(2.0 * math.pi * math.e * self._variance(field))
        return tf.reduce_sum(tf.broadcast_to(each, tf.shape(field)), axis=-1)

    def activation(self) -> tuple[str, Any]:
        variance = self.variance
        if "log_variance" in self.parameters:
            variance = np.exp(np.asarray(self.parameters["log_variance"]))
        return "linear", variance

    def normal_variances(self, columns: int) -> np.ndarray:
        if "log_variance" in self.parameters:
            return np.exp(np.asarray(self.parameters["log_variance"]))
        return np.full([columns], float(self.variance))

    def tails(self, columns: int) -> tuple[np.ndarray, np.ndarray]:
        variance = self.normal_variances(columns)
        return variance, variance

    def initial_parameters(self, columns: int) -> dict[str, np.ndarray]:
        return {"log_variance": np.full([columns], math.log(self.variance))} if self.learn_variance else {}

    def doubt(self, x: np.ndarray) -> str:
        rows = np.asarray(x[:: -(-len(x) // ROWS_LOOKED_AT)], "float64")
        known = ~np.isnan(rows)  # entries may be missing
        counts = np.maximum(known.sum(axis=0), 1)
        means = np.where(known, rows, 0.0).sum(axis=0) / counts
        variances = np.where(known, np.square(rows - means), 0.0).sum(axis=0) / counts
        noise, spread, level = math.sqrt(self.variance), math.sqrt(variances.max()), float(np.abs(means).max())
        wide, far = spread > FAR * noise, level > FAR * max(spread, noise)
        narrow = len(rows) > 1 and 0 < spread < noise / FAR
        if not (wide or narrow or far):
            return ""
        return (
            f"Columns of `x` have standard deviations up to {spread:.3g} and means up to {level:.3g}, and "
            f"{self.name!r} visible units a standard deviation of {noise:.3g} around what the hidden units predict: "
            "they learn standardised data, (x - x.mean(axis=0)) / x.std(axis=0)"
            + (", and take such wide ones only at tiny learning rates." if wide else ".")
        )

    def get_config(self) -> dict[str, Any]:
        return {"variance": self.variance, "learn_variance": self.learn_variance}
