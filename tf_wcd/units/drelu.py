"""Rectified units with two sides."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_wcd.units import half_line
from tf_wcd.units.base import Unit

WIDENINGS, NEWTON_STEPS = 6, 25  # of the search for the field of a mean


@keras.saving.register_keras_serializable(package="tf_wcd")
class DReLU(Unit):
    """A double rectified linear unit (Tubiana, Cocco and Monasson 2019), whose parameters are learned.

    The base energy is ``x**2 / (2 * positive_variance) + threshold * abs(x)`` for x >= 0, and the same with
    ``negative_variance`` for x < 0. With equal variances and threshold 0 it is a Gaussian unit; a small negative
    variance makes it a rectified one; a positive threshold makes it sparse; a negative one splits it into two
    modes, as a spin has them. The paper's four parameters of a unit are these three and its bias.

    Every unit has parameters of its own. The variances are learned through their logarithms, and stay positive.

    Args:
        positive_variance: initial value for x >= 0.
        negative_variance: initial value for x < 0.
        threshold: initial value.

    Example:

    >>> unit = DReLU(positive_variance=2.0, negative_variance=0.1)
    >>> [round(float(mean), 2) for mean in unit.mean(tf.constant([-3.0, 0.0, 3.0]))]
    [-0.23, 0.88, 6.0]
    """

    name = "drelu"

    def __init__(self, positive_variance: float = 1.0, negative_variance: float = 1.0, threshold: float = 0.0) -> None:
        for name, value in (("positive_variance", positive_variance), ("negative_variance", negative_variance)):
            if not (value > 0 and math.isfinite(value)):
                raise ValueError(f"`{name}` must be a positive number. Received: {name}={value!r}")
        if not math.isfinite(threshold):
            raise ValueError(f"`threshold` must be a finite number. Received: threshold={threshold!r}")
        self.positive_variance, self.negative_variance = float(positive_variance), float(negative_variance)
        self.threshold = float(threshold)

    def initial_parameters(self, columns: int) -> dict[str, np.ndarray]:
        return {name: np.full([columns], value) for name, value in self._initial().items()}

    def _initial(self) -> dict[str, float]:
        return {
            "log_positive_variance": math.log(self.positive_variance),
            "log_negative_variance": math.log(self.negative_variance),
            "threshold": self.threshold,
        }

    def _values(self, like: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Standard deviations of the two sides, and the threshold, to be broadcast to rows."""
        if self.parameters:
            positive, negative, threshold = (
                tf.cast(self.parameters[name], like.dtype)[..., None, :] for name in self._initial()
            )
        else:
            positive, negative, threshold = (tf.constant(value, like.dtype) for value in self._initial().values())
        return tf.exp(0.5 * positive), tf.exp(0.5 * negative), threshold

    def _sides(self, field: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Standard deviations, fields and log-weights of the densities on both sides, each on a half line."""
        positive, negative, threshold = self._values(field)
        up, down = positive * (field - threshold), -negative * (field + threshold)
        log_up = half_line.log_integral(up) + tf.math.log(positive)
        log_down = half_line.log_integral(down) + tf.math.log(negative)
        return positive, negative, up, down, log_up, log_down

    def base_energy(self, states: tf.Tensor) -> tf.Tensor:
        positive, negative, threshold = self._values(states)
        scale = tf.where(states >= 0.0, positive, negative)
        return 0.5 * tf.square(states / scale) + threshold * tf.abs(states)

    def cumulant(self, field: tf.Tensor) -> tf.Tensor:
        *_, log_up, log_down = self._sides(field)
        return tf.maximum(log_up, log_down) + tf.nn.softplus(-tf.abs(log_up - log_down))

    def mean(self, field: tf.Tensor) -> tf.Tensor:
        positive, negative, up, down, log_up, log_down = self._sides(field)
        share = tf.sigmoid(log_up - log_down)
        lower = tf.sigmoid(log_down - log_up) * negative * half_line.mean(down)
        return share * positive * half_line.mean(up) - lower

    def _moments(self, field: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean and variance."""
        positive, negative, up, down, log_up, log_down = self._sides(field)
        share = tf.sigmoid(log_up - log_down)
        above, below = half_line.mean(up), half_line.mean(down)
        mean = share * positive * above - (1.0 - share) * negative * below
        squares = tf.square(positive) * (1.0 + up * above), tf.square(negative) * (1.0 + down * below)
        return mean, share * squares[0] + (1.0 - share) * squares[1] - tf.square(mean)

    def field_of(self, mean: tf.Tensor) -> tf.Tensor:
        """By Newton's method between bounds, which are halved where a step would leave them."""
        low, high = -tf.ones_like(mean), tf.ones_like(mean)
        for _ in range(WIDENINGS):
            low = tf.where(self.mean(low) > mean, 16.0 * low, low)
            high = tf.where(self.mean(high) < mean, 16.0 * high, high)
        field = 0.5 * (low + high)
        for _ in range(NEWTON_STEPS):
            found, variance = self._moments(field)
            below = found < mean
            low, high = tf.where(below, field, low), tf.where(below, high, field)
            step = field + (mean - found) / tf.maximum(variance, 1e-30)
            field = tf.where((step > low) & (step < high), step, 0.5 * (low + high))
        return field

    def sample(self, field: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
        positive, negative, up, down, log_up, log_down = self._sides(field)
        lower, upper = tf.sigmoid(log_down - log_up), tf.sigmoid(log_up - log_down)
        is_lower = uniform < lower
        # What is left of the number once the side is chosen: it is uniform again, of magnitudes from below.
        rest = tf.where(is_lower, 1.0 - uniform / lower, (uniform - lower) / upper)
        margin = 0.5 * np.finfo(field.dtype.as_numpy_dtype).eps
        magnitude = half_line.sample(tf.where(is_lower, down, up), tf.clip_by_value(rest, margin, 1.0 - margin))
        return tf.where(is_lower, -negative, positive) * magnitude

    def entropy(self, field: tf.Tensor) -> tf.Tensor:
        positive, negative, up, down, log_up, log_down = self._sides(field)
        *_, threshold = self._values(field)
        energies = [
            0.5 * (1.0 + own * half_line.mean(own)) + threshold * scale * half_line.mean(own)
            for own, scale in ((up, positive), (down, negative))
        ]
        share = tf.sigmoid(log_up - log_down)
        base = share * energies[0] + (1.0 - share) * energies[1]
        return tf.reduce_sum(self.cumulant(field) - field * self.mean(field) + base, axis=-1)

    def tails(self, columns: int) -> tuple[np.ndarray, np.ndarray]:
        known = self.parameters or self.initial_parameters(columns)
        return tuple(np.exp(np.asarray(known[f"log_{side}_variance"])) for side in ("negative", "positive"))  # type: ignore[return-value]

    def get_config(self) -> dict[str, Any]:
        return {
            "positive_variance": self.positive_variance,
            "negative_variance": self.negative_variance,
            "threshold": self.threshold,
        }
